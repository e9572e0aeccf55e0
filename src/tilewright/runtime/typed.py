"""Numbers that a launch passes as a certain type, whatever their values."""

from __future__ import annotations

from typing import Any

from tilewright.errors import ArgumentTypeError, LaunchError
from tilewright.ir import types as ir
from tilewright.ir.types import DType

# What plain numbers are passed as, but for ints that need more bits.
USUAL = {int: ir.int32, float: ir.float32, bool: ir.int1}


class TypedInt(int):
    """An int that is passed as `dtype`."""

    dtype: DType


class TypedFloat(float):
    """A float that is passed as `dtype`."""

    dtype: DType


def typed(name: str, value: Any, dtype: DType) -> Any:
    """A number that is passed as `dtype`; itself where it is passed so anyway."""
    if USUAL.get(value.__class__) is dtype:
        return value
    plain = as_dtype(name, value, dtype)
    if dtype is ir.int1:
        return plain
    out = (TypedFloat if dtype.is_float else TypedInt)(plain)
    out.dtype = dtype
    return out


def as_dtype(name: str, value: Any, dtype: DType) -> Any:
    """A number as the dtype that a parameter's annotation asks for."""
    if dtype.is_float:
        return float(value)
    if dtype is ir.int1:
        return bool(value)
    if isinstance(value, float):
        raise ArgumentTypeError(f"argument {name!r}: is annotated {dtype}, got the float {value}")
    bits = dtype.bits
    low, high = (-(1 << bits - 1), 1 << bits - 1) if dtype.is_signed else (0, 1 << bits)
    if not low <= value < high:
        raise LaunchError(f"argument {name!r}: {value} does not fit {dtype}, its annotation")
    return int(value)
