"""A value while code is written: one lane for each register of its layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.codegen.literals import Lane
from tilewright.ir.types import DType
from tilewright.targets.cuda.emitter import Emitter
from tilewright.targets.cuda.exchange import change_layout
from tilewright.targets.cuda.layout import Layout
from tilewright.targets.cuda.operands import Shared


@dataclass(frozen=True, slots=True)
class Tile:
    """A value in registers. Where it is `uniform`, all elements in all threads are equal."""

    layout: Layout
    lanes: tuple[Lane, ...]
    uniform: bool = False

    @property
    def dtype(self) -> DType:
        return self.lanes[0].dtype

    @property
    def lane(self) -> Lane:
        """The one lane of a scalar."""
        return self.lanes[0]


@dataclass(frozen=True, slots=True)
class Staged:
    """A value in shared memory, from an address on."""

    shared: Shared
    base: Lane

    @property
    def where(self) -> tuple[Shared, Lane]:
        return self.shared, self.base


def uniform(lane: Lane, layout: Layout) -> Tile:
    """One number in every element."""
    return Tile(layout, (lane,) * layout.registers, True)


def tile(layout: Layout, lanes: Sequence[Lane]) -> Tile:
    return Tile(layout, tuple(lanes))


def convert(e: Emitter, x: Tile, target: Layout, flip: int = 0) -> Tile:
    """The same elements in another layout; with `flip` element i is the one that was i ^ flip."""
    if x.uniform:
        return uniform(x.lanes[0], target)
    if x.layout == target and not flip:
        return x
    return tile(target, change_layout(e, x.lanes, x.layout, target, flip))
