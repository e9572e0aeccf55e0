"""Tests of many turns' accesses at addresses that no scalar tells: each thread looks at its own.

Rows that are chosen by an index stay the same while a loop runs along them. Before the loop each
thread compares what it accesses in the first and in the last turn with the ends of the argument,
and all threads find out whether that is fine for everyone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.ops import math, memory, shape
from tilewright.targets.cuda.memory import Place
from tilewright.targets.cuda.sums import Sum, fixed

if TYPE_CHECKING:
    from tilewright.targets.cuda.turns import Turns

MOST = 32  # vectors of a thread that are looked at


def inside(turns: Turns, load: Inst) -> Lane | None:
    """Whether a load lies inside in all these turns; None where its addresses do not just move."""
    x, e, b = turns.x, turns.x.e, turns.b
    turns.reach.begin()
    stays, far = apart(turns, load.operands[0])
    if far is None:
        return None
    layout, param = x.access_layout(load), x.memory.param(load)
    accesses = x.assigned.vectors(load)
    if len(accesses) > MOST:
        return None
    places = x.memory.places(stays, x.tile(stays, layout))
    masks = [
        x.tile(mask, layout).lanes
        for mask in (conjuncts(load.operands[1]) if len(load.operands) > 1 else ())
        if mask in x.tiles
    ]
    first, last = (turns.reach.emit(far.end(is_last)) for is_last in (False, True))
    span = b.sub(last, first)
    size = load.result.type.dtype.bytes
    wrong = None
    for registers in accesses:
        place = places[registers[0]]
        pointer = b.add(b.bitcast(place.pointer, t.uint64), b.bitcast(first, t.uint64))
        ends = [pointer, b.add(pointer, b.bitcast(span, t.uint64))]
        fine = None
        for end in ends:
            at = Place(end, place.bytes)
            fine = e.both(fine, x.guard.inside(param, at, size * len(registers)))
        outside = b.bit_not(fine)
        for lanes in masks:
            outside = e.both(outside, lanes[registers[0]])
        wrong = outside if wrong is None else b.bit_or(wrong, outside)
    return turns.reach.told(e.all_agree(b.bit_not(wrong)))


def apart(turns: Turns, pointer: Value) -> tuple[Value, Sum | None]:
    """The tile from outside of the loop that addresses are a distance from; None: of no such."""
    far = fixed(0)
    while pointer not in turns.x.tiles:
        inst = pointer.inst
        if inst is None or inst.op is not memory.offset:
            return pointer, None
        pointer, moved = inst.operands
        if moved.inst is None or moved.inst.op is not shape.splat:
            return pointer, None
        step = turns.reach.scalar(moved.inst.operands[0])
        if step is None:
            return pointer, None
        far = far.plus(step.times(inst.attrs["bytes"]))
    return pointer, far


def conjuncts(mask: Value) -> Iterator[Value]:
    """Conditions that all hold where a mask is on."""
    inst = mask.inst
    if inst is not None and inst.op is math.bit_and:
        for part in inst.operands:
            yield from conjuncts(part)
    else:
        yield mask
