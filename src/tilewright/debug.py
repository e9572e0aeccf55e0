"""Stop or print inside a kernel where a condition holds."""

from __future__ import annotations

import pdb
import sys
from typing import Any

from tilewright.eager.machine import Eager
from tilewright.instruments.check import checking
from tilewright.ir import types as t
from tilewright.ir.op import emit, machine
from tilewright.lang.arithmetic import logical_and
from tilewright.lang.builtin import builtin
from tilewright.lang.conversion import cast, truth
from tilewright.lang.meta import device_print, program_id
from tilewright.lang.reductions import reduce_or
from tilewright.lang.tensor import tensor
from tilewright.ops.control import if_

__all__ = ["breakpoint_if", "checking", "print_if"]


@builtin
def breakpoint_if(
    cond: Any,
    pid_0: int | None = None,
    pid_1: int | None = None,
    pid_2: int | None = None,
) -> None:
    """Stop in the debugger, in eager mode, where the condition holds (in a tile: anywhere).

    With pid_0, pid_1 or pid_2, only the program instance with these ids stops. Compiled kernels
    do not stop.
    """
    running = machine()
    if not isinstance(running, Eager):
        return
    wanted = (pid_0, pid_1, pid_2)
    if any(w not in (None, have) for w, have in zip(wanted, running.program, strict=True)):
        return
    if not bool(anywhere(cond)):
        return
    if sys.breakpointhook is sys.__breakpointhook__:
        pdb.Pdb().set_trace(running.frame())
    else:
        sys.breakpointhook()


@builtin
def print_if(
    cond: Any,
    *values: Any,
    pid_0: int | None = None,
    pid_1: int | None = None,
    pid_2: int | None = None,
    prefix: str = "",
) -> None:
    """Print values where the condition holds (in a tile: anywhere), compiled or not."""
    condition = anywhere(cond)
    for axis, wanted in enumerate((pid_0, pid_1, pid_2)):
        if wanted is not None:
            condition = logical_and(condition, program_id(axis) == wanted)

    @builtin
    def show() -> tuple:
        device_print(prefix, *values)
        return ()

    @builtin
    def nothing() -> tuple:
        return ()

    running = machine()
    if isinstance(running, Eager):
        if bool(condition):
            show()
        return
    sides = (running.region(show, []), running.region(nothing, []))
    emit(if_, condition.handle, region=sides, types=())


def anywhere(cond: Any) -> tensor:
    """Whether a condition holds in one element at least."""
    condition = truth(cond)
    if not condition.shape:
        return condition
    return cast(reduce_or(cast(condition, t.int32)), t.int1)
