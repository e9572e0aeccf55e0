"""The shared memory of a program, lent to one use after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.errors import UnsupportedError
from tilewright.ir import types as t

if TYPE_CHECKING:
    from tilewright.targets.cuda.emitter import Emitter

SHARED = "@tw_shared"
SMALL = 16 << 10  # bytes: smaller exchanges take turns in two places and save a barrier


class SharedMemoryError(UnsupportedError):
    """A program needs more shared memory than it can have."""


def rounded(size: int, unit: int) -> int:
    """The next multiple."""
    return -(-size // unit) * unit


class SharedMemory:
    """The shared memory of a program: lent to one exchange after the other.

    What is lent has not been read since all threads last waited, so it can be written at once.
    """

    def __init__(self, emitter: Emitter):
        self.e = emitter
        self.size = 0
        self.read: list[tuple[int, int]] = []  # what threads may still be reading
        self.lent: list[tuple[int, int]] = []
        self.base: Lane | None = None

    def take(self, size: int, alignment: int = 16) -> Lane:
        """The address of so many bytes, as an i32; waits for all threads where it must."""
        size = rounded(size, 16)
        place = self.find(size, alignment)
        if place is None:
            self.e.barrier()
            place = self.find(size, alignment)
        self.lent.append((place, place + size))
        self.size = max(self.size, place + size)
        if self.size > self.e.arch.shared_limit:
            raise SharedMemoryError(
                f"the kernel needs {self.size} bytes of shared memory, {self.e.arch.name} has "
                f"{self.e.arch.shared_limit}; take smaller blocks"
            )
        return self.e.plus(self.address(), place)

    def find(self, size: int, alignment: int) -> int | None:
        """Where nothing is that may be read, close to the start; None: wait first."""
        busy = sorted([*self.read, *self.lent])
        place = 0
        for first, last in busy:
            if place + size <= first:
                break
            place = max(place, rounded(last, alignment))
        limit = max(self.size, SMALL)
        return place if not self.read or place + size <= limit else None

    @property
    def top(self) -> int:
        """Where what is lent ends."""
        return max([last for _, last in self.lent], default=0)

    def give_back(self, count: int = 1) -> None:
        """What was lent last has been read by this thread, perhaps not yet by others."""
        for _ in range(count):
            self.read.append(self.lent.pop())

    def waited(self) -> None:
        """All threads have waited for one another."""
        self.read = []

    def forget(self) -> None:
        """Control came from elsewhere: anything may still be read."""
        self.read = [(0, 1 << 30)]

    def address(self) -> Lane:
        if self.base is None:
            with self.e.w.once():
                text = f"ptrtoint ptr addrspace(3) {SHARED} to i32"
                self.base = self.e.b.value(text, t.int32, 1)
        return self.base
