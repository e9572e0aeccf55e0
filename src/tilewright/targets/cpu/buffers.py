"""Tiles kept in scratch memory: where an element lies, reading and writing chunks of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.types import DType, Type
from tilewright.targets.cpu.forms import Form, Index, Uniform, Vector
from tilewright.targets.cpu.lane_memory import (
    load_memory,
    masked_load,
    masked_store,
    strided,
    write_memory,
)

if TYPE_CHECKING:
    from tilewright.targets.cpu.evaluate import Evaluator


@dataclass(eq=False, slots=True)
class Buffer:
    """Scratch memory that holds a kept tile, row-major; `int1` takes a byte.

    It may hold the numbers in a wider dtype than the one that readers get.
    """

    name: str
    type: Type
    reads_as: DType | None = None

    @property
    def steps(self) -> tuple[int, ...]:
        out, step = [], 1
        for n in reversed(self.type.shape):
            out.append(step)
            step *= n
        return tuple(reversed(out))


def element(e: Evaluator, buffer: Buffer, index: tuple[Index, ...]) -> tuple[Lane, int, bool]:
    """The address of a buffer's element at the lanes' first index, the lanes' step, vector?"""
    offset: Lane | None = None
    step, vector, beyond = 0, False, 0
    for i, stride in zip(index, buffer.steps, strict=True):
        if i.vector:
            vector, step = True, stride
        if i.base.known == 0:
            continue
        base, count = e.later.get(i.base.text, (i.base, 0))
        beyond += count * stride
        part = base if stride == 1 else e.b.mul(base, e.const(stride))
        offset = part if offset is None else e.b.add(offset, part)
    address = Lane(buffer.name, t.pointer_to(buffer.type.dtype), 1)
    if offset is not None:
        address = e.b.offset(address, offset)
    return e.b.offset(address, e.const(beyond)), step, vector


def read_buffer(e: Evaluator, buffer: Buffer, index: tuple[Index, ...]) -> Form:
    """What a kept tile holds; nothing is known of a whole row."""
    if any(i.whole for i in index):
        return tail_of(e, buffer, index)
    form = read_raw(e, buffer, index)
    if buffer.reads_as is None:
        return form
    lane = e.b.cast(form.lane, buffer.reads_as)
    return Vector(lane, form.depth) if isinstance(form, Vector) else Uniform(lane, form.depth)


def tail_of(e: Evaluator, buffer: Buffer, index: tuple[Index, ...]) -> Form:
    """The one number of a kept tile beyond the limit of its masks."""
    tail = e.tails.get(buffer.name)
    beyond = tail is not None and index[tail.axis].off
    if not beyond or tail.limit.text != e.row.off_limit:
        return None
    return Uniform(tail.value, e.w.at)


def read_raw(e: Evaluator, buffer: Buffer, index: tuple[Index, ...]) -> Form:
    """What the memory of a kept tile holds, in the dtype of the memory."""
    depth = e.w.at
    if buffer.type.dtype.is_pointer:
        return read_pointer_buffer(e, buffer, index)
    copy = e.turned.get(buffer.name)
    if copy is not None and copy.type.shape == buffer.type.shape[::-1] and index[0].vector:
        buffer, index = copy, (index[1], index[0])
    address, step, vector = element(e, buffer, index)
    if not vector or e.row.width == 1:
        return Uniform(load_memory(e.b, address, buffer.type.dtype, 1), depth)
    if step == 1:
        return Vector(load_row(e, address, buffer.type.dtype, index), depth)
    return Vector(strided(e.b, address, buffer.type.dtype, step, e.row.width), depth)


def load_row(e: Evaluator, address: Lane, dtype: DType, index: tuple[Index, ...]) -> Lane:
    """A chunk of a kept tile whose rows lie in a line."""
    width, cover = e.row.width, e.cover(index)
    if cover is None:
        return load_memory(e.b, address, dtype, width, aligned=e.row.start is None)
    memory = t.uint8 if dtype is t.int1 else dtype
    mask, nothing = e.prefix_lanes(cover), e.b.const(0, memory, width)
    lane = masked_load(e.b, address, mask, nothing, memory.bytes)
    return e.b.ne(lane, nothing) if dtype is t.int1 else lane


def read_pointer_buffer(e: Evaluator, buffer: Buffer, index: tuple[Index, ...]) -> Form:
    words = Buffer(buffer.name, buffer.type.with_dtype(t.int64))
    form = read_raw(e, words, index)
    lane = e.b.bitcast(e.lanes_of(form), buffer.type.dtype)
    return Vector(lane, form.depth) if lane.width > 1 else Uniform(lane, form.depth)


def write_buffer(e: Evaluator, buffer: Buffer, index: tuple[Index, ...], form: Form) -> None:
    lane = e.lanes_of(form)
    if not buffer.type.dtype.is_pointer:
        lane = e.b.cast(lane, buffer.type.dtype)
    address, step, vector = element(e, buffer, index)
    if vector:
        lane = e.b.splat(lane, e.row.width)
    cover = e.cover(index) if vector else None
    if cover is None:
        write_memory(e.b, address, lane, step, aligned=e.row.start is None)
        return
    lane = e.b.cast(lane, t.uint8) if lane.dtype is t.int1 else lane
    masked_store(e.b, address, e.prefix_lanes(cover), lane, lane.dtype.bytes)
