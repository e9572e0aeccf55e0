"""Arithmetic of bytes, four at a time in a register."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst
from tilewright.ops import math
from tilewright.targets.cuda.emitter import Emitter
from tilewright.targets.cuda.tiles import Tile
from tilewright.targets.cuda.widen import BYTES, FOUR, SIGNS

REST = SIGNS ^ 0xFFFFFFFF
SHIFTS = {math.shl, math.shr}


def goes(inst: Inst, operands: Sequence[Tile]) -> bool:
    """Whether an operation is of bytes that differ, and has a form for four."""
    if inst.op not in FORMS or any(o.dtype not in BYTES for o in operands):
        return False
    if inst.op in SHIFTS and not (operands[1].uniform and 0 < (operands[1].lane.known or 0) < 8):
        return False
    several = operands[0].layout.registers % FOUR == 0
    return several and not all(o.uniform for o in operands)


def four_at_a_time(e: Emitter, inst: Inst, operands: Sequence[Tile]) -> list[Lane]:
    """The results' registers."""
    out, dtype = [], inst.result.type.dtype
    for k in range(0, operands[0].layout.registers, FOUR):
        if inst.op in SHIFTS:
            rest = operands[1].lane.known
        else:
            rest = word_of(e, operands[1], k)
        word = FORMS[inst.op](e, word_of(e, operands[0], k), rest, dtype is t.int8)
        out += [e.from_word(x, dtype) for x in e.unpack(word, 8)]
    return out


def word_of(e: Emitter, x: Tile, first: int) -> Lane:
    """Four registers from one on."""
    if x.uniform and x.lane.known is not None:
        return every(e, x.lane.known & 0xFF)
    return e.pack([e.to_word(lane) for lane in x.lanes[first : first + FOUR]])


def every(e: Emitter, byte: int) -> Lane:
    return e.const(byte * 0x01010101, t.uint32)


def bits(name: str) -> Callable:
    return lambda e, x, y, signed: getattr(e.b, name)(x, y)


def add(e: Emitter, x: Lane, y: Lane, signed: bool) -> Lane:
    """The signs apart, so that nothing is carried into the next byte."""
    b, rest, signs = e.b, e.const(REST, t.uint32), e.const(SIGNS, t.uint32)
    low = b.add(b.bit_and(x, rest), b.bit_and(y, rest))
    return b.bit_xor(low, b.bit_and(b.bit_xor(x, y), signs))


def sub(e: Emitter, x: Lane, y: Lane, signed: bool) -> Lane:
    b, rest, signs = e.b, e.const(REST, t.uint32), e.const(SIGNS, t.uint32)
    low = b.sub(b.bit_or(x, signs), b.bit_and(y, rest))
    return b.bit_xor(low, b.bit_and(b.bit_xor(x, b.bit_not(y)), signs))


def shl(e: Emitter, x: Lane, by: int, signed: bool) -> Lane:
    moved = e.b.shl(x, e.const(by, t.uint32))
    return e.b.bit_and(moved, every(e, 0xFF << by & 0xFF))


def shr(e: Emitter, x: Lane, by: int, signed: bool) -> Lane:
    b = e.b
    moved = b.bit_and(b.shr(x, e.const(by, t.uint32)), every(e, 0xFF >> by))
    if not signed:
        return moved
    signs = b.bit_and(x, e.const(SIGNS, t.uint32))
    above = b.shl(signs, e.const(1, t.uint32))  # less what is moved down: all bits in between
    return b.bit_or(moved, b.sub(above, b.shr(signs, e.const(by - 1, t.uint32))))


FORMS = {
    math.bit_and: bits("bit_and"),
    math.bit_or: bits("bit_or"),
    math.bit_xor: bits("bit_xor"),
    math.add: add,
    math.sub: sub,
    math.shl: shl,
    math.shr: shr,
}
