"""Locks that programs take in different orders, or in two steps instead of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tilewright.errors import Loc
from tilewright.instruments.findings import Finding, Program

Place = tuple[str, int]  # an argument and its element


@dataclass(frozen=True, slots=True)
class Held:
    """A lock that a program has: what it holds while it is free, and where it was taken."""

    place: Place
    free: int
    loc: Loc | None


@dataclass(frozen=True, slots=True)
class Taken:
    """A lock that was taken while another one was held."""

    program: Program
    loc: Loc | None
    guards: frozenset[Place]  # all that were held then


@dataclass
class LockOrder:
    """Follows which locks the running program holds. A lock is a word that a loop exchanges."""

    program: Program | None = None
    held: list[Held] = field(default_factory=list)
    order: dict[tuple[Place, Place], Taken] = field(default_factory=dict)
    polled: dict[Place, int] = field(default_factory=dict)  # what a loop of this program waited for
    grabbed: dict[Place, Held] = field(default_factory=dict)  # words that it changed afterwards
    again: dict[Place, Loc | None] = field(default_factory=dict)  # locks that it had, and asked for
    changed: set[Place] = field(default_factory=set)  # words that this program changed
    owners: dict[Place, Program] = field(default_factory=dict)  # who did so first

    def take(self, kernel: str, program: Program, lock: Held) -> Finding | None:
        """A program has got a lock; what is wrong with that."""
        self.begin(program)
        found = None
        guards = frozenset(h.place for h in self.held)
        for other in self.held:
            if other.place == lock.place:
                continue
            back = self.way(lock.place, other.place)
            if (
                back is not None
                and back.program != program
                and not back.guards
                & guards
                - {
                    lock.place,
                    other.place,
                }
            ):
                found = found or finding(kernel, program, other, lock, back)
            self.order.setdefault((other.place, lock.place), Taken(program, lock.loc, guards))
        self.held.append(lock)
        return found

    def poll(self, program: Program, place: Place, value: int) -> None:
        """A loop asks for a word, and changes nothing."""
        self.begin(program)
        self.polled[place] = value

    def ask_in_vain(self, program: Program, place: Place, loc: Loc | None) -> None:
        """A loop has not got a lock."""
        self.begin(program)
        if any(h.place == place for h in self.held):
            self.again[place] = loc

    def write(
        self, kernel: str, program: Program, place: Place, value: int, loc: Loc | None
    ) -> Finding | None:
        """A program writes to a word, which may be a lock that it has, or takes in this way."""
        self.begin(program)
        self.changed.add(place)
        given = [h for h in self.held if h.place == place and h.free == value]
        self.held = [h for h in self.held if h not in given]
        if given and place in self.again:
            return wrong_way(kernel, program, place, self.again.pop(place))
        if place in self.grabbed:
            lock = self.grabbed[place]
            is_shared = self.owners.setdefault(place, program) != program
            return in_two_steps(kernel, program, lock) if value == lock.free and is_shared else None
        if place in self.polled and value != self.polled[place]:
            self.grabbed[place] = Held(place, self.polled[place], loc)
        return None

    def begin(self, program: Program) -> None:
        if program != self.program:
            self.program, self.held = program, []
            self.polled, self.grabbed, self.again, self.changed = {}, {}, {}, set()

    @property
    def is_at_barrier(self) -> bool:
        """Whether the running program waits for a word that it has changed, as others may."""
        return bool(self.polled.keys() & self.changed)

    def way(self, first: Place, last: Place) -> Taken | None:
        """A lock that was taken while `first` was held, on the way from it to `last`."""
        seen, stack = {first}, [(first, None)]
        while stack:
            place, start = stack.pop()
            for after, taken in self.after(place):
                if after == last:
                    return start or taken
                if after not in seen:
                    seen.add(after)
                    stack.append((after, start or taken))
        return None

    def after(self, place: Place) -> Iterator[tuple[Place, Taken]]:
        return ((b, taken) for (a, b), taken in self.order.items() if a == place)


def finding(kernel: str, program: Program, first: Held, second: Held, back: Taken) -> Finding:
    (argument, element), (other, number) = second.place, first.place
    return Finding(
        "deadlock", kernel, argument, program, second.loc,
        f"program {program} takes the lock in element {element} of {argument} while it holds "
        f"element {number} of {other}, and program {back.program} takes them the other way round"
        f"{'' if back.loc is None else f' at {back.loc}'}; they may wait for each other for ever; "
        "take locks in one order",
        element, back.program, back.loc,
    )  # fmt: skip


def in_two_steps(kernel: str, program: Program, lock: Held) -> Finding:
    argument, element = lock.place
    return Finding(
        "race", kernel, argument, program, lock.loc,
        f"program {program} has seen that the lock in element {element} of {argument} is free, and "
        "takes it here; another program may have done the same in between; take it with "
        "tl.atomic_cas",
        element,
    )  # fmt: skip


def wrong_way(kernel: str, program: Program, place: Place, loc: Loc | None) -> Finding:
    argument, element = place
    return Finding(
        "race", kernel, argument, program, loc,
        f"the loop goes on when program {program} has got the lock in element {element} of "
        f"{argument}, and ends when another one has it; compare with the other value",
        element,
    )  # fmt: skip
