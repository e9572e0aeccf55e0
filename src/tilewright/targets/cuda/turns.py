"""What is known, before a loop, of the scalars of its turns: one test for many turns' accesses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.ops import math
from tilewright.passes import loops
from tilewright.passes.constants import integer
from tilewright.targets.cuda import agreed
from tilewright.targets.cuda.reach import Reach
from tilewright.targets.cuda.sums import INT64, Counter, Sum, fixed, scalar

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering


class Turns:
    """The turns of a `for` loop that counts upwards, all but the last one.

    Masks of these turns most often are on everywhere, so that no limit is needed that changes
    from turn to turn.
    """

    def __init__(self, x: Lowering, loop: Inst):
        self.x = x
        self.b = x.e.b
        body = loop.blocks[0]
        self.counter = body.params[0]
        self.step = integer(loop.operands[2])
        self.moves = dict(zip(loops.carried_params(loop, body), loops.yields(loop), strict=True))
        self.starts = dict(zip(self.moves, loop.operands[3:], strict=True))
        self.reach = Reach(x, self.find, self.lasts)
        self.low, high = (self.reach.at_hand(v) for v in loop.operands[:2])
        rest = self.reach.emit(high.plus(self.low, -1).plus(fixed(-1)))
        self.last = self.x.e.plus(self.b.idiv(rest, self.b.const(self.step, t.int64)), -1)
        self.turn = Counter(fixed(0), scalar(self.last, 0, INT64[1]))
        self.needed: dict[Value, Lane] = {}
        self.sums: dict[Value, Sum | None] = {}
        self.told: set[Inst] = set()

    def end(self, loads: Iterable[Inst], others: Iterable[Inst] = ()) -> Lane | None:
        """Below which number of the loop's all these loads are inside of their arguments.

        None where nobody can tell. Of other accesses those that scalars tell of are so too, and
        `told` then.
        """
        fine = None
        for load in loads:
            ends = self.x.guard.ends_of(self.x.memory.param(load))
            found = self.reach.inside(load, *ends) or agreed.inside(self, load)
            if found is None:
                return None
            fine = self.x.e.both(fine, found)
        for inst in others:
            ends = self.x.guard.ends_of(self.x.memory.param(inst))
            found = self.reach.inside(inst, *ends)
            if found is not None:
                self.told.add(inst)
                fine = self.x.e.both(fine, found)
        for condition in self.needed.values():
            fine = self.x.e.both(fine, condition)
        low = self.reach.emit(self.low)
        count = self.b.mul(self.x.e.plus(self.last, 1), self.b.const(self.step, t.int64))
        end = self.b.select(fine, self.b.add(low, count), low) if fine is not None else None
        return None if end is None else self.b.cast(end, self.counter.type.dtype)

    def lasts(self, number: Sum) -> bool:
        """Whether a limit is the same in all turns."""
        return not number.has_counters

    def find(self, value: Value) -> Sum | None:
        """A scalar in all these turns."""
        if value not in self.sums:
            self.sums[value] = self.sum(value)
        return self.sums[value]

    def sum(self, value: Value) -> Sum | None:
        if value is self.counter:
            return self.low.plus(self.turns(self.step))
        if value in self.moves:
            return self.carried(value)
        if value in self.x.tiles:
            return self.reach.at_hand(value)
        inst = value.inst
        if inst is None or inst.op not in (math.add, math.sub, math.mul, math.cast):
            return None
        parts = [self.reach.scalar(x) for x in inst.operands]
        if None in parts:
            return None
        if inst.op is math.cast:
            wider = value.type.dtype.bits >= inst.operands[0].type.dtype.bits
            return parts[0] if wider and value.type.dtype.is_signed else None
        if inst.op is math.mul:
            by = next((k for k in (0, 1) if not parts[k].parts), None)
            return None if by is None else parts[1 - by].times(parts[by].number)
        return parts[0].plus(parts[1], 1 if inst.op is math.add else -1)

    def turns(self, by: int) -> Sum:
        """So many times the number of the turn."""
        return scalar(self.turn, 0, INT64[1] // max(self.step, 1)).times(by)

    def carried(self, param: Value) -> Sum | None:
        """A scalar that each turn moves by as much."""
        start, by = self.reach.scalar(self.starts[param]), self.distance(self.moves[param], param)
        if start is None or by is None:
            return None
        if not by.parts:
            return start.plus(self.turns(by.number))
        step = self.reach.emit(by)
        self.needed[param] = self.b.ge(step, self.b.const(0, t.int64))
        whole = scalar(self.b.mul(self.last, step), *INT64)
        return scalar(Counter(start, start.plus(whole)), *INT64)

    def distance(self, value: Value, param: Value) -> Sum | None:
        """How far a turn moves a carried scalar, where that is known before the loop."""
        if value is param:
            return fixed(0)
        if value.inst is None or value.inst.op is not math.add:
            return None
        for x, y in (value.inst.operands, value.inst.operands[::-1]):
            if integer(y) is not None or y in self.x.tiles:
                before = self.distance(x, param)
                return None if before is None else before.plus(self.reach.scalar(y))
        return None
