"""Who touched which cell of memory last: kept only for pages of it that somebody touched."""

from __future__ import annotations

import numpy as np

PAGE = 12  # bits: cells of a page
FIELDS = {
    "writer": np.int32,  # number of a program, from 1; 0: none
    "written": np.int32,  # when, by the writer's own clock
    "write": np.int32,  # number of the access
    "is_atomic": np.bool_,
    "reader": np.int32,
    "was_read": np.int32,
    "read": np.int32,
    "many": np.bool_,  # others read it too, at the same time
    "tiled": np.bool_,  # somebody read it as an element of a tile, which is no way to poll
}


class Shadow:
    """For each cell of [low, high) the last write and the last read.

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
