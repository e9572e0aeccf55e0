"""`triton.backends.nvidia`: what programs ask of Triton's back end for NVIDIA GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.compat.backends_compiler import BaseBackend as CUDABackend
from tilewright.compat.backends_compiler import GPUTarget
from tilewright.runtime.cpu_driver import CpuDriver as CudaDriver

__path__: list[str] = []
include_dirs: list[str] = []
library_dirs: list[str] = []


def min_dot_size(target: GPUTarget) -> Callable[[Any, Any], tuple[int, int, int]]:
    """A function of two dtypes: the least M, N and K of products by the instructions of GPUs."""
    return lambda lhs, rhs: (16, 16, 32 if lhs.scalar.primitive_bitwidth == 8 else 16)


def libcuda_dirs() -> list[str]:
    """Where the library of the driver lies: the loader finds it."""
    return []


__all__ = [
    "CUDABackend", "CudaDriver", "GPUTarget", "include_dirs", "libcuda_dirs", "library_dirs",
    "min_dot_size",
]  # fmt: skip
