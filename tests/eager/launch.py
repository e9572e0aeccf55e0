"""Launch plain functions in eager mode on NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.eager import Buffer, Eager, Scalar, run_kernel
from tilewright.ir import types as t
from tilewright.lang.jit import JITCallable
from tilewright.ops.rules import NUMPY

DTYPES = {array: dtype for dtype, array in NUMPY.items()}

jit = JITCallable


def buffer(name: str, array: np.ndarray, **facts: Any) -> Buffer:
    """A contiguous array as an argument."""
    start = array.__array_interface__["data"][0]
    low, high = facts.pop("low", start), facts.pop("high", start + array.nbytes)
    return Buffer(name, DTYPES[array.dtype], start, low, high, **facts)


def argument(name: str, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return buffer(name, value)
    if isinstance(value, tuple):
        return tuple(argument(f"{name}.{i}", v) for i, v in enumerate(value))
    if isinstance(value, bool):
        return Scalar(t.int1, value)
    if isinstance(value, int):
        return Scalar(t.int32 if abs(value) < 1 << 31 else t.int64, value)
    return Scalar(t.float32, value) if isinstance(value, float) else value


def launch(kernel: JITCallable, grid: tuple, *args: Any, **options: Any) -> Eager:
    """Run a kernel; parameters annotated as constexpr are constants."""
    given = dict(zip(kernel.arg_names, args, strict=False))
    constants = {n: v for n, v in given.items() if n in kernel.constexpr_names}
    names = [n for n in given if n not in constants]
    values = {n: argument(n, given[n]) for n in names}
    return run_kernel(kernel, grid, values, constants, **options)
