"""Which elements each access of a kernel touches, program instance by program instance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.eager.memory import Touch
from tilewright.runtime import arrays
from tilewright.runtime.call import Call
from tilewright.runtime.grid import Grid
from tilewright.runtime.observers import Launch, LaunchObserver

EVERY = 4  # so many programs or fewer are all shown


@dataclass(frozen=True, slots=True)
class Row:
    """One access by one program: the lanes that are `on`, and the elements that they touch."""

    program: tuple[int, int, int]
    line: int
    expression: str
    kind: str
    argument: str
    shape: tuple[int, ...]
    elements: tuple[int, ...]
    on: tuple[int, ...]

    @property
    def lanes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def step(self) -> int | None:
        """The distance from each element to the next where it is always the same."""
        steps = set(np.diff(self.elements).tolist())
        return steps.pop() if len(steps) == 1 else None


@dataclass(frozen=True, slots=True)
class Table:
    """The accesses of some programs of one launch."""

    kernel: str
    file: str
    grid: Grid
    programs: list[tuple[int, int, int]]
    rows: list[Row]


class Indexer(LaunchObserver):
    """An observer of launches that steps through some programs of one kernel's first launch."""

    def __init__(self, kernel: str):
        self.kernel = kernel
        self.table: Table | None = None
        self.launched: dict[str, None] = {}

    def launch(self, launch: Launch) -> Any:
        name = launch.jit.__name__
        self.launched[name] = None
        if name == self.kernel and self.table is None:
            call = launch.jit.prepare(launch.arguments, launch.options)
            sizes = call.grid(launch.grid)
            if 0 not in sizes:
                self.table = index(call, sizes)
        return launch.run()


def index(call: Call, grid: Grid) -> Table:
    """Step through the first and last programs; what they wrote is put back."""
    chosen = some_programs(grid)
    rows: list[Row] = []
    changed = [
        leaf
        for leaf in call.leaves
        if leaf.type is not None and leaf.type.dtype.is_pointer and leaf.is_writable
    ]
    saved = [arrays.snapshot(leaf.original, leaf.name) for leaf in changed]
    try:
        for program in chosen:
            observer = collector(rows)
            call.run_eager(grid, [observer], only=program)
    finally:
        for leaf, copy in zip(changed, saved, strict=True):
            arrays.restore(leaf.original, copy, leaf.name)
    code = call.jit.fn.__code__
    return Table(call.jit.__name__, code.co_filename, grid, chosen, rows)


def some_programs(grid: Grid) -> list[tuple[int, int, int]]:
    """All programs of a small grid; of a large one the first two and the last."""
    x, y, z = grid
    total = x * y * z
    numbers = range(total) if total <= EVERY else (0, 1, total - 1)
    return [(n % x, n // x % y, n // (x * y)) for n in numbers]


def collector(rows: list[Row]) -> Callable[[Any, Touch], None]:
    def see(op: Any, touch: Touch) -> None:
        for place in touch.places:
            rows.append(row(touch, place))

    return see


def row(touch: Touch, place: Any) -> Row:
    size = touch.dtype.bytes
    offsets = np.asarray(place.offsets)
    name = "?"
    if place.buffer is not None:
        name = place.buffer.name
        offsets = offsets - (place.buffer.address - place.buffer.low)
    return Row(
        program=tuple(touch.program),
        line=touch.loc.line if touch.loc else 0,
        expression=touch.loc.text if touch.loc else "",
        kind=touch.kind,
        argument=name,
        shape=tuple(touch.shape),
        elements=tuple((offsets // size).tolist()),
        on=tuple(np.asarray(place.lanes).tolist()),
    )
