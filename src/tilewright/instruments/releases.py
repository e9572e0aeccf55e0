"""Stores of a program that others are told of before all of its threads have made them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tilewright.errors import Loc
from tilewright.instruments.findings import Program


@dataclass(frozen=True, slots=True)
class Release:
    """An atomic operation that shows others what its program did, and what came just before it."""

    program: Program
    argument: str
    element: int
    loc: Loc | None
    stores: frozenset[int]  # numbers of accesses that no barrier parts from it


@dataclass
class Releases:
    """Watches one program at a time, and keeps its releases that lack a barrier, by its clock."""

    me: int = 0
    stores: set[int] = field(default_factory=set)  # of the running program since its last barrier
    loose: dict[tuple[int, int], Release] = field(default_factory=dict)

    def store(self, me: int, access: int) -> None:
        """A store by threads of several warps."""
        if me != self.me:
            self.me, self.stores = me, set()
        self.stores.add(access)

    def barrier(self) -> None:
        """All threads of the running program wait for each other."""
        self.stores.clear()

    def give(
        self, me: int, clock: int, program: Program, argument: str, element: int, loc: Loc | None
    ) -> None:
        """An atomic operation by one thread shows what the program did until this clock."""
        if me == self.me and self.stores:
            found = Release(program, argument, element, loc, frozenset(self.stores))
            self.loose[me, clock] = found

    def behind(
        self, writers: np.ndarray, clocks: np.ndarray, accesses: np.ndarray, seen: dict[int, int]
    ) -> tuple[Release, int] | None:
        """A release on which elements rely that others wrote, and the store of one of them.

        Args:
            seen: Up to which clock each other program has shown what it did.
        """
        if not self.loose:
            return None
        together = np.unique(np.stack([writers, clocks, accesses]), axis=1)
        for writer, clock, access in together.T.tolist():
            release = self.loose.get((writer, clock))
            if release and access in release.stores and seen.get(writer) == clock:
                return release, access
        return None
