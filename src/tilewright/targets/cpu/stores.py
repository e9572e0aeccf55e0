"""Stores of tiles, chunk by chunk."""

from __future__ import annotations

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst
from tilewright.targets.cpu.bounds import place_of
from tilewright.targets.cpu.branches import where
from tilewright.targets.cpu.forms import Index
from tilewright.targets.cpu.lane_memory import (
    load_memory,
    masked_store,
    scatter,
    spaced_store,
    write_memory,
)
from tilewright.targets.cpu.memory import Access, Memory


def store(m: Memory, inst: Inst, index: tuple[Index, ...]) -> None:
    """Store the lanes of one chunk."""
    e, b = m.e, m.e.b
    a = m.access(inst, index)
    if m.holds(inst, index, a.mask):
        a.mask = e.true
    if a.is_off:
        return
    lane = b.splat(e.lanes_of(e.eval(inst.operands[1], index)), e.row.width)
    if a.dtype is t.int1:
        lane = b.cast(lane, t.uint8)
    a.mask = m.covered(a.mask, index)
    if a.all_or_none and e.row.start is not None:
        condition, a.mask = a.mask.lane, e.true
        with where(e.w, condition), e.one_way():
            store_lanes(m, inst, index, a, lane)
        return
    store_lanes(m, inst, index, a, lane)


def store_lanes(m: Memory, inst: Inst, index: tuple[Index, ...], a: Access, lane: Lane) -> None:
    m.check_chunk(inst, index, a)
    if m.checks is None:
        put(m, inst, index, a, lane)
        return
    mask = m.e.b.splat(m.e.lanes_of(a.mask), lane.width)
    m.checks.stored(inst, a, mask, lane)
    put(m, inst, index, a, lane)
    if inst in m.checks.folding:
        m.checks.after_store(inst, a, mask, lane)


def put(m: Memory, inst: Inst, index: tuple[Index, ...], a: Access, lane: Lane) -> None:
    """Write the lanes of one chunk."""
    e, b, width = m.e, m.e.b, m.e.row.width
    if a.unmasked and width == 1:
        place = e.lanes_of(a.pointer)
        e.w.write(f"store {lane.typed}, ptr {place.text}, align {a.size}")
        return
    if a.unmasked and a.contiguous:
        m.streams.store(m, (inst, tuple(e.whole_index(i).key for i in index)), a, lane)
        return
    if a.unmasked and m.is_spaced(a) and (a.pointer.stride < 0 or stores_parts(m, a.size)):
        spaced_store(b, a.pointer.base, a.pointer.stride, lane)
        return
    if a.unmasked and b.target == "x86":
        store_each(m, inst, index, a, lane)
        return
    store_masked(m, inst, index, a, lane, b.splat(e.lanes_of(a.mask), width))


def store_each(m: Memory, inst: Inst, index: tuple[Index, ...], a: Access, lane: Lane) -> None:
    """One element to each place, in lane order: scatters of x86 take more steps than that.

    The elements come by way of memory, as registers that are taken apart take more steps too; the
    places do not, so that the stores need not wait for it.
    """
    e, b, places = m.e, m.e.b, m.places(inst, index, a)
    numbers = m.addresses(inst, index, a) if places is None else places.index
    room = Lane(e.w.alloca(b.const(0, lane.dtype).type, lane.width), t.pointer_to(lane.dtype))
    write_memory(b, room, lane)
    for i in range(lane.width):
        one = load_memory(b, b.offset(room, b.const(i, t.int64)), lane.dtype, 1)
        number = b.extract(numbers, i)
        place = number if places is None else b.offset(places.base, number)
        b.write(f"store {one.typed}, ptr {place.text}, align {a.size}")


def stores_parts(m: Memory, size: int) -> bool:
    """Whether the machine has masked stores of elements of a size."""
    return ("avx512f" if size >= 4 else "avx512bw") in m.e.b.features


def store_masked(
    m: Memory, inst: Inst, index: tuple[Index, ...], a: Access, lane: Lane, mask: Lane
) -> None:
    e, b = m.e, m.e.b
    if mask.width == 1:
        place = e.lanes_of(a.pointer)
        with where(e.w, mask):
            e.w.write(f"store {lane.typed}, ptr {place.text}, align {a.size}")
        return
    if a.contiguous:
        masked_store(b, place_of(m, a), mask, lane, a.size)
    else:
        scatter(b, m.addresses(inst, index, a), mask, lane, a.size)
