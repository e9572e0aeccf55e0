"""Rows end where their mask does: chunks with every lane masked off are not computed.

Beyond the mask's limit each value of the row is one number, as loads give their `other` there. A
reduction takes that number in at once, a kept tile remembers it as its tail, a store has nothing
to do. Who reads a kept tile clips its row at the same place, or has the tail filled in first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.targets.cpu.buffers import Buffer, write_buffer
from tilewright.targets.cpu.evaluate import Evaluator
from tilewright.targets.cpu.forms import Index, Prefix, Uniform
from tilewright.targets.cpu.loops import Loop
from tilewright.targets.cpu.schedule import Anchor

if TYPE_CHECKING:
    from tilewright.targets.cpu.nest import NestWriter

IDEMPOTENT = frozenset({"max", "min", "bit_and", "bit_or"})
SHORT_ROW = 4  # chunks that are written one after the other, not as a loop


@dataclass(frozen=True, slots=True)
class Tail:
    """From `end` on, a multiple of `width`, every row of a kept tile would hold `value`."""

    limit: Lane  # of the masks, as it was when the row was clipped
    end: Lane
    width: int
    value: Lane
    axis: int


@dataclass(frozen=True, slots=True)
class Clip:
    """Where the rows of a nest end, and what each anchor's value is beyond."""

    limit: Lane
    end: Lane
    values: dict[Anchor, list[Lane]]


class Clipper:
    """Decides for one nest, or for one of its rows."""

    def __init__(self, nests: NestWriter):
        self.nests = nests
        self.e: Evaluator = nests.e
        self.depth = nests.w.at  # of the block that the row stands in

    def find(self, row: tuple[Index, ...], width: int, length: int) -> Clip | None:
        """How the rows can be clipped, or None."""
        if not (self.nests.is_row or self.tile_may_end(width, length)):
            return None
        self.fill_narrow(width)
        limit = self.limit()
        if limit is None or length <= width:
            return None
        e = self.e
        off = tuple(i.beyond(limit.limit) if i.vector else i for i in row)
        e.row.off_limit = limit.limit.text
        try:
            values = {a: self.beyond(a, off, limit.limit) for a in self.nests.nest.anchors}
        finally:
            e.row.off_limit = ""
        if any(v is None for v in values.values()):
            return None
        return Clip(limit.limit, self.end(limit, width, length), values)

    def tile_may_end(self, width: int, length: int) -> bool:
        """Whether rows of a tile may end early, each at its own place: long ones that nobody keeps,
        as all of a kept tile's end at one."""
        nest = self.nests.nest
        kept = any(anchor.kind == "keep" for anchor in nest.anchors)
        return length > SHORT_ROW * width and not nest.rare and not kept

    def fill_narrow(self, width: int) -> None:
        """Fill in tails that begin inside a chunk of this width, which is read whole."""
        for buffer in self.nests.read_buffers:
            tail = self.e.tails.get(buffer.name)
            if tail is not None and tail.width < width:
                fill_tail(self.e, buffer)

    def limit(self) -> Prefix | None:
        """The one limit of all masks and tails of the nest, known where the nest stands."""
        found = dict(self.e.row.limits)
        for buffer in self.nests.read_buffers:
            tail = self.e.tails.get(buffer.name)
            if tail is not None:
                found[tail.limit.text] = Prefix(tail.limit, self.depth)
        if len(found) != 1:
            return None
        (limit,) = found.values()
        return limit if limit.depth <= self.depth else None

    def end(self, limit: Prefix, width: int, length: int) -> Lane:
        """The limit rounded up to whole chunks, inside the row."""
        e, b = self.e, self.e.b

        def make() -> Lane:
            inside = b.minimum(b.maximum(limit.limit, e.const(0)), e.const(length))
            return b.bit_and(b.add(inside, e.const(width - 1)), e.const(-width))

        return e.at(self.depth, make)

    def beyond(self, anchor: Anchor, off: tuple[Index, ...], limit: Lane) -> list[Lane] | None:
        """The anchor's values where every mask is off; an empty list if it does nothing there."""
        e, memory = self.e, self.nests.memory
        if anchor.kind == "store":
            stored = memory.limit_at(anchor.inst, off)
            return [] if stored is not None and stored.text == limit.text else None
        if anchor.kind == "keep":
            form = e.compute_inst(anchor.inst, off)
            e.bind(anchor.value, off, form)
            return self.numbers([form])
        if anchor not in self.nests.reductions.along or not anchor.inst.attrs.get("combine", ""):
            return None
        name = anchor.inst.attrs["combine"]
        if name not in IDEMPOTENT and name != "add":
            return None
        return self.numbers([e.eval(x, off) for x in anchor.inst.operands], self.e.w.at)

    def numbers(self, forms: list, depth: int | None = None) -> list[Lane] | None:
        depth = self.depth if depth is None else depth
        if all(isinstance(f, Uniform) and f.depth <= depth for f in forms):
            return [f.lane for f in forms]
        return None


def note_tail(e: Evaluator, buffer: Buffer, clip: Clip, value: Lane, width: int, axis: int) -> None:
    """Remember what was not written of a kept tile."""
    e.tails[buffer.name] = Tail(clip.limit, clip.end, width, value, axis)


def fill_tail(e: Evaluator, buffer: Buffer) -> None:
    """Write what was left out of a kept tile, for a reader that needs all of it."""
    tail = e.tails.pop(buffer.name, None)
    if tail is None:
        return
    shape, b = buffer.type.shape, e.b
    loops = []
    index = []
    for d, n in enumerate(shape):
        low = tail.end.text if d == tail.axis else "0"
        loop = Loop(e.w, low, str(n), str(tail.width) if d == tail.axis else "1")
        counter = Lane(loop.open(), e.const(0).dtype)
        loops.append(loop)
        index.append(Index(counter, e.w.at, vector=d == tail.axis))
    before = e.row
    e.row = type(before)(tail.width, shape[tail.axis], e.w.at)
    write_buffer(e, buffer, tuple(index), Uniform(b.cast(tail.value, buffer.type.dtype), e.w.at))
    e.row = before
    for loop in reversed(loops):
        e.forget(loop.close())
