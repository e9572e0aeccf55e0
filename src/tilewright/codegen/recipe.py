"""What the recipes of elementary functions share: precision handling, polynomials, scaling."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import wraps

from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane
from tilewright.ir import types as ty
from tilewright.ir.types import DType


def elementary(recipe: Callable[..., Lane]) -> Callable[..., Lane]:
    """A function of f32 and f64 lanes, outlined; narrower floats compute in f32 and round."""

    @wraps(recipe)
    def function(b: Lanes, *args: Lane) -> Lane:
        dtype = args[0].dtype
        if dtype.bits >= 32:
            return b.outline(recipe, *args)
        return b.cast(function(b, *(b.cast(x, ty.float32) for x in args)), dtype)

    return function


def through_f64(recipe: Callable[..., Lane]) -> Callable[..., Lane]:
    """A function of f64 lanes, outlined; every other float computes in f64 and rounds."""

    @wraps(recipe)
    def function(b: Lanes, *args: Lane) -> Lane:
        wide = b.outline(recipe, *(b.cast(x, ty.float64) for x in args))
        return b.cast(wide, args[0].dtype)

    return function


def bits_dtype(dtype: DType) -> DType:
    """The unsigned integer as wide as a float."""
    return ty.uint32 if dtype.bits == 32 else ty.uint64


def bits_of(value: float, dtype: DType) -> int:
    """The code of a constant in f32 or f64."""
    kind, code = ("<f", "<I") if dtype.bits == 32 else ("<d", "<Q")
    return struct.unpack(code, struct.pack(kind, value))[0]


def horner(b: Lanes, x: Lane, coefficients: Sequence[float]) -> Lane:
    """c[0] + c[1] x + c[2] x^2 + ..., by fused multiply-adds."""
    value = b.like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        value = b.fma(value, x, b.like(x, c))
    return value


def at_most(b: Lanes, x: Lane, limit: float) -> Lane:
    """The lesser of x and a constant; NaN stays. One instruction on x86."""
    top = b.like(x, limit)
    return b.select(b.lt(top, x), top, x)


def at_least(b: Lanes, x: Lane, limit: float) -> Lane:
    """The greater of x and a constant; NaN stays."""
    low = b.like(x, limit)
    return b.select(b.gt(low, x), low, x)


def copysign(b: Lanes, size: Lane, sign: Lane) -> Lane:
    return b.intrinsic("copysign", size, sign)


def fast_two_sum(b: Lanes, x: Lane, y: Lane) -> tuple[Lane, Lane]:
    """x + y and its rounding error, for |x| >= |y| or x = 0."""
    total = b.add(x, y)
    return total, b.add(b.sub(x, total), y)


def two_sum(b: Lanes, x: Lane, y: Lane) -> tuple[Lane, Lane]:
    """x + y and its rounding error."""
    total = b.add(x, y)
    back = b.sub(total, x)
    return total, b.add(b.sub(x, b.sub(total, back)), b.sub(y, back))


def rounding_shift(x: Lane) -> float:
    """Adding this to a small float rounds it to an integer, found in the low bits of the sum."""
    return 1.5 * 2.0**x.dtype.mantissa


def power_of_two(b: Lanes, shifted: Lane) -> Lane:
    """2^n, given n + rounding_shift for an n in the range of normal exponents."""
    dtype = shifted.dtype
    code = b.bitcast(shifted, bits_dtype(dtype))
    code = b.shl(code, b.like(code, dtype.mantissa))
    return b.bitcast(b.add(code, b.like(code, bits_of(1.0, dtype))), dtype)


def scale(b: Lanes, x: Lane, n: Lane) -> Lane:
    """x * 2^n for an integral n, rounded once; overflow, denormals and NaN are right."""
    if "avx512f" in b.features and x.width * x.dtype.bits == 512:
        name = f"llvm.x86.avx512.mask.scalef.p{'s' if x.dtype.bits == 32 else 'd'}.512"
        mask = f"i{x.width} -1"
        zero = b.like(x, 0.0)
        return b.call(name, x.dtype, x, n, zero, mask, "i32 4")
    # Two factors, because 2^n itself may be out of range.
    shift = b.like(x, rounding_shift(x))
    half = b.fma(n, b.like(x, 0.5), shift)
    rest = b.add(b.sub(n, b.sub(half, shift)), shift)
    return b.mul(b.mul(x, power_of_two(b, half)), power_of_two(b, rest))
