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
from tilewright.runtime.compile import make_ir
from tilewright.runtime.handle import CompiledKernel
from tilewright.runtime.kernel import launch_observers
from tilewright.targets.cuda.arch import ARCHES
from tilewright.targets.cuda.target import CudaTarget


class Collector:
    """Keeps a stage of each version of one kernel that is launched."""

    def __init__(self, kernel: str, stage: str, arch: str):
        self.kernel = kernel
        self.stage = stage
        self.arch = arch
        self.texts: dict[str, None] = {}
        self.launched: dict[str, None] = {}

    def define(self, jit: Any) -> None:
        """Only launches count."""

    def launch(self, jit: Any, grid: Any, arguments: dict, options: dict, run: Callable) -> Any:
        self.launched[jit.__name__] = None
        handle = run()
        if jit.__name__ == self.kernel and self.stage == "ptx":
            self.texts.setdefault(ptx_of(jit, arguments, options, self.arch))
        elif jit.__name__ == self.kernel and isinstance(handle, CompiledKernel):
            self.texts.setdefault(handle.asm[self.stage])
        return handle


def ptx_of(jit: Any, arguments: dict[str, Any], options: dict[str, Any], arch: str) -> str:
    """The PTX for a launch with these arguments, were they on a GPU of an architecture."""
    target = CudaTarget(arch)
    request = jit.prepare(arguments, options).on(target).request()
    kernel, _ = make_ir(request, {})
    return target.assembly(target.lower(kernel, bounds=request.bounds, counters=False).text)


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--stage",
    type=click.Choice(["source", "ir", "llvm", "asm", "ptx"]),
    default="ir",
    show_default=True,
)
@click.option(
    "--arch",
    type=click.Choice([*ARCHES]),
    default="sm_80",
    show_default=True,
    help="What PTX is made for; no GPU is needed.",
)
@click.argument("target", metavar="FILE::KERNEL")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def dump(stage: str, arch: str, target: str, args: tuple[str, ...]) -> None:
    """Run a script and print a stage of each version of a kernel that it launches.

    What the script prints goes to the standard error.
    """
    file, separator, kernel = target.rpartition("::")
    if not separator or not kernel:
        raise click.UsageError("say which kernel: tilewright dump FILE::KERNEL")
    check_file(file)
    collector = Collector(kernel, stage, arch)
    launch_observers.append(collector)
    status: Any = 0
    try:
        with options(target="cpu"), contextlib.redirect_stdout(sys.stderr):
            run_program(file, None, args)
    except SystemExit as stop:
        status = stop.code
    finally:
        launch_observers.remove(collector)
    for text in collector.texts:
        click.echo(text)
    if not collector.texts:
        names = ", ".join(collector.launched) or "none"
        raise click.ClickException(f"{file} launched no kernel {kernel!r}; it launched: {names}")
    sys.exit(status)
