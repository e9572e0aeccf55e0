"""Arrays seen as another dtype, and stand-ins for arrays of which only the dtype is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.errors import LaunchError
from tilewright.runtime.dtypes import named_dtype
from tilewright.runtime.messages import type_of


class TensorWrapper:
    """An array that kernels see as elements of another dtype of the same size."""

    def __init__(self, base: Any, dtype: Any):
        self.base = base
        self.dtype = dtype
        self.shape = base.shape
        self.data = base.data
        self.device = getattr(base, "device", "cpu")

    def data_ptr(self) -> int:
        """The address of the first element."""
        if hasattr(self.base, "data_ptr"):
            return self.base.data_ptr()
        return self.base.__array_interface__["data"][0]

    def stride(self, *args: Any) -> Any:
        if hasattr(self.base, "stride"):
            return self.base.stride(*args)
        steps = tuple(s // self.base.itemsize for s in self.base.strides)
        return steps[args[0]] if args else steps

    def element_size(self) -> int:
        return named_dtype(self.dtype).bytes

    def numel(self) -> int:
        return int(np.prod(self.shape))

    def clone(self) -> TensorWrapper:
        copy = self.base.clone() if hasattr(self.base, "clone") else self.base.copy()
        return TensorWrapper(copy, self.dtype)

    def copy_(self, other: TensorWrapper) -> None:
        self.base.copy_(other.base)

    def cpu(self) -> TensorWrapper:
        return TensorWrapper(self.base.cpu(), self.dtype)

    def to(self, device: Any) -> TensorWrapper:
        return TensorWrapper(self.base.to(device), self.dtype)

    def new_empty(self, sizes: Any) -> TensorWrapper:
        return TensorWrapper(self.base.new_empty(sizes), self.dtype)

    def __repr__(self) -> str:
        return f"TensorWrapper[{self.dtype}]({self.base})"


def reinterpret(tensor: Any, dtype: Any) -> Any:
    """The same memory as elements of another dtype, e.g. torch.int32 as `tl.uint32`.

    Raises:
        LaunchError: for what is no array.
    """
    if isinstance(tensor, TensorWrapper):
        base = tensor.base
        return base if dtype == base.dtype else TensorWrapper(base, dtype)
    if hasattr(tensor, "data_ptr") or isinstance(tensor, np.ndarray):
        return TensorWrapper(tensor, dtype)
    raise LaunchError(f"reinterpret wants an array, got a {type_of(tensor)}")


class MockTensor:
    """An array of which only the dtype is known, for `kernel.warmup`."""

    def __init__(self, dtype: Any, shape: Any = None):
        self.dtype = dtype
        self.shape = [1] if shape is None else shape

    @staticmethod
    def wrap_dtype(value: Any) -> Any:
        """A torch or NumPy dtype as an array of it; anything else as it is."""
        is_torch = type(value).__name__ == "dtype" and type(value).__module__ == "torch"
        return MockTensor(value) if is_torch or isinstance(value, np.dtype) else value

    @staticmethod
    def data_ptr() -> int:
        return 0

    @staticmethod
    def ptr_range() -> int:
        return 0

    def stride(self) -> list[int]:
        steps = [1]
        for size in reversed(self.shape[1:]):
            steps.append(steps[-1] * size)
        return steps[::-1]
