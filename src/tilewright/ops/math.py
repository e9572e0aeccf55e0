"""Elementwise ops: arithmetic, comparison, selection, casts, elementary functions."""

from __future__ import annotations

import math

import numpy as np

from tilewright.errors import want
from tilewright.ir import types as t
from tilewright.ir.op import op
from tilewright.ir.types import parse_dtype
from tilewright.ops.convert import cast_array, fma_array, saturating, through_double
from tilewright.ops.rules import (
    comparison,
    floats,
    integers,
    numbers,
    numpy_dtype,
    same,
    wide_floats,
)

# --- arithmetic


def booleans_apart(function, of_booleans):
    """A NumPy function of two numbers, with what it is in arithmetic modulo 2 for booleans."""
    return lambda x, y: of_booleans(x, y) if x.dtype == bool else function(x, y)


@op(
    eager=booleans_apart(saturating(np.add), np.logical_xor),
    emit=lambda b, x, y: b.add(x, y),
    flops=1,
)
def add(x, y):
    """Sum; integers wrap around."""
    return numbers(x, y)


@op(
    eager=booleans_apart(saturating(np.subtract), np.logical_xor),
    emit=lambda b, x, y: b.sub(x, y),
    flops=1,
)
def sub(x, y):
    """Difference; integers wrap around."""
    return numbers(x, y)


@op(eager=saturating(np.multiply), emit=lambda b, x, y: b.mul(x, y), flops=1)
def mul(x, y):
    """Product; integers wrap around."""
    return numbers(x, y)


def quotient(x, y, exact=False):
    return saturating(np.divide)(x, y)


@op(
    eager=quotient,
    emit=lambda b, x, y, exact=False: b.div(x, y) if exact else b.quick_div(x, y),
    flops=1,
)
def div(x, y, exact=False):
    """Quotient of floats, rounded to nearest; unless `exact`, GPUs may miss it by 2 ulp."""
    return floats(x, y)


def truncated_quotient(x, y):
    if x.dtype == bool:
        return x & y
    safe = np.where(y == 0, np.ones_like(y), y)
    quotient = np.floor_divide(x, safe)
    if np.issubdtype(x.dtype, np.signedinteger):
        quotient = quotient + ((quotient < 0) & (quotient * safe != x)).astype(x.dtype)
    return np.where(y == 0, np.zeros_like(x), quotient)


@op(eager=truncated_quotient, emit=lambda b, x, y: b.idiv(x, y), flops=1)
def idiv(x, y):
    """Integer quotient truncated towards zero, as in C; x / 0 is 0."""
    return integers(x, y)


def truncated_remainder(x, y):
    if x.dtype == bool:
        return x & ~y
    return x - truncated_quotient(x, y) * y


@op(eager=truncated_remainder, emit=lambda b, x, y: b.irem(x, y), flops=1)
def irem(x, y):
    """Integer remainder with the sign of x, as in C; x % 0 is x."""
    return integers(x, y)


@op(eager=np.fmod, emit=lambda b, x, y: b.fmod(x, y), flops=1)
def fmod(x, y):
    """Floating remainder with the sign of x, as C's fmod."""
    return floats(x, y)


@op(eager=lambda x: np.negative(x) if x.dtype != bool else x, emit=lambda b, x: b.neg(x), flops=1)
def neg(x):
    """Negation; integers wrap around, NaN keeps its payload."""
    want(not x.dtype.is_pointer, f"needs a number, got {x}")
    return x


@op(eager=np.abs, emit=lambda b, x: b.abs(x), flops=1)
def abs(x):
    """Absolute value."""
    want(not x.dtype.is_pointer, f"needs a number, got {x}")
    return x


@op(eager=fma_array, emit=lambda b, x, y, z: b.fma(x, y, z), flops=2)
def fma(x, y, z):
    """x * y + z with one rounding."""
    return floats(x, y, z)


def high_half(x, y):
    """The upper half of the unsigned product of the operands' bits."""
    bits = x.dtype.itemsize * 8
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    x, y, signed = x.view(unsigned), y.view(unsigned), x.dtype
    if bits == 32:
        return (x.astype(np.uint64) * y.astype(np.uint64) >> np.uint64(32)).astype(signed)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    other = x0 * y1 + (middle & low)
    return (x1 * y1 + (middle >> half) + (other >> half)).astype(signed)


@op(eager=high_half, emit=lambda b, x, y: b.umulhi(x, y), flops=1)
def umulhi(x, y):
    """The most significant half of the 2N-bit product of N-bit integers, taken as unsigned."""
    want(x.dtype.bits in (32, 64), f"needs 32- or 64-bit integers, got {x}")
    return integers(x, y)


# --- bits


@op(eager=np.bitwise_and, emit=lambda b, x, y: b.bit_and(x, y), flops=1)
def bit_and(x, y):
    """Bitwise and."""
    return integers(x, y)


