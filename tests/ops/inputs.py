"""Inputs that find faults: the edges of every dtype, and every way in which an op can be used."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from tilewright.errors import CompileError
from tilewright.ir import types as t
from tilewright.ir.op import Op
from tilewright.ir.types import DType, Type
from tilewright.ops import OPS
from tilewright.ops.rules import numpy_dtype

ELEMENTWISE = sorted((op for op in OPS.values() if op.is_elementwise), key=lambda op: op.name)
# fp8e4b15 is a format of memory only: it is converted, moved and compared bit by bit.
MOVED = {"cast", "bitcast", "select", "hint"}


def edge_values(dtype: DType) -> np.ndarray:
    """Zeros, ones, extremes, denormals, infinities, NaN, and some numbers between."""
    if dtype is t.int1:
        return np.array([False, True])
    if dtype.is_integer:
        return integer_edges(dtype)
    if dtype is t.float8e4b15:
        return np.arange(256, dtype=np.uint8).view(numpy_dtype(dtype))
    return float_edges(dtype)


def integer_edges(dtype: DType) -> np.ndarray:
    held = numpy_dtype(dtype)
    info = np.iinfo(held)
    numbers = {0, 1, 2, 3, 5, 7, 8, 31, 32, 63, 64, 100, info.max, info.max - 1, info.max // 3}
    if dtype.bits == 64:  # between two bf16, but for the last bit
        numbers |= {(1 << 62) + (1 << 54), (1 << 62) + (1 << 54) + 1, (1 << 62) + (1 << 54) - 1}
    if dtype.is_signed:
        numbers |= {-n for n in numbers} | {info.min, info.min + 1}
    random = np.random.default_rng(dtype.bits).integers(info.min, info.max, 6, held)
    return np.array(sorted(numbers | {int(n) for n in random}), held)


def float_edges(dtype: DType) -> np.ndarray:
    held = numpy_dtype(dtype)
    smallest = 2.0 ** (1 - dtype.exponent_bias - dtype.mantissa)
    if dtype is t.float64:
        largest = np.finfo(np.float64).max
    else:
        bits = np.arange(1 << min(dtype.bits, 16), dtype=np.uint32)
        if dtype is t.float32:
            largest = float(np.finfo(np.float32).max)
        else:
            with np.errstate(invalid="ignore"):
                every = bits.astype(f"u{held.itemsize}").view(held).astype(np.float64)
            largest = float(np.max(every[np.isfinite(every)]))
    sizes = [
        0.0, 0.1, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.75, 0.333251953125, 1 + 2.0**-dtype.mantissa,
        smallest, 3 * smallest, smallest * 2**dtype.mantissa, largest, largest / 2, np.inf,
    ]  # fmt: skip
    random = np.random.default_rng(dtype.bits).standard_normal(6) * [1e-3, 1e-1, 1, 10, 30, 100]
    values = np.array([*sizes, *(-s for s in sizes), np.nan, *random], np.float64)
    return values.astype(held)


def operand_count(op: Op) -> int:
    """How many operands an op takes at least; attributes have defaults or known names."""
    attrs = {"to", "bytes"}
    parameters = inspect.signature(op.rule).parameters.values()
    return sum(p.default is p.empty and p.name not in attrs for p in parameters)


def uses(op: Op) -> Iterator[tuple[tuple[DType, ...], dict[str, Any]]]:
    """The dtypes of operands, and attributes, with which an op may be used."""
    for dtype in t.SCALARS:
        if dtype is t.float8e4b15 and op.name not in MOVED:
            continue
        for dtypes, attrs in candidates(op, dtype):
            try:
                op.rule(*[Type(d, (4,)) for d in dtypes], **attrs)
            except CompileError:
                continue
            yield dtypes, attrs


def candidates(op: Op, dtype: DType) -> Iterator[tuple[tuple[DType, ...], dict[str, Any]]]:
    if op.name in ("cast", "bitcast"):
        for to in t.SCALARS:
            yield (dtype,), {"to": to.short}
        narrower = op.name == "cast" and dtype in (t.float32, t.float64)
        for to in (t.float16, t.bfloat16, t.float8e5) if narrower else ():
            yield (dtype,), {"to": to.short, "rounding": "rtz"}
        return
    if op.name == "select":
        yield (t.int1, dtype, dtype), {}
        return
    if op.name == "offset":
        yield (t.pointer_to(t.float32), dtype), {"bytes": 4}
        return
    yield (dtype,) * operand_count(op), {}
    if "propagate_nan" in inspect.signature(op.rule).parameters and dtype.is_float:
        yield (dtype,) * operand_count(op), {"propagate_nan": True}


def operands(dtypes: tuple[DType, ...], limit: int = 3000) -> list[np.ndarray]:
    """Arrays of equal length in which the edges of all operands meet."""
    edges = [
        np.arange(1 << 20, (1 << 20) + 160, 32) if d.is_pointer else edge_values(d) for d in dtypes
    ]
    choices = list(itertools.product(*[range(len(e)) for e in edges]))
    if len(choices) > limit:
        picked = np.random.default_rng(0).choice(len(choices), limit, replace=False)
        choices = [choices[i] for i in sorted(picked)]
    indices = np.array(choices)
    return [e[indices[:, k]] for k, e in enumerate(edges)]
