"""Fill arrays that are allocated as empty with a pattern that no program writes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any

import numpy as np

from tilewright.errors import Loc

BYTE = 0xA7
PATTERN = np.full(4, BYTE, np.uint8)
MOST_BYTES = 1 << 30  # what is larger is often allocated and hardly touched; it is left alone
# By the address where such an array begins; grows while a program runs, in small entries.
allocated: dict[int, Allocation] = {}
wrappers: list[Callable[[Any], Any]] = []  # what becomes of such arrays before anybody sees them


@dataclass(frozen=True, slots=True)
class Writer:
    """A store of a kernel: to which argument, that starts at `address`, and where it stands."""

    kernel: str
    argument: str
    program: tuple[int, int, int]
    loc: Loc | None
    address: int


@dataclass
class Allocation:
    """Memory that was allocated as empty."""

    size: int
    writer: Writer | None = None  # the last store of a kernel to it
    passed: Any = None  # before there is one, the last launch that was given it

    def find_writer(self) -> Writer | None:
        """The last store of a kernel to it, or one for it that did not run."""
        if self.writer is None and self.passed is not None:
            self.writer = self.passed.writer()
            self.passed = None
        return self.writer

    @property
    def has_map(self) -> bool:
        """Whether it is noted what was written."""
        return "written" in self.__dict__

    @cached_property
    def written(self) -> np.ndarray:
        """Of each byte, whether a kernel wrote it."""
        return np.zeros(self.size, bool)


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
        allocated.clear()


def filling(make: Callable, fill: Callable[[Any], None]) -> Callable:
    @wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        out = make(*args, **kwargs)
        fill(out)
        for wrap in wrappers:
            out = wrap(out)
        return out

    return made


def fill_numpy(array: Any) -> None:
    if (
        not isinstance(array, np.ndarray)
        or array.dtype.kind not in "biufV"
        or array.dtype.hasobject
    ):
        return
    if array.flags.c_contiguous and 0 < array.nbytes <= MOST_BYTES:
        array.reshape(-1).view(np.uint8).fill(BYTE)
        allocated[array.ctypes.data] = Allocation(array.nbytes)


def fill_torch(tensor: Any) -> None:
    torch = sys.modules["torch"]
    if (tensor.is_cpu or tensor.is_cuda) and tensor.layout is torch.strided:
        storage = tensor.untyped_storage()
        if 0 < storage.nbytes() <= MOST_BYTES:
            storage.fill_(BYTE)
            allocated[storage.data_ptr()] = Allocation(storage.nbytes())
