"""Loop nests: each anchor of a nest evaluated chunk by chunk along the vector axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf, nan

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value, walk
from tilewright.ir.op import OPS
from tilewright.ir.types import DType
from tilewright.passes.commutes import commutes
from tilewright.targets.cpu.atomics import atomic
from tilewright.targets.cpu.clip import Clipper, fill_tail, note_tail
from tilewright.targets.cpu.columns import Held, reduced_axis
from tilewright.targets.cpu.evaluate import Buffer, Evaluator, Row
from tilewright.targets.cpu.extremes import extreme_number, has_range
from tilewright.targets.cpu.forms import Form, Index, Uniform, Vector
from tilewright.targets.cpu.loops import Carried, Loop
from tilewright.targets.cpu.memory import Memory
from tilewright.targets.cpu.pieces import begin_piece, count_digits, find_sites
from tilewright.targets.cpu.rows import shuffle, shuffle_pair
from tilewright.targets.cpu.schedule import Anchor, Nest

OPPOSITE = {"max": "min", "min": "max"}
UNROLL = 4  # accumulators of a reduction: one costs 1.9x (latency), eight spill on streams
SHORT_ROW = 4  # chunks that are written one after the other, not as a loop
SHORT_REGION = 16  # instructions of a combining function that is worth as many copies


def identity(combine: str, dtype: DType) -> int | float:
    """The value that changes nothing when it is combined."""
    if combine in ("max", "min"):
        if dtype.is_float:
            return -inf if combine == "max" else inf
        low = -(1 << dtype.bits - 1) if dtype.is_signed else 0
        high = (1 << dtype.bits - (1 if dtype.is_signed else 0)) - 1
        return low if combine == "max" else high
    return {"add": -0.0 if dtype.is_float else 0, "mul": 1, "bit_and": -1}.get(combine, 0)


def keeps_order(inst: Inst) -> bool:
    """Whether the operands of a reduction's function may not change places."""
    if inst.attrs.get("combine") or inst.attrs.get("any_order"):
        return False
    return not commutes(inst.blocks[0])


@dataclass(eq=False, slots=True)
class Reduction:
    """A reduction along the vector axis while its row is written."""

    inst: Inst
    dtypes: list[DType]  # of the accumulators
    names: list[str]  # the ops that combine into each, "" for a region
    in_order: bool = False  # only neighbours may be combined, the earlier one first
    accumulators: list[list[Carried | Lane]] = field(default_factory=list)  # by unrolled copy

    @property
    def combine(self) -> str:
        return self.inst.attrs.get("combine", "")

    @property
    def is_long(self) -> bool:
        """Whether it combines by a function of many instructions."""
        return not self.combine and len(list(walk(self.inst.blocks[0]))) > SHORT_REGION

    @property
    def is_extreme(self) -> bool:
        """Whether this is the largest or least float; the opposite tells if there was any."""
        return len(self.names) > len(self.inst.operands)


