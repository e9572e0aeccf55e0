"""The report as text: kernels, their access sites, the ledger, predictions and a verdict."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from .gpu import GpuCode
from .gpu_report import (
    ACCESS_HEADER,
    ACCESS_NOTE,
    SHARED_HEADER,
    SHARED_NOTE,
    access_rows,
    code_line,
    memory_line,
    shared_rows,
    without_counts,
)
from .hardware import Hardware
from .ledger import Ledger
from .report_json import as_json
from .roofline import (
    Prediction,
    predict_kernel,
    predict_least,
    predict_region,
    predicted_speedup,
)
from .traffic import ArgumentInfo, KernelRun, Region, Site, Step
from .verdict import Comparison, compare, region_name, verdicts
from .wording import duration, percent, place, plural

__all__ = ["as_json", "show", "text"]
WIDTH = 100
LEAST_FLEXIBLE = 20  # characters that a column keeps when a table is cut to the width
INDENT = 2
GAP = 2
BOUNDLESS = 10_000
SITE_HEADER = ("site", "expression", "elements", "bytes", "unique bytes", "reload", "masked")

Row = tuple[str | Text, ...]


def text(ledger: Ledger, hardware: Hardware | None = None, console_width: int = WIDTH) -> str:
    """The report without colour, for a file or a pipe."""
    console = Console(
        file=io.StringIO(),
        width=console_width,
        color_system=None,
        highlight=False,
        legacy_windows=False,
    )
    show(ledger, hardware, console)
    lines = console.file.getvalue().splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def show(ledger: Ledger, hardware: Hardware | None, console: Console) -> None:
    """Print the report."""
    comparisons = compare(ledger)
    for part in sections(ledger, hardware, comparisons, console.width):
        print_whole(console, part)


def print_whole(console: Console, part: RenderableType) -> None:
    """Print lines too long for the console rather than figures that lost their digits."""
    width = console.width
    least = Measurement.get(console, console.options.update(width=BOUNDLESS), part).minimum
    console.width = max(width, least)
    console.print(part)
    console.width = width


def sections(
    ledger: Ledger, hardware: Hardware | None, comparisons: Sequence[Comparison], width: int
) -> Iterator[RenderableType]:
    """The parts of the report, in order."""
    entries = ledger.entries
    if not entries and not ledger.never_launched:
        yield Text("No kernel was run to its end and no array operator was recorded.")
        return
    for entry in entries:
        if isinstance(entry, KernelRun):
            yield kernel_section(entry, width)
    if any(isinstance(e, Region) for e in entries):
        yield heading("Ledger", "array operators and kernels in program order, bytes of one call")
        yield ledger_table(entries, comparisons, width)
    if ledger.uncounted:
        names = ", ".join(f"{name} ({n})" for name, n in sorted(ledger.uncounted.items()))
        yield Text(f"Not counted, for their arrays are not plain strided ones: {names}\n")
    if ledger.never_launched:
        yield heading("Never launched", "defined, but neither launched nor used by a kernel")
        for name, file, line in ledger.never_launched:
            yield Text(f"  {name}  {file}:{line}")
        yield Text()
    if hardware is not None and entries:
        yield heading("Prediction", "computed from the counts above, measured nowhere")
        yield prediction_section(entries, hardware, comparisons, width)
    yield heading("Verdict")
    for sentence in verdicts(ledger, comparisons):
        yield indented(Text(sentence))


def heading(title: str, note: str = "") -> Text:
    """A title, and beside it what the part is about."""
    line = Text(title, style="bold")
    return line.append(f"  {note}", style="dim not bold") if note else line


def indented(part: RenderableType) -> RenderableType:
    return Padding(part, (0, 0, 0, INDENT))


def kernel_section(run: KernelRun, width: int) -> RenderableType:
    """All about one kernel and signature."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in kernel_facts(run):
        facts.add_row(Text(name), Text(value))
    parts: list[RenderableType] = [
        heading(run.title, f"{run.file}:{run.line}"),
        indented(facts),
    ]
    parts.append(site_table(run.sites, width) if run.sites else Text())
    if run.gpu is not None:
        parts += gpu_tables(run.gpu, width)
    return Group(*parts)


