"""Numbers in the IR: read one from a value, compute one, write one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.ir import types as t
from tilewright.ir.inst import Value
from tilewright.ir.op import Op
from tilewright.ir.types import DType, Type
from tilewright.ops import math, shape
from tilewright.ops.rules import numpy_dtype

# NumPy's other operations on bool are not those of a one-bit integer.
ON_BOOLEANS = {
    math.bit_and, math.bit_or, math.bit_xor, math.bit_not, math.select, math.cast,
    math.eq, math.ne,
}  # fmt: skip

Number = int | float | bool
Make = Callable[..., Any]  # (op, *operands, **attrs) -> value, as Builder.emit


def wrap(value: int, dtype: DType) -> Number:
    """The integer as one of `dtype`."""
    if dtype is t.int1:
        return bool(value)
    value = int(value) & (1 << dtype.bits) - 1
    if dtype.is_signed and value >> dtype.bits - 1:
        value -= 1 << dtype.bits
    return value


def number(value: Value) -> Number | None:
    """The number that is in every element of `value`, where that is known; never a pointer."""
    inst = value.inst
    if inst is None:
        return None
    if inst.op is shape.splat:
        return number(inst.operands[0])
    if inst.op is not shape.constant or value.type.dtype.is_pointer:
        return None
    found = inst.attrs["value"]
    return wrap(found, value.type.dtype) if value.type.dtype.is_integer else float(found)


def integer(value: Value) -> int | None:
    """As `number`, integers and booleans only."""
    return number(value) if value.type.dtype.is_integer else None


def constant(make: Make, value: Number, type: Type) -> Value:
    """`value` in every element of a new value of this type."""
    return make(shape.constant, value=value, type=str(type))


def scalar_of(make: Make, value: Value) -> Value | None:
    """The scalar that is in every element of a tile, where one is known."""
    if not value.type.shape:
        return value
    if value.inst is None:
        return None
    if value.inst.op is shape.splat:
        return value.inst.operands[0]
    if value.inst.op is shape.constant:
        return constant(make, value.inst.attrs["value"], Type(value.type.dtype))
    return None


def evaluate(
    op: Op, dtypes: Sequence[DType], numbers: Sequence[Number], attrs: dict, result: DType
) -> Number | None:
    """What an elementwise op gives for numbers, or None where that cannot be written down."""
    if result.is_pointer or t.float8e4b15 in (*dtypes, result):
        return None
    if t.int1 in dtypes and op not in ON_BOOLEANS:
        return None
    arrays = [
        np.asarray([x]).astype(numpy_dtype(d)) if d.is_float else np.array([x], numpy_dtype(d))
        for x, d in zip(numbers, dtypes, strict=True)
    ]
    with np.errstate(all="ignore"):
        found = np.asarray(op.eager(*arrays, **attrs))
    if found.dtype != numpy_dtype(result) or found.shape != (1,):
        return None
    if result.is_integer:
        return found[0].item()
    value = float(found[0])
    return None if value != value else value  # a constant has no NaN payload
