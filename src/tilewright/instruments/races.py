"""Races between program instances: accesses to one element of which nothing says who is first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..eager.memory import Buffer, Place, Touch
from ..errors import Loc
from ..ir.op import Op
from .findings import Finding

Program = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Access:
    """Who touched an element where."""

    kind: str
    program: Program
    loc: Loc | None


class Shadow:
    """For each element of a piece of memory the last write and the last read."""

    def __init__(self, count: int):
        self.writer = np.zeros(count, np.int32)  # number of a program, from 1; 0: none
        self.written = np.zeros(count, np.int32)  # when, by the writer's own clock
        self.write = np.zeros(count, np.int32)  # number of the access
        self.is_atomic = np.zeros(count, bool)
        self.reader = np.zeros(count, np.int32)
        self.was_read = np.zeros(count, np.int32)
        self.read = np.zeros(count, np.int32)
        self.many = np.zeros(count, bool)  # others read it too, at the same time


@dataclass(slots=True)
class Doubt:
    """Elements of a store that race if it changes them; known once it has happened."""

    other: Access
    mine: Access
    buffer: Buffer
    data: np.ndarray
    at: np.ndarray
    before: np.ndarray
    offsets: np.ndarray


@dataclass
class Races:
    """Watches the accesses of a launch, whose programs run one after the other here.

    An atomic operation on a scalar makes what its program did before visible to programs that
    later do one on the same address; that is how locks and counters order programs.
    """

    kernel: str
    report: Callable[[Finding], None]
    shadows: dict[tuple, Shadow] = field(default_factory=dict)
    numbers: dict[Program, int] = field(default_factory=dict)
    clocks: dict[int, int] = field(default_factory=dict)
    seen: dict[int, dict[int, int]] = field(default_factory=dict)  # of other programs' clocks
    left: dict[int, dict[int, int]] = field(default_factory=dict)  # by address, for who comes
    accesses: list[Access] = field(default_factory=lambda: [Access("", (0, 0, 0), None)])
    known: dict[Access, int] = field(default_factory=dict)
    doubts: list[Doubt] = field(default_factory=list)

    def __call__(self, op: Op, touch: Touch) -> None:
        self.settle()
        me = self.numbers.setdefault(touch.program, len(self.numbers) + 1)
        mine = Access(touch.kind, touch.program, touch.loc)
        for place in touch.places:
            if place.buffer is not None:
                self.look(place, touch, me, mine)

    def look(self, place: Place, touch: Touch, me: int, mine: Access) -> None:
        size = max(1, touch.dtype.bytes)
        buffer = place.buffer
        key = (buffer.low, buffer.high, size)
        if key not in self.shadows:
            self.shadows[key] = Shadow(-(-(buffer.high - buffer.low) // size))
        shadow, at = self.shadows[key], place.offsets // size
        lock = buffer.low + int(place.offsets[0]) if touch.shape == () else None
        if lock is not None and (touch.kind == "atomic" or lock in self.left):
            self.meet(me, self.left.get(lock, {}))
        if touch.kind == "load":
            self.on_read(shadow, at, place, me, mine, lock is not None)
        else:
            self.on_write(shadow, at, place, me, mine, size)
        if touch.kind == "atomic" and lock is not None:
            clock = self.clocks.get(me, 1)
            self.left[lock] = {**self.seen.get(me, {}), me: clock}
            self.clocks[me] = clock + 1

    def meet(self, me: int, what: dict[int, int]) -> None:
        mine = self.seen.setdefault(me, {})
        for program, clock in what.items():
            mine[program] = max(clock, mine.get(program, 0))

    def unordered(self, programs: np.ndarray, clocks: np.ndarray, me: int) -> np.ndarray:
        """Which accesses of other programs nothing puts before what happens now."""
        bad = (programs != 0) & (programs != me)
        mine = self.seen.get(me)
        if mine and bad.any():
            for program in np.unique(programs[bad]).tolist():
                bad &= ~((programs == program) & (clocks <= mine.get(program, 0)))
        return bad

    def number(self, access: Access) -> int:
        if access not in self.known:
            self.known[access] = len(self.accesses)
            self.accesses.append(access)
        return self.known[access]

    def on_read(
        self, s: Shadow, at: np.ndarray, place: Place, me: int, mine: Access, polls: bool
    ) -> None:
        bad = self.unordered(s.writer[at], s.written[at], me)
        if polls:
            bad &= ~s.is_atomic[at]
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            other = self.accesses[s.write[at[first]]]
            self.tell(other, mine, place.buffer, int(place.offsets[first]))
        s.many[at] |= self.unordered(s.reader[at], s.was_read[at], me)
        s.reader[at] = me
        s.was_read[at] = self.clocks.get(me, 1)
        s.read[at] = self.number(mine)

    def on_write(
        self, s: Shadow, at: np.ndarray, place: Place, me: int, mine: Access, size: int
    ) -> None:
        atomic = mine.kind == "atomic"
        bad = self.unordered(s.writer[at], s.written[at], me)
        if atomic:
            bad &= ~s.is_atomic[at]
        self.doubt(bad, s.write[at], place, mine, size)
        read = self.unordered(s.reader[at], s.was_read[at], me) | s.many[at]
        self.doubt(read, s.read[at], place, mine, size)
        s.writer[at] = me
        s.written[at] = self.clocks.get(me, 1)
        s.write[at] = self.number(mine)
        s.is_atomic[at] = atomic
        s.reader[at] = 0
        s.many[at] = False

    # --- a store of what is there already is no race

    def doubt(
        self, bad: np.ndarray, numbers: np.ndarray, place: Place, mine: Access, size: int
    ) -> None:
        if not bad.any():
            return
        lanes = np.flatnonzero(bad)
        chosen = Place(place.buffer, place.offsets[lanes], place.lanes[lanes])
        data, at = chosen.view(np.dtype(f"u{size}"))
        other = self.accesses[numbers[lanes[0]]]
        before = data[at].copy()
        self.doubts.append(Doubt(other, mine, place.buffer, data, at, before, chosen.offsets))

    def settle(self) -> None:
        """Tell of the doubtful stores that have changed something."""
        for d in self.doubts:
            changed = np.flatnonzero(d.data[d.at] != d.before)
            if changed.size:
                self.tell(d.other, d.mine, d.buffer, int(d.offsets[changed[0]]))
        self.doubts.clear()

    def tell(self, other: Access, mine: Access, buffer: Buffer, offset: int) -> None:
        element = (buffer.low + offset - buffer.address) // buffer.dtype.bytes
        self.report(
            Finding(
                "race", self.kernel, buffer.name, mine.program, mine.loc,
                f"{mine.kind} of element {element} of {buffer.name} by program {mine.program} and "
                f"{other.kind} by program {other.program}{at_line(other.loc, mine.loc)}, in no "
                "order; use an atomic operation, or give each program its own elements",
            )
        )  # fmt: skip


def at_line(loc: Loc | None, here: Loc | None) -> str:
    return "" if loc is None or (here is not None and loc.line == here.line) else f" at {loc}"
