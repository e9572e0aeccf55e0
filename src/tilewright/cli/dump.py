"""`tilewright dump`: print what a kernel of a script is compiled to."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import click

from tilewright.cli.run import check_file
from tilewright.cli.script import run_to_end
from tilewright.config import options
from tilewright.runtime.compile import make_ir
from tilewright.runtime.handle import CompiledKernel
from tilewright.runtime.observers import Launch, LaunchObserver, observing
from tilewright.targets.cuda.arch import ARCHES
from tilewright.targets.cuda.target import CudaTarget


class Collector(LaunchObserver):
    """Keeps a stage of each version of one kernel that is launched."""

    def __init__(self, kernel: str, stage: str, arch: str):
        self.kernel = kernel
        self.stage = stage
        self.arch = arch
        self.texts: dict[str, None] = {}
        self.launched: dict[str, None] = {}

    def launch(self, launch: Launch) -> Any:
        name = launch.jit.__name__
        self.launched[name] = None
        handle = launch.run()
        if name == self.kernel and self.stage == "ptx":
            self.texts.setdefault(ptx_of(launch, self.arch))
        elif name == self.kernel and isinstance(handle, CompiledKernel):
            self.texts.setdefault(handle.asm[self.stage])
        return handle


def ptx_of(launch: Launch, arch: str) -> str:
    """The PTX for a launch, were its arrays on a GPU of an architecture."""
    target = CudaTarget(arch)
    request = launch.jit.prepare(launch.arguments, launch.options).on(target).request()
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
    with observing(collector), options(target="cpu"), contextlib.redirect_stdout(sys.stderr):
        status = run_to_end(file, args)
    for text in collector.texts:
        click.echo(text)
    if not collector.texts:
        names = ", ".join(collector.launched) or "none"
        raise click.ClickException(f"{file} launched no kernel {kernel!r}; it launched: {names}")
    sys.exit(status)
