"""How far the pointers of a loop's access are from those of the turn before."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.inst import Block, Inst, Value, walk
from tilewright.ops import control, math, memory, shape
from tilewright.passes import loops
from tilewright.passes.constants import integer
from tilewright.passes.facts import Strides

SAME = (shape.splat, shape.broadcast, shape.reshape, shape.permute, math.cast)
SOME = "some"  # a distance that is not known, the same in all turns


class Rates:
    """Of values of a loop, by how much a turn adds to all of their elements; None: unlike."""

    def __init__(self, loop: Inst):
        body = loops.body(loop)
        self.inside = {r for block in loop.blocks for i in walk(block) for r in i.results}
        self.inside |= {p for block in loop.blocks for p in inner_params(block)}
        self.known: dict[Value, int | str | None] = {}
        if loop.op is control.for_:
            self.known[body.params[0]] = integer(loop.operands[2]) or SOME
        params = loops.carried_params(loop, body)
        for param, end in zip(params, loops.yields(loop), strict=True):
            self.known[param] = self.moved(end, param)

    def moved(self, end: Value, param: Value) -> int | str | None:
        """By how much a carried value differs from itself in the turn before."""
        if end is param:
            return 0
        inst = end.inst
        if inst is None or inst.op not in (math.add, memory.offset):
            return None
        for x, y in (inst.operands, inst.operands[::-1]):
            before = self.moved(x, param) if x is param or x.inst is not None else None
            if before is not None and y not in self.inside:
                step = integer(y)
                if step is None or not isinstance(before, int):
                    return SOME
                return before + step * inst.attrs.get("bytes", 1)
        return None

    def __call__(self, value: Value) -> int | str | None:
        if value not in self.inside:
            return self.known.get(value, 0)
        if value not in self.known:
            self.known[value] = self.find(value.inst) if value.inst is not None else None
        return self.known[value]

    def find(self, inst: Inst) -> int | str | None:
        if inst.op in SAME:
            return self(inst.operands[0])
        if inst.op not in (math.add, math.sub, math.mul, memory.offset):
            return None
        x, y = map(self, inst.operands)
        if x is None or y is None:
            return None
        if inst.op is math.mul:
            by = [integer(v) for v in inst.operands]
            if x == y == 0:
                return 0
            rate, factor = (x, by[1]) if y == 0 else (y, by[0])
            return rate * factor if isinstance(rate, int) and factor is not None else SOME
        if inst.op is memory.offset and isinstance(y, int):
            y *= inst.attrs["bytes"]
        if SOME in (x, y):
            return SOME
        return x - y if inst.op is math.sub else x + y


def inner_params(block: Block) -> list[Value]:
    """The parameters of a block and of all within."""
    return [*block.params, *(p for inst in walk(block) for b in inst.blocks for p in b.params)]


def goes_on(rate: int | str | None, shape: Sequence[int], steps: Strides, size: int) -> bool:
    """Whether a tile of elements leaves all places of the turn before.

    Rows of unknown distance are taken to lie apart, and a distance that is not known to be wide
    enough for a tile.
    """
    if rate is None or rate == 0:
        return False
    if rate == SOME:
        return True
    known = [(n - 1) * abs(s) for n, s in zip(shape, steps, strict=True) if s is not None]
    return abs(rate) >= sum(known) + size
