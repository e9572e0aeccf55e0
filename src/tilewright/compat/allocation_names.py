"""What `triton.runtime._allocation` has beside our own names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Buffer(Protocol):
    """Memory that an allocator gave."""

    def data_ptr(self) -> int:
        """Its address."""


class Allocator(Protocol):
    """Who allocates the scratch memory of kernels."""

    def __call__(self, size: int, alignment: int, stream: int | None) -> Buffer:
        """So many bytes, for kernels on a stream."""


def set_profile_allocator(fn: Callable | None) -> None:
    """Who would allocate the memory of a profiler inside of kernels; there is none."""


__all__ = ["Allocator", "Buffer", "set_profile_allocator"]
