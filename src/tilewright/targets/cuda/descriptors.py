"""Operands of wgmma in shared memory: what it is told of where they lie."""

from __future__ import annotations

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.targets.cuda.emitter import Emitter
from tilewright.targets.cuda.layout import Layout, union
from tilewright.targets.cuda.ldmatrix import rows_of
from tilewright.targets.cuda.tiles import Staged

WIDEST = 128  # bytes of a row, and of what its swizzle goes over
ALIGNMENT = 1024  # bytes, after which the swizzle of the widest rows repeats
SWIZZLES = {128: 1, 64: 2, 32: 3}  # numbers that stand for rows of so many bytes
UNIT_BITS = 4  # addresses and distances are told in units of 16 bytes
FIELD = (1 << 14) - 1
LEADING, STRIDE, SWIZZLE = 16, 32, 62  # first bits of fields
GROUP = 8  # rows that the swizzle goes over


class Described:
    """One operand, as each warpgroup is told of its own part.

    Args:
        side: 0 of the left operand, 1 of the right one.
        sums: the layout of the product.
    """

    def __init__(self, e: Emitter, side: int, staged: Staged, sums: Layout):
        self.e = e
        self.side = side
        self.shared = staged.shared
        self.turned = rows_of(self.shared) != 1 - side
        parts = [self.outer(c, sums) for c in sums.warp]
        if side == 0:
            parts[:2] = [0, 0]  # the warps of a group share their rows by themselves
        own = [self.place(part, 0) for part in parts]
        address = e.b.add(staged.base, e.of_warp(own)) if union(own) else staged.base
        units = e.b.value(f"lshr i32 {address.text}, {UNIT_BITS}", t.int32, 1)
        low = e.b.cast(e.b.bit_and(units, e.const(FIELD)), t.int64)
        self.start = e.b.bit_or(low, e.const(self.facts(), t.int64))
        self.moved: dict[int, Lane] = {}

    def outer(self, column: int, sums: Layout) -> int:
        """Of an index into the product the row, or the column."""
        first, count = sums.span(self.side)
        return column >> first & (1 << count) - 1

    def place(self, outer: int, inner: int) -> int:
        """Where the element at a row (or column) and a place along K lies, in bytes."""
        spans = Layout(self.shared.shape, (), (), ()).spans()
        dims = (self.side, 1 - self.side)
        index = outer << spans[dims[0]][0] | inner << spans[dims[1]][0]
        return self.shared.offset(index) * self.shared.bytes

    def facts(self) -> int:
        """All of a descriptor but the address.

        Groups of rows are a `stride` apart. Where the rows lie across K, further columns of them
        are a `leading` distance away; else that does not matter.
        """
        across, rows = self.shared.shape[rows_of(self.shared)], self.shared.shape
        width = min(WIDEST, across * self.shared.bytes)
        leading = width * rows[1 - rows_of(self.shared)] if self.turned else 1 << UNIT_BITS
        stride = GROUP * width
        found = leading >> UNIT_BITS << LEADING | stride >> UNIT_BITS << STRIDE
        found |= SWIZZLES[width] << SWIZZLE
        return found - (1 << 64) if found >> 63 else found

    def read(self, outer: int, inner: int) -> list[Lane]:
        """The one descriptor of the block that begins at a row (or column) and a place along K."""
        units = self.place(outer, inner) >> UNIT_BITS
        if units not in self.moved:
            self.moved[units] = self.e.plus(self.start, units)
        return [self.moved[units]]
