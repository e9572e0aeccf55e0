"""Races between the threads of one program: what `tl.debug_barrier` is for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.eager.machine import Tile
from tilewright.eager.memory import Buffer, Place, Touch
from tilewright.errors import Loc
from tilewright.instruments import meaning
from tilewright.instruments.findings import Findings, Program
from tilewright.instruments.races import VECTOR, WARP, changed, element
from tilewright.ir.op import Op
from tilewright.ops import shape as s

# Ops that take a thread's own elements to itself; others may exchange elements between threads,
# for which they wait for each other.
MOST_LOADS = 8  # that are kept of one piece of memory
OWN = {s.constant, s.arange, s.splat, s.broadcast}


@dataclass(frozen=True, slots=True)
class Access:
    """A load or store by the running program."""

    shape: tuple[int, ...]
    loc: Loc | None


@dataclass
class Cells:
    """Of each element of some memory the last store that changed it: its number, and the lane.

    And the last loads: their numbers, and places.
    """

    low: int
    high: int
    size: int = 0  # bytes of an element; -1 where accesses differ
    writes: np.ndarray | None = None
    loads: deque[tuple[int, Place]] = field(default_factory=lambda: deque(maxlen=MOST_LOADS))

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
    """Watches one program at a time, for loads of what another lane stored since the last barrier,
    and stores to what another one loads.

    Which lanes belong to one thread is not known: there must have been a race in every layout. Left
    out are tiles of different shapes, unless a scalar is loaded after a store, which all threads
    do. Threads of a warp load before they store.
    """

    kernel: str
    findings: Findings
    cells: list[Cells]
    threads: int
    waits: Callable[[], None]  # called where all threads wait for each other
    program: Program | None = None
    accesses: list[Access] = field(default_factory=list)
    first: int = 1  # the number of the first access since the last barrier
    begun: int = 1  # ... and of this program
    told: set[str] = field(default_factory=set)  # arguments, of which the first place says enough
    # By two accesses an element that threads raced for, for each layout in which they did.
    raced: dict[tuple, dict[tuple[str, int], int]] = field(default_factory=dict)

    def after(self, op: Op, operands: Sequence[Tile], attrs: dict[str, Any]) -> None:
        """An op that has run: whether threads waited for each other."""
        if op.effect == "pure" and (op.is_elementwise or op in OWN or not operands):
            return
        if op.effect in ("read", "write") or op.name == "hint":
            return
        if op is s.reshape and is_same_but_for_ones(operands[0].type.shape, attrs["shape"]):
            return
        self.first = self.begun + len(self.accesses)
        self.waits()

    def __call__(self, op: Op, touch: Touch) -> None:
        if touch.program != self.program:
            self.begun = self.first = self.begun + len(self.accesses)
            self.program, self.accesses = touch.program, []
        if touch.kind == "atomic":
            return
        number = self.begun + len(self.accesses)
        self.accesses.append(Access(touch.shape, touch.loc))
        for place in touch.places:
            cells = None if place.buffer is None else self.cells_of(place.buffer)
            at = None if cells is None else cells.at(place, touch.dtype.bytes)
            if at is None:
                continue
            if touch.kind == "load":
                self.look(*cells.writes[:, at], place, touch, 1)
                cells.loads.append((number, place))
            else:
                kept = changed(place, touch.value)
                at, place = at[kept], Place(place.buffer, place.offsets[kept], place.lanes[kept])
                if touch.shape and self.threads > WARP:
                    self.look_at_loads(cells, place, touch)
                cells.writes[:, at] = np.full(len(at), number), place.lanes

    def cells_of(self, buffer: Buffer) -> Cells | None:
        inside = (c for c in self.cells if c.low <= buffer.low and buffer.high <= c.high)
        return next((c for c in inside if c.size >= 0), None)

    def look_at_loads(self, cells: Cells, place: Place, touch: Touch) -> None:
        """Tell of elements that other threads load, and that now change."""
        for number, loaded in cells.loads:
            if number < self.first or self.accesses[number - self.begun].shape != touch.shape:
                continue
            if not is_same(loaded, place):  # each thread stores what it has loaded itself
                there, lanes = lanes_at(loaded, place.buffer.low + place.offsets)
                self.look(np.where(there, number, 0), lanes, place, touch, WARP)

    def look(
        self, numbers: np.ndarray, lanes: np.ndarray, place: Place, touch: Touch, unit: int
    ) -> None:
        """Tell of elements that other threads touched since the last barrier.

        Args:
            numbers: Their accesses, and the lanes in these.
            unit: How many threads are taken to go together.
        """
        bad = numbers >= self.first
        if not bad.any() or place.buffer.name in self.told:
            return
        for number in np.unique(numbers[bad]).tolist():
            other = self.accesses[number - self.begun]
            some = bad & (numbers == number)
            which = self.element_of_others(other, some, lanes, place, touch, unit)
            if which is not None:
                self.told.add(place.buffer.name)
                tell = meaning.threads_race if touch.kind == "load" else meaning.overtaken
                self.findings.add(
                    tell(
                        self.kernel, place.buffer.name, which, touch.program, touch.loc, other.loc
                    )
                )  # fmt: skip
                return

    def element_of_others(
        self,
        other: Access,
        some: np.ndarray,
        before: np.ndarray,
        place: Place,
        touch: Touch,
        unit: int,
    ) -> int | None:
        """An element that two threads touch, if there has been one in every layout."""
        count = int(np.prod(other.shape))
        if other.shape != touch.shape:
            is_seen = touch.kind == "load" and touch.shape == () and count > VECTOR
            return element(place.buffer, int(place.offsets[some][0])) if is_seen else None
        most = min(VECTOR // touch.dtype.bytes, max(1, count // self.threads))
        raced = self.raced.setdefault((other, touch.kind, touch.loc), {})
        is_missing = False
        for order in "CF" if len(touch.shape) > 1 else "C":
            one, two = (in_order(x[some], touch.shape, order) for x in (before, place.lanes))
            group = 1
            while group <= most:
                threads = (x // group % self.threads // unit for x in (one, two))
                apart = np.flatnonzero(np.not_equal(*threads))
                if apart.size:
                    at = int(place.offsets[some][apart[0]])
                    raced.setdefault((order, group), element(place.buffer, at))
                is_missing = is_missing or (order, group) not in raced
                group *= 2
        return None if is_missing else next(iter(raced.values()))


def in_order(lanes: np.ndarray, shape: tuple[int, ...], order: str) -> np.ndarray:
    """Lanes as they are counted where the first or the last dimension goes fastest."""
    if order == "C":
        return lanes
    return np.ravel_multi_index(np.unravel_index(lanes, shape), shape, order="F")


def is_same(one: Place, other: Place) -> bool:
    """Whether lanes of two accesses go to the same elements."""
    return (
        one.buffer.low == other.buffer.low
        and np.array_equal(one.lanes, other.lanes)
        and np.array_equal(one.offsets, other.offsets)
    )


def lanes_at(place: Place, addresses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which addresses are among those of an access, and in which lanes."""
    own = place.buffer.low + place.offsets
    if own.size == 0 or addresses.size == 0 or own.max() < addresses.min():
        return np.zeros(addresses.shape, bool), addresses
    order = np.argsort(own, kind="stable")
    at = np.minimum(np.searchsorted(own, addresses, sorter=order), own.size - 1)
    return own[order[at]] == addresses, place.lanes[order[at]]


def is_same_but_for_ones(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return [n for n in a if n > 1] == [n for n in b if n > 1]
