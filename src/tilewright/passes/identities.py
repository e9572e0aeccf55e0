"""Algebraic identities, one rule an op: a simpler value that is equal to the bit, or None."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import copysign, gcd
from typing import Any

from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.ir.op import Op
from tilewright.ir.types import DType, Type, parse_dtype
from tilewright.ops import debug, math, memory, reduce, shape
from tilewright.passes.constants import Make, constant, integer, number

Identity = Callable[[Make, tuple[Value, ...], dict[str, Any]], "Value | tuple | None"]


def made_by(value: Value, op: Op) -> Inst | None:
    """The instruction that gives `value`, when it is one of `op`."""
    return value.inst if value.inst is not None and value.inst.op is op else None


def both(value: Value, dtype: DType) -> Type:
    return value.type.with_dtype(dtype)


# --- arithmetic


def add(make, operands, attrs):
    x, y = operands
    if not x.type.dtype.is_integer:
        return plus_minus_zero(x, y) or plus_minus_zero(y, x)
    if integer(y) is None and integer(x) is not None:
        x, y = y, x
    step = integer(y)
    if step is None:
        return None
    if step == 0:
        return x
    inner = made_by(x, math.add)
    if inner is None or integer(inner.operands[1]) is None or x.type.dtype is t.int1:
        return None
    total = integer(inner.operands[1]) + step
    return make(math.add, inner.operands[0], constant(make, total, x.type))


def plus_minus_zero(x: Value, zero: Value) -> Value | None:
    """x + -0.0 is x; x + 0.0 is not, since -0.0 + 0.0 is 0.0."""
    found = number(zero)
    return x if found == 0 and copysign(1, found) < 0 else None


def sub(make, operands, attrs):
    x, y = operands
    found = number(y)
    is_integer = x.type.dtype.is_integer
    if found == 0 and (is_integer or copysign(1, found) > 0):
        return x
    if is_integer and x is y:
        return constant(make, 0, x.type)
    return None


def mul(make, operands, attrs):
    for x, y in (operands, operands[::-1]):
        found = number(y)
        if found == 1:
            return x
        if found == 0 and x.type.dtype.is_integer:
            return y
    return None


def quotient(make, operands, attrs):
    x, y = operands
    return x if number(y) == 1 or integer(x) == 0 else None


def irem(make, operands, attrs):
    x, y = operands
    if integer(y) == 1 or integer(x) == 0:
        return constant(make, 0, x.type)
    return None


# --- bits


def is_ones(value: Value) -> bool:
    found = integer(value)
    if found is None:
        return False
    return found is True or found == -1 or found == (1 << value.type.dtype.bits) - 1


def bit_and(make, operands, attrs):
    for x, y in (operands, operands[::-1]):
        if x is y or is_ones(y):
            return x
        if integer(y) == 0:
            return y
    return None


def bit_or(make, operands, attrs):
    for x, y in (operands, operands[::-1]):
        if x is y or integer(y) == 0:
            return x
        if is_ones(y):
            return y
    return None


def bit_xor(make, operands, attrs):
    x, y = operands
    if x is y:
        return constant(make, 0, x.type)
    if integer(y) == 0:
        return x
    return y if integer(x) == 0 else None


def shift(make, operands, attrs):
    x, y = operands
    return x if integer(y) == 0 or integer(x) == 0 else None


def undone(op: Op) -> Identity:
    """op(op(x)) is x."""

    def apply(make, operands, attrs):
        inner = made_by(operands[0], op)
        return inner.operands[0] if inner else None

    return apply


def complement(make, operands, attrs):
    inner = operands[0].inst
    if inner is None:
        return None
    if inner.op is math.bit_not:
        return inner.operands[0]
    opposite = OPPOSITE.get(inner.op)
    if opposite is None or not (
        inner.operands[0].type.dtype.is_integer or inner.op in (math.eq, math.ne)
    ):
        return None
    return make(opposite, *inner.operands)


OPPOSITE = {
    math.lt: math.ge, math.ge: math.lt, math.gt: math.le, math.le: math.gt,
    math.eq: math.ne, math.ne: math.eq,
}  # fmt: skip


# --- comparison and selection


def compare(holds_for_equal: bool, make, operands, attrs):
    x, y = operands
    if x is y and not x.type.dtype.is_float:
        return constant(make, holds_for_equal, both(x, t.int1))
    return None


def extremum(make, operands, attrs):
    x, y = operands
    return x if x is y else None


def select(make, operands, attrs):
    condition, x, y = operands
    if x is y:
        return x
    chosen = integer(condition)
    if chosen is not None:
        return x if chosen else y
    if x.type.dtype is t.int1 and integer(x) == 1 and integer(y) == 0:
        return condition
    inner = made_by(condition, math.bit_not)
    return make(math.select, inner.operands[0], y, x) if inner else None


# --- conversion


def holds_every(wide: DType, narrow: DType) -> bool:
    """Whether each number of `narrow` is one of `wide`."""
    if narrow.is_pointer or wide.is_pointer or t.float8e4b15 in (wide, narrow):
        return False
    if narrow.is_float:
        exponents = wide.bits - wide.mantissa >= narrow.bits - narrow.mantissa
        fits = wide.bits > narrow.bits and wide.mantissa >= narrow.mantissa
        return wide.is_float and fits and exponents
    digits = narrow.bits - narrow.is_signed
    if wide.is_float:
        return wide.mantissa + 1 >= digits and wide.exponent_bias >= digits
    return wide.bits - wide.is_signed >= digits and (wide.is_signed or not narrow.is_signed)


def cast(make, operands, attrs):
    (x,) = operands
    to = parse_dtype(attrs["to"])
    if to == x.type.dtype:
        return x
    inner = made_by(x, math.cast)
    if inner is None:
        return None
    source, middle = inner.operands[0].type.dtype, x.type.dtype
    wraps = all(d.is_integer and d is not t.int1 for d in (source, middle, to))
    if holds_every(middle, source) or (wraps and to.bits <= middle.bits):
        return make(math.cast, inner.operands[0], **attrs)
    return None


def bitcast(make, operands, attrs):
    (x,) = operands
    if parse_dtype(attrs["to"]) == x.type.dtype:
        return x
    inner = made_by(x, math.bitcast)
    return make(math.bitcast, inner.operands[0], **attrs) if inner else None


# --- shape


def uniform(make: Make, x: Value, shape_: tuple[int, ...]) -> Value | None:
    """`x` in another shape, when all its elements are one known scalar."""
    if made_by(x, shape.constant):
        return constant(make, x.inst.attrs["value"], x.type.with_shape(shape_))
    if made_by(x, shape.splat):
        return make(shape.splat, x.inst.operands[0], shape=shape_)
    return None


def splat(make, operands, attrs):
    (x,) = operands
    if not attrs["shape"]:
        return x
    return uniform(make, x, attrs["shape"]) if made_by(x, shape.constant) else None


def reshaped(op: Op, make, operands, attrs):
    """Of `broadcast` and `reshape`: what stays the same, is uniform, or is done twice."""
    (x,) = operands
    if tuple(attrs["shape"]) == x.type.shape:
        return x
    if op is shape.reshape and not x.type.shape:
        return make(shape.splat, x, shape=attrs["shape"])
    found = uniform(make, x, attrs["shape"])
    if found is not None:
        return found
    inner = made_by(x, op)
    return make(op, inner.operands[0], **attrs) if inner else None


def permute(make, operands, attrs):
    (x,) = operands
    order = attrs["order"]
    if list(order) == sorted(order):
        return x
    found = uniform(make, x, tuple(x.type.shape[d] for d in order))
    if found is not None:
        return found
    inner = made_by(x, shape.permute)
    if inner is None:
        return None
    return make(
        shape.permute, inner.operands[0], order=tuple(inner.attrs["order"][d] for d in order)
    )


def flip(make, operands, attrs):
    (x,) = operands
    if x.type.shape[attrs["axis"]] == 1:
        return x
    return uniform(make, x, x.type.shape)


def arange(make, operands, attrs):
    start, end = attrs["start"], attrs["end"]
    return constant(make, start, Type(t.int32, (1,))) if end == start + 1 else None


def hint(make, operands, attrs):
    """Of a uniform tile only the promise about its number counts."""
    x = operands[0]
    inner = made_by(x, shape.splat)
    promised = attrs.get("multiple", ())
    if inner is None or not promised:
        return x if inner or made_by(x, shape.constant) else None
    scalar = make(debug.hint, inner.operands[0], multiple=(gcd(*promised),))
    return make(shape.splat, scalar, shape=x.type.shape)


def split(make, operands, attrs):
    inner = made_by(operands[0], shape.join)
    return inner.operands if inner else None


def offset(make, operands, attrs):
    pointer, step = operands
    found = integer(step)
    if found == 0:
        return pointer
    inner = made_by(pointer, memory.offset)
    if found is None or inner is None or inner.attrs != attrs:
        return None
    first = integer(inner.operands[1])
    if first is None:
        return None
    total = constant(make, first + found, both(step, t.int64))
    return make(memory.offset, inner.operands[0], total, **attrs)


# --- reductions


IDEMPOTENT = ("max", "min", "bit_and", "bit_or")


def reduce_(make, operands, attrs):
    x, axis = operands[0], attrs["axis"]
    rest = x.type.shape[:axis] + x.type.shape[axis + 1 :]
    if len(operands) != 1:
        return None
    if x.type.shape[axis] == 1:
        return make(shape.reshape, x, shape=rest)
    if attrs.get("combine") not in IDEMPOTENT:
        return None
    return uniform(make, x, rest)


def scan(make, operands, attrs):
    x = operands[0]
    if x.type.shape[attrs["axis"]] == 1:
        return operands if len(operands) > 1 else x
    return x if attrs.get("combine") in IDEMPOTENT and uniform(make, x, x.type.shape) else None


IDENTITIES: dict[Op, Identity] = {
    math.add: add,
    math.sub: sub,
    math.mul: mul,
    math.div: quotient,
    math.idiv: quotient,
    math.irem: irem,
    math.bit_and: bit_and,
    math.bit_or: bit_or,
    math.bit_xor: bit_xor,
    math.bit_not: complement,
    math.neg: undone(math.neg),
    math.shl: shift,
    math.shr: shift,
    math.lt: partial(compare, False),
    math.gt: partial(compare, False),
    math.ne: partial(compare, False),
    math.le: partial(compare, True),
    math.ge: partial(compare, True),
    math.eq: partial(compare, True),
    math.max: extremum,
    math.min: extremum,
    math.select: select,
    math.cast: cast,
    math.bitcast: bitcast,
    shape.splat: splat,
    shape.broadcast: partial(reshaped, shape.broadcast),
    shape.reshape: partial(reshaped, shape.reshape),
    shape.permute: permute,
    shape.flip: flip,
    shape.arange: arange,
    shape.split: split,
    debug.hint: hint,
    memory.offset: offset,
    reduce.reduce: reduce_,
    reduce.scan: scan,
}
