"""What ops mean on single numbers, in exact arithmetic: written without looking at the ops."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from tilewright.ir import types as t
from tilewright.ir.types import DType, parse_dtype
from tilewright.ops.rules import numpy_dtype

NAN = math.nan
NO_INFINITY = (t.float8e4nv, t.float8e4b8, t.float8e5b16, t.float8e4b15)
LARGEST = {
    t.float8e5: 57344.0, t.float8e5b16: 57344.0, t.float8e4nv: 448.0, t.float8e4b8: 240.0,
    t.float8e4b15: 1.875, t.float16: 65504.0, t.bfloat16: (2 - 2**-7) * 2.0**127,
    t.float32: (2 - 2**-23) * 2.0**127, t.float64: (2 - 2**-52) * 2.0**1023,
}  # fmt: skip
ONE_ZERO = (t.float8e4b8, t.float8e5b16)  # their -0 is NaN


def to_float(x: Any, dtype: DType) -> float:
    """One element as a Python float."""
    if dtype is not t.float8e4b15:
        return float(x)
    bits = int(np.asarray(x).view(np.uint8))
    exponent, fraction = bits >> 3 & 15, bits & 7
    size = (8 + fraction) * 2.0 ** (exponent - 18) if exponent else fraction * 2.0**-17
    return -size if bits & 128 else size


def rounded(x: Fraction | float, dtype: DType, negative_zero: bool = False, rtz: bool = False):
    """The float of a dtype nearest to an exact number, ties to even; beyond the largest inf."""
    if isinstance(x, float):
        if math.isnan(x) or math.isinf(x) or x == 0:
            return x
        x = Fraction(x)
    if x == 0:
        return -0.0 if negative_zero else 0.0
    size = abs(x)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    exponent = max(exponent, 1 - dtype.exponent_bias)
    unit = Fraction(2) ** (exponent - dtype.mantissa)
    whole, rest = divmod(size, unit)
    if not rtz and (rest * 2 > unit or (rest * 2 == unit and whole % 2)):
        whole += 1
    result = whole * unit
    if result > Fraction(LARGEST[dtype]):
        result = LARGEST[dtype] if rtz else math.inf
    return math.copysign(float(result), -1 if x < 0 else 1)


def wrap(n: int, dtype: DType) -> int:
    """An integer modulo the width of its dtype."""
    n &= (1 << dtype.bits) - 1
    return n - (1 << dtype.bits) if dtype.is_signed and n >> (dtype.bits - 1) else n


# --- one function per op: (dtype, numbers..., attributes) -> number; floats need not be rounded


def finite(*xs: float) -> bool:
    return all(math.isfinite(x) for x in xs)


def sum_of(x: Any, y: Any, dtype: DType) -> Any:
    if dtype.is_integer:
        return x + y
    if not finite(x, y) or (x == 0 and y == 0):
        return x + y
    return Fraction(x) + Fraction(y)


def product_of(x: Any, y: Any, dtype: DType) -> Any:
    if dtype.is_integer:
        return x * y
    if not finite(x, y) or x == 0 or y == 0:
        return x * y
    return Fraction(x) * Fraction(y)


def quotient_of(x: float, y: float) -> Any:
    if math.isnan(x) or math.isnan(y):
        return NAN
    if y == 0:
        return NAN if x == 0 else math.copysign(math.inf, math.copysign(1, x) * math.copysign(1, y))
    if not finite(x, y) or x == 0:
        return x / y
    return Fraction(x) / Fraction(y)


def truncating(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) if y else 0


def remainder_of(x: float, y: float) -> float:
    return NAN if math.isinf(x) or y == 0 else math.fmod(x, y)


def fused(x: float, y: float, z: float) -> Any:
    if not finite(x, y, z):
        return x * y + z if not (finite(x, y) and not finite(z)) else z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact:
        return exact
    return math.copysign(0.0, x) * math.copysign(1.0, y) + z if not (x and y) else 0.0


def left(x: int, y: int, dtype: DType) -> int:
    return x << y if 0 <= y < dtype.bits else 0


def right(x: int, y: int, dtype: DType) -> int:
    return x >> y if 0 <= y < dtype.bits else -1 if x < 0 else 0


def extreme(pick: Callable, sign: float) -> Callable:
    def apply(d: DType, x: Any, y: Any, propagate_nan: bool = False) -> Any:
        if d.is_float and (math.isnan(x) or math.isnan(y)):
            return (
                NAN
                if propagate_nan or (math.isnan(x) and math.isnan(y))
                else (y if math.isnan(x) else x)
            )
        return pick(x, y)

    return apply


def conversion(d: DType, x: Any, to: str, rounding: str = "rtne") -> Any:
    target = parse_dtype(to)
    if target is t.int1:
        return x != 0
    if target.is_integer:
        if d.is_integer:
            return int(x)
        low, high = (-(1 << target.bits - 1), (1 << target.bits - 1) - 1) if target.is_signed else (
            0, (1 << target.bits) - 1
        )  # fmt: skip
        return 0 if math.isnan(x) else high if x >= high else low if x <= low else int(x)
    if d.is_float and not math.isfinite(x):
        return overflow(x, target)
    exact = Fraction(int(x)) if d.is_integer else Fraction(x)
    negative = d.is_float and math.copysign(1, x) < 0
    return overflow(rounded(exact, target, negative, rounding == "rtz"), target)


def overflow(x: float, target: DType) -> float:
    """Formats without infinities saturate, NaN apart."""
    if target in (t.float8e4nv, t.float8e4b8, t.float8e4b15) and math.isinf(x):
        return math.copysign(LARGEST[target], x)
    if target is t.float8e4b15 and math.isnan(x):
        return math.inf
    return NAN if target is t.float8e5b16 and math.isinf(x) else x


def of_math(function: Callable, **special: float) -> Callable:
    """A function of `math`, which raises where C gives NaN or an infinity."""

    def apply(d: DType, *xs: float) -> float:
        try:
            return function(*xs)
        except OverflowError:
            return math.inf if function is not math.sinh or xs[0] > 0 else -math.inf
        except (ValueError, ZeroDivisionError):
            return float(np_of(function)(*xs))

    return apply


def power(d: DType, x: float, y: float) -> float:
    with np.errstate(all="ignore"):
        try:
            return math.pow(x, y)
        except OverflowError:
            return -math.inf if x < 0 and y % 2 == 1 else math.inf
        except ValueError:
            return float(np.power(x, y))


def cube_root(d: DType, x: float) -> float:
    if not finite(x) or x == 0:
        return x
    exact, root = Fraction(abs(x)), Fraction(abs(x) ** (1 / 3))
    root -= (root**3 - exact) / (3 * root**2)
    return math.copysign(float(root), x)


def np_of(function: Callable) -> Callable:
    names = {"log": "log", "log2": "log2", "log1p": "log1p", "atanh": "arctanh"}
    name = names.get(function.__name__)

    def apply(*xs: float) -> float:
        with np.errstate(all="ignore"):
            return NAN if name is None else getattr(np, name)(*map(np.float64, xs))

    return apply


REFERENCE: dict[str, Callable] = {
    "add": lambda d, x, y: sum_of(x, y, d),
    "sub": lambda d, x, y: sum_of(x, -y, d),
    "mul": lambda d, x, y: product_of(x, y, d),
    "div": lambda d, x, y: quotient_of(x, y),
    "idiv": lambda d, x, y: truncating(x, y),
    "irem": lambda d, x, y: x - truncating(x, y) * y,
    "fmod": lambda d, x, y: remainder_of(x, y),
    "neg": lambda d, x: -x,
    "abs": lambda d, x: abs(x),
    "fma": lambda d, x, y, z: fused(x, y, z),
    "umulhi": lambda d, x, y: (x % (1 << d.bits)) * (y % (1 << d.bits)) >> d.bits,
    "bit_and": lambda d, x, y: x & y,
    "bit_or": lambda d, x, y: x | y,
    "bit_xor": lambda d, x, y: x ^ y,
    "bit_not": lambda d, x: ~x,
    "shl": lambda d, x, y: left(x, y, d),
    "shr": lambda d, x, y: right(x, y, d),
    "lt": lambda d, x, y: x < y,
    "le": lambda d, x, y: x <= y,
    "gt": lambda d, x, y: x > y,
    "ge": lambda d, x, y: x >= y,
    "eq": lambda d, x, y: x == y,
    "ne": lambda d, x, y: x != y,
    "max": extreme(max, 1.0),
    "min": extreme(min, -1.0),
    "cast": conversion,
    "hint": lambda d, x: x,
    "floor": lambda d, x: math.copysign(math.floor(x), x) if finite(x) else x,
    "ceil": lambda d, x: math.copysign(math.ceil(x), x) if finite(x) else x,
    "trunc": lambda d, x: math.copysign(math.trunc(x), x) if finite(x) else x,
    "rint": lambda d, x: math.copysign(round(x), x) if finite(x) else x,
    "sqrt": lambda d, x: math.sqrt(x) if x >= 0 else x if x == 0 else NAN,
    "rsqrt": lambda d, x: (
        quotient_of(1.0, math.sqrt(x)) if x > 0 else quotient_of(1.0, x) if (x == 0) else NAN
    ),
    "exp": of_math(math.exp),
    "exp2": lambda d, x: 2.0**x if x < 1024 else x if math.isnan(x) else math.inf,
    "expm1": of_math(math.expm1),
    "log": of_math(math.log),
    "log2": of_math(math.log2),
    "log1p": of_math(math.log1p),
    "sin": of_math(math.sin),
    "cos": of_math(math.cos),
    "tan": of_math(math.tan),
    "asin": of_math(math.asin),
    "acos": of_math(math.acos),
    "atan": of_math(math.atan),
    "sinh": of_math(math.sinh),
    "cosh": of_math(math.cosh),
    "tanh": of_math(math.tanh),
    "asinh": of_math(math.asinh),
    "acosh": of_math(math.acosh),
    "atanh": of_math(math.atanh),
    "erf": of_math(math.erf),
    "erfc": of_math(math.erfc),
    "cbrt": cube_root,
    "atan2": of_math(math.atan2),
    "pow": power,
}
# Where NumPy's function, itself not correctly rounded, is the meaning: relative error in fp64.
APPROXIMATE = {
    "rsqrt", "exp", "exp2", "expm1", "log", "log2", "log1p", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "cbrt", "atan2",
    "pow",
}  # fmt: skip


# Ops whose result is a number of the dtype as it stands.
ROUNDED = {
    "cast", "fmod", "neg", "abs", "max", "min", "hint", "floor", "ceil", "trunc", "rint",
}  # fmt: skip


def expected(name: str, dtype: DType, result: DType, xs: tuple, attrs: dict[str, Any]) -> Any:
    """What an op gives for numbers of a dtype, as the number that NumPy should hold."""
    found = REFERENCE[name](dtype, *xs, **attrs)
    if result is t.int1:
        return bool(found & 1) if isinstance(found, int) else bool(found)
    if result.is_integer:
        return wrap(int(found), result)
    if name in ROUNDED:
        return found
    return rounded(found, result)


def as_numbers(x: np.ndarray, dtype: DType) -> list:
    """The elements as exact Python numbers."""
    if dtype.is_float:
        return [to_float(v, dtype) for v in x]
    return [int(v) for v in x]


__all__ = ["APPROXIMATE", "ONE_ZERO", "REFERENCE", "as_numbers", "expected", "numpy_dtype"]
