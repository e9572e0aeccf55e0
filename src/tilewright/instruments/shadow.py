"""Who touched which cell of memory: kept only for pages of it that somebody touched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

PAGE = 12  # bits: cells of a page
FIELDS = {
    "writer": np.int32,  # number of a program, from 1; 0: none
    "written": np.int32,  # when, by the writer's own clock
    "write": np.int32,  # number of the access
    "is_atomic": np.bool_,
    "readers": np.int32,  # the last of the reads since then, a number of `Reads`; 0: none
}


@dataclass(frozen=True, slots=True)
class Read:
    """A read of cells by a program, and the reads before it since they were written."""

    before: int
    program: int
    clock: int
    access: int
    polls: bool  # a scalar, which may be asked for again and again


class Reads:
    """All reads, by number; equal ones have one number."""

    def __init__(self) -> None:
        self.all: list[Read | None] = [None]
        self.known: dict[Read, int] = {}

    def add(self, numbers: np.ndarray, program: int, clock: int, access: int, polls: bool) -> Any:
        """The numbers of a read after those given."""
        if numbers.size == 0 or (numbers == numbers[0]).all():
            return self.after(int(numbers[0]) if numbers.size else 0, program, clock, access, polls)
        kinds, which = np.unique(numbers, return_inverse=True)
        after = [self.after(n, program, clock, access, polls) for n in kinds.tolist()]
        return np.array(after, np.int32)[which]

    def after(self, number: int, program: int, clock: int, access: int, polls: bool) -> int:
        last = self.all[number]
        if last is not None and last.program == program and last.polls >= polls:
            number = last.before  # which no longer matters
        new = Read(number, program, clock, access, polls)
        if new not in self.known:
            self.known[new] = len(self.all)
            self.all.append(new)
        return self.known[new]

    def since(self, number: int) -> Iterator[Read]:
        """The reads of a number, the last one first."""
        while number:
            read = self.all[number]
            yield read
            number = read.before


class Shadow:
    """For each cell of [low, high) the last write and the reads after it.

    A cell is as large as the smallest and least aligned access so far; it is split when a smaller
    one comes.
    """

    def __init__(self, low: int, high: int, cell: int):
        self.low, self.cell = low, cell
        self.cells = -(-(high - low) // cell)
        self.pages = np.full((self.cells >> PAGE) + 1, -1, np.int64)
        self.used = 0
        self.fields = {name: np.zeros(0, dtype) for name, dtype in FIELDS.items()}

    def at(self, addresses: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """The cells of accesses of `size` bytes, and the number of the access of each."""
        bits = int(np.bitwise_or.reduce((addresses - self.low) | size))
        if bits & (self.cell - 1):
            self.split(bits & -bits)
        first = (addresses - self.low) // self.cell
        count = size // self.cell
        lanes = np.arange(first.size)
        if count > 1:
            first = (first[:, None] + np.arange(count)).ravel()
            lanes = np.repeat(lanes, count)
        return self.slots(first), lanes

    def slots(self, cells: np.ndarray) -> np.ndarray:
        """Where the fields of cells are kept; makes room for pages that are new."""
        pages = cells >> PAGE
        new = np.unique(pages[self.pages[pages] < 0])
        if new.size:
            self.pages[new] = np.arange(self.used, self.used + new.size)
            self.used += new.size
            self.grow(self.used << PAGE)
        return (self.pages[pages] << PAGE) | (cells & ((1 << PAGE) - 1))

    def grow(self, size: int) -> None:
        have = self.fields["writer"].size
        if size <= have:
            return
        more = max(size, 2 * have) - have
        for name, values in self.fields.items():
            self.fields[name] = np.concatenate([values, np.zeros(more, values.dtype)])

    def split(self, cell: int) -> None:
        """Make cells smaller; each part has what the whole had."""
        factor = self.cell // cell
        kept = np.flatnonzero(self.pages >= 0)
        old, fields = self.pages[kept], self.fields
        self.cell = cell
        self.cells *= factor
        self.pages = np.full((self.cells >> PAGE) + 1, -1, np.int64)
        self.used = 0
        self.fields = {name: np.zeros(0, dtype) for name, dtype in FIELDS.items()}
        inner = np.arange(1 << PAGE)
        for page, slot in zip(kept, old, strict=True):
            cells = (((page << PAGE) + inner) * factor)[:, None] + np.arange(factor)
            inside = cells < self.cells
            at = self.slots(cells[inside])
            for name, values in fields.items():
                some = np.repeat(values[slot << PAGE : (slot + 1) << PAGE], factor)
                self.fields[name][at] = some.reshape(cells.shape)[inside]


def regions(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pieces of memory that do not overlap and have all of the given ones inside."""
    out: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if out and low < out[-1][1]:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        else:
            out.append((low, high))
    return out
