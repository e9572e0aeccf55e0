"""Loops over tiles that lie in buffers, seen as outer x row x inner."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from math import prod

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Value
from tilewright.ir.types import Type
from tilewright.targets.cpu.buffers import Buffer, element, read_buffer
from tilewright.targets.cpu.evaluate import Evaluator, Row
from tilewright.targets.cpu.forms import Index, Uniform
from tilewright.targets.cpu.lane_memory import write_memory
from tilewright.targets.cpu.loops import Loop


def shaped(buffer: Buffer, *shape: int) -> Buffer:
    """The same memory in another shape."""
    return Buffer(buffer.name, buffer.type.with_shape(shape), buffer.reads_as)


def flat(buffer: Buffer) -> Buffer:
    return shaped(buffer, buffer.type.size)


def around(buffer: Buffer, axis: int) -> Buffer:
    """The tile as (outer, row, inner), where the row is the dimension `axis`."""
    shape = buffer.type.shape
    return shaped(buffer, prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))


def words(buffer: Buffer) -> Buffer:
    """The memory as what moves fastest: bytes for booleans, integers for pointers."""
    dtype = buffer.type.dtype
    held = t.uint8 if dtype is t.int1 else t.int64 if dtype.is_pointer else dtype
    return Buffer(buffer.name, buffer.type.with_dtype(held), buffer.reads_as)


def lanes_for(vector_bytes: int, size: int, *buffers: Buffer) -> int:
    """How many elements to take at once of `size` in a row, by the widest dtype."""
    widest = max(b.type.dtype.bytes for b in buffers)
    return min(size, max(1, vector_bytes // widest))


@contextlib.contextmanager
def counted(e: Evaluator, count: int, step: int = 1) -> Iterator[Lane]:
    """A loop over 0, step, ... below `count`; no loop for one turn."""
    if count <= step:
        yield e.const(0)
        return
    loop = Loop(e.w, "0", str(count), str(step))
    yield Lane(loop.open(), t.int64)
    e.forget(loop.close())


@contextlib.contextmanager
def chunks(e: Evaluator, size: int, width: int) -> Iterator[Index]:
    """The chunks of a row, one vector each."""
    before, e.row = e.row, Row(width, size, e.w.at)
    with counted(e, size, width) as start:
        yield Index(start, e.w.at, vector=True)
    e.row = before


def at(e: Evaluator, base: Lane) -> Index:
    """One position of a dimension."""
    return Index(base, e.w.at)


def moved(e: Evaluator, index: Index, by: int) -> Index:
    """An index so many elements further."""
    if not by:
        return index
    base = index.base
    lane = e.const(base.known + by) if base.known is not None else e.b.add(base, e.const(by))
    return Index(lane, index.depth, index.vector)


def mirrored(e: Evaluator, base: Lane, last: int) -> Lane:
    """`last - base`."""
    return e.const(last - base.known) if base.known is not None else e.b.sub(e.const(last), base)


def read(e: Evaluator, buffer: Buffer, *index: Index) -> Lane:
    return e.lanes_of(read_buffer(e, buffer, index))


def write(e: Evaluator, buffer: Buffer, lane: Lane, *index: Index) -> None:
    """Store lanes at an index; the vector dimension takes as many as there are."""
    address, step, _ = element(e, buffer, index)
    lane = lane if buffer.type.dtype.is_pointer else e.b.cast(lane, buffer.type.dtype)
    write_memory(e.b, address, lane, step or 1)


def bind_scalar(e: Evaluator, value: Value, lane: Lane) -> None:
    """What a result without dimensions is."""
    lane = e.b.bitcast(lane, value.type.dtype) if value.type.dtype.is_pointer else lane
    e.bind(value, (), Uniform(e.b.cast(lane, value.type.dtype), e.w.at))


def shuffle(e: Evaluator, lane: Lane, order: list[int]) -> Lane:
    """Lanes of a vector in another order; one lane gives a scalar."""
    if len(order) == 1:
        return e.b.extract(lane, order[0])
    return shuffle_pair(e, lane, Lane("poison", lane.dtype, lane.width), order)


def shuffle_pair(e: Evaluator, x: Lane, y: Lane, order: list[int]) -> Lane:
    """Lanes of two vectors, those of the second numbered after those of the first."""
    mask = ", ".join(f"i32 {i}" for i in order)
    return e.b.value(
        f"shufflevector {x.typed}, {y.typed}, <{len(order)} x i32> <{mask}>", x.dtype, len(order)
    )


def filled(e: Evaluator, type: Type, name: str, value: int, width: int) -> None:
    """Write one number to every element of a buffer."""
    buffer = Buffer(name, type.with_shape((type.size,)))
    with chunks(e, type.size, width) as c:
        write(e, buffer, e.b.const(value, type.dtype, width), c)
