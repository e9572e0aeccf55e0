"""`tilewright dump`: print what a kernel of a script is compiled to."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import click

from tilewright.cli.run import check_file
from tilewright.cli.script import run_program
from tilewright.config import options
from tilewright.runtime.kernel import launch_observers


class Collector:
    """Keeps the handles of the launches of one kernel."""

    def __init__(self, kernel: str):
        self.kernel = kernel
        self.handles: dict[str, Any] = {}
        self.launched: dict[str, None] = {}

    def define(self, jit: Any) -> None:
        """Only launches count."""

    def launch(self, jit: Any, grid: Any, arguments: dict, options: dict, run: Callable) -> Any:
        self.launched[jit.__name__] = None
        handle = run()
        if jit.__name__ == self.kernel and handle is not None:
            self.handles.setdefault(handle.hash, handle)
        return handle


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--stage", type=click.Choice(["source", "ir", "llvm", "asm"]), default="ir", show_default=True
)
@click.argument("target", metavar="FILE::KERNEL")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def dump(stage: str, target: str, args: tuple[str, ...]) -> None:
    """Run a script and print a stage of each version of a kernel that it launches.

    What the script prints goes to the standard error.
    """
    file, separator, kernel = target.rpartition("::")
    if not separator or not kernel:
        raise click.UsageError("say which kernel: tilewright dump FILE::KERNEL")
    check_file(file)
    collector = Collector(kernel)
    launch_observers.append(collector)
    status: Any = 0
    try:
        with options(target="cpu"), contextlib.redirect_stdout(sys.stderr):
            run_program(file, None, args)
    except SystemExit as stop:
        status = stop.code
    finally:
        launch_observers.remove(collector)
    for handle in collector.handles.values():
        click.echo(handle.asm[stage])
    if not collector.handles:
        names = ", ".join(collector.launched) or "none"
        raise click.ClickException(f"{file} launched no kernel {kernel!r}; it launched: {names}")
    sys.exit(status)
