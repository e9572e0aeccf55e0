"""`tilewright index`: which program handles which elements."""

from __future__ import annotations

import contextlib
import sys

import click

from tilewright.cli.index_table import IndexTableError, aligned, index_table
from tilewright.cli.run import check_file
from tilewright.cli.script import run_to_end
from tilewright.instruments.index import Indexer, Row, Table
from tilewright.runtime.observers import observing

SHOWN = 6  # elements of an access


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--n", type=int, help="Number of elements.")
@click.option("--block", type=int, help="Elements of one program instance.")
@click.argument("target", metavar="[FILE::KERNEL]", required=False)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def index(n: int | None, block: int | None, target: str | None, args: tuple[str, ...]) -> None:
    """Print program ids, offsets and masks.

    \b
    tilewright index --n 10 --block 4         one-dimensional blocking
    tilewright index FILE.py::KERNEL [ARGS]   the accesses of a kernel's first launch
    """
    if target is not None:
        index_kernel(target, args)
        return
    if n is None or block is None:
        raise click.UsageError(
            "give --n and --block, e.g. tilewright index --n 10 --block 4, or FILE::KERNEL"
        )
    try:
        click.echo(index_table(n, block), nl=False)
    except IndexTableError as error:
        raise click.UsageError(str(error)) from error


def index_kernel(target: str, args: tuple[str, ...]) -> None:
    """Run a script; step through some programs of the kernel's first launch and show them."""
    file, separator, kernel = target.rpartition("::")
    if not separator or not kernel:
        raise click.UsageError("say which kernel: tilewright index FILE::KERNEL")
    check_file(file)
    indexer = Indexer(kernel)
    with observing(indexer), contextlib.redirect_stdout(sys.stderr):
        status = run_to_end(file, args)
    if indexer.table is None:
        names = ", ".join(indexer.launched) or "none"
        raise click.ClickException(f"{file} launched no kernel {kernel!r}; it launched: {names}")
    click.echo(render(indexer.table), nl=False)
    sys.exit(status)


def render(table: Table) -> str:
    """The table as text: one line for each access of each program."""
    total = table.grid[0] * table.grid[1] * table.grid[2]
    lines = [
        f"{table.kernel} in {table.file}: grid {table.grid}, {total} programs, "
        f"{len(table.programs)} shown",
        "elements are counted from the start of the argument; lanes that are masked off touch none",
    ]
    for program in table.programs:
        lines += ["", f"program {program}"]
        cells = [["line", "lanes on", "access", "argument", "step", "elements"]]
        cells += [row_cells(row) for row in table.rows if row.program == program]
        lines += ["  " + line for line in aligned(cells)]
    return "\n".join(lines) + "\n"


def row_cells(row: Row) -> list[str]:
    on = len(row.elements)
    step = "" if row.step is None else f"{row.step:+d}"
    shape = "x".join(map(str, row.shape)) or "scalar"
    return [
        str(row.line),
        f"{on} of {row.lanes}",
        f"{row.kind} {shape}",
        row.argument,
        step,
        shown(row.elements),
    ]


def shown(elements: tuple[int, ...]) -> str:
    if len(elements) <= SHOWN:
        return " ".join(map(str, elements)) or "none"
    half = SHOWN // 2
    head, tail = elements[:half], elements[-half:]
    return " ".join([*map(str, head), "...", *map(str, tail)])
