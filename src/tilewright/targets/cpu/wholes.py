"""Operations that go from buffer to buffer: which rule writes each, and those that only move."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane, suffix
from tilewright.ir import types as t
from tilewright.ir.inst import Inst
from tilewright.ir.types import DType
from tilewright.targets.cpu import scans, sorts
from tilewright.targets.cpu.buffers import Buffer, element
from tilewright.targets.cpu.evaluate import Evaluator
from tilewright.targets.cpu.lane_memory import load_memory
from tilewright.targets.cpu.rows import (
    around,
    at,
    bind_scalar,
    chunks,
    counted,
    flat,
    lanes_for,
    mirrored,
    moved,
    read,
    shuffle,
    shuffle_pair,
    words,
    write,
)

if TYPE_CHECKING:
    from tilewright.targets.cpu.lower import Lowering


def cat(x: Lowering, inst: Inst) -> None:
    """One tile, then the other."""
    e = x.e
    out = words(flat(x.buffer(inst.result)))
    place = 0
    for value in inst.operands:
        source = words(flat(e.buffers[value]))
        size = source.type.size
        with chunks(e, size, lanes_for(x.machine.vector_bytes, size, source)) as c:
            write(e, out, read(e, source, c), moved(e, c, place))
        place += size


def join(x: Lowering, inst: Inst) -> None:
    """Elements of two tiles in turn."""
    e, operands = x.e, inst.operands
    out = words(flat(x.buffer(inst.result)))
    size = operands[0].type.size
    if not operands[0].type.shape:
        for k, value in enumerate(operands):
            write(e, out, as_word(e, e.scalar(value).lane), e.scalar_index(k))
        return
    sources = [words(flat(e.buffers[v])) for v in operands]
    width = lanes_for(x.machine.vector_bytes, size, *sources)
    with chunks(e, size, width) as c:
        first, second = (e.b.cast(read(e, s, c), out.type.dtype) for s in sources)
        start = at(e, double(e, c.base))
        if width == 1:
            write(e, out, first, start)
            write(e, out, second, moved(e, start, 1))
            return
        order = [lane for i in range(width) for lane in (i, width + i)]
        write(e, out, shuffle_pair(e, first, second, order), start)


def as_word(e: Evaluator, lane: Lane) -> Lane:
    return e.b.bitcast(lane, t.int64) if lane.dtype.is_pointer else lane


def double(e: Evaluator, x: Lane) -> Lane:
    return e.const(2 * x.known) if x.known is not None else e.b.shl(x, e.const(1))


def split(x: Lowering, inst: Inst) -> None:
    """Every second element to each of two tiles."""
    e = x.e
    source = words(flat(e.buffers[inst.operands[0]]))
    size = source.type.size
    width = lanes_for(2 * x.machine.vector_bytes, size, source)
    with chunks(e, size, width) as c:
        both = read(e, source, c)
        half = (
            e.const(c.base.known >> 1) if c.base.known is not None else e.b.shr(c.base, e.const(1))
        )
        for k, value in enumerate(inst.results):
            lane = shuffle(e, both, list(range(k, width, 2)))
            if value.type.shape:
                write(e, words(flat(x.buffer(value))), lane, at(e, half))
            else:
                bind_scalar(e, value, lane)


def flip(x: Lowering, inst: Inst) -> None:
    """The rows along the axis, or their elements, in opposite order."""
    e, axis = x.e, inst.attrs["axis"]
    source = words(around(e.buffers[inst.operands[0]], axis))
    out = words(around(x.buffer(inst.result), axis))
    outer, length, inner = source.type.shape
    with counted(e, outer) as o:
        if inner == 1:
            width = lanes_for(x.machine.vector_bytes, length, source)
            with chunks(e, length, width) as c:
                lane = read(e, source, at(e, o), c, e.scalar_index(0))
                lane = shuffle(e, lane, list(reversed(range(width))))
                place = at(e, mirrored(e, c.base, length - width))
                write(e, out, lane, at(e, o), place, e.scalar_index(0))
            return
        width = lanes_for(x.machine.vector_bytes, inner, source)
        with counted(e, length) as i, chunks(e, inner, width) as c:
            lane = read(e, source, at(e, o), at(e, i), c)
            write(e, out, lane, at(e, o), at(e, mirrored(e, i, length - 1)), c)


def gather(x: Lowering, inst: Inst) -> None:
    """Elements by their number along the axis, the nearest one where there is none."""
    e, axis = x.e, inst.attrs["axis"]
    source = words(around(e.buffers[inst.operands[0]], axis))
    index = words(around(e.buffers[inst.operands[1]], axis))
    out = words(around(x.buffer(inst.result), axis))
    outer, length, inner = source.type.shape
    row = index.type.shape[1]
    along = inner == 1
    size = row if along else inner
    width = lanes_for(x.machine.vector_bytes, size, source, index, out)
    with counted(e, outer) as o, counted(e, 1 if along else row) as i, chunks(e, size, width) as c:
        place = (at(e, o), c, e.scalar_index(0)) if along else (at(e, o), at(e, i), c)
        number = clamped(e, read(e, index, *place), length)
        if not along:
            column = e.b.add(e.b.cast(c.base, t.int32), e.b.iota(t.int32, width))
            number = e.b.add(e.b.mul(number, e.b.const(inner, t.int32, width)), column)
        start, _, _ = element(e, source, (at(e, o), e.scalar_index(0), e.scalar_index(0)))
        write(e, out, picked(e, source, start, number), *place)


def clamped(e: Evaluator, number: Lane, length: int) -> Lane:
    """An index as a number from 0 to length - 1."""
    dtype = number.dtype
    if length - 1 < largest(dtype):
        number = e.b.minimum(number, e.b.const(length - 1, dtype, number.width))
    if dtype.is_signed:
        number = e.b.maximum(number, e.b.const(0, dtype, number.width))
    return e.b.cast(number, t.int32)


def largest(dtype: DType) -> int:
    return (1 << dtype.bits - dtype.is_signed) - 1


def picked(e: Evaluator, source: Buffer, start: Lane, number: Lane) -> Lane:
    """Elements of a buffer by their distance from `start`."""
    dtype, width = source.type.dtype, number.width
    places = e.b.offset(start, number)
    if width == 1:
        lane = load_memory(e.b, places, dtype, 1)
    else:
        f = f"llvm.masked.gather.{suffix(dtype, width)}.v{width}p0"
        kind = e.b.const(0, dtype, width).type
        e.b.require(f"declare {kind} @{f}(<{width} x ptr>, <{width} x i1>, {kind})")
        lane = e.b.value(
            f"call {kind} @{f}({places.type} align {dtype.bytes} {places.text}, "
            f"<{width} x i1> splat (i1 true), {kind} poison)",
            dtype,
            width,
        )
    return lane if source.reads_as is None else e.b.cast(lane, source.reads_as)


RULES = {
    "cat": cat,
    "flip": flip,
    "gather": gather,
    "histogram": scans.histogram,
    "join": join,
    "scan": scans.scan,
    "sort": sorts.sort,
    "split": split,
}
