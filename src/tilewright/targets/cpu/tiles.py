"""Tiles of short rows: what holds in all of a tile is asked once, not for each of its rows.

A row of a few chunks takes longer to test than to move. Where every mask of a tile is on and its
accesses lie inside their arguments, which its corners tell, its rows do nothing but move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.passes.affine import COMPARISONS
from tilewright.targets.cpu.ahead import FAR
from tilewright.targets.cpu.bounds import FEWEST_ROWS, Sure, outside
from tilewright.targets.cpu.cone import accesses
from tilewright.targets.cpu.evaluate import Evaluator, Row
from tilewright.targets.cpu.forms import Index, Steps, Uniform
from tilewright.targets.cpu.pieces import divides
from tilewright.targets.cpu.reductions import UNROLL
from tilewright.targets.cpu.shapes import operand_index

if TYPE_CHECKING:
    from tilewright.targets.cpu.nest import NestWriter
    from tilewright.targets.cpu.schedule import Nest

LONGEST = 8  # chunks of a row: longer ones hide their tests
MOST_STEPS = 32  # of a row, or of the chunks that are written out: more take longer than tests do
SAME_PLACE = frozenset({"broadcast", "reshape", "permute", "splat"})

Place = tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """The least and the greatest number of a tile, if `straight`: if none of it wrapped around."""

    low: Lane
    high: Lane
    straight: Lane


@dataclass(slots=True)
class TileLook:
    """Finds the masks that are on in all of a tile and its accesses that lie inside it."""

    nests: NestWriter
    sizes: dict[int, int]  # of the loops: by the `id` of the index of their first turn
    found: Sure = field(default_factory=Sure)
    tests: dict[str, Lane] = field(default_factory=dict)  # that must hold for that

    def note(self, *tests: Lane) -> None:
        self.tests |= {test.text: test for test in tests if test.text != "true"}

    def access(self, inst: Inst, place: Place) -> bool:
        """Whether a load or store has no mask that may be off; notes whether it lies inside."""
        e, m, b, pointer = self.nests.e, self.nests.memory, self.nests.b, inst.operands[0]
        mask, param, found = m.mask_of(inst), m.param(inst), self.found
        if mask is not None and not self.is_on(mask, place):
            return False
        if mask is not None:
            found.masks.add(mask)
        if param is None:
            return True
        own = m.extent(param)
        with e.w.outside(0):
            self.note(b.lt(b.sub(own.high, own.low), e.const(FAR)))
        span = self.span(pointer, place) if m.bounds else None
        if span is None:
            return inst not in found.inside
        bad = outside(m, own, span.low, span.high, pointer.type.dtype.element_ty.bytes, None)
        self.note(span.straight, b.bit_not(bad))
        found.inside.add(inst)
        return True

    def is_on(self, mask: Value, place: Place) -> bool:
        """Notes what must hold for a mask to be on everywhere, if that is known."""
        e, b, inst = self.nests.e, self.nests.b, mask.inst
        if not mask.type.shape:
            self.note(e.scalar(mask).lane)
            return True
        if inst is None or mask in e.buffers:
            return False
        name, operands = inst.op.name, inst.operands
        if name == "constant":
            return bool(inst.attrs["value"])
        if name in SAME_PLACE:
            return self.is_on(operands[0], operand_index(e, inst, place))
        if name == "bit_and":
            return all(self.is_on(x, place) for x in operands)
        dtype = operands[0].type.dtype if operands else mask.type.dtype
        if name not in COMPARISONS or not dtype.is_integer or not dtype.is_signed:
            return False
        spans = [self.span(x, place) for x in operands]
        if None in spans:
            return False
        (x, y) = spans if name in ("lt", "le") else spans[::-1]
        test = b.lt if name in ("lt", "gt") else b.le
        self.note(x.straight, y.straight, test(x.high, y.low))
        return True

    def span(self, value: Value, place: Place) -> Span | None:
        """Between which numbers an affine tile lies, found from its corners."""
        e, b, m = self.nests.e, self.nests.b, self.nests.memory
        form = e.eval(value, place) if m.affine.is_affine(value) else None
        if not isinstance(form, (Steps, Uniform)):
            return None
        start = number(e, form)
        far = e.const(0)
        if isinstance(form, Steps):
            last = e.const(e.row.length - 1)
            step = form.stride if isinstance(form.stride, Lane) else e.const(form.stride)
            far = b.mul(step, last)
        low, high = widened(b, start, start, far)
        straight = e.true.lane
        for d, i in enumerate(place):
            n = self.sizes.get(id(i), 1)
            if n == 1:
                continue
            second, last = (self.moved(value, place, d, k, start) for k in (1, n - 1))
            straight = b.bit_and(straight, b.eq(b.mul(second, e.const(n - 1)), last))
            low, high = widened(b, low, high, last)
        return Span(low, high, straight)

    def moved(self, value: Value, place: Place, dim: int, by: int, start: Lane) -> Lane:
        """How far an element lies from the first one."""
        e, there = self.nests.e, list(place)
        there[dim] = e.scalar_index(by)
        return self.nests.b.sub(number(e, e.eval(value, tuple(there))), start)


def number(e: Evaluator, form: Steps | Uniform) -> Lane:
    """The first element of a form, as 64 bits."""
    lane = form.base if isinstance(form, Steps) else form.lane
    return e.b.bitcast(lane, t.int64) if lane.dtype.is_pointer else e.b.cast(lane, t.int64)


def widened(b: Lanes, low: Lane, high: Lane, by: Lane) -> tuple[Lane, Lane]:
    """A span that also holds what lies so far from its elements."""
    nothing = b.const(0, t.int64)
    if by.known is not None:
        return (b.add(low, by), high) if by.known < 0 else (low, b.add(high, by))
    return b.add(low, b.minimum(by, nothing)), b.add(high, b.maximum(by, nothing))


def both(e: Evaluator, tests: Iterable[Lane]) -> Lane:
    """Whether all tests hold."""
    out = e.true.lane
    for test in tests:
        out = test if out.text == "true" else e.b.bit_and(out, test)
    return out


def look_at_tile(nests: NestWriter, nest: Nest) -> TileLook | None:
    """What may hold in a whole tile, where it pays to ask."""
    e, m, shape = nests.e, nests.memory, nest.shape
    width = nests.lanes_of_chunk(nest)
    loops = [d for d, n in enumerate(shape) if d != nest.axis and n > 1]
    chunks = shape[nest.axis] // width
    if m.counters is not None or m.checks is not None or nest.rare:
        return None
    if prod(shape[d] for d in loops) < FEWEST_ROWS or chunks > LONGEST:
        return None
    if nests.steps() * min(chunks, UNROLL) > MOST_STEPS:
        return None
    if divides(e, nest.anchors):
        return None
    place = tuple(e.row_index() if d == nest.axis else e.scalar_index(0) for d in range(len(shape)))
    look = TileLook(nests, {id(place[d]): shape[d] for d in loops})
    e.row = Row(width, shape[nest.axis], e.w.at)
    all_on = all(look.access(inst, at) for inst, at in accesses(e, nest.anchors, place))
    e.row = Row()
    return look if all_on and look.tests else None


def write_twice(nests: NestWriter, look: TileLook, write: Callable[[], None]) -> None:
    """Write a tile as it is where all of that holds, and with tests of each row."""
    w, holds = nests.w, both(nests.e, look.tests.values())
    labels = [w.new_label(stem) for stem in ("sure", "tested", "tile")]
    scopes = []
    for label, sure in zip(labels, (look.found, None), strict=False):
        nests.memory.sure = sure
        w.open(label)
        write()
        w.write(f"br label %{labels[2]}")
        scopes.append(w.close())
        nests.e.forget(scopes[-1].memo)
    # Only now: what both need from outside comes before.
    w.write(f"br i1 {holds.text}, label %{labels[0]}, label %{labels[1]}")
    for label, scope in zip(labels, scopes, strict=False):
        w.label(label)
        w.take(scope)
    w.label(labels[2])
