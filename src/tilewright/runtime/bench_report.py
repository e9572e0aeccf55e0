"""Run a benchmark over a range of sizes, and print, plot and save what it returned."""

from __future__ import annotations

import csv
import html
import importlib
import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from tilewright.errors import TilewrightError


@dataclass
class Benchmark:
    """One plot: `line_names` over `x_vals`, each point a call of the benchmarked function.

    A call gets the x value under each of `x_names` (or one value for each, when the x value is
    a sequence), the line's entry of `line_vals` under `line_arg`, and `args`. `styles` are pairs
    of colour and line style, `color` colours alone.
    """

    x_names: Sequence[str]
    x_vals: Sequence[Any]
    line_arg: str
    line_vals: Sequence[Any]
    line_names: Sequence[str]
    plot_name: str
    args: dict[str, Any]
    xlabel: str = ""
    ylabel: str = ""
    x_log: bool = False
    y_log: bool = False
    styles: Sequence[tuple[str, str]] | None = None
    color: Sequence[str] | None = None


@dataclass
class Results:
    """The columns of a table, and for each row the values and the spread of each line."""

    columns: list[str]
    rows: list[list[Any]] = field(default_factory=list)
    spreads: list[list[tuple[float, float] | None]] = field(default_factory=list)


class Mark:
    """A function to benchmark and the plots to make of it."""

    def __init__(self, fn: Callable[..., Any], benchmarks: Benchmark | Sequence[Benchmark]):
        self.fn = fn
        self.benchmarks = benchmarks

    def run(
        self,
        show_plots: bool = False,
        print_data: bool = False,
        save_path: str | os.PathLike[str] = "",
        return_df: bool = False,
        diff_col: bool = False,
        save_precision: int = 6,
        **kwargs: Any,
    ) -> Any:
        """Call the function for every point; further keywords are passed on to it.

        `save_path` is a folder for a CSV file and, where matplotlib is installed, a PNG of each
        plot, and `results.html`. `return_df` gives a pandas DataFrame for each benchmark.
        `diff_col` appends the second line minus the first, when there are two.
        """
        pandas = _needed("pandas", "return_df=True") if return_df else None
        single = isinstance(self.benchmarks, Benchmark)
        done: list[tuple[Benchmark, Results]] = []
        if save_path:
            os.makedirs(save_path, exist_ok=True)
        try:
            for bench in [self.benchmarks] if single else self.benchmarks:
                results = run_benchmark(self.fn, bench, kwargs)
                done.append((bench, results))
                if bench.plot_name and (show_plots or save_path):
                    _plot(bench, results, show_plots, save_path)
                if diff_col:
                    _append_difference(bench, results)
                if print_data:
                    print(f"{bench.plot_name}:\n{format_table(results)}")
                if save_path:
                    _save_csv(os.path.join(save_path, f"{bench.plot_name}.csv"), results,
                              save_precision)  # fmt: skip
        finally:
            if save_path:
                _save_html(save_path, done)
        if pandas is None:
            return None
        frames = [pandas.DataFrame(results.rows, columns=results.columns) for _, results in done]
        return frames[0] if single else frames


def perf_report(
    benchmarks: Benchmark | Sequence[Benchmark],
) -> Callable[[Callable[..., Any]], Mark]:
    """Mark a function as a benchmark with these plots; `.run()` on the result runs it."""
    return lambda fn: Mark(fn, benchmarks)


def run_benchmark(fn: Callable[..., Any], bench: Benchmark, extra: dict[str, Any]) -> Results:
    """Call `fn` at every point; it returns a value, or a value with its least and greatest."""
    names = list(bench.x_names)
    results = Results([*names, *bench.line_names])
    for x in bench.x_vals:
        values = list(x) if isinstance(x, (list, tuple)) else [x] * len(names)
        if len(values) != len(names):
            raise ValueError(f"{bench.plot_name}: x_names has {len(names)} names, got {x!r}")
        point = {**dict(zip(names, values)), **bench.args, **extra}
        row, spreads = [*values], []
        for line in bench.line_vals:
            value, spread = _split(fn(**point, **{bench.line_arg: line}))
            row.append(value)
            spreads.append(spread)
        results.rows.append(row)
        results.spreads.append(spreads)
    return results


