"""Loops that hand their tiles on in registers, written: for each piece of the tiles all turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.targets.cpu.branches import meet
from tilewright.targets.cpu.buffers import write_buffer
from tilewright.targets.cpu.clip import fill_tail
from tilewright.targets.cpu.counted import counted_loop, hand_on_scalars, open_counted
from tilewright.targets.cpu.evaluate import Row
from tilewright.targets.cpu.forms import Index, Vector
from tilewright.targets.cpu.loads import load
from tilewright.targets.cpu.loop_tiles import Pieces, carried_tiles, nested, tile_ends
from tilewright.targets.cpu.loops import Loop
from tilewright.targets.cpu.memory import Tile

if TYPE_CHECKING:
    from tilewright.targets.cpu.lower import Lowering

Cell = tuple[Index, ...]  # one chunk of a piece


@dataclass(slots=True)
class PieceLoop:
    """One loop of the kernel, taken through all its turns piece by piece."""

    x: Lowering
    loop: Inst
    pieces: Pieces

    def write(self) -> None:
        x, e = self.x, self.x.e
        for inner in nested(self.loop):
            insts = [inner, *inner.blocks[0].insts, inner.blocks[0].terminator]
            for value in (v for inst in insts if inst is not None for v in inst.operands):
                if value in e.buffers:
                    fill_tail(e, e.buffers[value])
        for r in self.loop.results:
            if r.type.shape:
                x.buffer(r)
        before = x.memory.tile
        self.over(self.pieces.outer, [e.scalar_index(0)] * len(self.pieces.shape))
        x.memory.tile = before
        e.row = Row()

    def over(self, dims: list[int], index: list[Index]) -> None:
        """Loops over the outer dimensions, the last by as many rows as a piece has."""
        if not dims:
            self.along(index)
            return
        d, rest = dims[0], dims[1:]
        step = 1 if rest else self.pieces.rows
        self.count(self.pieces.shape[d], step, lambda start: self.over(rest, put(index, d, start)))

    def along(self, index: list[Index]) -> None:
        """The pieces of some rows."""
        p = self.pieces
        step = p.chunks * p.width
        self.count(p.shape[p.axis], step, lambda start: self.piece(index, start.base))

    def count(self, size: int, step: int, body) -> None:
        """Run what `body` writes from 0 to the size."""
        e = self.x.e
        if step == size:
            body(e.scalar_index(0))
            return
        loop = Loop(e.w, "0", str(size), str(step))
        counter = Lane(loop.open(), t.int64)
        body(Index(counter, e.w.at))
        e.forget(loop.close())

    # --- one piece

    def piece(self, index: list[Index], start: Lane) -> None:
        x, e, p = self.x, self.x.e, self.pieces
        rows = self.rows(index)
        starts = [self.after(start, c * p.width) for c in range(p.chunks)]
        cells = [
            tuple(put(row, p.axis, Index(s, e.w.at, vector=True))) for row in rows for s in starts
        ]
        writer = Turns(x, p, rows, cells, self.after(start, p.chunks * p.width))
        e.row = writer.row()
        ends = writer.write(self.loop)
        results = [r for r in self.loop.results if r.type.shape]
        e.row = writer.row()
        for r in results:
            for cell, lane in zip(cells, ends[r], strict=True):
                write_buffer(e, e.buffers[r], cell, Vector(lane, e.w.at))

    def rows(self, index: list[Index]) -> list[list[Index]]:
        """The indices of a piece's rows."""
        p = self.pieces
        if not p.outer:
            return [index]
        d = p.outer[-1]
        places = [self.after(index[d].base, r) for r in range(p.rows)]
        return [put(index, d, Index(place, self.x.e.w.at)) for place in places]

    def after(self, place: Lane, count: int) -> Lane:
        """The place so many elements after another."""
        b = self.x.e.b
        if place.known is not None:
            return self.x.e.const(place.known + count)
        return b.add(place, self.x.e.const(count)) if count else place


