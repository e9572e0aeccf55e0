"""Reductions along a loop whose rows are short: the results stay in registers meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.targets.cpu.buffers import write_buffer
from tilewright.targets.cpu.evaluate import Row
from tilewright.targets.cpu.forms import Index, Vector
from tilewright.targets.cpu.loops import Loop
from tilewright.targets.cpu.pieces import divides
from tilewright.targets.cpu.regions import combined
from tilewright.targets.cpu.schedule import Anchor, Nest

if TYPE_CHECKING:
    from tilewright.targets.cpu.nest import NestWriter

MOST_HELD = 8  # registers; with more, what the values are made of has no room


def reduced_axis(n: NestWriter, nest: Nest) -> int | None:
    """The one dimension that all of a nest reduces, if the results of a row fit in registers."""
    axes = {a.inst.attrs["axis"] if a.kind == "reduce" else None for a in nest.anchors}
    axis = axes.pop()
    if axes or axis is None or axis == nest.axis or nest.shape[axis] == 1:
        return None
    chunks = nest.shape[nest.axis] // n.lanes_of_chunk(nest)
    results = sum(len(a.inst.results) for a in nest.anchors)
    if chunks * results > MOST_HELD or divides(n.e, nest.anchors):
        return None
    return axis


@dataclass(slots=True)
class Held:
    """The loop along the reduced dimension of a nest, inside the loops over the others."""

    nests: NestWriter
    nest: Nest
    axis: int

    def write(self, index: list[Index]) -> None:
        n, e = self.nests, self.nests.e
        loop = Loop(e.w, "0", str(self.nest.shape[self.axis]), "1")
        width = n.lanes_of_chunk(self.nest)
        keys = [(a, k, c) for a, k, _ in self.results() for c in self.chunks(width)]
        carried = {}
        for anchor, k, c in keys:
            dtype = e.buffers[anchor.inst.results[k]].type.dtype
            carried[anchor, k, c] = loop.carry(e.b.const(0, dtype, width))
        counter = loop.open()
        n.memory.tile.loops[counter] = self.nest.shape[self.axis]
        inner = list(index)
        inner[self.axis] = Index(Lane(counter, t.int64), e.w.at)
        totals = self.row(inner, width, {key: c.phi for key, c in carried.items()})
        for key, entry in carried.items():
            entry.next = totals[key]
        e.forget(loop.close())
        e.row = Row(width, self.nest.shape[self.nest.axis], e.w.at)
        for (anchor, k, c), entry in carried.items():
            place = self.place(inner, c)
            form = Vector(entry.phi, e.w.at)
            write_buffer(e, e.buffers[anchor.inst.results[k]], place, form)
        e.row = Row()

    def results(self) -> Iterator[tuple[Anchor, int, object]]:
        for anchor in self.nest.anchors:
            for k, value in enumerate(anchor.inst.results):
                yield anchor, k, value

    def chunks(self, width: int) -> range:
        return range(0, self.nest.shape[self.nest.axis], width)

    def place(self, index: list[Index], start: int) -> tuple[Index, ...]:
        """Where the results of a chunk go."""
        at = self.at(index, start)
        return tuple(i for d, i in enumerate(at) if d != self.axis)

    def at(self, index: list[Index], start: int) -> list[Index]:
        out = list(index)
        out[self.nest.axis] = Index(self.nests.e.const(start), self.nests.e.w.at, vector=True)
        return out

    def row(self, index: list[Index], width: int, totals: dict) -> dict:
        """One row taken in: all of it without masks, where they hold, or all of it with them."""
        n, e, b = self.nests, self.nests.e, self.nests.b
        length = self.nest.shape[self.nest.axis]
        e.row = Row(width, length, e.w.at)
        n.look_at_all(index)
        limits = e.row.limits
        if not limits:
            return self.take_in(index, width, totals)
        whole = b.ge(e.within_limits(e.const(length)), e.const(length))
        w = e.w
        yes, no, join = w.new_label("whole"), w.new_label("masked"), w.new_label("join")
        parts = []
        for label, masks in ((yes, frozenset(limits)), (no, frozenset())):
            e.row.true_masks = masks
            known = set(e.memo)
            scope = w.open(label)
            found = self.take_in(index, width, totals)
            w.write(f"br label %{join}")
            w.close()
            # Masks too, which are constants in one of the two.
            e.forget([key for key in e.memo if key not in known])
            parts.append((label, scope, found))
        # Only now: what both need from outside comes before.
        w.write(f"br i1 {whole.text}, label %{yes}, label %{no}")
        ends = []
        for label, scope, found in parts:
            w.label(label)
            w.take(scope)
            ends.append((w.here, found))
        w.label(join)
        (one, x), (two, y) = ends
        return {
            key: b.value(
                f"phi {x[key].type} [{x[key].text}, %{one}], [{y[key].text}, %{two}]",
                x[key].dtype,
                width,
            )
            for key in totals
        }

    def take_in(self, index: list[Index], width: int, totals: dict) -> dict:
        """The results after one more row."""
        e, b = self.nests.e, self.nests.b
        first = b.eq(index[self.axis].base, e.const(0))
        out = {}
        for c in self.chunks(width):
            at = tuple(self.at(index, c))
            for anchor in self.nest.anchors:
                inst = anchor.inst
                keys = [(anchor, k, c) for k in range(len(inst.results))]
                old = [totals[key] for key in keys]
                values = [e.lanes_of(e.eval(x, at)) for x in inst.operands]
                values = [
                    b.cast(b.splat(v, width), o.dtype) for v, o in zip(values, old, strict=True)
                ]
                new = combined(e, inst, old, values)
                for key, v, x in zip(keys, values, new, strict=True):
                    out[key] = b.select(first, v, x)
        return out
