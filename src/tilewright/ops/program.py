"""Which program instance is running, of how many, where, and when."""

from __future__ import annotations

import time

import numpy as np

from tilewright.errors import want
from tilewright.ir import types as t
from tilewright.ir.op import op
from tilewright.ir.types import Type


def check_grid_axis(name: str, axis: int) -> Type:
    want(axis in (0, 1, 2), f"{name} axis must be 0, 1, or 2 but got {axis}")
    return Type(t.int32)


@op(eager=lambda port, axis: port.program_id(axis), effect="program")
def program_id(axis):
    """The index of this program instance along an axis of the grid."""
    return check_grid_axis("program_id", axis)


@op(eager=lambda port, axis: port.num_programs(axis), effect="program")
def num_programs(axis):
    """The number of program instances along an axis of the grid."""
    return check_grid_axis("num_programs", axis)


@op(eager=lambda port: np.array(0, np.int32), effect="program")
def processor():
    """The number of the processor of a GPU that runs this program instance; 0 on the CPU."""
    return Type(t.int32)


@op(eager=lambda port: np.array(time.perf_counter_ns(), np.int64), effect="debug")
def clock():
    """A count that goes up with time, read after what comes before and before what comes after."""
    return Type(t.int64)