@op(eager=np.bitwise_or, emit=lambda b, x, y: b.bit_or(x, y), flops=1)
def bit_or(x, y):
    """Bitwise or."""
    return integers(x, y)


@op(eager=np.bitwise_xor, emit=lambda b, x, y: b.bit_xor(x, y), flops=1)
def bit_xor(x, y):
    """Bitwise exclusive or."""
    return integers(x, y)


@op(eager=np.invert, emit=lambda b, x: b.bit_not(x), flops=1)
def bit_not(x):
    """Bitwise complement."""
    want(x.dtype.is_integer, f"needs integers, got {x}")
    return x


def shift(function):
    def apply(x, y):
        if x.dtype == bool:
            return x & ~y
        bits = x.dtype.itemsize * 8
        amount = y.astype(np.uint64 if y.dtype.kind == "u" else np.int64)
        outside = (amount < 0) | (amount >= bits)
        safe = np.where(outside, 0, amount).astype(x.dtype)
        if function is np.right_shift:
            return np.where(outside, np.where(x < 0, -1, 0).astype(x.dtype), function(x, safe))
        return np.where(outside, np.zeros_like(x), function(x, safe))

    return apply


@op(eager=shift(np.left_shift), emit=lambda b, x, y: b.shl(x, y), flops=1)
def shl(x, y):
    """Left shift; an amount of at least the width gives 0."""
    return integers(x, y)


@op(eager=shift(np.right_shift), emit=lambda b, x, y: b.shr(x, y), flops=1)
def shr(x, y):
    """Right shift, arithmetic for signed integers; an amount of at least the width fills."""
    return integers(x, y)


# --- comparison and selection


@op(eager=np.less, emit=lambda b, x, y: b.lt(x, y), flops=1)
def lt(x, y):
    """x < y; false where one is NaN."""
    return comparison(x, y)


@op(eager=np.less_equal, emit=lambda b, x, y: b.le(x, y), flops=1)
def le(x, y):
    """x <= y; false where one is NaN."""
    return comparison(x, y)


@op(eager=np.greater, emit=lambda b, x, y: b.gt(x, y), flops=1)
def gt(x, y):
    """x > y; false where one is NaN."""
    return comparison(x, y)


@op(eager=np.greater_equal, emit=lambda b, x, y: b.ge(x, y), flops=1)
def ge(x, y):
    """x >= y; false where one is NaN."""
    return comparison(x, y)


@op(eager=np.equal, emit=lambda b, x, y: b.eq(x, y), flops=1)
def eq(x, y):
    """x == y; false where one is NaN."""
    return comparison(x, y)


@op(eager=np.not_equal, emit=lambda b, x, y: b.ne(x, y), flops=1)
def ne(x, y):
    """x != y; true where one is NaN."""
    return comparison(x, y)


@op(eager=np.where, emit=lambda b, c, x, y: b.select(c, x, y), flops=1)
def select(condition, x, y):
    """x where the condition holds, y elsewhere."""
    want(condition.dtype is t.int1, f"the condition must be boolean, got {condition}")
    want(condition.shape == x.shape, f"shapes differ: {condition} and {x}")
    return same(x, y)


def extremum(pick, number, nan_wins):
    def apply(x, y, propagate_nan=False):
        if x.dtype.kind in "iub":
            return pick(x, y)
        return (nan_wins if propagate_nan else number)(x, y)

    return apply


@op(
    eager=extremum(np.maximum, np.fmax, np.maximum),
    emit=lambda b, x, y, propagate_nan=False: b.maximum(x, y, propagate_nan),
    flops=1,
)
def max(x, y, propagate_nan=False):
    """The larger; where one is NaN the other, or NaN if it propagates."""
    return numbers(x, y)


@op(
    eager=extremum(np.minimum, np.fmin, np.minimum),
    emit=lambda b, x, y, propagate_nan=False: b.minimum(x, y, propagate_nan),
    flops=1,
)
def min(x, y, propagate_nan=False):
    """The smaller; where one is NaN the other, or NaN if it propagates."""
    return numbers(x, y)


# --- conversion


@op(
    eager=lambda x, to, rounding="rtne": cast_array(x, parse_dtype(to), rounding),
    emit=lambda b, x, to, rounding="rtne": b.cast(x, parse_dtype(to), rounding),
)
def cast(x, to, rounding="rtne"):
    """The same number in another dtype; floats round to nearest even (or `rtz`), ints wrap."""
    return x.with_dtype(parse_dtype(to))


@op(
    eager=lambda x, to: x.view(numpy_dtype(parse_dtype(to))),
    emit=lambda b, x, to: b.bitcast(x, parse_dtype(to)),
)
def bitcast(x, to):
    """The same bits as another dtype of the same width."""
    target = parse_dtype(to)
    want(
        target.bits == x.dtype.bits,
        f"cannot bitcast {x.dtype} to {target}: {x.dtype.bits} against {target.bits} bits",
    )
    return x.with_dtype(target)


# --- rounding and roots: exact


