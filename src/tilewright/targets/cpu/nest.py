"""Loop nests: each anchor of a nest evaluated chunk by chunk along the vector axis."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.later import later
from tilewright.targets.cpu.buffers import Buffer, write_buffer
from tilewright.targets.cpu.clip import SHORT_ROW, Clipper, fill_tail, note_tail
from tilewright.targets.cpu.cone import evaluated
from tilewright.targets.cpu.evaluate import Evaluator, Row
from tilewright.targets.cpu.forms import Form, Index, Vector
from tilewright.targets.cpu.kinds import CHEAP, MOVES
from tilewright.targets.cpu.loops import Loop
from tilewright.targets.cpu.memory import Memory, Tile
from tilewright.targets.cpu.pieces import find_sites
from tilewright.targets.cpu.reductions import UNROLL, RowReductions
from tilewright.targets.cpu.schedule import Anchor, Nest
from tilewright.targets.cpu.stores import store
from tilewright.targets.cpu.widths import lanes_of_chunk

atomics = later("tilewright.targets.cpu.atomics")
columns = later("tilewright.targets.cpu.columns")
cut_rows = later("tilewright.targets.cpu.cut_rows")
rows_ahead = later("tilewright.targets.cpu.rows_ahead")
tiles = later("tilewright.targets.cpu.tiles")

LIGHT = 5  # steps of a chunk that takes no longer than the loop around it: 4 chunks a turn
LONG_ROW = 16  # chunks


def is_work(inst: Inst) -> bool:
    """Whether an instruction takes a step for each chunk, as index arithmetic does not."""
    if inst.op.name == "load":
        return True
    dtype = inst.result.type.dtype
    return dtype.is_float and inst.op.name not in MOVES and inst.op.name != "constant"


class NestWriter:
    """Writes one nest."""

    def __init__(self, e: Evaluator, memory: Memory, vector_bytes: int):
        self.e = e
        self.w = e.w
        self.b = e.b
        self.memory = memory
        self.vector_bytes = vector_bytes
        self.sideways: dict[str, Buffer] = {}  # matrices that a nest keeps column by column
        self.foreseen: dict[Value, bool] = {}  # pointers known ahead, where it pays to prefetch

    def write(self, nest: Nest, read_buffers: Iterable[Buffer] = ()) -> None:
        """Write a nest; of these buffers it reads the elements at its own positions only."""
        self.nest = nest
        self.read_buffers = list(read_buffers)
        self.depth = self.w.at
        self.memory.tile = Tile(self.depth, nest.rare)
        outer = [d for d, n in enumerate(nest.shape) if d != nest.axis]
        index = [self.e.scalar_index(0)] * len(nest.shape)
        self.is_row = all(nest.shape[d] == 1 for d in outer)
        if not self.is_row:
            self.fill_tails()
        axis = None if self.is_row else columns.reduced_axis(self, nest)
        self.held = None if axis is None else columns.Held(self, nest, axis)
        dims = [d for d in outer if d != axis]
        look = tiles.look_at_tile(self, nest) if dims and axis is None else None
        if look is None:
            self.over(dims, index)
        else:
            tiles.write_twice(self, look, lambda: self.over(dims, index))

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
        self.memory.tile.loops[counter] = self.nest.shape[d]
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
        self.reductions = RowReductions(e, nest)
        sites = []
        if self.memory.counters is None and self.memory.checks is None:  # which look at each lane
            sites = find_sites(e, nest.anchors, nest.axis, lambda: self.look_at_all(index))
        if sites:
            cut_rows.write_pieces(self, index, sites)
        else:
            self.write_whole(index, width, length)
        self.reductions.finish(index)
        e.row = Row()

    def lanes_of_chunk(self, nest: Nest) -> int:
        return lanes_of_chunk(self.e, nest, self.vector_bytes)

    def write_whole(self, index: list[Index], width: int, length: int) -> None:
        """The row in one piece."""
        row = self.look_at_all(index)
        if not self.is_row:
            rows_ahead.prefetch_rows(self, row)
        self.clip = Clipper(self).find(row, width, length)
        if self.clip is None and self.is_row:
            self.fill_tails()
        self.write_chunks(index, length, width)

    def look_at_all(self, index: list[Index]) -> tuple[Index, ...]:
        """Evaluate the row of every anchor; gives its index."""
        self.store_limits: list[Lane | None] = []
        self.memory.is_by_stride = False
        row = list(index)
        row[self.nest.axis] = self.e.row_index()
        with self.memory.together():
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
        unroll = self.reductions.copies(length, width)
        if not self.reductions.along and length >= LONG_ROW * width and self.is_light():
            unroll = UNROLL
        is_long = self.memory.is_by_stride  # each of its chunks, which are then written once
        if self.memory.sure is not None and not is_long:
            unroll = min(UNROLL, length // width)
        self.reductions.unrolled = e.true.lane
        limits = e.row.limits
        block = width * unroll
        end = self.clip.end if self.clip is not None else e.const(length)
        if self.is_one_version() or (not limits and self.clip is None):
            self.chunk_loop(index, e.const(0), end, width, unroll)
            return
        bound = e.within_limits(e.const(length)) if limits else end
        bound = b.maximum(bound, e.const(0))
        rest = self.rest_end(length) if self.clip is None else end
        is_short = length <= SHORT_ROW * width and not is_long
        if is_short and (self.reductions.along or self.is_light()):
            self.write_short(index, length, width, b.ge(bound, e.const(length)), rest)
            return
        main = b.bit_and(bound, e.const(-block))
        self.reductions.unrolled = b.gt(main, e.const(0))
        e.row.true_masks = frozenset(limits)
        self.chunk_loop(index, e.const(0), main, width, unroll)
        e.row.true_masks = frozenset()
        self.chunk_loop(index, main, rest, width, 1)
        if self.clip is not None:
            self.take_beyond(length, width)

    def write_short(
        self, index: list[Index], length: int, width: int, is_whole: Lane, rest: Lane
    ) -> None:
        """A row of few chunks: all of them without masks one after the other, or all with them."""
        e, w = self.e, self.w
        start = self.reductions.now()
        labels = [w.new_label(stem) for stem in ("whole", "part", "row")]
        scopes, ends = [], []
        for label, masks in zip(labels, (frozenset(e.row.limits), frozenset()), strict=False):
            w.open(label)
            self.reductions.go_on(start)
            e.row.true_masks = masks
            if masks:
                self.chunk_loop(index, e.const(0), e.const(length), width, length // width)
            else:
                self.chunk_loop(index, e.const(0), rest, width, 1)
                if self.clip is not None:
                    self.take_beyond(length, width)
            ends.append(self.reductions.now())
            w.write(f"br label %{labels[2]}")
            scopes.append(w.close())
            e.forget(scopes[-1].memo)
        w.write(f"br i1 {is_whole.text}, label %{labels[0]}, label %{labels[1]}")
        for label, scope in zip(labels, scopes, strict=False):
            w.label(label)
            w.take(scope)
        w.label(labels[2])
        self.reductions.unrolled = is_whole
        self.reductions.meet(*zip(ends, [s.label for s in scopes], strict=True))

    def is_light(self) -> bool:
        """Whether a chunk of the nest is a few loads, stores and single instructions."""
        return self.steps() <= LIGHT

    def steps(self) -> float:
        """How long a chunk takes, where that is moving and computing only."""
        anchors = self.nest.anchors
        if any(a.kind not in ("store", "keep", "assign") for a in anchors):
            return inf
        steps = len(anchors)
        for inst in evaluated(self.e, anchors):
            if is_work(inst):
                steps += 1 if inst.op.name in CHEAP or inst.op.name == "load" else LIGHT
        return steps

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
            elif anchor in self.reductions.along:
                left = b.sub(e.const(length), clip.end)
                self.reductions.take_beyond(anchor, values[0], left)

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
            self.write_turn(index, low, width, unroll)
            return
        if self.packs and not self.nest.rare and low.known is not None and high.known is not None:
            starts = range(low.known, high.known, step)
            if len(starts) <= SHORT_ROW:
                for start in starts:
                    self.write_chunk(index, self.e.const(start), 0)
                return
        loop = Loop(self.w, low.text, high.text, str(step))
        carried = self.reductions.carry_into(loop, unroll)
        counter = Lane(loop.open(), t.int64)
        self.write_turn(index, counter, width, unroll)
        self.reductions.hand_on(carried)
        self.e.forget(loop.close())
        self.reductions.take_carried(carried)

    def write_turn(self, index: list[Index], start: Lane, width: int, unroll: int) -> None:
        """So many chunks, one after the other."""
        with self.memory.streams.one_turn(self.memory, self.nest.anchors):
            for u in range(unroll):
                if start.known is not None:
                    at = self.e.const(start.known + u * width)
                else:
                    at = self.b.add(start, self.e.const(u * width)) if u else start
                    if u:
                        self.e.later[at.text] = start, u * width
                self.write_chunk(index, at, u)

    def write_chunk(self, index: list[Index], start: Lane, copy: int) -> None:
        """Every anchor on the elements of one chunk."""
        e = self.e
        here = list(index)
        here[self.nest.axis] = Index(start, self.w.at, vector=True)
        at = tuple(here)
        assigned: list[tuple[Buffer, Form]] = []
        for anchor in self.nest.anchors:
            if anchor.kind == "store":
                store(self.memory, anchor.inst, at)
            elif anchor.kind == "atomic":
                self.write_atomic(anchor.inst, at)
            elif anchor.kind == "reduce":
                self.reductions.take_chunk(anchor, at, copy)
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
            write_buffer(e, buffer, at, form)

    def keep_chunk(self, anchor: Anchor, at: tuple[Index, ...]) -> None:
        e = self.e
        form = e.compute_inst(anchor.inst, at)
        if not anchor.passes:
            self.write_kept(e.buffers[anchor.value], at, form)
        e.bind(anchor.value, at, Vector(e.lanes_of(form), self.w.at))

    def write_kept(self, buffer: Buffer, at: tuple[Index, ...], form: Form) -> None:
        """Put a chunk where it is kept, or into the turned copy that this nest writes instead."""
        copy = self.sideways.get(buffer.name)
        if copy is None:
            write_buffer(self.e, buffer, at, form)
        else:
            write_buffer(self.e, copy, (at[1], at[0]), form)

    def hold_chunk(self, anchor: Anchor, at: tuple[Index, ...]) -> None:
        """A value put aside before what it is made of is written to."""
        form = self.e.eval(anchor.value, at)
        write_buffer(self.e, self.e.buffers[anchor.target], at, form)
        self.e.bind(anchor.target, at, Vector(self.e.lanes_of(form), self.w.at))

    def write_atomic(self, inst: Inst, at: tuple[Index, ...]) -> None:
        lane = atomics.atomic(self.memory, inst, at)
        value = inst.result
        if value in self.e.buffers:
            write_buffer(self.e, self.e.buffers[value], at, Vector(lane, self.w.at))
