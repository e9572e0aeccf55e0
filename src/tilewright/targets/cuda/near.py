"""Tests of accesses by 32-bit indices from an argument, which take less than those of addresses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst
from tilewright.targets.cuda.memory import Vector

if TYPE_CHECKING:
    from tilewright.targets.cuda.guard import Guard

ALL = 1 << 31  # more elements than 32-bit indices reach


class Near:
    """Remembers which pointers are an argument and indices."""

    def __init__(self, guard: Guard):
        self.guard = guard
        self.moved: dict[str, tuple[str, tuple[Lane, ...]]] = {}
        self.counts: dict[tuple[int, int, int], Lane] = {}

    def moves(self, pointer: Lane, base: Lane, index: Lane, inst: Inst) -> None:
        """Note that a pointer is another one moved by an index.

        Of several indices only the first may be negative: their sum then wraps around to a negative
        number, if at all.
        """
        if index.dtype is not t.int32 or inst.attrs["bytes"] != base.dtype.element_ty.bytes:
            return
        start, before = self.moved.get(base.text, (base.text, ()))
        if not before or self.guard.x.axes(inst.operands[1]).positive:
            self.moved[pointer.text] = start, (*before, index)

    def inside(
        self, param: int, vectors: Sequence[Vector], masks: Sequence[Lane | None], size: int
    ) -> Lane | None:
        """Whether what is on lies between an argument's address and the end of its memory.

        None where that is not told by indices.
        """
        own = self.guard.x.tiles[self.guard.x.kernel.body.params[param]].lane.text
        found = [self.moved.get(v.place.pointer.text) for v in vectors]
        if not all(f and f[0] == own for f in found):
            return None
        if any(v.place.bytes % size or v.place.bytes < 0 for v in vectors):
            return None
        e, b = self.guard.e, self.guard.e.b
        fine = []
        for v, (_, indices) in zip(vectors, found, strict=True):
            total = indices[0]
            for index in indices[1:]:
                total = b.add(total, index)
            total = b.bitcast(e.plus(total, v.place.bytes // size), t.uint32)
            fine.append(b.lt(total, self.count(param, size, len(v.registers))))
        return self.guard.all_fine(fine, masks)

    def count(self, param: int, size: int, elements: int) -> Lane:
        """From how many first elements of an argument so many lie inside."""
        key = param, size, elements
        if key not in self.counts:
            e, b = self.guard.e, self.guard.e.b
            start, end = self.guard.ends_of(param)
            with e.w.once():
                room = b.idiv(b.sub(end, start), b.const(size, t.int64))
                room = b.maximum(e.plus(room, 1 - elements), b.const(0, t.int64))
                room = b.minimum(room, b.const(ALL, t.int64))
                self.counts[key] = b.cast(room, t.uint32)
        return self.counts[key]
