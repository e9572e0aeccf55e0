"""Which accesses of global memory must wait for others of the same program.

Threads run apart, so what one stores another may load too early, or one may overwrite what
another has yet to load. Where the order of the program could be seen, threads wait first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tilewright.ir.inst import Block, Inst, Value, walk
from tilewright.passes.origins import Roots
from tilewright.targets.cuda.layout import Layout


@dataclass(frozen=True, slots=True)
class Touch:
    """An access: the parameters it may go to, and whose element each thread touches.

    Accesses with one `key` are made by the same thread for each element; None has no equal.
    """

    roots: Roots
    key: tuple[Value, Layout] | None
    writes: bool

    def meets(self, other: Touch) -> bool:
        """Whether threads could tell the order of the two."""
        if not (self.writes or other.writes):
            return False
        if self.key is not None and self.key == other.key:
            return False
        return self.roots is None or other.roots is None or bool(self.roots & other.roots)


class Hazards:
    """The accesses since all threads of the program last waited for one another."""

    def __init__(self, roots: Callable[[Value], Roots], wait: Callable[[], None]):
        self.roots = roots
        self.wait = wait
        self.touches: set[Touch] = set()

    def before(self, inst: Inst, layout: Layout) -> None:
        """Wait if an access must not overtake one before."""
        lane, warp = layout.free_bits()[1:]
        key = None if lane or warp else (inst.operands[0], layout)
        touch = self.touch(inst, key)
        if any(touch.meets(other) for other in self.touches):
            self.wait()
        self.touches.add(touch)

    def touch(self, inst: Inst, key: tuple[Value, Layout] | None) -> Touch:
        return Touch(self.roots(inst.operands[0]), key, inst.op.access.kind != "load")

    def waited(self) -> None:
        """All threads have waited for one another."""
        self.touches.clear()

    @contextmanager
    def loop(self, blocks: Sequence[Block]) -> Iterator[None]:
        """Within, any access of these blocks may have been made in the turn before."""
        inside = {
            self.touch(inst, None) for b in blocks for inst in walk(b) if inst.op.access is not None
        }
        self.touches |= inside
        yield
        self.touches |= inside
