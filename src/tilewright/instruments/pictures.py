"""The geometry of the report's pictures: bars of bytes, the roofline, what programs touch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from .hardware import Hardware
from .index import Row, Table
from .traffic import KernelRun, Region, Step
from .wording import shortened

CELLS = 64  # cells of a strip at most
SHOWN_ACCESSES = 8  # of one program
LABEL, NEAR = 150, 14  # width and height of a label


@dataclass(frozen=True, slots=True)
class Bar:
    """Bytes read and written by one step or kernel, as percentages of the longest bar."""

    label: str
    read: float
    written: float
    bytes: int
    seconds: float | None
    is_kernel: bool


def movement(entries: Sequence[Region | KernelRun]) -> list[list[Bar]]:
    """A group of bars for each region and each kernel, in program order, on one scale."""
    groups = [list(entry.steps) if isinstance(entry, Region) else [entry] for entry in entries]
    longest = max((thing.total_bytes for group in groups for thing in group), default=0)
    return [[bar(thing, longest) for thing in group] for group in groups if longest]


def bar(thing: KernelRun | Step, longest: int) -> Bar:
    return Bar(
        thing.title if isinstance(thing, KernelRun) else thing.name,
        100 * thing.read_bytes / longest,
        100 * thing.write_bytes / longest,
        thing.total_bytes,
        thing.seconds,
        isinstance(thing, KernelRun),
    )


@dataclass(frozen=True, slots=True)
class Point:
    """A kernel in the roofline, on the roof unless `reached`: measured on that hardware."""

    label: str
    x: float
    y: float
    label_y: float  # below those of other kernels close by
    flops_per_byte: float
    flops_per_second: float
    reached: bool


@dataclass(frozen=True, slots=True)
class Roofline:
    """A log-log plot in a box of `width` x `height`: one roof for each dtype in use, ticks, points.

    A roof is a polyline of (x, y); a tick its position and label.
    """

    width: float
    height: float
    roofs: list[tuple[str, list[tuple[float, float]]]]
    points: list[Point]
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]


def roofline(
    runs: Sequence[KernelRun], hardware: Hardware, width: float = 640, height: float = 300
) -> Roofline | None:
    """Kernels below the roofs of `hardware`; None where no kernel does arithmetic."""
    runs = [run for run in runs if run.flops and run.total_bytes]
    peaks = dict(p for run in runs if (p := hardware.peak(run.compute_dtype)))
    if not runs or not peaks:
        return None
    intensities = [run.flops / run.total_bytes for run in runs]
    ridges = [peak / hardware.bandwidth for peak in peaks.values()]
    low, high = decades([*intensities, *ridges])
    bottom, top = decades([10.0**low * hardware.bandwidth, *peaks.values()])

    def at(intensity: float, speed: float) -> tuple[float, float]:
        x = (log10(intensity) - low) / (high - low) * width
        return x, height - (log10(speed) - bottom) / (top - bottom) * height

    def roof(peak: float) -> list[tuple[float, float]]:
        corners = (10.0**low, peak / hardware.bandwidth, 10.0**high)
        return [at(x, min(peak, x * hardware.bandwidth)) for x in corners]

    points: list[Point] = []
    for run, intensity in zip(runs, intensities, strict=True):
        _, peak = hardware.peak(run.compute_dtype)
        reached = hardware.source == "measured" and run.seconds is not None
        limit = min(peak, intensity * hardware.bandwidth)
        speed = run.flops / run.seconds if reached else limit
        x, y = at(intensity, speed)
        close = sum(abs(p.x - x) < LABEL and abs(p.y - y) < NEAR for p in points)
        label_y = y + NEAR * (1 + close)
        points.append(Point(run.title, x, y, label_y, intensity, speed, reached))
    return Roofline(
        width,
        height,
        [(dtype, roof(peak)) for dtype, peak in peaks.items()],
        points,
        [(at(10.0**n, 10.0**bottom)[0], spelled(n)) for n in range(low, high + 1)],
        [(at(10.0**low, 10.0**n)[1], spelled(n)) for n in range(bottom, top + 1)],
    )


def decades(values: Iterable[float]) -> tuple[int, int]:
    """The powers of ten around values, with some room."""
    logs = [log10(v) for v in values]
    return floor(min(logs) - 0.3), ceil(max(logs) + 0.3)


def spelled(power: int) -> str:
    """A power of ten as an axis shows it."""
    names = {9: "G", 12: "T", 15: "P"}
    unit = max((p for p in names if p <= power), default=0)
    return f"{10 ** (power - unit):g}{names.get(unit, '')}" if power >= 0 else f"{10.0**power:g}"


@dataclass(frozen=True, slots=True)
class Strip:
    """One access of one program: how much of each cell of its lanes and of its argument is on.

    `lanes` are shares of the lanes that are switched on; `touched` of the argument's elements that
    the access touches.
    """

    line: int
    access: str
    argument: str
    on: int
    all: int
    first: int | None
    last: int | None
    lanes: list[float]
    touched: list[float]


@dataclass(frozen=True, slots=True)
class Footprint:
    """What one program touches; `more` accesses are not shown."""

    program: tuple[int, int, int]
    strips: list[Strip]
    more: int


def footprints(table: Table, sizes: dict[str, int]) -> list[Footprint]:
    """The first accesses of each program that was stepped; `sizes` are elements of arguments."""
    found = []
    for program in table.programs:
        rows = [row for row in table.rows if row.program == program]
        strips = [strip(row, sizes.get(row.argument)) for row in rows[:SHOWN_ACCESSES]]
        found.append(Footprint(program, strips, len(rows) - len(strips)))
    return found


def strip(row: Row, size: int | None) -> Strip:
    on = [e for e in row.elements if size is None or 0 <= e < size]
    return Strip(
        row.line,
        shortened(row.expression),
        row.argument,
        len(row.elements),
        row.lanes,
        min(row.elements, default=None),
        max(row.elements, default=None),
        shares(row.on, row.lanes),
        shares(on, size) if size else [],
    )


def shares(positions: Iterable[int], size: int) -> list[float]:
    """Of each of CELLS equal pieces of [0, size): the share that `positions` hold."""
    cells = min(CELLS, size)
    hits = [0] * cells
    for position in set(positions):
        hits[position * cells // size] += 1
    return [min(1.0, hit * cells / size) for hit in hits]
