"""Loads at quotients and remainders of positions: whole vectors of neighbours, put in order.

The lanes of a chunk of `i // n` are at most as far apart as the lanes themselves; so are those of
`i % n` for small n. A vector read from the first of them on holds all that they read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.targets.cpu.bounds import Places, any_lane, span
from tilewright.targets.cpu.branches import meet
from tilewright.targets.cpu.forms import Index, Steps, Uniform
from tilewright.targets.cpu.lane_memory import masked_load
from tilewright.targets.cpu.pieces import QUOTIENTS, is_usual
from tilewright.targets.cpu.shapes import operand_index

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilewright.targets.cpu.memory import Access, Memory

# By bytes of an element and lanes: what puts a vector in order, and the numbers that it takes.
PERMUTES = {
    (4, 16): ("avx512f", "llvm.x86.avx512.permvar.{}.512", t.int32),
    (8, 8): ("avx512f", "llvm.x86.avx512.permvar.{}.512", t.int64),
    (4, 8): ("avx2", "llvm.x86.avx2.{}", t.int32),
}
NAMES = {(4, 16): ("si", "sf"), (8, 8): ("di", "df"), (4, 8): ("permd", "permps")}
WORD = 4  # bytes of the smallest elements that a vector is put in order of
MOVED = frozenset({"cast", "broadcast", "reshape", "hint"})


@dataclass(frozen=True, slots=True)
class Near:
    """Places of which all lanes lie in one vector from `first` on, if that holds."""

    places: Places
    first: Lane
    holds: Lane


def find_near(m: Memory, inst: Inst, index: tuple[Index, ...], a: Access) -> Near | None:
    """The places of a load, if they lie near each other, and the machine can use that."""
    e, b = m.e, m.e.b
    key = (max(a.size, WORD), e.row.width)
    if key not in PERMUTES or m.counters is not None or not m.takes_near or b.target != "x86":
        return None
    if a.size < WORD and ("avx512bw" not in b.features or a.dtype is t.int1):
        return None
    if PERMUTES[key][0] not in b.features or m.param(inst) is None:
        return None
    places = m.places(inst, index, a)
    if places is None:
        return None
    value, place = inst.operands[0].inst.operands[1], tuple(e.whole_index(i) for i in index)
    while value.inst is not None and value.inst.op.name in MOVED and value not in e.buffers:
        place = operand_index(e, value.inst, place)
        value = value.inst.operands[0]
    if value.inst is None or value.inst.op.name not in QUOTIENTS or value in e.buffers:
        return None
    return near_quotient(m, value, place, places)


def near_quotient(m: Memory, value: Value, place: tuple[Index, ...], places: Places) -> Near | None:
    e, b = m.e, m.e.b
    with e.w.outside(e.row.depth):
        x, n = (e.eval(v, place) for v in value.inst.operands)
        if not isinstance(x, Steps) or not isinstance(n, Uniform) or x.dtype.bits != 32:
            return None
        if not isinstance(x.stride, int) or x.stride < 1 or not x.dtype.is_signed:
            return None
        holds = is_usual(e, x.base, n.lane, x.stride)
        if value.inst.op.name == "irem":
            holds = b.bit_and(holds, b.le(n.lane, b.like(n.lane, e.row.width)))
    is_quotient = value.inst.op.name == "idiv"
    first = b.extract(places.index, 0) if is_quotient else b.const(0, places.index.dtype)
    return Near(places, first, holds)


def load_near(
    m: Memory, inst: Inst, a: Access, near: Near, passing: Lane, otherwise: Callable[[], Lane]
) -> Lane:
    """The lanes that are on, from one vector if they lie in it and in their argument."""
    e, b, w = m.e, m.e.b, m.e.w
    index, width = near.places.index, e.row.width
    low, high = span(m, m.extent(m.param(inst)), a.size)
    place = b.offset(near.places.base, near.first, passing.dtype)
    start = b.bitcast(place, t.int64)
    shift = e.const(a.size.bit_length() - 1)
    last = b.minimum(b.shr(b.sub(high, start), shift), e.const(width - 1))
    last = b.cast(last, t.int32)
    by = b.cast(b.sub(index, near.first), t.int32)
    mask = b.splat(e.lanes_of(a.mask), width)
    bad = b.bit_and(b.gt(b.bitcast(by, t.uint32), b.bitcast(last, t.uint32)), mask)
    starts_inside = b.bit_and(b.ge(start, low), b.le(start, high))
    holds = b.bit_and(b.bit_and(near.holds, starts_inside), b.bit_not(any_lane(b, bad)))
    labels = [w.new_label(stem) for stem in ("near", "far", "loaded")]
    w.write(f"br i1 {holds.text}, label %{labels[0]}, label %{labels[1]}")
    w.label(labels[0])
    inside = b.le(b.iota(t.int32, width), last)
    kind = passing.dtype
    row = masked_load(b, place, inside, b.const(0, kind, width), a.size)
    one = b.select(mask, ordered(b, row, by), passing)
    ends = [(one, w.here)]
    w.write(f"br label %{labels[2]}")
    w.label(labels[1])
    with e.one_way():
        ends.append((otherwise(), w.here))
    w.write(f"br label %{labels[2]}")
    w.label(labels[2])
    return meet(b, *ends)


def ordered(b: Lanes, row: Lane, by: Lane) -> Lane:
    """The lanes of a vector by number, small ones as words."""
    if row.dtype.bytes < WORD:
        held = t.uint8 if row.dtype.bytes == 1 else t.uint16
        words = ordered(b, b.cast(b.bitcast(row, held), t.uint32), by)
        return b.bitcast(b.cast(words, held), row.dtype)
    key = (row.dtype.bytes, row.width)
    _, base, number = PERMUTES[key]
    name = base.format(NAMES[key][row.dtype.is_float])
    by = b.cast(by, number)
    b.require(f"declare {row.type} @{name}({row.type}, {by.type})")
    return b.value(f"call {row.type} @{name}({row.typed}, {by.typed})", row.dtype, row.width)
