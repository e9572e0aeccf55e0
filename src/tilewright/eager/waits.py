"""Loops that go on and on: a program that waits for what nobody will write, or never ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from tilewright.eager.deciding import Deciding, deciding
from tilewright.errors import DeadlockError
from tilewright.lang.tensor import tensor


@dataclass(slots=True)
class Wait:
    """A condition that is asked for again and again while what it may wait for stays as it is."""

    rounds: int
    polls: int  # atomic operations before the first round
    state: Any  # of memory and of the `for` loops around, in all of these rounds
    values: Any = None  # of the loop's variables in a round, once there were many
    until: int = 0  # in which round to look at them anew


@dataclass
class Waits:
    """The conditions of one program, by place."""

    known: dict[Any, Wait] = field(default_factory=dict)
    turns: list[int] = field(default_factory=list)  # of the `for` loops that are running
    rounds: int = 0  # of `for` loops, which end by themselves
    totals: dict[Any, int] = field(default_factory=dict)  # how often a `while` loop went on

    def start(self) -> None:
        """Another program begins."""
        self.known.clear()
        self.turns.clear()
        self.totals.clear()

    @contextmanager
    def turning(self) -> Iterator[Callable[[], None]]:
        """While a `for` loop runs; call what it gives in each round."""
        depth = len(self.turns)
        self.turns.append(0)

        def turn() -> None:
            self.rounds += 1
            del self.turns[depth + 1 :]
            self.turns[depth] = self.rounds

        try:
            yield turn
        finally:
            del self.turns[depth:]

    def count(self, machine: Any) -> None:
        """Note that a condition is asked for; raise where that would go on for ever."""
        frame = machine.frame()
        place = machine.here if frame is None else (frame.f_code, frame.f_lineno)
        loop = None if frame is None else deciding(frame.f_code.co_filename, frame.f_lineno)
        memory = machine.memory
        state = (memory.version if loop is None or loop.reads else 0, *self.turns)
        wait = self.known.get(place)
        if wait is None or state != wait.state:
            self.known[place] = Wait(1, memory.polls, state)
            wait = None
        if loop is not None:
            self.count_total(machine, place)
        if wait is None:
            return
        wait.rounds += 1
        polls = memory.polls - wait.polls
        if wait.rounds <= machine.most_rounds and polls < machine.most_polls:
            return
        values = values_of(frame, loop, machine.carried)
        if wait.values is None or (values != wait.values and wait.rounds >= wait.until):
            # What comes back after some rounds does so for ever.
            wait.values, wait.until = values, 2 * wait.rounds
        elif values == wait.values:
            raise stuck(machine, wait.rounds, loop is None or loop.reads)

    def count_total(self, machine: Any, place: Any) -> None:
        total = self.totals[place] = self.totals.get(place, 0) + 1
        if total > machine.most_turns:
            raise stuck(machine, total, False)


def values_of(frame: FrameType | None, loop: Deciding | None, carried: Sequence[Any]) -> list:
    """The bits of all that decides whether a loop goes on, but memory."""
    if frame is None:
        return [tile.data.tobytes() for tile in carried]
    names = frame.f_locals if loop is None else loop.names & frame.f_locals.keys()
    values = [frame.f_locals[name] for name in sorted(names)]
    return [v.handle.data.tobytes() if isinstance(v, tensor) else repr(v) for v in values]


def stuck(machine: Any, rounds: int, waits: bool) -> DeadlockError:
    """The fault of a program that would never end."""
    what = f"{machine.name}: program {machine.program}"
    if waits:
        text = (
            f"{what} waits for a value that no program before it has written, after {rounds} "
            "rounds; programs run one after the other here, and a GPU starts later ones only where "
            "there is room; let programs wait for earlier ones"
        )
    else:
        text = (
            f"{what} is in a loop that does not end: after {rounds} rounds its condition still "
            "holds; change in each round what the condition tests"
        )
    return DeadlockError(f"{text}\n{machine.excerpt()}").at(machine.program, machine.loc())
