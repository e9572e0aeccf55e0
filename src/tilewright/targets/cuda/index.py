"""Tests of accesses by their indices: 32 bits are compared, not the 64 of an address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.ops import memory, shape
from tilewright.targets.cuda.memory import Vector
from tilewright.targets.cuda.sums import INT32

if TYPE_CHECKING:
    from tilewright.targets.cuda.guard import Guard

SPREAD = (shape.splat, shape.broadcast, shape.reshape)


def indexed_inside(
    guard: Guard, inst: Inst, param: int, vectors: Sequence[Vector], masks: Sequence[Lane | None]
) -> Lane | None:
    """Whether all that a thread accesses is inside, behind where a tile of pointers begins.

    It may be inside as well where this does not hold. None where addresses are not one pointer,
    moved by a 32-bit number each.
    """
    x, b, pointer = guard.x, guard.e.b, inst.operands[inst.op.access.pointer].inst
    if pointer is None or pointer.op is not memory.offset or not pointer.result.type.shape:
        return None
    base, numbers = source(pointer.operands[0]), pointer.operands[1]
    layout, size = x.access_layout(inst), pointer.result.type.dtype.element_ty.bytes
    if base.type.shape or numbers.type.dtype is not t.int32 or pointer.attrs["bytes"] != size:
        return None
    if x.layout(numbers) != layout and not x.is_at_hand(numbers, layout):
        return None
    held, wrong = x.tile(numbers, layout), None
    room = room_of(guard, param, base, size, len(vectors[0].registers))
    for vector, mask in zip(vectors, masks, strict=True):
        number = b.bitcast(held.lanes[vector.registers[0]], t.uint32)
        outside = guard.e.both(mask, b.ge(number, room))
        wrong = outside if wrong is None else b.bit_or(wrong, outside)
    return b.bit_not(wrong)


def source(value: Value) -> Value:
    """What a tile repeats."""
    while value.inst is not None and value.inst.op in SPREAD:
        value = value.inst.operands[0]
    return value


def room_of(guard: Guard, param: int, base: Value, size: int, count: int) -> Lane:
    """How many places for `count` elements there are from a pointer on; 0 if it is outside."""
    x = guard.x
    own = x.kernel.body.params[param]
    if base is not own:
        return places(guard, param, x.scalar(base), size, count, is_own=False)
    key = param, count
    if key not in guard.places:
        with guard.e.w.once():
            guard.places[key] = places(guard, param, x.scalar(own), size, count, is_own=True)
    return guard.places[key]


def places(guard: Guard, param: int, start: Lane, size: int, count: int, is_own: bool) -> Lane:
    b = guard.e.b
    start = b.bitcast(start, t.int64)
    low, high = (b.bitcast(Lane(f"%{end}{param}", t.uint64), t.int64) for end in ("low", "high"))
    room = b.sub(high, start)
    number = guard.e.plus(b.shr(room, b.const(size.bit_length() - 1, t.int64)), 1 - count)
    number = b.minimum(number, b.const(INT32[1], t.int64))
    number = b.maximum(number, b.const(0, t.int64))
    if not is_own:
        number = b.select(b.ge(start, low), number, b.const(0, t.int64))
    return b.cast(number, t.uint32)
