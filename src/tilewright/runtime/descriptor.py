"""Tensor descriptors made on the host, and how a kernel gets them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.errors import LaunchError
from tilewright.lang.descriptor import tensor_descriptor
from tilewright.lang.tensor import tensor
from tilewright.runtime.messages import type_of


@dataclass
class TensorDescriptor:
    """An array with shape and strides in elements, and the shape of the blocks kernels access."""

    base: Any
    shape: list[int]
    strides: list[int]
    block_shape: list[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    def __post_init__(self) -> None:
        rank = len(self.shape)
        if not 0 < rank == len(self.strides) == len(self.block_shape):
            raise LaunchError(
                "shape, strides and block_shape of a tensor descriptor must have one length, got "
                f"{rank}, {len(self.strides)} and {len(self.block_shape)}"
            )
        if self.strides[-1] != 1:
            raise LaunchError(
                "the last dimension of a tensor descriptor must be contiguous (stride 1), got "
                f"strides {list(self.strides)}"
            )

    @staticmethod
    def from_tensor(tensor: Any, block_shape: list[int], padding: str = "zero") -> TensorDescriptor:
        """A descriptor of a whole torch or NumPy array."""
        if hasattr(tensor, "stride"):
            strides = tensor.stride()
        elif hasattr(tensor, "strides"):
            strides = [step // tensor.itemsize for step in tensor.strides]
        else:
            raise LaunchError(f"a tensor descriptor is of an array, got a {type_of(tensor)}")
        return TensorDescriptor(tensor, list(tensor.shape), list(strides), block_shape, padding)


class DescriptorItems(tuple):
    """The parts of a descriptor as an argument: made of tensors, it is the kernel's descriptor.

    Machines rebuild tuples that have `_fields` from the items they made of each argument.
    """

    _fields = ("base", "shape", "strides", "block_shape", "padding")

    def __new__(cls, *items: Any) -> Any:
        if not isinstance(items[0], tensor):
            return super().__new__(cls, items)
        base, shape, strides, block_shape, padding = items
        return tensor_descriptor(base, shape, (*strides[:-1], 1), tuple(block_shape), padding)