def _split(returned: Any) -> tuple[float, tuple[float, float] | None]:
    if isinstance(returned, (list, tuple)):
        value, low, high = returned
        return value, None if low is None or high is None else (low, high)
    return math.nan if returned is None else returned, None


def format_table(results: Results) -> str:
    """The table as text, one line a row, columns aligned to the right."""
    cells = [[str(i), *map(_cell, row)] for i, row in enumerate(results.rows)]
    lines = [["", *results.columns], *cells]
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines
    )


def _cell(value: Any, precision: int = 6) -> str:
    return f"{value:.{precision}f}" if isinstance(value, float) else str(value)


def _append_difference(bench: Benchmark, results: Results) -> None:
    if len(bench.line_names) != 2:
        return
    results.columns.append("Diff")
    for row in results.rows:
        row.append(row[-1] - row[-2])


def _save_csv(path: str, results: Results, precision: int) -> None:
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(results.columns)
        for row in results.rows:
            writer.writerow([_cell(value, precision) for value in row])


def _save_html(folder: str | os.PathLike[str], done: list[tuple[Benchmark, Results]]) -> None:
    """One page with the picture, where there is one, and the table of each benchmark."""
    parts = ["<!doctype html>", '<html><head><meta charset="utf-8"><title>Benchmarks</title>']
    parts.append("</head><body>")
    for bench, results in done:
        name = html.escape(bench.plot_name)
        parts.append(f"<h2>{name}</h2>")
        if os.path.exists(os.path.join(folder, f"{bench.plot_name}.png")):
            parts.append(f'<img src="{name}.png" alt="{name}"/>')
        parts.append(f"<pre>{html.escape(format_table(results))}</pre>")
    parts.append("</body></html>\n")
    with open(os.path.join(folder, "results.html"), "w", encoding="utf-8") as stream:
        stream.write("\n".join(parts))


def _plot(bench: Benchmark, results: Results, show: bool, folder: str | os.PathLike[str]) -> None:
    """Draw the lines with their spread; without matplotlib only say so."""
    pyplot = _optional("matplotlib.pyplot")
    if pyplot is None:
        warnings.warn("plots need matplotlib: pip install matplotlib", stacklevel=3)
        return
    figure, axes = pyplot.subplots()
    first = len(bench.x_names)
    xs = [row[0] for row in results.rows]
    for i, name in enumerate(bench.line_names):
        colour, style = bench.styles[i] if bench.styles else (None, None)
        colour = bench.color[i] if bench.color else colour
        (line,) = axes.plot(
            xs, [row[first + i] for row in results.rows], label=name, color=colour, ls=style
        )
        spreads = [row[i] or (math.nan, math.nan) for row in results.spreads]
        lows, highs = [s[0] for s in spreads], [s[1] for s in spreads]
        axes.fill_between(xs, lows, highs, alpha=0.15, color=line.get_color())
    axes.legend()
    axes.set_xlabel(bench.xlabel or bench.x_names[0])
    axes.set_ylabel(bench.ylabel)
    axes.set_xscale("log" if bench.x_log else "linear")
    axes.set_yscale("log" if bench.y_log else "linear")
    if folder:
        figure.savefig(os.path.join(folder, f"{bench.plot_name}.png"))
    if show:
        pyplot.show()
    pyplot.close(figure)


def _optional(module: str) -> ModuleType | None:
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def _needed(module: str, asked: str) -> ModuleType:
    found = _optional(module)
    if found is None:
        raise TilewrightError(
            f"{asked} needs {module}, which is not installed: pip install {module}"
        )
    return found
