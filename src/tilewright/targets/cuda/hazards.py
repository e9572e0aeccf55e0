"""Which accesses of global memory must wait for others of the same program.

Threads run apart, so what one stores another may load too early, or one may overwrite what
another has yet to load. Where the order of the program could be seen, threads wait first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tilewright.ir.inst import Inst, Value, walk
from tilewright.ops import memory
from tilewright.passes.facts import Strides
from tilewright.passes.origins import Roots
from tilewright.targets.cuda.layout import Layout
from tilewright.targets.cuda.rates import Rates, goes_on


@dataclass(frozen=True, slots=True)
class Touch:
    """An access: the parameters it may go to, and whose element each thread touches.

    Accesses with one `key` are made by the same thread for each element; None has no equal.
    """

    roots: Roots
    key: tuple[Value, Layout] | None
    writes: bool
    own: Inst | None = None  # the instruction, if what it does in other turns is not met by it

    def meets(self, other: Touch) -> bool:
        """Whether threads could tell the order of the two."""
        if not (self.writes or other.writes):
            return False
        if self.key is not None and self.key == other.key:
            return False
        if self.own is not None and self.own is other.own:
            return False
        return self.roots is None or other.roots is None or bool(self.roots & other.roots)


class Hazards:
    """The accesses since all threads of the program last waited for one another."""

    def __init__(
        self,
        roots: Callable[[Value], Roots],
        strides: Callable[[Value], Strides],
        wait: Callable[[], None],
    ):
        self.roots = roots
        self.strides = strides
        self.wait = wait
        self.touches: set[Touch] = set()
        self.alone: set[Inst] = set()  # what goes on to other places with each turn of its loop

    def before(self, inst: Inst, layout: Layout) -> None:
        """Wait if an access must not overtake one before."""
        lane, warp = layout.free_bits()[1:]
        key = None if lane or warp else (inst.operands[0], layout)
        touch = self.touch(inst, key)
        if any(touch.meets(other) for other in self.touches):
            self.wait()
        self.touches.add(touch)

    def touch(self, inst: Inst, key: tuple[Value, Layout] | None) -> Touch:
        own = inst if inst in self.alone else None
        return Touch(self.roots(inst.operands[0]), key, inst.op.access.kind != "load", own)

    def waited(self) -> None:
        """All threads have waited for one another."""
        self.touches.clear()

    @contextmanager
    def loop(self, loop: Inst) -> Iterator[None]:
        """Within, any access of the loop may have been made in the turn before."""
        insts = [i for b in loop.blocks for i in walk(b) if i.op.access is not None]
        rates = Rates(loop)
        before = self.alone
        self.alone = {inst for inst in insts if self.goes_on(inst, rates)}
        inside = {self.touch(inst, None) for inst in insts}
        self.touches |= inside
        yield
        self.alone = before
        self.touches |= {replace(touch, own=None) for touch in inside}

    def goes_on(self, inst: Inst, rates: Rates) -> bool:
        """Whether a store writes elsewhere in each turn."""
        pointer = inst.operands[inst.op.access.pointer]
        kind = pointer.type
        return inst.op is memory.store and goes_on(
            rates(pointer), kind.shape, self.strides(pointer), kind.dtype.element_ty.bytes
        )
