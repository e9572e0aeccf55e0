"""`tilewright check`: run a script with every launch under all checks, and list what they find."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from tilewright import compat
from tilewright.cli.run import check_file
from tilewright.cli.script import run_program
from tilewright.instruments.check import checking


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("target", metavar="FILE")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def check(target: str, args: tuple[str, ...]) -> None:
    """Run a script and list the faults of the kernels that it launches.

    Kernels are stepped through in Python, which takes long for large arrays. Reported are races
    between programs, reads of memory that nobody wrote, accesses beyond a view, offsets that ran
    over 2^31, and where a NaN came from that is stored; accesses outside of an array raise, as
    always. The exit status is 1 if anything was found.
    """
    check_file(target)
    if "torch" in Path(target).read_text(encoding="utf-8") and find_spec("torch"):
        compat.install()
        import_module("torch")  # so that its allocations are watched
    status: Any = 0
    with checking() as findings:
        try:
            run_program(target, None, args)
        except SystemExit as stop:
            status = stop.code
    sys.stdout.flush()
    for finding in findings:
        click.echo(str(finding))
    click.echo(f"{len(findings)} found" if findings.items else "nothing found")
    sys.exit(status or min(1, len(findings)))
