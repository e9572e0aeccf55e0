"""What is known of scalars at the start of a kernel, before any loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir.inst import Inst, Value
from tilewright.ops import control, math, program, shape
from tilewright.passes.constants import integer
from tilewright.targets.cuda.sums import Counter, Sum, scalar

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
        self.reach: Reach | None = None

    def __call__(self, value: Value) -> Sum | None:
        """A scalar as a sum; None where it is none."""
        if value not in self.sums:
            self.sums[value] = self.sum(value)
        return self.sums[value]

    def sum(self, value: Value) -> Sum | None:
        if value in self.loops:
            return self.counter(value, self.loops[value])
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
