"""Type rules that many ops share, and the NumPy dtype of each type."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tilewright.errors import TypeRuleError, want
from tilewright.ir import types as t
from tilewright.ir.types import DType, Type

NUMPY = {
    t.int1: np.dtype(np.bool_),
    t.int8: np.dtype(np.int8),
    t.int16: np.dtype(np.int16),
    t.int32: np.dtype(np.int32),
    t.int64: np.dtype(np.int64),
    t.uint8: np.dtype(np.uint8),
    t.uint16: np.dtype(np.uint16),
    t.uint32: np.dtype(np.uint32),
    t.uint64: np.dtype(np.uint64),
    t.float8e5: np.dtype(ml_dtypes.float8_e5m2),
    t.float8e5b16: np.dtype(ml_dtypes.float8_e5m2fnuz),
    t.float8e4nv: np.dtype(ml_dtypes.float8_e4m3fn),
    t.float8e4b8: np.dtype(ml_dtypes.float8_e4m3fnuz),
    t.float8e4b15: np.dtype(ml_dtypes.float8_e4m3b11fnuz),  # bits only; see convert in ops.math
    t.float16: np.dtype(np.float16),
    t.bfloat16: np.dtype(ml_dtypes.bfloat16),
    t.float32: np.dtype(np.float32),
    t.float64: np.dtype(np.float64),
}


def numpy_dtype(dtype: DType) -> np.dtype:
    """How the eager machine holds a dtype; pointers are addresses."""
    return np.dtype(np.int64) if dtype.is_pointer else NUMPY[dtype]


def same(x: Type, y: Type) -> Type:
    """Both operands have one type, which is the result's."""
    if x != y:
        raise TypeRuleError(f"operands differ: {x} and {y}")
    return x


def numbers(x: Type, y: Type) -> Type:
    """Two operands of one type that are not pointers."""
    if x.dtype.is_pointer:
        raise TypeRuleError(f"needs numbers, got {x}")
    return same(x, y)


def integers(x: Type, y: Type) -> Type:
    """Two integers of one type."""
    if not x.dtype.is_integer:
        raise TypeRuleError(
            f"invalid operands of type {x}, integers are needed; cast with x.to(tl.int32)"
        )
    return same(x, y)


def floats(*xs: Type) -> Type:
    """Floating operands of one type."""
    if not xs[0].dtype.is_float:
        raise TypeRuleError(f"needs floats, got {xs[0]}; cast with x.to(tl.float32)")
    for x in xs[1:]:
        same(xs[0], x)
    return xs[0]


def wide_floats(*xs: Type) -> Type:
    """Operands of fp32 or fp64, as Triton's mathematical functions ask."""
    want(
        xs[0].dtype in (t.float32, t.float64),
        f"needs fp32 or fp64, got {xs[0]}; cast with x.to(tl.float32)",
    )
    return floats(*xs)


def comparison(x: Type, y: Type) -> Type:
    """Two operands of one type give a boolean tile."""
    return same(x, y).with_dtype(t.int1)
