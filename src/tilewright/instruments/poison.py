"""Fill arrays that are allocated as empty with a pattern that no program writes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import numpy as np

BYTE = 0xA7
PATTERN = np.full(4, BYTE, np.uint8)
# Where such arrays begin. Other data has the pattern seldom, but small numbers in order may.
starts: set[int] = set()


@contextmanager
def poisoned() -> Iterator[None]:
    """Inside, `np.empty`, `torch.empty` and their like fill what they give with the pattern."""
    places = [(np, name, fill_numpy) for name in ("empty", "empty_like")]
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "Tensor"):
        names = ("empty", "empty_like", "empty_strided")
        places += [(torch, name, fill_torch) for name in names]
        places += [(torch.Tensor, n, fill_torch) for n in ("new_empty", "new_empty_strided")]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    for owner, name, fill in places:
        setattr(owner, name, filling(getattr(owner, name), fill))
    try:
        yield
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)
        starts.clear()


def filling(make: Callable, fill: Callable[[Any], None]) -> Callable:
    @wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        out = make(*args, **kwargs)
        fill(out)
        return out

    return made


def fill_numpy(array: Any) -> None:
    if type(array) is np.ndarray and array.dtype.kind in "iuf" and array.flags.c_contiguous:
        array.reshape(-1).view(np.uint8).fill(BYTE)
        starts.add(array.ctypes.data)


def fill_torch(tensor: Any) -> None:
    torch = sys.modules["torch"]
    if tensor.is_cpu and tensor.layout is torch.strided and tensor.dtype is not torch.bool:
        storage = tensor.untyped_storage()
        storage.fill_(BYTE)
        starts.add(storage.data_ptr())
