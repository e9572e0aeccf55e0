"""Races between program instances: accesses to one element of which nothing says who is first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from tilewright.eager.memory import Buffer, Place, Touch
from tilewright.errors import Loc
from tilewright.instruments import meaning
from tilewright.instruments.findings import Finding, Program
from tilewright.instruments.releases import Releases
from tilewright.instruments.shadow import Read, Reads, Shadow
from tilewright.ir.op import Op

LARGEST = 8  # bytes of an access
WARP = 32
VECTOR = 16  # bytes of neighbours that a thread may have
TAKES = ("", "acquire", "acq_rel")  # semantics with which an atomic operation sees what others did
GIVES = ("", "release", "acq_rel")  # ... and shows what its program did


@dataclass(frozen=True, slots=True)
class Access:
    """Who touched an element where."""

    kind: str
    program: Program
    loc: Loc | None


@dataclass(slots=True)
class Doubt:
    """Elements that race if an atomic operation changes them; known once it has happened."""

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
    later do one on the same address and use what they got; that is how locks and counters order
    programs. Its semantics must say so, and its scope must be more than one program. A store of
    what is there already is none.
    """

    kernel: str
    report: Callable[[Finding], None]
    spans: list[tuple[int, int]]  # of the memory of the launch
    attrs: Callable[[], dict] = dict  # of the op that is running
    shadows: dict[tuple[int, int], Shadow] = field(default_factory=dict)
    numbers: dict[Program, int] = field(default_factory=dict)
    clocks: dict[int, int] = field(default_factory=dict)
    seen: dict[int, dict[int, int]] = field(default_factory=dict)  # of other programs' clocks
    left: dict[int, dict[int, int]] = field(default_factory=dict)  # by address, for who comes
    accesses: list[Access] = field(default_factory=lambda: [Access("", (0, 0, 0), None)])
    known: dict[Access, int] = field(default_factory=dict)
    reads: Reads = field(default_factory=Reads)
    doubts: list[Doubt] = field(default_factory=list)
    releases: Releases = field(default_factory=Releases)
    threads: int = WARP  # of a program
    has_unordered: bool = False  # whether programs raced for want of an order
    pending: Callable[[], None] | None = None  # when the result of the last atomic is used
    polled: Callable[[], None] | None = None  # when what the last load polled is used as a number

    def __call__(self, op: Op, touch: Touch) -> None:
        self.settle()
        self.pending = self.polled = None
        me = self.numbers.setdefault(touch.program, len(self.numbers) + 1)
        mine = Access(touch.kind, touch.program, touch.loc)
        for place in touch.places:
            if place.buffer is not None:
                self.look(place, touch, me, mine)

    def look(self, place: Place, touch: Touch, me: int, mine: Access) -> None:
        buffer, size = place.buffer, max(1, touch.dtype.bytes)
        shadow = self.shadow(buffer)
        cells, lanes = shadow.at(place.offsets + buffer.low, size)
        lock = buffer.low + int(place.offsets[0]) if touch.shape == () else None
        if touch.kind == "load":
            if lock in self.left:
                self.meet(me, self.left[lock])
            self.on_read(shadow, cells, lanes, place, me, mine, lock is not None)
            return
        attrs = self.attrs() if touch.kind == "atomic" else {}
        orders = lock is not None and touch.kind == "atomic" and attrs.get("scope") != "cta"
        if orders and attrs.get("sem", "") in TAKES:
            left = self.left.get(lock, {})
            self.pending = lambda: self.meet(me, left)
        if touch.value is not None:
            self.look_at_lanes(place, touch, mine)
        self.on_write(shadow, cells, lanes, place, touch, me, mine)
        if orders and attrs.get("sem", "") in GIVES:
            clock = self.clocks.get(me, 1)
            where = element(buffer, int(place.offsets[0]))
            self.releases.give(me, clock, touch.program, buffer.name, where, touch.loc)
            # A chain of updates of one word shows what all of its programs did.
            self.left[lock] = {**self.left.get(lock, {}), **self.seen.get(me, {}), me: clock}
            self.clocks[me] = clock + 1

    def shadow(self, buffer: Buffer) -> Shadow:
        span = next(
            ((a, b) for a, b in self.spans if a <= buffer.low and buffer.high <= b),
            (buffer.low, buffer.high),
        )
        if span not in self.shadows:
            low = span[0] // LARGEST * LARGEST
            self.shadows[span] = Shadow(low, span[1], LARGEST)
        return self.shadows[span]

    def on_use(self) -> Callable[[], None] | None:
        """What to do when somebody uses the result of the atomic operation that just ran."""
        return self.pending

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
        self,
        shadow: Shadow,
        cells: np.ndarray,
        lanes: np.ndarray,
        place: Place,
        me: int,
        mine: Access,
        polls: bool,
    ) -> None:
        s = shadow.fields
        bad = self.unordered(s["writer"][cells], s["written"][cells], me)
        self.rely(s, cells[~bad], me, mine)
        of_atomic = polls and bool(s["is_atomic"][cells].all())
        race = None
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            other = self.accesses[s["write"][cells[first]]]
            race = self.race(other, mine, place.buffer, int(place.offsets[lanes[first]]))
            if not of_atomic:
                self.tell(race)
        if of_atomic:
            self.polled = partial(self.take, shadow, cells, race, me, mine)
        clock = self.clocks.get(me, 1)
        numbers = self.reads.add(s["readers"][cells], me, clock, self.number(mine), polls)
        s["readers"][cells] = numbers

    def on_write(
        self,
        shadow: Shadow,
        cells: np.ndarray,
        lanes: np.ndarray,
        place: Place,
        touch: Touch,
        me: int,
        mine: Access,
    ) -> None:
        s, atomic = shadow.fields, mine.kind == "atomic"
        if touch.value is not None:
            kept = changed(place, touch.value)[lanes]
            cells, lanes = cells[kept], lanes[kept]
        bad = self.unordered(s["writer"][cells], s["written"][cells], me)
        self.rely(s, cells[~bad], me, mine)
        if atomic:
            bad &= ~s["is_atomic"][cells]
        elif len(touch.value) * touch.dtype.bytes > WARP * max(touch.dtype.bytes, VECTOR):
            self.releases.store(me, self.number(mine))
        if bad.any():
            other = self.accesses[s["write"][cells[bad][0]]]
            self.conflict(lanes[bad], other, place, mine, touch)
        numbers = s["readers"][cells]
        for number in distinct(numbers):
            read = self.unordered_read(number, me, atomic)
            if read is not None:
                some = lanes[numbers == number]
                self.conflict(some, self.accesses[read.access], place, mine, touch)
        s["writer"][cells] = me
        s["written"][cells] = self.clocks.get(me, 1)
        s["write"][cells] = self.number(mine)
        s["is_atomic"][cells] = atomic
        s["readers"][cells] = 0

    def rely(self, fields: dict[str, np.ndarray], cells: np.ndarray, me: int, mine: Access) -> None:
        """Tell of stores that another program made known before all of its threads had stored."""
        if not self.releases.loose or self.threads <= WARP:
            return
        cells = cells[fields["writer"][cells] != me]
        values = (fields[name][cells] for name in ("writer", "written", "write"))
        found = self.releases.behind(*values, self.seen.get(me, {}))
        if found is not None:
            release, access = found
            store = self.accesses[access].loc
            self.report(meaning.early(self.kernel, release, store, mine.program))

    def unordered_read(self, number: int, me: int, atomic: bool) -> Read | None:
        """A read by another program that nothing puts before what happens now."""
        mine = self.seen.get(me, {})
        for read in self.reads.since(number):
            late = read.program != me and read.clock > mine.get(read.program, 0)
            if late and not (atomic and read.polls):
                return read
        return None

    def conflict(
        self, lanes: np.ndarray, other: Access, place: Place, mine: Access, touch: Touch
    ) -> None:
        if mine.kind == "atomic":
            self.doubt(lanes, other, place, mine, touch)
        else:
            self.tell(self.race(other, mine, place.buffer, int(place.offsets[lanes[0]])))

    # --- an atomic operation that changes nothing only reads

    def doubt(
        self, lanes: np.ndarray, other: Access, place: Place, mine: Access, touch: Touch
    ) -> None:
        chosen = Place(place.buffer, place.offsets[lanes], place.lanes[lanes])
        data, at = chosen.view(np.dtype(f"u{touch.dtype.bytes}"))
        before = data[at].copy()
        self.doubts.append(Doubt(other, mine, place.buffer, data, at, before, chosen.offsets))

    def settle(self) -> None:
        """Tell of the doubtful operations that have changed something."""
        for d in self.doubts:
            found = np.flatnonzero(d.data[d.at] != d.before)
            if found.size:
                self.tell(self.race(d.other, d.mine, d.buffer, int(d.offsets[found[0]])))
        self.doubts.clear()

    def take(
        self, shadow: Shadow, cells: np.ndarray, race: Finding | None, me: int, mine: Access
    ) -> None:
        """A load of a word that atomic operations change was no poll after all."""
        readers, clock = shadow.fields["readers"], self.clocks.get(me, 1)
        numbers = self.reads.add(readers[cells], me, clock, self.number(mine), False)
        readers[cells] = numbers
        if race is not None:
            self.tell(race)

    def race(self, other: Access, mine: Access, buffer: Buffer, offset: int) -> Finding:
        return meaning.race(
            self.kernel, buffer.name, element(buffer, offset),
            (mine.kind, mine.program, mine.loc), (other.kind, other.program, other.loc),
        )  # fmt: skip

    def tell(self, race: Finding) -> None:
        self.has_unordered = True
        self.report(race)

    # --- lanes of one store

    def look_at_lanes(self, place: Place, touch: Touch, mine: Access) -> None:
        """Tell of lanes that write different numbers to one address."""
        offsets = place.offsets
        if offsets.size < 2 or (np.diff(offsets) > 0).all():
            return
        order = np.argsort(offsets, kind="stable")
        ordered, values = offsets[order], bits(touch.value[place.lanes[order]])
        bad = (ordered[1:] == ordered[:-1]) & (values[1:] != values[:-1])
        if bad.any():
            first = int(ordered[1:][bad][0])
            count = np.unique(ordered[1:][bad]).size
            self.report(
                meaning.lanes_race(
                    self.kernel, place.buffer.name, element(place.buffer, first),
                    mine.program, mine.loc, count,
                )
            )  # fmt: skip


def distinct(numbers: np.ndarray) -> list[int]:
    """The numbers that occur, each once; most often there is one."""
    if numbers.size and (numbers == numbers[0]).all():
        return [int(numbers[0])]
    return np.unique(numbers).tolist()


def bits(values: np.ndarray) -> np.ndarray:
    return values.view(np.dtype(f"u{values.dtype.itemsize}"))


def changed(place: Place, value: np.ndarray) -> np.ndarray:
    """Which lanes of a store write something else than what is there."""
    data, at = place.view(np.dtype(f"u{value.dtype.itemsize}"))
    return data[at] != bits(value[place.lanes])


def element(buffer: Buffer, offset: int) -> int:
    return (buffer.low + offset - buffer.address) // buffer.dtype.bytes
