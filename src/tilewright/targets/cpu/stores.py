"""Stores of tiles, chunk by chunk."""

from __future__ import annotations

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst
from tilewright.ir.types import DType
from tilewright.targets.cpu.branches import where
from tilewright.targets.cpu.forms import Index
from tilewright.targets.cpu.lane_memory import masked_store, scatter, spaced_store, store_each
from tilewright.targets.cpu.memory import Access, Memory


def store(m: Memory, inst: Inst, index: tuple[Index, ...]) -> None:
    """Store the lanes of one chunk."""
    e, b = m.e, m.e.b
    a = m.access(inst, index)
    if m.holds(inst, index, a.mask):
        a.mask = e.true
    value = e.eval(inst.operands[1], index)
    a.mask = m.covered(a.mask, index)
    m.check_chunk(inst, index, a)
    memory = t.uint8 if a.dtype is t.int1 else a.dtype
    width = e.row.width
    lane = b.splat(e.lanes_of(value), width)
    if a.dtype is t.int1:
        lane = b.cast(lane, memory)
    contiguous = a.contiguous
    if a.unmasked and (contiguous or width == 1):
        place = e.lanes_of(a.pointer) if width == 1 else a.pointer.base
        e.w.write(f"store {lane.typed}, ptr {place.text}, align {a.size}")
        return
    if a.unmasked and m.is_spaced(a) and (a.pointer.stride < 0 or stores_parts(m, a.size)):
        spaced_store(b, a.pointer.base, a.pointer.stride, lane)
        return
    if a.unmasked and b.target == "x86":
        store_each(b, b.splat(e.lanes_of(a.pointer), width), lane)
        return
    store_masked(m, a, lane, b.splat(e.lanes_of(a.mask), width), memory, contiguous)


def stores_parts(m: Memory, size: int) -> bool:
    """Whether the machine has masked stores of elements of a size."""
    return ("avx512f" if size >= 4 else "avx512bw") in m.e.b.features


def store_masked(
    m: Memory, a: Access, lane: Lane, mask: Lane, memory: DType, contiguous: bool
) -> None:
    e, b = m.e, m.e.b
    if mask.width == 1:
        place = e.lanes_of(a.pointer)
        with where(e.w, mask):
            e.w.write(f"store {lane.typed}, ptr {place.text}, align {a.size}")
        return
    if contiguous:
        masked_store(b, a.pointer.base, mask, lane, a.size)
    else:
        scatter(b, b.splat(e.lanes_of(a.pointer), mask.width), mask, lane, a.size)
