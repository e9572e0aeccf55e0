"""Numbers in the IR: read one from a value, compute one, write one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tilewright.ir import types as t
from tilewright.ir.inst import Value
from tilewright.ir.types import DType, Type
from tilewright.ops import shape
from tilewright.ops.known import Number

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


def is_zero(value: Value) -> bool:
    """Whether every element is known to be zero, a float a positive one."""
    found = number(value)
    return found is not None and found == 0 and math.copysign(1, found) > 0


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
