"""Programs that stride through their work take turns, so that memory is read in order.

Persistent kernels are one loop from the program's number on, in steps of the number of programs.
Run one after the other, each program walks over all of memory in steps; run in turns, one turn of
each program's loop after the other, they read what lies side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Kernel, Value
from tilewright.passes.constants import integer
from tilewright.targets.cpu.forms import Uniform
from tilewright.targets.cpu.loops import Loop
from tilewright.targets.cpu.order import ORDERED, SAME, Step, Steps

if TYPE_CHECKING:
    from tilewright.targets.cpu.lower import Lowering


def strided_loop(kernel: Kernel, kept: set[Value]) -> Inst | None:
    """The one loop that a kernel consists of, if neighbouring programs begin it side by side."""
    body = [i for i in kernel.body.insts if i.op.name != "yield"]
    if not body or body[-1].op.name != "for" or len(body[-1].operands) != 3:
        return None
    loop, before = body[-1], body[:-1]
    if any(i.op.effect not in ("pure", "program") or i.blocks for i in before):
        return None
    if any(r in kept for i in before for r in i.results):
        return None  # made once for the whole loop
    if any(i.op.name in ORDERED for i in kernel.walk()):
        return None
    start = Steps(0, frozenset(kernel.body.params)).of(loop.operands[0])
    step = length_of(loop.operands[2])
    if not isinstance(start, Step) or step is None or start.number <= 0:
        return None
    return loop if start.is_less(step) else None


def length_of(value: Value) -> Step | None:
    """A step of a loop as a number times counts of programs, which are positive."""
    known = integer(value)
    if known is not None:
        return Step(known) if known > 0 else None
    inst = value.inst
    if inst is None:
        return None
    if inst.op.name == "num_programs":
        return Step(1, (id(value),))
    if inst.op.name in SAME:
        return length_of(inst.operands[0])
    if inst.op.name != "mul":
        return None
    x, y = map(length_of, inst.operands)
    if x is None or y is None:
        return None
    return Step(x.number * y.number, tuple(sorted((*x.factors, *y.factors))))


class Turns:
    """The loop over turns around that over programs."""

    def __init__(self, x: Lowering, loop: Inst):
        self.x = x
        self.loop = loop
        self.turn = Lane("%turn", t.int64)
        self.labels = (x.e.w.new_label("turn"), x.e.w.new_label("turned"))

    def open(self) -> None:
        """Begin a turn."""
        self.x.e.w.open(self.labels[0])

    def body(self, programs: Loop) -> None:
        """What one program does in one turn, inside the loop over programs."""
        x, e, w, b = self.x, self.x.e, self.x.e.w, self.x.e.b
        x.straight([i for i in x.kernel.body.insts if i is not self.loop])
        low, high, step = (b.cast(e.scalar(v).lane, t.int64) for v in self.loop.operands)
        place = b.add(low, b.mul(self.turn, step))
        is_on = b.lt(place, high)
        self.goes_on = programs.carry(e.false.lane)
        self.goes_on.next = b.bit_or(self.goes_on.phi, is_on)
        block = self.loop.blocks[0]
        run, skip = w.new_label("run"), w.new_label("skip")
        w.open(run)
        counter = b.cast(place, block.params[0].type.dtype)
        e.bound[block.params[0]] = Uniform(counter, w.at)
        x.block(block)
        w.write(f"br label %{skip}")
        scope = w.close()
        e.forget(scope.memo)
        w.write(f"br i1 {is_on.text}, label %{run}, label %{skip}")
        w.label(run)
        w.take(scope)
        w.label(skip)

    def close(self) -> None:
        """End a turn; there is another one if any program did something in this one."""
        w = self.x.e.w
        head, leave = self.labels
        w.write("%turn.next = add i64 %turn, 1")
        w.write(f"br i1 {self.goes_on.phi.text}, label %{head}, label %{leave}")
        scope = w.close()
        self.x.e.forget(scope.memo)
        before = w.here
        w.write(f"br label %{head}")
        w.label(head)
        w.write(f"%turn = phi i64 [0, %{before}], [%turn.next, %{scope.label}]")
        w.take(scope)
        w.label(leave)
