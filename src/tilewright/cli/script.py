"""Run a program as `python` would, with Tilewright standing in for triton."""

from __future__ import annotations

import io
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from tilewright import compat
from tilewright.errors import InternalError, TilewrightError

PACKAGE = str(Path(__file__).parents[1]) + os.sep
STOPPED = 130  # what shells make of Ctrl-C


def run_program(file: str | None, module: str | None, args: Sequence[str]) -> None:
    """Run a file or a module as `__main__`.

    Raises:
        SystemExit: as the program does, or with 1 after an exception, which was printed.
    """
    compat.install()
    try:
        if module is not None:
            run_module(module, args)
        else:
            run_file(file, args)
    except SystemExit:
        raise
    except BaseException as error:
        report(error)
        sys.exit(STOPPED if isinstance(error, KeyboardInterrupt) else 1)


def run_to_end(file: str, args: Sequence[str]) -> Any:
    """Run a file as `__main__`; gives the status with which it would exit."""
    try:
        run_program(file, None, args)
    except SystemExit as stop:
        return stop.code
    return 0


def run_file(file: str, args: Sequence[str]) -> None:
    with io.open_code(os.path.abspath(file)) as stream:
        code = compile(stream.read(), file, "exec")
    module = ModuleType("__main__")
    module.__file__ = file
    module.__dict__["__cached__"] = None
    sys.modules["__main__"] = module
    sys.argv = [file, *args]
    sys.path[0] = os.path.dirname(os.path.realpath(file))
    exec(code, module.__dict__)


def run_module(name: str, args: Sequence[str]) -> None:
    sys.argv = [name, *args]
    sys.path[0] = os.getcwd()
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def report(error: BaseException) -> None:
    """Print a traceback as the program alone would have it."""
    trace = after_start(error.__traceback__)
    if isinstance(error, TilewrightError) and not isinstance(error, InternalError):
        trace = without_ours(trace)
    error.__traceback__ = trace
    sys.excepthook(type(error), error, trace)


def is_ours(trace: TracebackType) -> bool:
    return is_our_file(trace.tb_frame.f_code.co_filename)


def is_our_file(file: str) -> bool:
    return file.startswith((PACKAGE, "<launch of "))


def after_start(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the program's own first frame on."""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not is_ours(trace) and file not in (runpy.__file__, "<frozen runpy>"):
            return trace
        trace = trace.tb_next
    return None


def without_ours(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without Tilewright's frames, which say nothing about an error of the user's."""
    kept, here = [], trace
    while here is not None:
        if not is_ours(here):
            kept.append(here)
        here = here.tb_next
    for frame, after in zip(kept, [*kept[1:], None]):
        frame.tb_next = after
    return kept[0] if kept else trace
