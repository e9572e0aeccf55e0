"""`tilewright run`: a script or module with Tilewright standing in for triton."""

from __future__ import annotations

import click

from tilewright import compat
from tilewright.cli.script import run_program
from tilewright.compat import inherit


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("-m", "module", is_flag=True, help="The first argument is a module, as of python -m.")
@click.option("--pretend-cuda", is_flag=True, help="Answer for a CUDA device; all is on the CPU.")
@click.argument("target")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def run(module: bool, pretend_cuda: bool, target: str, args: tuple[str, ...]) -> None:
    """Run a script, or with -m a module; `import triton` gives Tilewright.

    So it does in the Python processes that the program starts.

    \b
    tilewright run softmax.py --size 4096
    tilewright run -m pytest tests/test_kernels.py
    """
    if pretend_cuda:
        compat.install(pretend_cuda=True)
    inherit.pass_on(pretend_cuda=pretend_cuda)
    if module:
        run_program(None, target, args)
        return
    check_file(target)
    run_program(target, None, args)


def check_file(file: str) -> None:
    """Raise the usual error of a command line unless the file can be opened."""
    click.Path(exists=True, dir_okay=False, readable=True).convert(file, None, None)
