"""Recipes for exact results that no instruction gives: upper halves of products, fmod, fma."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright.codegen.literals import suffix
from tilewright.ir import types as ty

if TYPE_CHECKING:
    from tilewright.codegen.lanes import Lane, Lanes


def umulhi64(b: Lanes, x: Lane, y: Lane) -> Lane:
    """The upper 64 bits of a product of uint64, from four products of 32-bit halves."""
    low, half = b.like(x, 0xFFFFFFFF), b.like(x, 32)
    x0, x1 = b.bit_and(x, low), b.shr(x, half)
    y0, y1 = b.bit_and(y, low), b.shr(y, half)
    middle = b.add(b.mul(x1, y0), b.shr(b.mul(x0, y0), half))
    other = b.add(b.mul(x0, y1), b.bit_and(middle, low))
    high = b.add(b.mul(x1, y1), b.shr(middle, half))
    return b.add(high, b.shr(other, half))


def umulhi32(b: Lanes, x: Lane, y: Lane) -> Lane:
    """The upper 32 bits of a product of an even number of uint32, two products for each pair."""
    pairs = [_as_pairs(b, v) for v in (x, y)]
    low, half = b.like(pairs[0], 0xFFFFFFFF), b.like(pairs[0], 32)
    first = b.mul(*(b.bit_and(v, low) for v in pairs))
    second = b.mul(*(b.shr(v, half) for v in pairs))
    both = b.bit_or(b.shr(first, half), b.bit_and(second, b.bit_not(low)))
    return b.value(f"bitcast {both.typed} to {x.type}", x.dtype, x.width)


def _as_pairs(b: Lanes, x: Lane) -> Lane:
    width = x.width // 2
    return b.value(f"bitcast {x.typed} to <{width} x i64>", ty.uint64, width)


def narrow_fma(b: Lanes, x: Lane, y: Lane, z: Lane) -> Lane:
    """x * y + z of floats of at most 16 bits: in f64 rounded to odd, then to the format."""
    x64, y64, z64 = (b.cast(v, ty.float64) for v in (x, y, z))
    product = b.mul(x64, y64)  # exact: at most 22 bits
    total = b.add(product, z64)
    rest = b.sub(total, product)
    error = b.add(b.sub(product, b.sub(total, rest)), b.sub(z64, rest))
    zero, bits = b.like(total, 0.0), b.bitcast(total, ty.int64)
    even = b.eq(b.bit_and(bits, b.like(bits, 1)), b.like(bits, 0))
    inexact = b.gt(b.abs(error), zero)  # false for NaN, which infinities leave here
    outwards = b.bit_xor(b.gt(error, zero), b.lt(total, zero))
    odd = b.add(bits, b.select(outwards, b.like(bits, 1), b.like(bits, -1)))
    odd = b.select(b.bit_and(inexact, even), odd, bits)
    return b.cast(b.bitcast(odd, ty.float64), x.dtype)


def fmod(b: Lanes, x: Lane, y: Lane) -> Lane:
    """Long division, with as many quotient bits a step as the format holds.

    To be outlined: its loop is entered from the first block of a function.
    """
    divisor, first, rest = b.abs(y), b.abs(x), replace(x, text="%rest")
    b.write("br label %step")
    b.write("step:")
    b.write(f"%rest = phi {x.type} [{first.text}, %0], [%next, %step]")
    unit = _aligned(b, divisor, rest)
    quotient = b.trunc(b.div(rest, unit))
    less = b.fma(b.neg(quotient), unit, rest)
    # The quotient may have been rounded up to the next integer.
    less = b.select(b.lt(less, b.like(x, 0.0)), b.add(less, unit), less)
    b.write(f"%next = select {b.ge(rest, divisor).typed}, {less.typed}, {rest.typed}")
    last = replace(x, text="%next")
    more = b.ge(last, divisor)
    if x.width > 1:
        more = b.call(f"llvm.vector.reduce.or.{suffix(ty.int1, x.width)}", ty.int1, more, width=1)
    b.write(f"br {more.typed}, label %step, label %done")
    b.write("done:")
    return b.select(b.is_nan(y), y, copysign(b, last, x))


def _aligned(b: Lanes, divisor: Lane, rest: Lane) -> Lane:
    """divisor * 2^k, k >= 0, so that rest / divisor * 2^-k is an integer part that fits the format.

    Infinities and NaN give nonsense, which ends in NaN as it should.
    """
    mantissa, bias = divisor.dtype.mantissa, divisor.dtype.exponent_bias
    k = b.sub(_exponent(b, rest), _exponent(b, divisor))
    k = b.sub(k, b.like(k, mantissa - 1))
    k = b.maximum(k, b.like(k, 0))
    # Two factors, since 2^k alone may overflow.
    half = b.shr(k, b.like(k, 1))
    for part in (half, b.sub(k, half)):
        bits = b.shl(b.add(part, b.like(k, bias)), b.like(k, mantissa))
        divisor = b.mul(divisor, b.bitcast(bits, divisor.dtype))
    return divisor


def _exponent(b: Lanes, x: Lane) -> Lane:
    """The biased exponent of a positive float, as an integer; below 1 for denormals."""
    field = ty.int32 if x.dtype is ty.float32 else ty.int64
    shift = b.const(x.dtype.mantissa, field, x.width)
    plain = b.shr(b.bitcast(x, field), shift)
    scaled = b.shr(b.bitcast(b.mul(x, b.like(x, 2.0**54)), field), shift)
    return b.select(b.eq(plain, b.like(plain, 0)), b.sub(scaled, b.like(plain, 54)), plain)


def copysign(b: Lanes, size: Lane, sign: Lane) -> Lane:
    return b.intrinsic("copysign", size, sign)