@op(eager=np.floor, emit=lambda b, x: b.floor(x), flops=1)
def floor(x):
    """The largest integer not above x."""
    return floats(x)


@op(eager=np.ceil, emit=lambda b, x: b.ceil(x), flops=1)
def ceil(x):
    """The smallest integer not below x."""
    return floats(x)


@op(eager=np.trunc, emit=lambda b, x: b.trunc(x), flops=1)
def trunc(x):
    """x without its fraction."""
    return floats(x)


@op(eager=np.rint, emit=lambda b, x: b.round_even(x), flops=1)
def rint(x):
    """The nearest integer, ties to even."""
    return floats(x)


@op(
    eager=lambda x, exact=False: np.sqrt(x),
    emit=lambda b, x, exact=False: b.sqrt(x) if exact else b.quick_sqrt(x),
    flops=1,
)
def sqrt(x, exact=False):
    """Square root, rounded to nearest; unless `exact`, GPUs may miss it by 1 ulp."""
    return wide_floats(x)


@op(eager=through_double(lambda x: 1 / np.sqrt(x)), emit=lambda b, x: b.math("rsqrt", x), flops=2)
def rsqrt(x):
    """1 / sqrt(x)."""
    return wide_floats(x)


# --- elementary functions: NumPy's float64, rounded; the lane recipes state their error

EXPENSIVE = 8  # flops booked for one elementary function


def elementary(function, name):
    """The facts of a function of one float that the lane library has under `name`."""
    return {
        "eager": through_double(function),
        "emit": lambda b, x: b.math(name, x),
        "flops": EXPENSIVE,
    }


def scalarwise(function):
    """A function of `math` as one of NumPy."""
    return np.vectorize(function, otypes=[np.float64])


@op(**elementary(np.exp, "exp"))
def exp(x):
    """e ** x."""
    return wide_floats(x)


@op(**elementary(np.exp2, "exp2"))
def exp2(x):
    """2 ** x."""
    return wide_floats(x)


@op(**elementary(np.expm1, "expm1"))
def expm1(x):
    """e ** x - 1, exact near 0."""
    return wide_floats(x)


@op(**elementary(np.log, "log"))
def log(x):
    """Natural logarithm."""
    return wide_floats(x)


@op(**elementary(np.log2, "log2"))
def log2(x):
    """Logarithm to base 2."""
    return wide_floats(x)


@op(**elementary(np.log1p, "log1p"))
def log1p(x):
    """log(1 + x), exact near 0."""
    return wide_floats(x)


@op(**elementary(np.sin, "sin"))
def sin(x):
    """Sine."""
    return wide_floats(x)


@op(**elementary(np.cos, "cos"))
def cos(x):
    """Cosine."""
    return wide_floats(x)


@op(**elementary(np.tan, "tan"))
def tan(x):
    """Tangent."""
    return wide_floats(x)


@op(**elementary(np.arcsin, "asin"))
def asin(x):
    """Inverse sine."""
    return wide_floats(x)


@op(**elementary(np.arccos, "acos"))
def acos(x):
    """Inverse cosine."""
    return wide_floats(x)


@op(**elementary(np.arctan, "atan"))
def atan(x):
    """Inverse tangent."""
    return wide_floats(x)


@op(**elementary(np.sinh, "sinh"))
def sinh(x):
    """Hyperbolic sine."""
    return wide_floats(x)


@op(**elementary(np.cosh, "cosh"))
def cosh(x):
    """Hyperbolic cosine."""
    return wide_floats(x)


@op(**elementary(np.tanh, "tanh"))
def tanh(x):
    """Hyperbolic tangent."""
    return wide_floats(x)


@op(**elementary(np.arcsinh, "asinh"))
def asinh(x):
    """Inverse hyperbolic sine."""
    return wide_floats(x)


@op(**elementary(np.arccosh, "acosh"))
def acosh(x):
    """Inverse hyperbolic cosine."""
    return wide_floats(x)


@op(**elementary(np.arctanh, "atanh"))
def atanh(x):
    """Inverse hyperbolic tangent."""
    return wide_floats(x)


@op(**elementary(scalarwise(math.erf), "erf"))
def erf(x):
    """Error function."""
    return wide_floats(x)


@op(**elementary(scalarwise(math.erfc), "erfc"))
def erfc(x):
    """1 - erf(x), exact for large x."""
    return wide_floats(x)


@op(**elementary(np.cbrt, "cbrt"))
def cbrt(x):
    """Cube root."""
    return wide_floats(x)


@op(
    eager=through_double(np.arctan2),
    emit=lambda b, x, y: b.math("atan2", x, y),
    flops=EXPENSIVE,
)
def atan2(x, y):
    """The angle of the point (y, x)."""
    return wide_floats(x, y)


@op(
    eager=through_double(np.power),
    emit=lambda b, x, y: b.math("pow", x, y),
    flops=2 * EXPENSIVE,
)
def pow(x, y):
    """x ** y, as C's pow."""
    return wide_floats(x, y)
