"""The report as one HTML file that needs nothing else: pictures, annotated source, tables."""

from __future__ import annotations

import linecache
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from .gpu_report import (
    ACCESS_HEADER,
    ACCESS_NOTE,
    SHARED_HEADER,
    SHARED_NOTE,
    access_rows,
    shared_rows,
    without_counts,
)
from .hardware import Hardware
from .ledger import Ledger
from .pictures import Bar, Footprint, footprints, movement, roofline
from .report import SITE_HEADER, kernel_facts, site_rows
from .traffic import KernelRun, Site
from .verdict import compare, verdicts
from .wording import duration, percent

SOURCES = {"named": "figures of the spec sheet", "given": "as given", "measured": "measured here"}


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of a kernel, with what it moves."""

    number: int
    text: str
    bar: Bar | None
    reload: float
    masked: float


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table as it is in the text report; columns in `words` hold text."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: tuple[int, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class KernelPart:
    """All that the page says of one kernel."""

    run: KernelRun
    facts: list[tuple[str, str]]
    source: list[SourceLine]
    tables: list[TextTable]
    footprints: list[Footprint]


def page(
    ledger: Ledger, hardware: Hardware | None = None, script: str = "", version: str = ""
) -> str:
    """The report of a `script` as HTML, made by a `version` of Tilewright."""
    kernels = [entry for entry in ledger.entries if isinstance(entry, KernelRun)]
    loader = PackageLoader("tilewright.instruments")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    return environment.get_template("report.html").render(
        title=Path(script).name or "Kernels",
        version=version,
        machine=f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}",
        verdict=verdicts(ledger, compare(ledger)),
        movement=movement(ledger.entries),
        roofline=None if hardware is None else roofline(kernels, hardware),
        hardware=hardware,
        hardware_source="" if hardware is None else SOURCES[hardware.source],
        measured=hardware is not None and hardware.source == "measured",
        kernels=[part(run) for run in kernels],
        duration=duration,
        percent=percent,
    )


def part(run: KernelRun) -> KernelPart:
    sizes = {a.name: prod(a.shape) for a in run.arguments if a.shape is not None}
    prints = [] if run.touched is None else footprints(run.touched, sizes)
    return KernelPart(run, list(kernel_facts(run)), source_lines(run), list(tables(run)), prints)


def tables(run: KernelRun) -> Iterator[TextTable]:
    """The tables of the text report."""
    if run.sites:
        yield TextTable("Loads, stores and atomics", SITE_HEADER, site_rows(run.sites), (0, 1))
    if run.gpu is None:
        return
    if run.gpu.accesses:
        header, rows = without_counts(ACCESS_HEADER, list(access_rows(run.gpu)))
        yield TextTable("Accesses of warps", header, rows, (0, 1, 2), ACCESS_NOTE)
    if run.gpu.shared_accesses:
        header, rows = without_counts(SHARED_HEADER, list(shared_rows(run.gpu)))
        yield TextTable("Shared memory", header, rows, (0, 1), SHARED_NOTE)


def source_lines(run: KernelRun) -> list[SourceLine]:
    """The kernel's own lines, bars on the scale of the one that moves most."""
    text = linecache.getlines(run.file)
    last = end_of(text, run.line)
    here = {n: [s for s in run.sites if (s.file, s.line) == (run.file, n)] for n in range(last + 1)}
    longest = max((sum(s.bytes for s in sites) for sites in here.values()), default=0)
    return [
        source_line(n, text[n - 1].rstrip(), here[n], longest) for n in range(run.line, last + 1)
    ]


def end_of(text: Sequence[str], first: int) -> int:
    """The last line of the function whose first line (a decorator's too) is given."""
    rest = text[first - 1 :]
    if not rest:
        return first - 1
    indent = len(rest[0]) - len(rest[0].lstrip())
    last, in_body = first, False
    for number, line in enumerate(rest, first):
        if not line.strip():
            continue
        deeper = len(line) - len(line.lstrip()) > indent
        if in_body and not deeper and not line.lstrip().startswith((")", "#")):
            break
        in_body = in_body or line.lstrip().startswith(("def ", "async def "))
        last = number
    return last


def source_line(number: int, text: str, sites: Sequence[Site], longest: int) -> SourceLine:
    if not sites or not longest:
        return SourceLine(number, text, None, 0.0, 0.0)
    read, written = sum(s.read_bytes for s in sites), sum(s.write_bytes for s in sites)
    total, unique = sum(s.bytes for s in sites), sum(s.unique_bytes for s in sites)
    masked, lanes = sum(s.masked for s in sites), sum(s.masked + s.elements for s in sites)
    shown = Bar("", 100 * read / longest, 100 * written / longest, total, None, False)
    return SourceLine(
        number, text, shown, total / unique if unique else 0.0, masked / lanes if lanes else 0.0
    )
