"""Compiled kernels, ready to be launched."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter

from tilewright.errors import LaunchError
from tilewright.runtime.grid import Grid
from tilewright.runtime.handle import CompiledKernel
from tilewright.runtime.settings import Settings
from tilewright.runtime.signature import Tree, leaves
from tilewright.targets.base import Target


class Entry:
    """A kernel compiled for certain dtypes, constants and options, ready to be launched."""

    __slots__ = ("handle", "run", "keep", "target", "settings", "place", "writes", "launches")

    def __init__(
        self,
        handle: CompiledKernel,
        trees: dict[str, Tree],
        target: Target,
        settings: Settings,
        device: str,
    ):
        binary = handle.compilation.binary
        self.handle = handle
        self.run = binary.launch
        self.target = target
        self.settings = settings
        self.place = target.place(device, settings.team)
        self.launches = 0  # in Python, where all arguments were of classes it knew
        self.writes = handle.compilation.writes
        self.keep = kept_slots(trees)

    def launch(self, grid: Grid, slots: tuple) -> CompiledKernel:
        """Run with the slots of all arguments that are passed at run time or are 1."""
        if 0 not in grid:
            self.run(grid, slots if self.keep is None else self.keep(slots), self.place)
        return self.handle

    def is_due(self) -> bool:
        """Count a launch in Python; whether it is the 4th, 8th, 16th, ..."""
        count = self.launches = self.launches + 1
        return count > 2 and not count & (count - 1)

    def check_writable(self, writable: dict[str, bool]) -> None:
        """Raise when the kernel writes to an argument that is read-only."""
        for name, fine in writable.items():
            if not fine and name in self.writes:
                raise LaunchError(
                    f"{self.handle.name}: argument {name!r} is read-only and the kernel writes to "
                    "it; pass a copy, or make it writeable"
                )


def kept_slots(trees: dict[str, Tree]) -> Callable[[tuple], tuple] | None:
    """What picks the slots that the code takes: not those of ints that are the constant 1."""
    kept, position, dropped = [], 0, False
    for tree in trees.values():
        for leaf in leaves(tree):
            if leaf.type is not None:
                count = len(leaf.slots)
                kept += range(position, position + count)
                position += count
            elif leaf.is_one:
                position += 1
                dropped = True
    if not dropped:
        return None
    if len(kept) > 1:
        return itemgetter(*kept)
    return lambda slots: tuple(slots[i] for i in kept)
