"""Time kernels beside other libraries: `python benchmarks/run.py [names] [--threads 1]`.

Every row is measured side by side, in rounds that run each peer in turn: CPU time of the process
for one thread, the wall clock for several. Results are checked before anything is timed, and the
first call, which compiles, is reported apart. `x torch` is how many times faster than torch.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import machine
import measure
import peaks
from case import OURS, Case, as_arrays, check
from rich.console import Console

from tilewright import compat

ROOF = "roof"
PEERS = ("torch", "compile", "numpy", "numba")
DEFAULT_PEERS = ("torch", "numpy", "numba")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of the names of cases; all without")
    parser.add_argument("--threads", type=int, default=1, help="for every peer (default 1)")
    parser.add_argument(
        "--peers", nargs="*", choices=PEERS, default=DEFAULT_PEERS,
        help="compile is torch.compile, which takes long to begin (default: all others)",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, help="also write one JSON object a line here")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    machine.restart(options.threads)
    machine.keep_memory_mapped()
    compat.install()
    cases = importlib.import_module("kernels").chosen(options.names)
    console = Console(width=200 if not sys.stdout.isatty() else None, highlight=False)
    about = {**machine.describe(), "threads": options.threads, "peaks": peaks.measured()}
    console.print(heading(about))
    out = options.json.open("w") if options.json else None
    write(out, about)
    columns = [OURS, *options.peers]
    console.print(title_line(columns), style="bold")
    for row in rows(cases, options.peers, options.threads):
        write(out, row)
        console.print(table_line(row, columns), soft_wrap=True)
    if out is not None:
        out.close()


def write(out: TextIO | None, row: dict[str, Any]) -> None:
    if out is not None:
        out.write(json.dumps(row) + "\n")
        out.flush()


def rows(cases: list[Case], peers: tuple[str, ...], threads: int) -> Iterator[dict[str, Any]]:
    """What was measured of each case, as it goes into the file."""
    clock_name, clock = measure.clock_for(threads)
    for case in cases:
        run = case.make()
        calls = {name: call for name, call in run.calls.items() if name in (OURS, *peers)}
        expected, firsts = as_arrays(run.reference()), {}
        for name, call in calls.items():
            firsts[name], result = measure.first_call(call)
            check(f"{case.label}: {name}", result, expected, run.tolerance)
        if run.roof is not None and threads == 1:
            calls[ROOF] = run.roof
            firsts[ROOF], _ = measure.first_call(run.roof)
        times = measure.interleaved(calls, firsts, clock, rest=measure.REST_S if threads > 1 else 0)
        yield {
            "kind": "row", "name": case.name, "size": case.size, "threads": threads,
            "clock": clock_name, "bytes": case.bytes, "flops": case.flops,
            "peers": {
                name: {"median": t.median, "spread": t.spread, "first": t.first,
                       "samples": t.samples}
                for name, t in times.items()
            },
        }  # fmt: skip


def heading(about: dict[str, Any]) -> str:
    """Where the figures come from, in a few lines."""
    versions = ", ".join(f"{name} {text}" for name, text in about["versions"].items())
    roofs = ", ".join(f"{name} {value:.0f}" for name, value in about["peaks"].items())
    return (
        f"{about['cores']} cores {about['cpu']}, {about['system']}, Python {about['python']}, "
        f"{versions}, commit {about['commit']}\n"
        f"threads: {about['threads']}; roofs of one core: {roofs}\n"
    )


def title_line(columns: list[str]) -> str:
    cells = [
        f"{'kernel':26} {'size':26} {'ms':>9} {'+-':>4} {'GB/s':>6} {'GFLOP/s':>7} {'first ms':>8}"
    ]
    cells += [f"{'x ' + name:>9}" for name in columns[1:]]
    return " ".join([*cells, f"{'of roof':>9}"])


def table_line(row: dict[str, Any], columns: list[str]) -> str:
    peers = row["peers"]
    ours = peers[OURS]["median"]
    cells = [
        f"{row['name']:26} {row['size']:26} {ours * 1e3:9.4f} {peers[OURS]['spread']:4.0%}",
        f"{row['bytes'] / ours / 1e9:6.1f} {row['flops'] / ours / 1e9:7.1f}",
        f"{peers[OURS]['first'] * 1e3:8.0f}",
    ]
    for name in (*columns[1:], ROOF):
        ratio = f"{peers[name]['median'] / ours:9.2f}" if name in peers else f"{'':9}"
        cells.append(ratio)
    return " ".join(cells).rstrip()


if __name__ == "__main__":
    main()
