"""Arrays whose neighbouring memory cannot be touched: a page without rights on both sides."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

_libc = ctypes.CDLL(None, use_errno=True)


class Guarded:
    """An array that ends where a forbidden page begins, or starts where one ends."""

    def __init__(self, values: np.ndarray, at_start: bool = False):
        page = mmap.PAGESIZE
        inside = -(-max(values.nbytes, 1) // page) * page
        self.map = mmap.mmap(-1, inside + 2 * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.forbid(start)
        self.forbid(start + page + inside)
        begin = page if at_start else page + inside - values.nbytes
        flat = np.frombuffer(self.map, values.dtype, values.size, begin)
        self.array = flat.reshape(values.shape)
        self.array[...] = values

    def forbid(self, address: int) -> None:
        if _libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE), 0):
            raise OSError(ctypes.get_errno(), "mprotect")


def guarded(values: np.ndarray, at_start: bool = False) -> np.ndarray:
    """A copy of the values between forbidden pages; it keeps its memory alive."""
    return Guarded(values, at_start).array
