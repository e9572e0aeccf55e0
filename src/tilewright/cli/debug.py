"""`tilewright debug`: run a script and stop inside its kernels, in Python's own debugger."""

from __future__ import annotations

import bdb
import pdb
import sys
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

import click

from tilewright.cli.run import check_file
from tilewright.cli.script import is_our_file, run_to_end, without_ours
from tilewright.config import options
from tilewright.eager.machine import Eager
from tilewright.ir.op import has_machine, machine
from tilewright.runtime.kernel import JITFunction
from tilewright.runtime.observers import Launch, LaunchObserver, observing

Program = tuple[int, int, int]
RUNNING = {"tilewright", "numpy", "ml_dtypes"}  # packages that run kernels in Python


class ProgramIds(click.ParamType):
    """`X`, `X,Y` or `X,Y,Z`."""

    name = "X[,Y[,Z]]"

    def convert(self, value: Any, param: Any, context: Any) -> Program:
        try:
            ids = tuple(int(part) for part in str(value).split(","))
        except ValueError:
            ids = ()
        if not 1 <= len(ids) <= 3 or min(ids) < 0:
            self.fail(f"{value!r} is no program; write its ids as in 3 or 3,0,0", param, context)
        return (*ids, 0, 0)[:3]


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--kernel", metavar="NAME", help="Stop in this kernel only.")
@click.option("--program", type=ProgramIds(), default="0", help="The program instance to stop in.")
@click.option("--at-fault", is_flag=True, help="Stop where an error is raised only.")
@click.argument("target", metavar="FILE")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def debug(
    kernel: str | None, program: Program, at_fault: bool, target: str, args: tuple[str, ...]
) -> None:
    """Step through the kernels of a script, line by line.

    Runs the script with kernels as Python. pdb opens at the first line of a kernel in one program
    instance, and where an error is raised in any. Tiles are printed with `p x`; `n` goes on by a
    line, `s` into a helper, `c` to the next launch, `q` ends.

    \b
    tilewright debug softmax.py
    tilewright debug --kernel softmax_kernel --program 17 softmax.py --size 4096
    """
    check_file(target)
    stops = Stops(kernel, None if at_fault else program)
    with observing(stops), options(target="eager"):
        status = run_to_end(target, args)
    if kernel is not None and kernel not in stops.launched:
        names = ", ".join(stops.launched) or "none"
        raise click.ClickException(f"{target} launched no kernel {kernel!r}; it launched: {names}")
    sys.exit(status)


class Debugger(pdb.Pdb):
    """Stops at its breakpoints in one program instance, and at errors in any."""

    def __init__(self, program: Program | None):
        super().__init__(skip=sorted(RUNNING), nosigint=True)
        self.program = program
        self.seen: BaseException | None = None  # the last error that was looked at

    def is_skipped_module(self, module_name: str | None) -> bool:
        """Whether a module is what runs kernels: `s` goes past it."""
        package = (module_name or "").partition(".")[0]
        if package.startswith("namedtuple_"):
            package = "collections"
        return package in RUNNING or package in sys.stdlib_module_names

    def break_here(self, frame: FrameType) -> bool:
        running = machine() if has_machine() else None
        here = isinstance(running, Eager) and running.program == self.program
        return here and super().break_here(frame)

    def dispatch_exception(self, frame: FrameType, arg: tuple) -> Any:
        """Open at an error while the kernel still stands where it was raised."""
        kind, error, trace = arg
        if error is not self.seen and not issubclass(kind, (StopIteration, bdb.BdbQuit)):
            self.seen = error
            self.message("".join(traceback.format_exception_only(kind, error)).rstrip())
            self.interaction(frame, without_ours(trace))
            if self.quitting:
                raise bdb.BdbQuit
        return self.trace_dispatch

    def get_stack(self, frame: FrameType | None, trace: Any) -> tuple[list, int]:
        """The frames of the kernel and its helpers, without those that run them."""
        stack, at = super().get_stack(frame, trace)
        kept = [x for x in stack if not is_our_file(x[0].f_code.co_filename)]
        return (kept, kept.index(stack[at])) if stack[at] in kept else (stack, at)

    def run_kernel(self, jit: JITFunction, run: Callable[[], Any]) -> Any:
        """Run a launch with a breakpoint at the kernel's first line."""
        code = jit.fn.__code__
        self.set_break(code.co_filename, first_line(jit), funcname=code.co_name)
        self.reset()
        self.botframe = sys._getframe()
        self.set_continue()
        sys.settrace(self.trace_dispatch)
        try:
            return run()
        except bdb.BdbQuit:
            sys.exit(0)
        finally:
            sys.settrace(None)


class Stops(LaunchObserver):
    """An observer of launches that runs those of one kernel, or all, in a debugger."""

    def __init__(self, kernel: str | None, program: Program | None):
        self.kernel = kernel
        self.debugger = Debugger(program)
        self.launched: dict[str, None] = {}

    def launch(self, launch: Launch) -> Any:
        name = launch.jit.__name__
        self.launched[name] = None
        if self.kernel in (None, name):
            return self.debugger.run_kernel(launch.jit, launch.run)
        return launch.run()


def first_line(jit: JITFunction) -> int:
    """Of the body, behind decorators, parameters and docstring."""
    code = jit.fn.__code__
    lines = (line for *_, line in code.co_lines() if line)
    return next((line for line in lines if line != code.co_firstlineno), code.co_firstlineno)
