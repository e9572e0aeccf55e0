"""`tilewright explain`: run a script and report what each of its kernels did."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import click

import tilewright
from tilewright.cli.run import check_file
from tilewright.cli.script import run_to_end
from tilewright.config import options
from tilewright.instruments.explain import explaining
from tilewright.instruments.hardware import Hardware, HardwareError, parse_hardware
from tilewright.instruments.ledger import Ledger
from tilewright.instruments.page import page
from tilewright.instruments.report import text
from tilewright.instruments.report_json import as_json
from tilewright.targets.cuda.arch import ARCHES

MINIMUM_WIDTH = 100


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--json", "wants_json", is_flag=True, help="One JSON document; see docs/json.md.")
@click.option(
    "--html",
    "page_file",
    type=click.Path(dir_okay=False, writable=True),
    help="Write the report, with pictures, to this file too.",
)
@click.option(
    "--hardware",
    metavar="NAME|SPEC",
    help='Predict for this hardware: a name such as T4 or H200, or "fp32=20e12,bandwidth=1e12".',
)
@click.option(
    "--arch",
    type=click.Choice([*ARCHES]),
    help="Tell also of the code for this GPU, which need not be there.",
)
@click.argument("target", metavar="FILE")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def explain(
    wants_json: bool,
    page_file: str | None,
    hardware: str | None,
    arch: str | None,
    target: str,
    args: tuple[str, ...],
) -> None:
    """Run a script as it is and report on every kernel that it launches.

    Kernels run native with counters, where their arrays are: each load and store site with its
    bytes, compile and run times, and array operators beside the kernels. On a GPU, or with --arch,
    also how warps access memory, and what the machine code takes. With --json what the script
    prints goes to the standard error.
    """
    check_file(target)
    machine = find_hardware(hardware)
    ledger = Ledger()
    where = contextlib.redirect_stdout(sys.stderr) if wants_json else contextlib.nullcontext()
    observed = explaining(ledger, target, arch, touches=page_file is not None)
    with where, options(target=""), observed, ledger:
        status = run_to_end(target, args)
    if page_file is not None:
        write_page(page_file, page(ledger, machine, target, tilewright.version))
    if wants_json:
        click.echo(json.dumps(as_json(ledger, machine), indent=2))
    else:
        sys.stdout.flush()
        click.echo(text(ledger, machine, console_width=MINIMUM_WIDTH), nl=False)
    sys.exit(status)


def write_page(file: str, text: str) -> None:
    """Whole or not at all."""
    try:
        partial = Path(f"{file}.part")
        partial.write_text(text, encoding="utf-8")
        partial.replace(file)
        click.echo(f"wrote {file}", err=True)
    except OSError as error:
        raise click.FileError(file, str(error)) from error


def find_hardware(text: str | None) -> Hardware | None:
    if text is None:
        return None
    try:
        return parse_hardware(text)
    except HardwareError as error:
        raise click.BadParameter(str(error), param_hint="--hardware") from error
