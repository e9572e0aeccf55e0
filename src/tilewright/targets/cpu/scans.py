"""Running combinations along an axis, and counting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst
from tilewright.ir.types import DType
from tilewright.targets.cpu.forms import Index
from tilewright.targets.cpu.loops import Loop
from tilewright.targets.cpu.regions import combined
from tilewright.targets.cpu.rows import (
    around,
    at,
    chunks,
    counted,
    filled,
    lanes_for,
    mirrored,
    read,
    write,
)

if TYPE_CHECKING:
    from tilewright.targets.cpu.lower import Lowering


def scan(x: Lowering, inst: Inst) -> None:
    """Element after element along the axis, in vectors over what lies side by side."""
    e, axis = x.e, inst.attrs["axis"]
    sources = [around(e.buffers[v], axis) for v in inst.operands]
    outer, _, inner = sources[0].type.shape
    width = lanes_for(x.machine.vector_bytes, inner, *sources)
    with counted(e, outer) as o, chunks(e, inner, width) as c:
        scan_row(x, inst, at(e, o), c)


def scan_row(x: Lowering, inst: Inst, o: Index, c: Index) -> None:
    """One row along the axis, or as many as the vector has lanes."""
    e, axis = x.e, inst.attrs["axis"]
    sources = [around(e.buffers[v], axis) for v in inst.operands]
    outs = [around(x.buffer(r), axis) for r in inst.results]
    dtypes = [running_dtype(inst, v.type.dtype) for v in inst.operands]
    last = sources[0].type.shape[1] - 1

    def position(i: Lane) -> Index:
        return at(e, mirrored(e, i, last) if inst.attrs.get("reverse") else i)

    def values(i: Index) -> list[Lane]:
        return [e.b.cast(read(e, s, o, i, c), d) for s, d in zip(sources, dtypes, strict=True)]

    def put(lanes: list[Lane], i: Index) -> None:
        for out, lane in zip(outs, lanes, strict=True):
            write(e, out, lane, o, i, c)

    first = position(e.const(0))
    running = values(first)
    put(running, first)
    if not last:
        return
    loop = Loop(e.w, "1", str(last + 1), "1")
    carried = [loop.carry(lane) for lane in running]
    here = position(Lane(loop.open(), t.int64))
    new = combined(e, inst, [entry.phi for entry in carried], values(here))
    for entry, lane in zip(carried, new, strict=True):
        entry.next = e.b.splat(lane, entry.phi.width)
    put([entry.next for entry in carried], here)
    e.forget(loop.close())


def running_dtype(inst: Inst, dtype: DType) -> DType:
    """Sums and products of 16-bit floats run in fp32 and are rounded where they are written."""
    narrow = dtype in (t.float16, t.bfloat16) and inst.attrs.get("combine") in ("add", "mul")
    return t.float32 if narrow else dtype


def histogram(x: Lowering, inst: Inst) -> None:
    """Count element after element; what is not counted adds 0 to the first bin."""
    e, b = x.e, x.e.b
    out, bins = x.buffer(inst.result), inst.attrs.get("bins", 1)
    filled(e, out.type, out.name, 0, lanes_for(x.machine.vector_bytes, bins, out))
    source = e.buffers[inst.operands[0]]
    with counted(e, source.type.size) as i:
        number = b.bitcast(b.cast(read(e, source, at(e, i)), t.int64), t.uint64)
        counts = b.lt(number, b.const(bins, t.uint64))
        if len(inst.operands) > 1:
            counts = b.bit_and(counts, read(e, e.buffers[inst.operands[1]], at(e, i)))
        slot = at(e, b.bitcast(b.select(counts, number, b.const(0, t.uint64)), t.int64))
        write(e, out, b.add(read(e, out, slot), b.cast(counts, t.int32)), slot)
