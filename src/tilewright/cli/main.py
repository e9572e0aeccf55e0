"""The command `tilewright` and its subcommands, one module each."""

from __future__ import annotations

import click

import tilewright
from tilewright.cli.cache import cache
from tilewright.cli.check import check
from tilewright.cli.debug import debug
from tilewright.cli.doctor import doctor
from tilewright.cli.dump import dump
from tilewright.cli.explain import explain
from tilewright.cli.index import index
from tilewright.cli.run import run
from tilewright.cli.tune import tune

COMMANDS = (run, explain, check, debug, index, tune, dump, cache, doctor)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(tilewright.version, prog_name="tilewright")
def main() -> None:
    """Run, step through and explain Triton kernels on CPUs and NVIDIA GPUs."""


for command in COMMANDS:
    main.add_command(command)