def gpu_tables(code: GpuCode, width: int) -> Iterator[RenderableType]:
    """How warps access memory."""
    if code.accesses:
        header, rows = without_counts(ACCESS_HEADER, list(access_rows(code)))
        yield table(header, rows, width, flexible=1, words=(0, 1, 2))
        yield Group(indented(Text(ACCESS_NOTE, "dim")), Text())
    if code.shared_accesses:
        header, rows = without_counts(SHARED_HEADER, list(shared_rows(code)))
        yield table(header, rows, width, flexible=1, words=(0, 1))
        yield Group(indented(Text(SHARED_NOTE, "dim")), Text())


def kernel_facts(run: KernelRun) -> Iterator[tuple[str, str]]:
    """The lines of a kernel above its table of sites: what, and the figures."""
    grid = ", ".join(map(str, run.grid)) + ("," if len(run.grid) == 1 else "")
    times = f", launched {run.launches} times" if run.launches > 1 else ""
    yield "grid", f"({grid}): {plural(run.programs, 'program instance')} on {run.target}{times}"
    for number, argument in enumerate(run.arguments):
        yield "arguments" if number == 0 else "", argument_line(argument)
    if run.meta:
        yield "meta", "  ".join(f"{name}={value}" for name, value in run.meta.items())
    yield "compile", compile_line(run)
    yield "run", run_line(run)
    if not run.sites:
        yield "bytes", "not counted"
        return
    over = f" = {run.over_least:.3f}x" if run.over_least is not None else ""
    yield "bytes", f"{run.total_bytes:,} asked for, {run.least_bytes:,} is the least possible{over}"
    if run.gpu is not None:
        yield "code", code_line(run.gpu)
        if run.gpu.memory_read is not None:
            yield "memory", memory_line(run.gpu)
    if run.flops:
        yield "flops", f"{run.flops:,}, {run.flop_per_byte:.3g} flop/byte"


def argument_line(argument: ArgumentInfo) -> str:
    head = f"{argument.name}: {argument.dtype}"
    if argument.shape is None:
        return f"{head} = {argument.value}"
    strides = f" strides {list(argument.strides)}" if argument.strides is not None else ""
    return f"{head} {list(argument.shape)}{strides}"


def compile_line(run: KernelRun) -> str:
    stages = ", ".join(f"{stage} {duration(s)}" for stage, s in run.compile_s.items())
    origin = "from the cache" if run.from_cache else "compiled now"
    if not stages:
        return origin
    return f"{duration(run.compile_seconds)}, {origin} ({stages}); not part of the run time"


def run_line(run: KernelRun) -> str:
    if run.timing is None:
        return "not timed"
    repeats = plural(run.timing.repeats, "run")
    parts = [f"{duration(run.timing.median)}, median of {repeats} on this machine"]
    if run.effective_gbps is not None:
        parts.append(f"{run.effective_gbps:.1f} GB/s effective")
    if run.gflops is not None:
        parts.append(f"{run.gflops:.1f} GFLOP/s")
    return "; ".join(parts)


def table(
    header: Sequence[str], rows: Sequence[Row], width: int, flexible: int, words: Sequence[int]
) -> RenderableType:
    """An indented table whose `flexible` column is cut to fit `width`; words go to the left.

    An empty row draws a line.
    """
    widths = [max(len(row[i]) for row in (header, *rows) if row) for i in range(len(header))]
    rest = sum(widths) - widths[flexible] + GAP * (len(header) - 1) + INDENT
    widths[flexible] = min(widths[flexible], max(LEAST_FLEXIBLE, width - rest))
    # The divider between columns is one space, the padding the rest of the gap.
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
    for i, name in enumerate(header):
        justify = "left" if i in words else "right"
        exact = {"width": widths[i], "min_width": widths[i]}
        made.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis", **exact)
    for row in rows:
        if row:
            made.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
        else:
            made.add_section()
    return Padding(made, (1, 0, 1, INDENT))


def site_table(sites: Sequence[Site], width: int) -> RenderableType:
    """One row for each load, store and atomic."""
    return table(SITE_HEADER, site_rows(sites), width, flexible=1, words=(0, 1))


def site_rows(sites: Sequence[Site]) -> list[tuple[str, ...]]:
    """The cells of `SITE_HEADER`."""
    return [
        (
            place(s.file, s.line),
            " ".join(s.expression.split()),
            f"{s.elements:,}",
            f"{s.bytes:,}",
            f"{s.unique_bytes:,}",
            f"{s.reload:.2f}x",
            percent(s.masked_share),
        )
        for s in sites
    ]


