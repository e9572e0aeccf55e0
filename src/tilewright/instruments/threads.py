"""Races between the threads of one program: what `tl.debug_barrier` is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.eager.machine import Tile
from tilewright.eager.memory import Buffer, Place, Touch
from tilewright.errors import Loc
from tilewright.instruments import meaning
from tilewright.instruments.findings import Findings, Program
from tilewright.instruments.races import changed, element
from tilewright.ir.op import Op
from tilewright.ops import shape as s

# Ops that take a thread's own elements to itself; others may exchange elements between threads,
# for which they wait for each other.
OWN = {s.constant, s.arange, s.splat, s.broadcast}
VECTOR = 16  # bytes of neighbours that a thread may have
WARP = 32


@dataclass(frozen=True, slots=True)
class Store:
    """A store by the running program."""

    shape: tuple[int, ...]
    loc: Loc | None


@dataclass
class Cells:
    """Of each element of some memory the last store that changed it: its number, and the lane."""

    low: int
    high: int
    size: int = 0  # bytes of an element; -1 where accesses differ
    writes: np.ndarray | None = None

    def at(self, place: Place, size: int) -> np.ndarray | None:
        """Which elements are touched; None where that is not known."""
        first = place.buffer.low + place.offsets - self.low
        if self.size == 0:
            self.size = size
            self.writes = np.zeros((2, (self.high - self.low) // size + 1), np.int32)
        if self.size != size or (first % size).any():
            self.size = -1
            return None
        return first // size


@dataclass
class Threads:
    """Watches one program at a time, for loads of what another lane stored since the last barrier.

    Which lanes belong to one thread is not known: those that may under some layout are left out,
    and so are tiles of different shapes, unless a scalar is loaded, which all threads do. What is
    loaded before it is changed is left alone too: blocks are loaded as a whole, as far as a
    program's text says.
    """

    kernel: str
    findings: Findings
    cells: list[Cells]
    threads: int
    program: Program | None = None
    stores: list[Store] = field(default_factory=list)
    first: int = 1  # the number of the first store since the last barrier
    begun: int = 1  # ... and of this program
    told: set[str] = field(default_factory=set)  # arguments, of which the first place says enough

    def after(self, op: Op, operands: Sequence[Tile], attrs: dict[str, Any]) -> None:
        """An op that has run: whether threads waited for each other."""
        if op.effect == "pure" and (op.is_elementwise or op in OWN or not operands):
            return
        if op.effect in ("read", "write") or op.name == "hint":
            return
        if op is s.reshape and is_same_but_for_ones(operands[0].type.shape, attrs["shape"]):
            return
        self.first = self.begun + len(self.stores)

    def __call__(self, op: Op, touch: Touch) -> None:
        if touch.program != self.program:
            self.begun = self.first = self.begun + len(self.stores)
            self.program, self.stores = touch.program, []
        if touch.kind == "atomic":
            return
        number = self.begun + len(self.stores)
        if touch.kind == "store":
            self.stores.append(Store(touch.shape, touch.loc))
        for place in touch.places:
            cells = None if place.buffer is None else self.cells_of(place.buffer)
            at = None if cells is None else cells.at(place, touch.dtype.bytes)
            if at is None:
                continue
            if touch.kind == "load":
                self.look(cells.writes, at, place, touch)
            else:
                kept = changed(place, touch.value)
                cells.writes[:, at[kept]] = np.full(kept.sum(), number), place.lanes[kept]

    def cells_of(self, buffer: Buffer) -> Cells | None:
        inside = (c for c in self.cells if c.low <= buffer.low and buffer.high <= c.high)
        return next((c for c in inside if c.size >= 0), None)

    def look(self, writes: np.ndarray, at: np.ndarray, place: Place, touch: Touch) -> None:
        """Tell of elements that another thread stored since the last barrier."""
        numbers, lanes = writes[:, at]
        bad = numbers >= self.first
        if not bad.any() or place.buffer.name in self.told:
            return
        for number in np.unique(numbers[bad]).tolist():
            store = self.stores[number - self.begun]
            some = bad & (numbers == number)
            some &= self.are_apart(store, lanes, touch, place.lanes)
            if some.any():
                self.told.add(place.buffer.name)
                which = element(place.buffer, int(place.offsets[some][0]))
                self.findings.add(
                    meaning.threads_race(
                        self.kernel, place.buffer.name, which, touch.program, touch.loc, store.loc
                    )
                )
                return

    def are_apart(
        self, store: Store, stored: np.ndarray, touch: Touch, lanes: np.ndarray
    ) -> np.ndarray:
        """Which pairs of lanes belong to different threads, whatever the layout."""
        if store.shape != touch.shape:
            is_seen = touch.shape == () and int(np.prod(store.shape)) > VECTOR
            return np.full(lanes.shape, is_seen)
        group = max(1, VECTOR // touch.dtype.bytes)
        near = (stored // group) % self.threads == (lanes // group) % self.threads
        return ~near & (stored % self.threads != lanes % self.threads)


def is_same_but_for_ones(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return [n for n in a if n > 1] == [n for n in b if n > 1]
