"""`tilewright check`: run a script with every launch under all checks, and list what they find."""

from __future__ import annotations

import contextlib
import json
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import click

from tilewright import compat
from tilewright.cli.run import check_file
from tilewright.cli.script import run_to_end
from tilewright.instruments.check import ENGINES, checking


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--json", "wants_json", is_flag=True, help="One JSON document; see docs/json.md.")
@click.option(
    "--engine",
    type=click.Choice(tuple(ENGINES)),
    default="native",
    help="How long launches run: checked native code, or all stepped through.",
)
@click.argument("target", metavar="FILE")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def check(wants_json: bool, engine: str, target: str, args: tuple[str, ...]) -> None:
    """Run a script and list the faults of the kernels that it launches.

    Short launches are stepped through in Python; others run as checked native code, and the
    programs that may be at fault are stepped through. docs/checks.md tells
    what is reported: races, memory that nobody wrote, accesses beyond a view, offsets that ran
    over, NaN and infinities, lanes that were masked off and matter, arithmetic that is not
    defined, promises that are not true. Accesses outside of an array raise, as always. The exit
    status is 1 if anything was found. With --json what the script prints goes to the standard
    error.
    """
    check_file(target)
    if "torch" in Path(target).read_text(encoding="utf-8") and find_spec("torch"):
        compat.install()
        import_module("torch")  # so that its allocations are watched
    where = contextlib.redirect_stdout(sys.stderr) if wants_json else contextlib.nullcontext()
    with where, checking(engine) as findings:
        status = run_to_end(target, args)
    sys.stdout.flush()
    click.echo(json.dumps(findings.as_json(), indent=2) if wants_json else findings.text())
    sys.exit(status or min(1, len(findings)))
