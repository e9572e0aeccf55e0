"""Tensor descriptors: blocks of a tensor in memory, read and written by their offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.errors import want
from tilewright.ir import types as t
from tilewright.ir.types import DType, Type
from tilewright.lang.block_pointer import (
    along,
    as_list,
    check_base,
    indices,
    inside,
    padding_value,
    pointers,
    scalar_of,
    size_of,
    static_shape,
)
from tilewright.lang.builtin import builtin
from tilewright.lang.constexpr import unwrap
from tilewright.lang.conversion import cast
from tilewright.lang.memory import masked_load, masked_store, update
from tilewright.lang.promote import expand_to, to_tensor
from tilewright.lang.tensor import tensor


@dataclass(frozen=True, eq=False)
class tensor_descriptor:
    """A tensor in memory with the shape of the blocks in which it is read and written.

    Elements outside the tensor read as 0 (or NaN) and are not written.
    """

    base: tensor
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    block_shape: tuple[int, ...]
    padding: str = "zero"

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return self.base.dtype.element_ty

    @property
    def type(self) -> Type:
        return self.block_type

    @property
    def block_type(self) -> Type:
        """The type of the tiles that `load` gives."""
        return Type(self.dtype, self.block_shape)

    def block(self, offsets: Any) -> tuple[tensor, tensor]:
        """Pointers to, and mask of, the block at the offsets."""
        offsets = as_list(offsets)
        rank = len(self.block_shape)
        want(len(offsets) == rank, f"needs {rank} offsets, got {len(offsets)}")
        places = [
            indices(scalar_of(at, t.int64, "offsets"), size, axis, rank)
            for axis, (at, size) in enumerate(zip(offsets, self.block_shape, strict=True))
        ]
        return self.at(places, self.block_shape)

    def at(self, places: Sequence[tensor], shape: tuple[int, ...]) -> tuple[tensor, tensor]:
        mask = inside(places, self.shape, range(len(places)))
        where = pointers(self.base, places, self.strides)
        return expand_to(where, shape), expand_to(mask, shape)

    def rows(self, x_offsets: Any, y_offset: Any) -> tuple[tensor, tensor]:
        """Pointers to, and mask of, the rows named, from a column on."""
        want(
            len(self.block_shape) == 2 and self.block_shape[0] == 1,
            f"gather and scatter need blocks of one row, got {list(self.block_shape)}",
        )
        want(
            isinstance(x_offsets, tensor) and len(x_offsets.shape) == 1,
            f"the rows must be a 1-D tile, got {x_offsets!r}",
        )
        width = self.block_shape[1]
        rows = along(cast(x_offsets, t.int64), 0, 2)
        columns = indices(scalar_of(unwrap(y_offset), t.int64, "the column"), width, 1, 2)
        return self.at([rows, columns], (x_offsets.shape[0], width))

    def value(self, value: Any, shape: tuple[int, ...]) -> tensor:
        value = to_tensor(value)
        want(value.shape == shape, f"the value must be {list(shape)}, got {value.handle.type}")
        return value

    def load(self, offsets: Any, **_: Any) -> tensor:
        """The block that starts at the offsets."""
        pointer, mask = self.block(offsets)
        return masked_load(pointer, mask, padding_value(self.base, self.padding), {})

    def store(self, offsets: Any, value: Any, **_: Any) -> None:
        """Write a block at the offsets."""
        pointer, mask = self.block(offsets)
        masked_store(pointer, self.value(value, self.block_shape), mask, {})

    def gather(self, x_offsets: Any, y_offset: Any, **_: Any) -> tensor:
        """The rows named, each from a column on, as one tile."""
        pointer, mask = self.rows(x_offsets, y_offset)
        return masked_load(pointer, mask, padding_value(self.base, self.padding), {})

    def scatter(self, value: Any, x_offsets: Any, y_offset: Any, **_: Any) -> None:
        """Write the rows of a tile to the rows named, each from a column on."""
        pointer, mask = self.rows(x_offsets, y_offset)
        masked_store(pointer, self.value(value, pointer.shape), mask, {})

    def reduce(self, kind: str, offsets: Any, value: Any) -> None:
        pointer, mask = self.block(offsets)
        update(kind, pointer, self.value(value, self.block_shape), mask, None, None)

    def atomic_add(self, offsets: Any, value: Any, **_: Any) -> None:
        """Add a block to memory."""
        self.reduce("add", offsets, value)

    def atomic_min(self, offsets: Any, value: Any, **_: Any) -> None:
        """Keep the smaller numbers in memory."""
        self.reduce("min", offsets, value)

    def atomic_max(self, offsets: Any, value: Any, **_: Any) -> None:
        """Keep the larger numbers in memory."""
        self.reduce("max", offsets, value)

    def atomic_and(self, offsets: Any, value: Any, **_: Any) -> None:
        """Bitwise and into memory."""
        self.reduce("and", offsets, value)

    def atomic_or(self, offsets: Any, value: Any, **_: Any) -> None:
        """Bitwise or into memory."""
        self.reduce("or", offsets, value)

    def atomic_xor(self, offsets: Any, value: Any, **_: Any) -> None:
        """Bitwise exclusive or into memory."""
        self.reduce("xor", offsets, value)


@builtin
def make_tensor_descriptor(
    base: Any, shape: Any, strides: Any, block_shape: Any, padding_option: str = "zero"
) -> tensor_descriptor:
    """A descriptor of a tensor whose last dimension is contiguous."""
    shape, strides, block = as_list(shape), as_list(strides), static_shape(block_shape)
    base = check_base(base)
    want(
        1 <= len(block) <= 5 and len(shape) == len(strides) == len(block),
        f"shape, strides and block_shape must have one length from 1 to 5, got "
        f"{len(shape)}, {len(strides)} and {len(block)}",
    )
    last = strides[-1]
    want(
        isinstance(last, tensor) or last == 1,
        f"the last dimension must be contiguous (stride 1), got stride {last!r}",
    )
    width = block[-1] * base.dtype.element_ty.bytes
    want(
        width >= 16,
        f"Descriptor block shape must have at least 16 bytes in the last dimension, got {width}",
    )
    return tensor_descriptor(
        base,
        tuple(size_of(x, "the shape") for x in shape),
        (*(size_of(x, "the strides") for x in strides[:-1]), 1),
        block,
        padding_option or "zero",
    )


def check_descriptor(desc: Any) -> tensor_descriptor:
    want(
        isinstance(desc, tensor_descriptor),
        f"needs a descriptor from tl.make_tensor_descriptor, got {desc!r}",
    )
    return desc


@builtin
def load_tensor_descriptor(desc: Any, offsets: Any) -> tensor:
    """The block of a descriptor that starts at the offsets."""
    return check_descriptor(desc).load(offsets)


@builtin
def store_tensor_descriptor(desc: Any, offsets: Any, value: Any) -> None:
    """Write a block of a descriptor at the offsets."""
    check_descriptor(desc).store(offsets, value)