@dataclass(slots=True)
class Turns:
    """All turns of a loop, and of the loops inside, on one piece."""

    x: Lowering
    pieces: Pieces
    rows: list[list[Index]]
    cells: list[Cell]
    end: Lane  # of the piece along its rows

    def row(self) -> Row:
        """The row of which the piece takes a part, written in this scope."""
        p = self.pieces
        return Row(p.width, p.shape[p.axis], self.x.e.w.at)

    def write(self, inst: Inst) -> dict[Value, list[Lane]]:
        """Write a loop; gives the lanes of its results by cell."""
        e = self.x.e
        starts = [v for v in inst.operands[3:] if v.type.shape]
        lanes = [[self.lanes(v, cell) for cell in self.cells] for v in starts]
        loop, scalars = counted_loop(e, inst)
        held = {
            p: [loop.carry(lane) for lane in chunks]
            for p, chunks in zip(carried_tiles(inst), lanes, strict=True)
        }
        open_counted(e, inst, loop, scalars)
        known = {p: [entry.phi for entry in entries] for p, entries in held.items()}
        ends = self.turn(inst, known)
        for entries, new in zip(held.values(), ends, strict=True):
            for entry, lane in zip(entries, new, strict=True):
                entry.next = lane
        hand_on_scalars(e, inst, scalars)
        e.forget(loop.close())
        results = [r for r in inst.results if r.type.shape]
        return {
            r: [entry.phi for entry in entries]
            for r, entries in zip(results, held.values(), strict=True)
        }

    def turn(self, inst: Inst, known: dict[Value, list[Lane]]) -> list[list[Lane]]:
        """One turn: where all masks hold without them, else with them."""
        x, e = self.x, self.x.e
        w = e.w
        x.memory.tile = Tile(w.at, goes_on=True)
        e.row = self.row()
        self.bind(known)
        for step in inst.blocks[0].insts:
            if step.op.name == "load" and not step.result.type.shape:
                e.bind(step.result, (), load(x.memory, step, ()))
            elif step.op.name == "for":
                found = self.write(step)
                e.row = self.row()
                self.bind(found)
                known = known | found
        ends = tile_ends(inst)
        self.look_at(ends)
        limits = frozenset(e.row.limits)
        if not limits:
            return self.compute(ends)
        is_whole = e.b.ge(e.within_limits(self.end), self.end)
        labels = [w.new_label(stem) for stem in ("whole", "masked", "join")]
        scopes, ways = [], []
        for label, masks in zip(labels, (limits, frozenset()), strict=False):
            before = set(e.memo)
            scopes.append(w.open(label))
            e.row.true_masks = masks
            self.bind(known)
            ways.append(self.compute(ends))
            w.write(f"br label %{labels[2]}")
            w.close()
            # Masks too, which are constants in one of the two.
            e.forget([key for key in e.memo if key not in before])
        e.row.true_masks = frozenset()
        w.write(f"br i1 {is_whole.text}, label %{labels[0]}, label %{labels[1]}")
        froms = []
        for label, scope in zip(labels, scopes, strict=False):
            w.label(label)
            w.take(scope)
            froms.append(w.here)
        w.label(labels[2])
        return [
            [meet(e.b, (a, froms[0]), (b, froms[1])) for a, b in zip(one, two, strict=True)]
            for one, two in zip(*ways, strict=True)
        ]

    def bind(self, known: dict[Value, list[Lane]]) -> None:
        """Let the chunks of these tiles be known lanes, of whose rows nothing is known."""
        e = self.x.e
        for value, lanes in known.items():
            for row in self.rows:
                e.bind(value, self.whole(row), None)
            for cell, lane in zip(self.cells, lanes, strict=True):
                e.bind(value, cell, Vector(lane, e.w.at))

    def whole(self, row: list[Index]) -> Cell:
        return tuple(put(row, self.pieces.axis, self.x.e.row_index()))

    def look_at(self, values: list[Value]) -> None:
        """Evaluate what is the same for whole rows, and check their accesses."""
        for row in self.rows:
            for value in values:
                self.x.e.eval(value, self.whole(row))

    def compute(self, values: list[Value]) -> list[list[Lane]]:
        return [[self.lanes(v, cell) for cell in self.cells] for v in values]

    def lanes(self, value: Value, cell: Cell) -> Lane:
        e = self.x.e
        lane = e.b.splat(e.spread_out(e.eval(value, cell)), self.pieces.width)
        return e.b.cast(lane, value.type.dtype)


def put(index: list[Index], d: int, there: Index) -> list[Index]:
    """An index with another place along one dimension."""
    return [*index[:d], there, *index[d + 1 :]]