def ledger_table(
    entries: Sequence[Region | KernelRun], comparisons: Sequence[Comparison], width: int
) -> RenderableType:
    """Steps and kernels in order, each region with its total and its ratio to its kernel."""
    header = ("step", "place", "reads", "writes", "bytes", "time", "ratio")
    rows: list[Row] = []
    for entry in entries:
        if isinstance(entry, KernelRun):
            count = f" x{entry.launches}" if entry.launches > 1 else ""
            name = Text(f"kernel {entry.title}{count}", "bold")
            rows.append((name, place(entry.file, entry.line), *counts(entry), ""))
        else:
            ratio = next((c.bytes_ratio for c in comparisons if c.region == entry), None)
            rows += region_rows(entry, "" if ratio is None else f"{ratio:.2f}x")
        rows.append(())
    notes = "reads and writes in elements; times of this machine"
    if comparisons:
        notes += "\nratio: bytes of the steps over those of the kernel of the same shapes"
    made = table(header, rows[:-1], width, flexible=0, words=(0, 1))
    return Group(made, indented(Text(notes, "dim")), Text())


def region_rows(region: Region, ratio: str) -> Iterator[Row]:
    """A row for each step of a region, and one for all of them unless there is but one."""
    steps = region.steps
    if len(steps) > 1:
        for step in steps:
            yield "  " + step.name, place(step.file, step.line), *counts(step), ""
    calls = f" x{region.calls}" if region.calls > 1 else ""
    name = "script" if region.name == "<module>" else region.name
    what = f"{len(steps)} steps" if len(steps) > 1 else steps[0].name
    total = Text(f"{name}{calls}: {what}", "bold")
    yield total, place(region.file, region.line), *counts(region), ratio


def counts(thing: KernelRun | Region | Step) -> tuple[str, str, str, str]:
    """Elements read and written, bytes, and time, as cells."""
    time = "" if thing.seconds is None else duration(thing.seconds)
    if isinstance(thing, KernelRun) and not thing.sites:
        return "not counted", "", "", time
    cells = (thing.read_elements, thing.write_elements, thing.total_bytes)
    return (*(f"{count:,}" for count in cells), time)


def prediction_section(
    entries: Sequence[Region | KernelRun],
    hardware: Hardware,
    comparisons: Sequence[Comparison],
    width: int,
) -> RenderableType:
    """Times by the roofline, and how much faster fused kernels should be than their steps."""
    peaks = ", ".join(f"{dtype} {peak / 1e12:g} TFLOP/s" for dtype, peak in hardware.peaks.items())
    origin = "figures of the spec sheet" if hardware.source == "named" else hardware.source
    about = f"{hardware.name}: {hardware.bandwidth / 1e9:,g} GB/s {peaks} ({origin})"
    header = ("predicted", "bytes", "memory", "compute", "time", "bound by")
    rows = [
        (name, *prediction_cells(prediction))
        for entry in entries
        for name, prediction in predictions(entry, hardware)
    ]
    made = table(header, rows, width, flexible=0, words=(0, 5))
    lines = [Text(line) for line in speedup_lines(hardware, comparisons)]
    return Group(indented(Text(about)), made, *map(indented, lines), Text())


def predictions(entry: Region | KernelRun, hardware: Hardware) -> Iterator[tuple[str, Prediction]]:
    """The predictions for a kernel or region, with what they assume."""
    if isinstance(entry, Region):
        yield region_name(entry), predict_region(entry, hardware)
    elif entry.sites and entry.total_bytes == entry.least_bytes:
        yield entry.title, predict_kernel(entry, hardware)
    elif entry.sites:
        yield f"{entry.title}, no cache", predict_kernel(entry, hardware)
        yield f"{entry.title}, perfect cache", predict_least(entry, hardware)


def prediction_cells(p: Prediction) -> tuple[str, ...]:
    compute = "" if p.compute_seconds is None else duration(p.compute_seconds)
    bound = p.bound if p.bound == "memory" else f"{p.peak_dtype} compute"
    return f"{p.bytes:,}", duration(p.memory_seconds), compute, duration(p.seconds), bound


def speedup_lines(hardware: Hardware, comparisons: Sequence[Comparison]) -> Iterator[str]:
    for c in comparisons:
        steps, kernel = predict_region(c.region, hardware), predict_kernel(c.kernel, hardware)
        speedup = predicted_speedup(steps, kernel)
        if speedup is not None:
            yield (
                f"Predicted: {c.kernel.title} {speedup:.3f}x as fast as the steps of "
                f"{region_name(c.region)} ({duration(kernel.seconds)} against "
                f"{duration(steps.seconds)})."
            )
