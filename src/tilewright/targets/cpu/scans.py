"""Running combinations along an axis, and counting."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, walk
from tilewright.ir.types import DType
from tilewright.targets.cpu.buffers import Buffer
from tilewright.targets.cpu.evaluate import Evaluator, Row
from tilewright.targets.cpu.forms import Index
from tilewright.targets.cpu.loops import Loop
from tilewright.targets.cpu.regions import combined
from tilewright.targets.cpu.rows import (
    around,
    at,
    chunks,
    counted,
    filled,
    flat,
    lanes_for,
    mirrored,
    read,
    shuffle,
    write,
)

if TYPE_CHECKING:
    from tilewright.targets.cpu.lower import Lowering

FEWEST_LANES = 4  # that are worth combining at doubling distances
TABLES = 4  # of a histogram
MOST_BINS = 512  # of each: more do not stay in the cache
LONGEST_REGION = 32  # instructions of a combining function that is written once for each distance


def scan(x: Lowering, inst: Inst) -> None:
    """Along the axis: in vectors over what lies side by side, or over the row itself."""
    e, axis = x.e, inst.attrs["axis"]
    sources = [around(e.buffers[v], axis) for v in inst.operands]
    outer, length, inner = sources[0].type.shape
    if inner == 1:
        widest = max(running_dtype(inst, s.type.dtype).bytes for s in sources)
        width = min(length, max(1, x.machine.vector_bytes // widest))
        if width >= FEWEST_LANES and is_short(inst):
            with counted(e, outer) as o:
                VectorScan(x, inst, at(e, o), width).write()
            return
    width = lanes_for(x.machine.vector_bytes, inner, *sources)
    with counted(e, outer) as o, chunks(e, inner, width) as c:
        scan_row(x, inst, at(e, o), c)


def is_short(inst: Inst) -> bool:
    """Whether the combining function may be written a few times, and run on any two elements."""
    if inst.attrs.get("combine"):
        return True
    names = [i.op.name for i in walk(inst.blocks[0])]
    return len(names) <= LONGEST_REGION and "device_assert" not in names


class VectorScan:
    """One row, a vector at a time: in each at doubling distances, then with all before it."""

    def __init__(self, x: Lowering, inst: Inst, o: Index, width: int):
        self.e: Evaluator = x.e
        self.inst = inst
        self.o = o
        self.width = width
        axis = inst.attrs["axis"]
        self.is_reverse = bool(inst.attrs.get("reverse"))
        self.sources = [around(self.e.buffers[v], axis) for v in inst.operands]
        self.outs = [around(x.buffer(r), axis) for r in inst.results]
        self.length = self.sources[0].type.shape[1]

    def write(self) -> None:
        e = self.e
        before, e.row = e.row, Row(self.width, self.length, e.w.at)
        first = self.chunk(e.const(0))
        lanes = self.within(self.values(first))
        self.put(lanes, first)
        if self.length > self.width:
            loop = Loop(e.w, str(self.width), str(self.length), str(self.width))
            carried = [loop.carry(self.last(lane)) for lane in lanes]
            here = self.chunk(Lane(loop.open(), t.int64))
            lanes = self.within(self.values(here))
            so_far = [entry.phi for entry in carried]
            self.put(self.combined(so_far, lanes), here)
            # From one vector to the next there is one step, not all of those within.
            following = self.combined(so_far, [self.last(lane) for lane in lanes])
            for entry, lane in zip(carried, following, strict=True):
                entry.next = lane
            e.forget(loop.close())
        e.row = before

    def chunk(self, i: Lane) -> Index:
        """The vector that begins after `i` elements."""
        base = mirrored(self.e, i, self.length - self.width) if self.is_reverse else i
        return Index(base, self.e.w.at, vector=True)

    def values(self, c: Index) -> list[Lane]:
        zero = self.e.scalar_index(0)
        lanes = (read(self.e, s, self.o, c, zero) for s in self.sources)
        return [self.e.b.cast(lane, running_dtype(self.inst, lane.dtype)) for lane in lanes]

    def put(self, lanes: list[Lane], c: Index) -> None:
        for out, lane in zip(self.outs, lanes, strict=True):
            write(self.e, out, lane, self.o, c, self.e.scalar_index(0))

    def combined(self, xs: list[Lane], ys: list[Lane]) -> list[Lane]:
        lanes = combined(self.e, self.inst, xs, ys)
        return [self.e.b.splat(lane, self.width) for lane in lanes]

    def last(self, lane: Lane) -> Lane:
        """What a vector ends with, in all lanes."""
        return shuffle(self.e, lane, [0 if self.is_reverse else self.width - 1] * self.width)

    def within(self, lanes: list[Lane]) -> list[Lane]:
        """Each lane with all before it in its vector."""
        width, distance = self.width, 1
        while distance < width:
            step = -distance if self.is_reverse else distance
            order = [i - step if 0 <= i - step < width else i for i in range(width)]
            mask = ", ".join(f"i1 {str(order[i] != i).lower()}" for i in range(width))
            moved = [shuffle(self.e, lane, order) for lane in lanes]
            new = self.combined(moved, lanes)
            is_moved = Lane(f"<{mask}>", t.int1, width)
            lanes = [self.e.b.select(is_moved, n, x) for n, x in zip(new, lanes, strict=True)]
            distance *= 2
        return lanes


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
    """Count element after element, in tables of their own that are summed at the end."""
    e, b = x.e, x.e.b
    out, bins = flat(x.buffer(inst.result)), inst.attrs.get("bins", 1)
    source = flat(e.buffers[inst.operands[0]])
    size = source.type.size
    # Equal neighbours wait for each other, unless their tables differ.
    several = bins <= MOST_BINS and size >= 2 * TABLES * bins
    lanes = x.machine.vector_bytes // 4
    room = out.type.with_shape((-(-(bins + 1) // lanes) * lanes,))  # the last: what is not counted
    tables = [Buffer(x.new_scratch(4 * room.size), room) for _ in range(TABLES if several else 1)]
    for table in tables:
        filled(e, room, table.name, 0, lanes)
    width = lanes_for(x.machine.vector_bytes, size, out, source)
    with chunks(e, size, width) as c:
        slots = slots_of(x, inst, source, c, bins)
        for k in range(width):
            place, table = b.extract(slots, k), tables[k % len(tables)]
            place = at(e, b.cast(place, t.int64))
            write(e, table, b.add(read(e, table, place), b.const(1, t.int32)), place)
    with chunks(e, bins, min(bins, lanes)) as c:
        write(e, out, reduce(b.add, [read(e, table, c) for table in tables]), c)


def slots_of(x: Lowering, inst: Inst, source: Buffer, c: Index, bins: int) -> Lane:
    """Where the elements of a chunk are counted."""
    e, b = x.e, x.e.b
    number = read(e, source, c)
    word = t.uint64 if number.dtype.bits == 64 else t.uint32
    number = b.cast(b.cast(number, t.int64 if word is t.uint64 else t.int32), word)
    counts = b.lt(number, b.like(number, bins))
    if len(inst.operands) > 1:
        counts = b.bit_and(counts, read(e, flat(e.buffers[inst.operands[1]]), c))
    slot = b.cast(number, t.int32)
    return b.select(counts, slot, b.like(slot, bins))
