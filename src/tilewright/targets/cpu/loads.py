"""Loads of tiles: of one element, of one that a whole row reads, and of the lanes of a chunk."""

from __future__ import annotations

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.ir.types import DType
from tilewright.targets.cpu.bounds import check_one, place_of
from tilewright.targets.cpu.branches import either, value_where
from tilewright.targets.cpu.forms import Form, Index, Prefix, Uniform, Vector
from tilewright.targets.cpu.lane_memory import gather, load_memory, masked_load, spaced_load
from tilewright.targets.cpu.memory import Access, Memory
from tilewright.targets.cpu.near import find_near, load_near


def load(m: Memory, inst: Inst, index: tuple[Index, ...]) -> Form:
    """A load at an index; over a whole row only what is uniform has a value."""
    e = m.e
    other = inst.operands[2] if len(inst.operands) > 2 else None
    if any(i.off for i in index):
        return load_nothing(m, inst, index, other)
    if any(i.whole for i in index):
        a = m.prepare(inst, index)
        fill = e.eval(other, index) if other is not None else None
        uniform = isinstance(a.pointer, Uniform) and isinstance(a.mask, Uniform)
        if uniform and (other is None or isinstance(fill, Uniform)):
            m.expected.add((inst, tuple(i.key for i in index)))
            return load_scalar(m, inst, a, fill)
        if isinstance(a.pointer, Uniform) and isinstance(a.mask, Prefix):
            if e.row.cuts is not None and (fill is None or isinstance(fill, Uniform)):
                return load_for_piece(m, inst, index, a, fill)
            load_for_row(m, inst, index, a)
        return None
    a = m.access(inst, index)
    fill = e.eval(other, index) if other is not None else None
    if m.holds(inst, index, a.mask):
        a.mask = e.true
    if a.is_off:
        return fill if fill is not None else Uniform(e.b.const(0, a.dtype), 0)
    if (
        isinstance(a.pointer, Uniform)
        and isinstance(a.mask, Uniform)
        and (fill is None or isinstance(fill, Uniform))
    ):
        key = (inst, tuple(e.whole_index(i).key for i in index))
        return load_scalar(m, inst, a, fill, key not in m.expected)
    key = (inst, tuple(e.whole_index(i).key for i in index))
    if isinstance(a.pointer, Uniform) and key in m.row_values:
        return from_row_value(m, m.row_values[key], a, fill)
    a.mask = m.covered(a.mask, index)
    if a.all_or_none and e.row.start is not None:
        return Vector(load_all_or_none(m, inst, index, a, fill), e.w.at)
    return Vector(load_lanes(m, inst, index, a, fill), e.w.at)


def load_all_or_none(
    m: Memory, inst: Inst, index: tuple[Index, ...], a: Access, fill: Form
) -> Lane:
    """The lanes of a chunk in a piece of a row where a mask is on or off throughout."""
    e, b = m.e, m.e.b
    passing = e.lanes_of(fill) if fill is not None else b.const(0, a.dtype)
    condition, a.mask = a.mask.lane, e.true
    passing = b.splat(passing, e.row.width)
    with e.one_way():
        return value_where(e.w, b, condition, lambda: load_lanes(m, inst, index, a, fill), passing)


def load_for_row(m: Memory, inst: Inst, index: tuple[Index, ...], a: Access) -> None:
    """Load the one element that all lanes that are on read, before the row."""
    e = m.e
    if m.counters is not None or inst.attrs.get("volatile"):
        return
    on = Uniform(e.b.gt(a.mask.limit, e.const(0)), e.w.at)
    key = (inst, tuple(i.key for i in index))
    scalar = Access(a.pointer, on, a.size, a.dtype)
    m.row_values[key] = load_scalar(m, inst, scalar, None).lane


def load_for_piece(
    m: Memory, inst: Inst, index: tuple[Index, ...], a: Access, fill: Form
) -> Uniform | None:
    """Load the one element that a piece reads, if pieces end where the mask does."""
    e = m.e
    if not e.row.cuts.end_at(e, a.mask.limit, inst.result, index):
        return None
    on = Uniform(e.b.gt(a.mask.limit, e.const(0)), e.w.at)
    return load_scalar(m, inst, Access(a.pointer, on, a.size, a.dtype), fill)


def from_row_value(m: Memory, value: Lane, a: Access, fill: Form) -> Form:
    """The lanes of a chunk that all read one element."""
    e, b = m.e, m.e.b
    if a.unmasked:
        return Uniform(value, e.row.depth)
    passing = e.lanes_of(fill) if fill is not None else b.const(0, a.dtype)
    lanes = b.match(e.lanes_of(a.mask), value, passing)
    return Vector(b.select(*lanes), e.w.at)


def load_nothing(m: Memory, inst: Inst, index: tuple[Index, ...], other: Value | None) -> Form:
    """What a load gives where the masks of its row are off."""
    mask = m.mask_of(inst)
    if mask is None or m.e.eval(mask, index) is not m.e.false:
        return None
    if other is not None:
        return m.e.eval(other, index)
    return Uniform(m.e.b.const(0, inst.result.type.dtype), 0)


