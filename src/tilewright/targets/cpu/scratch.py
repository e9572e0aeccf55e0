"""The scratch memory of a kernel: what is given back is used again, so that caches hold more."""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING

from tilewright.ir.inst import Value
from tilewright.targets.cpu.plan import Plan
from tilewright.targets.cpu.schedule import Anchor, Nest, Scheduler

if TYPE_CHECKING:
    from tilewright.targets.cpu.lower import Lowering

ALIGNMENT = 64


class Scratch:
    """Places in one piece of memory, by offset."""

    def __init__(self) -> None:
        self.size = 0  # bytes in all
        self.free: list[tuple[int, int]] = []  # offset and size, in order, never side by side
        self.taken: dict[int, int] = {}  # size by offset
        self.blocks: list[set[int]] = []  # what the blocks that are open have taken

    def take(self, size: int, forever: bool = False) -> int:
        """The offset of a place, which is given back by its block at the latest.

        What stays `forever` lies where nothing else ever did: the next program runs all of this
        one's code again, also that before the place was taken.
        """
        size = max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)
        if forever:
            offset, self.size = self.size, self.size + size
        else:
            offset = self.find(size)
        self.taken[offset] = size
        if self.blocks and not forever:
            self.blocks[-1].add(offset)
        return offset

    def find(self, size: int) -> int:
        fits = [(room, offset) for offset, room in self.free if room >= size]
        if fits:
            room, offset = min(fits)
            self.free.remove((offset, room))
            if room > size:
                insort(self.free, (offset + size, room - size))
            return offset
        offset = self.size
        if self.free and sum(self.free[-1]) == self.size:  # the last place grows
            offset = self.free.pop()[0]
        self.size = offset + size
        return offset

    def give(self, offset: int) -> None:
        """Give a place back."""
        for block in self.blocks:
            block.discard(offset)
        insort(self.free, (offset, self.taken.pop(offset)))
        merged: list[tuple[int, int]] = []
        for start, size in self.free:
            if merged and sum(merged[-1]) == start:
                start, size = merged[-1][0], merged.pop()[1] + size
            merged.append((start, size))
        self.free = merged

    def open(self) -> None:
        """A block begins."""
        self.blocks.append(set())

    def close(self) -> None:
        """A block ends, and with it all of its values."""
        for offset in self.blocks.pop():
            self.give(offset)


class Lives:
    """Buffers of the values kept in a straight line, from the item that first writes to each one
    to the last that reads it."""

    def __init__(self, x: Lowering, scheduler: Scheduler, kept: list[Value]):
        self.x = x
        self.first: dict[int, list[Value]] = {}
        self.last: dict[int, list[Value]] = {}
        first = written_first(scheduler)
        for value in kept:
            if value in first and value not in x.e.buffers:
                self.first.setdefault(first[value], []).append(value)
                last = read_last(scheduler, x.plan, value)
                if last is not None:
                    self.last.setdefault(max(last, first[value]), []).append(value)
                    pass_on(scheduler, value, first[value])

    def begin(self, number: int) -> None:
        """Make the buffers that an item is the first to write to."""
        for value in self.first.get(number, ()):
            self.x.buffer(value)

    def end(self, number: int) -> None:
        """Give back what no later item reads."""
        for value in self.last.get(number, ()):
            name = self.x.e.buffers.pop(value).name
            self.x.scratch.give(self.x.places[name])


def pass_on(scheduler: Scheduler, value: Value, first: int) -> None:
    """Leave a value in registers if only the nest that makes it reads it, at its own places."""
    item = scheduler.items[first]
    if isinstance(item, Nest) and set(scheduler.readers.get(value, ())) == {(first, True)}:
        for anchor in item.anchors:
            anchor.passes = anchor.passes or (anchor.kind == "keep" and anchor.value is value)


def written_first(scheduler: Scheduler) -> dict[Value, int]:
    """By value: the item that is the first to write to its buffer."""
    first: dict[Value, int] = {}
    for number, item in enumerate(scheduler.items):
        for anchor in item.anchors if isinstance(item, Nest) else (item,):
            for value in written(anchor):
                first.setdefault(value, number)
    return first


def written(anchor: Anchor) -> tuple[Value, ...]:
    if anchor.target is not None:
        return (anchor.target,)
    if anchor.kind == "pack" or anchor.inst is None:
        return ()
    return (anchor.value,) if anchor.value is not None else tuple(anchor.inst.results)


def read_last(scheduler: Scheduler, plan: Plan, value: Value) -> int | None:
    """The last item that reads a value; None when it is read outside of these items."""
    home = plan.segment.get(value.inst)
    for reader in plan.readers(value):
        if reader.op.name == "yield" or plan.segment[reader] != home:
            return None
    return max((number for number, _ in scheduler.readers.get(value, ())), default=-1)