class NestWriter:
    """Writes one nest."""

    def __init__(self, e: Evaluator, memory: Memory, vector_bytes: int):
        self.e = e
        self.w = e.w
        self.b = e.b
        self.memory = memory
        self.vector_bytes = vector_bytes
        self.sideways: dict[str, Buffer] = {}  # matrices that a nest keeps column by column

    def write(self, nest: Nest, read_buffers: Iterable[Buffer] = ()) -> None:
        """Write a nest; of these buffers it reads the elements at its own positions only."""
        self.nest = nest
        self.read_buffers = list(read_buffers)
        self.depth = self.w.at
        outer = [d for d, n in enumerate(nest.shape) if d != nest.axis]
        index = [self.e.scalar_index(0)] * len(nest.shape)
        self.is_row = all(nest.shape[d] == 1 for d in outer)
        if not self.is_row:
            self.fill_tails()
        axis = reduced_axis(self, nest)
        self.held = None if axis is None else Held(self, nest, axis)
        self.over([d for d in outer if d != axis], index)

    def over(self, dims: list[int], index: list[Index]) -> None:
        """Loops over the outer dimensions, then the row."""
        if not dims:
            if self.held is not None:
                self.held.write(index)
            else:
                self.write_row(index)
            return
        d, rest = dims[0], dims[1:]
        if self.nest.shape[d] == 1:
            self.over(rest, index)
            return
        loop = Loop(self.w, "0", str(self.nest.shape[d]), "1")
        counter = loop.open()
        inner = list(index)
        inner[d] = Index(Lane(counter, t.int64), self.w.at)
        self.over(rest, inner)
        self.e.forget(loop.close())

    # --- one row

    def write_row(self, index: list[Index]) -> None:
        e, nest = self.e, self.nest
        length = nest.shape[nest.axis]
        width = self.lanes_of_chunk(nest)
        e.row = Row(width, length, self.w.at)
        self.reductions = {
            a: self.start(a.inst)
            for a in nest.anchors
            if a.kind == "reduce" and a.inst.attrs["axis"] == nest.axis
        }
        sites = find_sites(e, nest.anchors, nest.axis, lambda: self.look_at_all(index))
        if sites:
            self.write_pieces(index, sites, width, length)
        else:
            self.write_whole(index, width, length)
        for reduction in self.reductions.values():
            self.finish(reduction, index)
        e.row = Row()

    def lanes_of_chunk(self, nest: Nest) -> int:
        return min(nest.shape[nest.axis], max(1, self.vector_bytes // self.element_bytes()))

    def write_whole(self, index: list[Index], width: int, length: int) -> None:
        """The row in one piece."""
        row = self.look_at_all(index)
        clipper = Clipper(self, self.depth)
        self.clip = clipper.find(row, width, length) if self.is_row else None
        if self.clip is None and self.is_row:
            self.fill_tails()
        self.write_chunks(index, length, width)

    def write_pieces(self, index: list[Index], sites: list, width: int, length: int) -> None:
        """The row piece by piece, each as far as what is divided stays simple."""
        e, b = self.e, self.b
        self.clip = None
        if self.is_row:
            self.fill_tails()
        unroll = self.copies(length, width)
        loop = Loop(self.w, "0", str(length), "")
        digits = count_digits(e, sites, loop)
        carried = self.carry_into(loop, unroll)
        start = Lane(loop.open(), t.int64)
        e.row = Row(width, length, self.w.at, start=start)
        count = begin_piece(e, sites, digits, b.sub(e.const(length), start))
        e.row.count, loop.step = count, count.text
        self.look_at_all(index)
        limits = e.row.limits
        bound = count
        for limit in limits.values():
            bound = b.minimum(bound, limit.limit)
        main = b.bit_and(b.maximum(bound, e.const(0)), e.const(-width * unroll))
        end = b.minimum(self.rest_end(length), count)
        self.unrolled = e.true.lane
        e.row.true_masks = frozenset(limits)
        self.chunk_loop(index, start, b.add(start, main), width, unroll)
        e.row.true_masks = frozenset()
        e.row.is_rest = True
        self.chunk_loop(index, b.add(start, main), b.add(start, end), width, 1)
        self.hand_on(carried)
        e.forget(loop.close())
        self.take_carried(carried)

    def look_at_all(self, index: list[Index]) -> tuple[Index, ...]:
        """Evaluate the row of every anchor; gives its index."""
        self.store_limits: list[Lane | None] = []
        row = list(index)
        row[self.nest.axis] = self.e.row_index()
        for anchor in self.nest.anchors:
            self.look_at(anchor, tuple(row))
        return tuple(row)

    def look_at(self, anchor: Anchor, row: tuple[Index, ...]) -> None:
        """Evaluate what is the same for the whole row, and check its accesses."""
        if anchor.kind == "keep":
            self.e.compute_inst(anchor.inst, row)
            return
        values = (anchor.value,) if anchor.value is not None else anchor.inst.operands
        for x in values:
            self.e.eval(x, row)
        if anchor.kind in ("store", "atomic"):  # after the loads that lead to it, as they fault
            limit = self.memory.prepare(anchor.inst, row).limit
            gives = any(r in self.e.buffers for r in anchor.inst.results)  # 0 where masked
            self.store_limits.append(None if gives else limit)

    def write_chunks(self, index: list[Index], length: int, width: int) -> None:
        """The row as a main part in which every mask is true, and a masked rest."""
        e, b = self.e, self.b
        unroll = self.copies(length, width)
        self.unrolled = e.true.lane
        limits = e.row.limits
        block = width * unroll
        end = self.clip.end if self.clip is not None else e.const(length)
        if self.is_one_version() or (not limits and self.clip is None):
            self.chunk_loop(index, e.const(0), end, width, unroll)
            return
        bound = e.const(length)
        for limit in limits.values():
            bound = b.minimum(bound, limit.limit)
        if not limits:
            bound = end
        bound = b.maximum(bound, e.const(0))
        main = b.bit_and(bound, e.const(-block))
        self.unrolled = b.gt(main, e.const(0))
        e.row.true_masks = frozenset(limits)
        self.chunk_loop(index, e.const(0), main, width, unroll)
        e.row.true_masks = frozenset()
        rest = self.rest_end(length) if self.clip is None else end
        self.chunk_loop(index, main, rest, width, 1)
        if self.clip is not None:
            self.take_beyond(length, width)

    def copies(self, length: int, width: int) -> int:
        """How many chunks to take at once, each with accumulators of its own."""
        self.unroll = max(1, min(UNROLL if self.reductions else 1, length // width))
        if any(r.is_long or r.in_order for r in self.reductions.values()):
            self.unroll = 1
        return self.unroll

    @property
    def packs(self) -> bool:
        """Whether a nest only brings operands of products into place."""
        return all(anchor.kind == "pack" for anchor in self.nest.anchors)

    def is_one_version(self) -> bool:
        """Whether a row is not worth two versions, or has masks that are on or off throughout."""
        uniform = self.memory.row_masks.values()
        return self.nest.rare or (self.packs and all(x in uniform for x in self.e.row.limits))

    def take_beyond(self, length: int, width: int) -> None:
        """What lies beyond the clipped end: into reductions at once, of kept tiles a note."""
        e, b, clip = self.e, self.b, self.clip
        for anchor, values in clip.values.items():
            if anchor.kind == "keep":
                buffer = e.buffers[anchor.value]
                note_tail(e, buffer, clip, values[0], width, self.nest.axis)
            elif anchor in self.reductions:
                reduction = self.reductions[anchor]
                left = b.sub(e.const(length), clip.end)
                rest = self.beyond(reduction, values[0], left)
                reduction.accumulators[0] = self.accumulate(
                    reduction, reduction.accumulators[0], rest
                )

    def beyond(self, reduction: Reduction, value: Lane, left: Lane) -> list[Lane]:
        """The elements beyond the clipped end as one vector for each accumulator."""
        e, b = self.e, self.b
        width = e.row.width
        out = []
        for name, dtype in zip(reduction.names, reduction.dtypes, strict=True):
            nothing = b.const(self.nothing(name, dtype), dtype)
            one = b.cast(value, dtype)
            if name == "add":
                one = b.mul(one, b.cast(left, dtype))
            some = b.select(b.gt(left, e.const(0)), one, nothing)
            empty = b.const(self.nothing(name, dtype), dtype, width)
            text = f"insertelement {empty.typed}, {some.typed}, i32 0"
            out.append(b.value(text, dtype, width) if width > 1 else some)
        return out

    def fill_tails(self) -> None:
        """Complete the kept tiles of which this nest reads every element."""
        for buffer in self.read_buffers:
            fill_tail(self.e, buffer)
        for anchor in self.nest.anchors:
            if anchor.kind == "keep":
                self.e.tails.pop(self.e.buffers[anchor.value].name, None)

    def rest_end(self, length: int) -> Lane:
        """Where the masked rest of the row ends: early where only masked stores happen."""
        e, b = self.e, self.b
        limits = self.store_limits
        if any(x is None for x in limits) or len(limits) < len(self.nest.anchors):
            return e.const(length)
        end = limits[0]
        for limit in limits[1:]:
            end = b.maximum(end, limit)
        return b.minimum(end, e.const(length))

    def chunk_loop(
        self, index: list[Index], low: Lane, high: Lane, width: int, unroll: int
    ) -> None:
        """The chunks from low to high, `unroll` at a time."""
        step = width * unroll
        if low.known is not None and high.known is not None and high.known - low.known == step:
            for u in range(unroll):
                self.write_chunk(index, self.e.const(low.known + u * width), u)
            return
        if self.packs and low.known is not None and high.known is not None:
            starts = range(low.known, high.known, step)
            if len(starts) <= SHORT_ROW:
                for start in starts:
                    self.write_chunk(index, self.e.const(start), 0)
                return
        loop = Loop(self.w, low.text, high.text, str(step))
        carried = self.carry_into(loop, unroll)
        counter = Lane(loop.open(), t.int64)
        for u in range(unroll):
            start = self.b.add(counter, self.e.const(u * width)) if u else counter
            self.write_chunk(index, start, u)
        self.hand_on(carried)
        self.e.forget(loop.close())
        self.take_carried(carried)

    def carry_into(self, loop: Loop, unroll: int) -> list:
        out = []
        for reduction in self.reductions.values():
            for u in range(unroll):
                for k in range(len(reduction.dtypes)):
                    entry = loop.carry(reduction.accumulators[u][k])
                    reduction.accumulators[u][k] = entry.phi
                    out.append((entry, (reduction, u, k)))
        return out

    def hand_on(self, carried: list) -> None:
        """Let the next turn of a loop begin with the accumulators of this one."""
        for entry, (reduction, u, k) in carried:
            entry.next = reduction.accumulators[u][k]

    def take_carried(self, carried: list) -> None:
        """Go on with the accumulators that a loop leaves."""
        for entry, (reduction, u, k) in carried:
            reduction.accumulators[u][k] = entry.phi

    def write_chunk(self, index: list[Index], start: Lane, copy: int) -> None:
        """Every anchor on the elements of one chunk."""
        e = self.e
        here = list(index)
        here[self.nest.axis] = Index(start, self.w.at, vector=True)
        at = tuple(here)
        assigned: list[tuple[Buffer, Form]] = []
        for anchor in self.nest.anchors:
            if anchor.kind == "store":
                self.memory.store(anchor.inst, at)
            elif anchor.kind == "atomic":
                self.write_atomic(anchor.inst, at)
            elif anchor.kind == "reduce":
                self.reduce_chunk(anchor, at, copy)
            elif anchor.kind == "keep":
                self.keep_chunk(anchor, at)
            elif anchor.kind == "hold":
                self.hold_chunk(anchor, at)
            elif anchor.kind == "assign":
                assigned.append((e.buffers[anchor.target], e.eval(anchor.value, at)))
            elif anchor.kind == "pack":
                anchor.pack(e, at, e.eval(anchor.value, at))
            elif anchor.kind == "device_assert":
                self.memory.check_assert(anchor.inst, at)
        for buffer, form in assigned:
            e.write_buffer(buffer, at, form)

    def keep_chunk(self, anchor: Anchor, at: tuple[Index, ...]) -> None:
        e = self.e
        form = e.compute_inst(anchor.inst, at)
        self.write_kept(e.buffers[anchor.value], at, form)
        e.bind(anchor.value, at, Vector(e.lanes_of(form), self.w.at))

    def write_kept(self, buffer: Buffer, at: tuple[Index, ...], form: Form) -> None:
        """Put a chunk where it is kept, or into the turned copy that this nest writes instead."""
        copy = self.sideways.get(buffer.name)
        if copy is None:
            self.e.write_buffer(buffer, at, form)
        else:
            self.e.write_buffer(copy, (at[1], at[0]), form)

    def hold_chunk(self, anchor: Anchor, at: tuple[Index, ...]) -> None:
        """A value put aside before what it is made of is written to."""
        form = self.e.eval(anchor.value, at)
        self.e.write_buffer(self.e.buffers[anchor.target], at, form)
        self.e.bind(anchor.target, at, Vector(self.e.lanes_of(form), self.w.at))

    def write_atomic(self, inst: Inst, at: tuple[Index, ...]) -> None:
        lane = atomic(self.memory, inst, at)
        value = inst.result
        if value in self.e.buffers:
            self.e.write_buffer(self.e.buffers[value], at, Vector(lane, self.w.at))

    # --- reductions

    def start(self, inst: Inst) -> Reduction:
        combine = inst.attrs.get("combine", "")
        names = [combine] * len(inst.operands)
        dtypes = [x.type.dtype for x in inst.operands]
        if combine and dtypes[0].is_float:
            # Sums round once, and fp32 holds the extremes of all narrower floats.
            dtypes = [t.float32 if d.bits < 32 else d for d in dtypes]
            if combine in OPPOSITE and not has_range(self.b, dtypes[0]):
                names, dtypes = [combine, OPPOSITE[combine]], dtypes * 2
        out = Reduction(inst, dtypes, names, keeps_order(inst))
        width = self.e.row.width
        for _ in range(UNROLL):
            out.accumulators.append(
                [
                    self.b.const(self.nothing(n, d) if n else 0, d, width)
                    for n, d in zip(names, dtypes, strict=True)
                ]
            )
        return out

    def nothing(self, combine: str, dtype: DType) -> int | float:
        """What an accumulator begins with; where NaN gives way to every number, that."""
        if combine in OPPOSITE and has_range(self.b, dtype):
            return nan
        return identity(combine, dtype)

    def reduce_chunk(self, anchor: Anchor, at: tuple[Index, ...], copy: int) -> None:
        e, inst = self.e, anchor.inst
        values = [e.lanes_of(e.eval(x, at)) for x in inst.operands]
        if anchor not in self.reductions:
            self.reduce_across(inst, at, values)
            return
        reduction = self.reductions[anchor]
        values = [self.b.splat(v, e.row.width) for v in values]
        values *= len(reduction.dtypes) // len(values)
        values = [self.b.cast(v, d) for v, d in zip(values, reduction.dtypes, strict=True)]
        old = reduction.accumulators[copy]
        cover = e.cover(at)
        if cover is not None:
            values = self.without_rest(reduction, values, e.prefix_lanes(cover))
        new = self.accumulate(reduction, old, values)
        if not reduction.combine:
            start = next(i.base for i in at if i.vector)
            first = self.b.eq(start, e.const(copy * e.row.width))
            new = [self.b.select(first, v, n) for v, n in zip(values, new, strict=True)]
        reduction.accumulators[copy] = list(new)

    def without_rest(self, reduction: Reduction, values: list[Lane], cover: Lane) -> list[Lane]:
        """Values that change nothing in the lanes that stick out of a piece."""
        nothing = [
            self.b.like(v, self.nothing(name, d))
            for v, name, d in zip(values, reduction.names, reduction.dtypes, strict=True)
        ]
        return [self.b.select(cover, v, n) for v, n in zip(values, nothing, strict=True)]

    def combine(self, inst: Inst, xs: list[Lane], ys: list[Lane]) -> list[Lane]:
        """Two groups of lanes as one, by the op that is named or by the region."""
        name = inst.attrs.get("combine", "")
        if not name:
            return self.e.run_block(inst.blocks[0], [*xs, *ys])
        (x,), (y,) = xs, ys
        return [OPS[name].emit(self.b, x, y)]

    def accumulate(self, reduction: Reduction, xs: list[Lane], ys: list[Lane]) -> list[Lane]:
        """Accumulators with more elements taken in."""
        if reduction.in_order and xs[0].width > 1:
            # As one row of twice the width, of which each lane and the next become one.
            even, odd = (list(range(i, 2 * xs[0].width, 2)) for i in (0, 1))
            pairs = list(zip(xs, ys, strict=True))
            xs = [shuffle_pair(self.e, x, y, even) for x, y in pairs]
            ys = [shuffle_pair(self.e, x, y, odd) for x, y in pairs]
        if not reduction.is_extreme:
            if reduction.combine in OPPOSITE and has_range(self.b, xs[0].dtype):
                return [extreme_number(self.b, reduction.combine, xs[0], ys[0])]
            return self.combine(reduction.inst, xs, ys)
        out = []
        for name, x, y in zip(reduction.names, xs, ys, strict=True):
            # An accumulator is never NaN, so one comparison decides (a single vmaxps).
            better = self.b.gt(y, x) if name == "max" else self.b.lt(y, x)
            out.append(self.b.select(better, y, x))
        return out

    def finish(self, reduction: Reduction, index: list[Index]) -> None:
        """All accumulators of a row as one value, put where its readers find it."""
        inst = reduction.inst
        copies = reduction.accumulators
        used = UNROLL if reduction.combine else self.unroll
        groups = [list(c) for c in copies[:used]]
        while len(groups) > 1:
            groups = [
                self.join(reduction, groups[i], groups[i + 1]) for i in range(0, len(groups), 2)
            ]
        lanes = self.fold(reduction, groups[0])
        if reduction.is_extreme:
            lanes = [self.extreme(reduction, *lanes)]
        place = tuple(i for d, i in enumerate(index) if d != self.nest.axis)
        for value, lane in zip(inst.results, lanes, strict=True):
            lane = self.b.cast(lane, value.type.dtype)
            self.put(value, place, lane)

    def fold(self, reduction: Reduction, lanes: list[Lane]) -> Sequence[Lane]:
        """All lanes of a group as one."""
        if not reduction.in_order:
            return self.b.fold(
                lambda x, y: tuple(self.accumulate(reduction, list(x), list(y))), tuple(lanes)
            )
        while (width := lanes[0].width) > 1:
            first, second = (
                [shuffle(self.e, x, list(range(i, width, 2))) for x in lanes] for i in (0, 1)
            )
            lanes = self.combine(reduction.inst, first, second)
        return lanes

    def join(self, reduction: Reduction, xs: list[Lane], ys: list[Lane]) -> list[Lane]:
        """The accumulators of two copies as one; only the first may have seen a chunk."""
        both = self.accumulate(reduction, xs, ys)
        if reduction.combine:
            return both
        return [self.b.select(self.unrolled, v, x) for v, x in zip(both, xs, strict=True)]

    def extreme(self, reduction: Reduction, best: Lane, worst: Lane) -> Lane:
        """The best of all numbers, or NaN if there were none: then both are where they began."""
        untouched = self.b.gt(worst, best) if reduction.combine == "max" else self.b.lt(worst, best)
        return self.b.select(untouched, self.b.like(best, nan), best)

    def put(self, value: Value, place: tuple[Index, ...], lane: Lane) -> None:
        if value.type.shape:
            self.e.write_buffer(self.e.buffers[value], place, Uniform(lane, self.w.at))
        else:
            self.e.bind(value, (), Uniform(lane, self.w.at))

    def reduce_across(self, inst: Inst, at: tuple[Index, ...], values: list[Lane]) -> None:
        """A reduction along a loop: combined into the buffer of the result, chunk by chunk."""
        e, axis = self.e, inst.attrs["axis"]
        place = tuple(i for d, i in enumerate(at) if d != axis)
        buffers = [e.buffers[r] for r in inst.results]
        values = [
            self.b.cast(self.b.splat(v, e.row.width), buf.type.dtype)
            for v, buf in zip(values, buffers, strict=True)
        ]
        old = [e.lanes_of(e.read_raw(buf, place)) for buf in buffers]
        new = self.combine(inst, old, values)
        first = self.b.eq(at[axis].base, e.const(0))
        for buf, v, n in zip(buffers, values, new, strict=True):
            lane = self.b.select(first, v, n)
            e.write_buffer(buf, place, Vector(lane, self.w.at))

    # --- widths

    def element_bytes(self) -> int:
        """The size of the widest numbers that the nest computes with."""
        sizes = {1}
        seen: set[Value] = set()
        for anchor in self.nest.anchors:
            values = (anchor.value,) if anchor.value is not None else anchor.inst.operands
            stack = list(values)
            while stack:
                x = stack.pop()
                if x in seen or not x.type.shape:
                    continue
                seen.add(x)
                self.add_size(x, sizes)
                if (
                    x.inst is not None
                    and x not in self.e.buffers
                    or x.inst is not None
                    and anchor.kind == "keep"
                    and x is anchor.value
                ):
                    stack.extend(x.inst.operands)
        return max(sizes)

    def add_size(self, x: Value, sizes: set[int]) -> None:
        dtype = x.type.dtype
        if dtype.is_float:
            computed = x.inst is not None and x.inst.op.is_elementwise and x not in self.e.buffers
            narrow = dtype.bits < 32 and computed and x.inst.op.name not in ("cast", "select")
            sizes.add(4 if narrow else dtype.bytes)
        elif dtype.is_integer and (x in self.e.buffers or (x.inst and x.inst.op.name == "load")):
            sizes.add(dtype.bytes)
