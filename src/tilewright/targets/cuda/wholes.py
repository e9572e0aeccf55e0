"""Operations that read any element of a tile: through shared memory, row-major."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst
from tilewright.targets.cuda.layout import LANE_BITS
from tilewright.targets.cuda.tiles import Tile, tile, uniform

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering

SHARED_ADD = "@$2 red.shared.add.u32 [$0], $1;"


def put(x: Lowering, held: Tile) -> Lane:
    """Write a tile to shared memory, row-major; gives its address. All threads have waited."""
    e = x.e
    words = [e.to_word(v) for v in held.lanes]
    size = words[0].dtype.bytes
    base = e.memory.take(size * max(1, 1 << held.layout.bits))
    spare = held.layout.free_bits()[0]
    owner = e.owner(held.layout)
    places = [address(x, base, i, size) for i in e.indices(held.layout)]
    note(x, "store", held, size, held.layout.registers >> spare.bit_count())
    w = e.w
    join = ""
    if owner is not None:
        yes, join = w.new_label("then"), w.new_label("join")
        w.branch_if(owner.text, yes, join)
        w.label(yes)
    for r, (word, place) in enumerate(zip(words, places, strict=True)):
        if not r & spare:
            e.store_shared(place, [word])
    if join:
        w.branch(join)
        w.label(join)
    e.barrier()
    return base


def note(x: Lowering, kind: str, held: Tile, size: int, accesses: int) -> None:
    """Say that each thread accesses elements of a row-major array in shared memory."""
    lanes = [c * size for c in held.layout.lane]
    idle = 0
    if kind == "store":
        _, lane, warp = held.layout.free_bits()
        idle = lane | warp << LANE_BITS
    x.e.note_shared(kind, lanes, size, accesses, idle)


def address(x: Lowering, base: Lane, index: Lane, size: int) -> Lane:
    """The address of an element of a row-major array in shared memory."""
    e = x.e
    if index.known is not None:
        return e.plus(base, index.known * size)
    return e.b.add(base, e.b.mul(index, e.const(size)) if size > 1 else index)


def share(x: Lowering, held: Tile, is_scalar: bool) -> Tile:
    """What the owners of elements hold, in all threads that hold copies."""
    e = x.e
    word = e.to_word(held.lanes[0]).dtype
    base = put(x, held)
    note(x, "load", held, word.bytes, held.layout.registers)
    lanes = []
    for index in e.indices(held.layout):
        loaded = e.load_shared(address(x, base, index, word.bytes), word, 1)[0]
        lanes.append(e.from_word(loaded, held.dtype))
    e.memory.give_back()
    return Tile(held.layout, tuple(lanes), is_scalar)


def gather(x: Lowering, inst: Inst) -> Tile:
    """Elements by their number along the axis, the nearest one where there is none."""
    e, axis = x.e, inst.attrs["axis"]
    source = x.tile(inst.operands[0])
    layout = x.layout(inst.result)
    numbers = x.tile(inst.operands[1], layout)
    word = e.to_word(source.lanes[0]).dtype
    base = put(x, Tile(source.layout, source.lanes))
    strides = row_major(inst.operands[0].type.shape)
    others = [d for d in range(len(layout.shape)) if d != axis]
    coords = {d: e.coordinates(layout, d) for d in others}
    length = inst.operands[0].type.shape[axis]
    lanes = []
    for r, number in enumerate(numbers.lanes):
        index = scaled(x, clamped(x, number, length), strides[axis])
        for d in others:
            index = e.b.add(index, scaled(x, coords[d][r], strides[d]))
        loaded = e.load_shared(address(x, base, index, word.bytes), word, 1)[0]
        lanes.append(e.from_word(loaded, source.dtype))
    e.memory.give_back()
    return tile(layout, lanes)


def row_major(shape: tuple[int, ...]) -> list[int]:
    out, step = [], 1
    for n in reversed(shape):
        out.append(step)
        step *= n
    return out[::-1]


def scaled(x: Lowering, number: Lane, by: int) -> Lane:
    return number if by == 1 else x.e.b.mul(number, x.e.const(by))


def clamped(x: Lowering, number: Lane, length: int) -> Lane:
    """An index as a number from 0 to length - 1."""
    b, dtype = x.e.b, number.dtype
    if length - 1 < (1 << dtype.bits - dtype.is_signed) - 1:
        number = b.minimum(number, b.const(length - 1, dtype))
    if dtype.is_signed:
        number = b.maximum(number, b.const(0, dtype))
    return b.cast(number, t.int32)


def histogram(x: Lowering, inst: Inst) -> Tile:
    """Counters in shared memory, to which every element adds."""
    e, b = x.e, x.e.b
    layout = x.layout(inst.result)
    bins = inst.attrs.get("bins", 1)
    source = x.tile(inst.operands[0])
    mask = x.tile(inst.operands[1], source.layout) if len(inst.operands) > 1 else None
    base = put(x, uniform(e.const(0, t.uint32), layout))
    owner = e.owner(source.layout)
    spare = source.layout.free_bits()[0]
    for r, value in enumerate(source.lanes):
        if r & spare:
            continue
        number = b.bitcast(b.cast(value, t.int64), t.uint64)
        on = e.both(b.lt(number, b.const(bins, t.uint64)), owner)
        if mask is not None:
            on = e.both(on, mask.lanes[r])
        place = address(x, base, b.cast(number, t.int32), 4)
        e.w.write(
            f'call void asm sideeffect "{SHARED_ADD}", "r,r,b,~{{memory}}"'
            f"({place.typed}, i32 1, {on.typed})"
        )
    e.barrier()
    lanes = []
    for index in e.indices(layout):
        loaded = e.load_shared(address(x, base, index, 4), t.uint32, 1)[0]
        lanes.append(b.bitcast(loaded, t.int32))
    e.memory.give_back()
    return tile(layout, lanes)
