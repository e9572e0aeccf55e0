"""Prefetches of the tiles that the next product reads, spread over the blocks of this one."""

from __future__ import annotations

from tilewright.codegen.lanes import Lane
from tilewright.ir import types as ty
from tilewright.ir.types import DType, pointer_to
from tilewright.targets.cpu.routine import Routine

CACHE_LINE = 64
PREFETCH = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"


class Prefetch:
    """Spreads the cache lines of a row-major tile over the blocks of the computation."""

    def __init__(
        self, r: Routine, operand: str, shape: tuple[int, int], dtype: DType, writes: bool = False
    ):
        self.r, self.writes = r, writes
        self.ptr = Lane(f"%next_{operand}", pointer_to(dtype))
        self.stride = Lane(f"%next_ld{operand}", ty.int64)
        self.line = min(shape[1], CACHE_LINE // dtype.bytes)
        self.lines_of_row = shape[1] // self.line
        self.lines = shape[0] * self.lines_of_row

    def write(self, block: Lane, blocks: int) -> None:
        """Prefetch the share of one of the blocks."""
        r, b = self.r, self.r.b
        share = 1 << (-(-self.lines // blocks) - 1).bit_length()
        wanted = b.ne(self.ptr, b.const(0, self.ptr.dtype))
        if share * blocks > self.lines:
            wanted = b.bit_and(wanted, b.lt(block, r.index(self.lines // share)))
        step = min(share, 16)
        piece = min(step, self.lines_of_row)

        def pieces(i: Lane) -> None:
            first = b.add(r.times(block, share), i)
            for u in range(0, step, piece):
                self._piece(b.add(first, r.index(u)), piece)

        r.when(wanted, lambda: r.loop(share, step, pieces))

    def _piece(self, number: Lane, lines: int) -> None:
        """Prefetch some lines of one row, from line `number` of the tile on."""
        r, b = self.r, self.r.b
        row = b.shr(number, r.index(self.lines_of_row.bit_length() - 1))
        column = b.bit_and(number, r.index(self.lines_of_row - 1))
        start = r.at(self.ptr, b.mul(row, self.stride), r.times(column, self.line))
        # Rows begin anywhere in a line, so that the last element may be in one line more.
        for offset in (*range(0, lines * self.line, self.line), lines * self.line - 1):
            r.prefetch(r.at(start, offset), self.writes)
