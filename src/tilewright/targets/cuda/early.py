"""What is known of scalars at the start of a kernel, before any loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.ops import control, math, program, shape
from tilewright.passes.constants import integer
from tilewright.passes.loops import yields
from tilewright.targets.cuda.sums import INT64, Counter, Sum, fixed, scalar

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering
    from tilewright.targets.cuda.reach import Reach


class Early:
    """Scalars that follow from the kernel's parameters, the program, and the indices of loops."""

    def __init__(self, x: Lowering, steps: set[Lane]):
        self.x = x
        self.steps = steps  # of loops: they are relied on to be positive
        self.lanes: dict[Value, Lane | None] = {}
        self.sums: dict[Value, Sum | None] = {}
        self.loops: dict[Value, Inst] = {
            inst.blocks[0].params[0]: inst for inst in x.kernel.walk() if inst.op is control.for_
        }
        self.carried: dict[Value, tuple[Inst, int]] = {
            param: (loop, k)
            for loop in self.loops.values()
            for k, param in enumerate(loop.blocks[0].params[1:])
        }
        self.needed: dict[Value, Lane] = {}  # conditions on how far turns move carried numbers
        self.reach: Reach | None = None

    def __call__(self, value: Value) -> Sum | None:
        """A scalar as a sum; None where it is none."""
        if value not in self.sums:
            self.sums[value] = self.sum(value)
        return self.sums[value]

    def sum(self, value: Value) -> Sum | None:
        if value in self.loops:
            return self.counter(value, self.loops[value])
        if value in self.carried:
            return self.moved(value, *self.carried[value])
        lane = self.lane(value)
        if lane is not None:
            return self.reach.of_lane(lane, value)
        inst = value.inst
        if inst is None or inst.op not in (math.add, math.sub, math.cast):
            return None
        if not all(x.type.dtype.is_integer for x in inst.operands):
            return None
        parts = [self.reach.scalar(x) for x in inst.operands]
        if None in parts:
            return None
        if inst.op is math.cast:
            wider = value.type.dtype.bits >= inst.operands[0].type.dtype.bits
            return parts[0] if wider and value.type.dtype.is_signed else None
        return parts[0].plus(parts[1], 1 if inst.op is math.add else -1)

    def counter(self, value: Value, loop: Inst) -> Sum | None:
        """The index of a loop that counts upwards."""
        low, high = (self.reach.scalar(x) for x in loop.operands[:2])
        step = integer(loop.operands[2])
        if step is None:
            lane = self.lane(loop.operands[2])
            if lane is None:
                return None
            self.steps.add(lane)
        if low is None or high is None or step is not None and step <= 0:
            return None
        ends = self.reach.range_of(value)
        return scalar(Counter(low, high.plus(Sum(-1, (), -1, -1))), *ends)

    def moved(self, param: Value, loop: Inst, position: int) -> Sum | None:
        """A carried number that each turn moves by as much, and not backwards."""
        start = self.reach.scalar(loop.operands[3 + position])
        by, last = self.distance(yields(loop)[position], param), self.last_turn(loop)
        if start is None or by is None or last is None:
            return None
        if not by.parts:
            return start.plus(
                scalar(Counter(fixed(0), last), 0, max(last.most, 0)).times(by.number)
            )
        step = self.reach.emit(by)
        self.needed[param] = self.x.e.b.ge(step, self.x.e.b.const(0, t.int64))
        whole = scalar(self.x.e.b.mul(self.reach.emit(last), step), *INT64)
        return scalar(Counter(start, start.plus(whole)), *INT64)

    def distance(self, value: Value, param: Value) -> Sum | None:
        """How far a turn moves a carried number, where no loop changes that."""
        if value is param:
            return fixed(0)
        if value.inst is None or value.inst.op is not math.add:
            return None
        for x, y in (value.inst.operands, value.inst.operands[::-1]):
            before, by = self.distance(x, param), self.reach.scalar(y) if y is not param else None
            if before is not None and by is not None and not by.has_counters:
                return before.plus(by)
        return None

    def last_turn(self, loop: Inst) -> Sum | None:
        """The number of a loop's last turn, negative where there is none."""
        low, high = (self.reach.scalar(x) for x in loop.operands[:2])
        step = integer(loop.operands[2])
        if low is None or high is None or step is None or step <= 0:
            return None
        rest = high.plus(low, -1).plus(fixed(-1)).end(True)
        if step == 1 or not rest.parts:
            return rest if step == 1 else fixed(rest.number // step)
        b = self.x.e.b
        lane = b.idiv(self.reach.emit(rest), b.const(step, t.int64))
        return scalar(lane, min(rest.least, 0), max(rest.most, 0))

    def lane(self, value: Value) -> Lane | None:
        """A scalar that no loop changes."""
        if value not in self.lanes:
            self.lanes[value] = self.compute(value)
        return self.lanes[value]

    def compute(self, value: Value) -> Lane | None:
        inst, e = value.inst, self.x.e
        if inst is None:
            return self.x.scalar(value) if value in self.x.kernel.body.params else None
        if inst.op is program.program_id:
            return e.program_id(inst.attrs["axis"])
        if inst.op is program.num_programs:
            return e.num_programs(inst.attrs["axis"])
        if inst.op is shape.constant:
            return e.b.const(inst.attrs["value"], value.type.dtype)
        if not inst.op.is_elementwise:
            return None
        lanes = [self.lane(x) for x in inst.operands]
        return None if None in lanes else inst.op.emit(e.b, *lanes, **inst.attrs)