def load_scalar(m: Memory, inst: Inst, a: Access, fill: Form, counted: bool = True) -> Uniform:
    e, b = m.e, m.e.b
    mask = a.mask.lane
    check_one(m, inst, a.pointer.lane, a.size, mask)
    if m.counters is not None and counted:
        lanes = m.e.row_count() if m.e.w.at == m.e.row.depth else m.e.const(1)
        m.counters.scalar(inst, a, mask, a.pointer.lane, lanes)
    if mask.text == "true":
        lane = load_memory(e.b, a.pointer.lane, a.dtype, 1)
    else:
        fill_lane = fill.lane if fill is not None else b.const(0, a.dtype)
        lane = masked_scalar(m, a.pointer.lane, mask, fill_lane, a.dtype)
    if m.checks is not None:
        m.checks.loaded(inst, a, mask, lane)
    return Uniform(lane, e.w.at)


def masked_scalar(m: Memory, address: Lane, mask: Lane, fill: Lane, dtype: DType) -> Lane:
    b = m.e.b
    return value_where(m.e.w, b, mask, lambda: load_memory(b, address, dtype, 1), fill)


def load_lanes(m: Memory, inst: Inst, index: tuple[Index, ...], a: Access, fill: Form) -> Lane:
    lane = read_lanes(m, inst, index, a, fill)
    if m.checks is not None:
        m.checks.loaded(inst, a, m.e.b.splat(m.e.lanes_of(a.mask), lane.width), lane)
    return lane


def read_lanes(m: Memory, inst: Inst, index: tuple[Index, ...], a: Access, fill: Form) -> Lane:
    e, b, width = m.e, m.e.b, m.e.row.width
    near = find_near(m, inst, index, a)
    if near is not None:
        passing = (
            b.splat(e.lanes_of(fill), width) if fill is not None else b.const(0, a.dtype, width)
        )
        return load_near(m, inst, a, near, passing, lambda: read_each(m, inst, index, a, fill))
    return read_each(m, inst, index, a, fill)


def read_each(m: Memory, inst: Inst, index: tuple[Index, ...], a: Access, fill: Form) -> Lane:
    """The lanes of a chunk from where each of them lies."""
    e, b = m.e, m.e.b
    memory = t.uint8 if a.dtype is t.int1 else a.dtype
    width = e.row.width
    m.check_chunk(inst, index, a)
    if a.contiguous and a.unmasked:
        m.ahead.chunk(m, inst, a)
        return load_memory(e.b, a.pointer.base, a.dtype, width)
    if a.unmasked and m.is_spaced(a):
        lane = spaced_load(b, a.pointer.base, a.pointer.stride, memory, width)
        return b.ne(lane, b.const(0, memory, width)) if a.dtype is t.int1 else lane
    if a.unmasked and m.may_be_spaced(a):
        return load_by_stride(m, inst, index, a)
    mask = b.splat(e.lanes_of(a.mask), width)
    passing = b.splat(e.lanes_of(fill), width) if fill is not None else b.const(0, a.dtype, width)
    if a.dtype is t.int1:
        passing = b.cast(passing, memory)
    lane = load_masked(m, inst, index, a, mask, passing, memory)
    return b.ne(lane, b.const(0, memory, width)) if a.dtype is t.int1 else lane


def load_by_stride(m: Memory, inst: Inst, index: tuple[Index, ...], a: Access) -> Lane:
    """The lanes of a chunk whose stride shows at run time: of neighbours and of every other
    element by whole vectors, which memory sees coming, unlike gathers."""
    e, b, width = m.e, m.e.b, m.e.row.width
    place, size = a.pointer.base, a.size
    every, nothing = b.const(True, t.int1, width), b.const(0, a.dtype, width)

    def apart() -> Lane:
        return gather(b, m.addresses(inst, index, a), every, nothing, size)

    def spaced() -> Lane:
        is_other = b.eq(a.pointer.stride, e.const(2 * size)).text
        other = lambda: spaced_load(b, place, 2 * size, a.dtype, width)  # noqa: E731
        return either(e.w, b, is_other, ("other", "apart"), (other, apart))

    is_next = b.eq(a.pointer.stride, e.const(size)).text
    plain = lambda: load_memory(b, place, a.dtype, width)  # noqa: E731
    return either(e.w, b, is_next, ("next", "spaced"), (plain, spaced))


def load_masked(
    m: Memory, inst: Inst, index: tuple[Index, ...], a: Access, mask: Lane, passing: Lane,
    memory: DType,
) -> Lane:  # fmt: skip
    e, b = m.e, m.e.b
    if mask.width == 1:
        pointer = b.bitcast(e.lanes_of(a.pointer), t.pointer_to(memory))
        return masked_scalar(m, pointer, mask, passing, memory)
    if a.contiguous:
        return masked_load(b, place_of(m, a), mask, passing, a.size)
    return gather(b, m.addresses(inst, index, a), mask, passing, a.size)
