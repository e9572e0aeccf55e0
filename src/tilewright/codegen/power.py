"""Powers and roots, as lane recipes; f64 powers take the logarithm in twice the precision."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.explog import EXP, INF, LN2, NAN, decompose, reduced
from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane
from tilewright.codegen.recipe import (
    at_least,
    at_most,
    copysign,
    elementary,
    fast_two_sum,
    horner,
    power_of_two,
    rounding_shift,
    scale,
)
from tilewright.ir import types as ty

TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
# (log((1+s)/(1-s)) - 2s - 2/3 s^3) / s^5 in s^2, on |s| <= 0.201.
LOG_S5 = (
    0.4, 0.28571428571428266, 0.22222222222377194, 0.18181818150084138, 0.15384618759493698,
    0.13333126276802824, 0.11772308847626903, 0.1036189201975035, 0.114345309480725,
)  # fmt: skip


# log2(1 + f) / f on |f| <= 1/3, to 2^-38, and 2^r on |r| <= 1/2, to 2^-34.
LOG2_F = (
    1.4426950408924735, -0.721347520447781, 0.48089834387024694, -0.36067375731515605,
    0.28853945123815317, -0.24044958993023524, 0.20607561106374894, -0.18031462353002164,
    0.1608974833278857, -0.14483150826316504, 0.12351299368669497, -0.11304546834011159,
    0.1576906674903253, -0.14691835896145938,
)  # fmt: skip
EXP2_R = (
    0.9999999999595618, 0.6931471805568324, 0.24022651213498092, 0.055504109063258665,
    0.009618025613318034, 0.0013333478473685416, 0.00015469729214118296, 1.5303700711365693e-05,
)  # fmt: skip


def pow(b: Lanes, x: Lane, y: Lane) -> Lane:
    """x^y with C's special cases; narrow floats compute in f32, which goes through f64."""
    dtype = x.dtype
    if dtype is ty.float64:
        return b.outline(pow_f64, x, y)
    return b.cast(b.outline(pow_f32, b.cast(x, ty.float32), b.cast(y, ty.float32)), dtype)


def pow_f32(b: Lanes, x: Lane, y: Lane) -> Lane:
    """2^(y log2(x)) in f64, of so many digits as f32 needs."""
    size, zero, inf = b.abs(x), b.like(x, 0.0), b.like(x, INF)
    e, f = (b.cast(v, ty.float64) for v in decompose(b, size))
    power = b.mul(b.cast(y, ty.float64), b.fma(f, by_halves(b, f, LOG2_F), e))
    power = at_least(b, at_most(b, power, 200.0), -200.0)  # beyond what f32 can hold
    shift = b.like(power, rounding_shift(power))
    shifted = b.add(power, shift)
    out = by_halves(b, b.sub(power, b.sub(shifted, shift)), EXP2_R)
    out = b.cast(b.mul(out, power_of_two(b, shifted)), ty.float32)
    # The logarithm of 0 and of infinity is infinite.
    at_zero = b.eq(size, zero)
    is_large = b.bit_xor(at_zero, b.gt(y, zero))
    ends = b.bit_or(at_zero, b.eq(size, inf))
    return _with_sign(b, x, y, b.select(ends, b.select(is_large, inf, zero), out))


def by_halves(b: Lanes, x: Lane, coefficients: Sequence[float]) -> Lane:
    """A long polynomial as two of x^2, which need not wait for each other."""
    square = b.mul(x, x)
    even, odd = (horner(b, square, coefficients[k::2]) for k in (0, 1))
    return b.fma(x, odd, even)


def pow_f64(b: Lanes, x: Lane, y: Lane) -> Lane:
    high, low = _log_twice(b, b.abs(x))
    power = b.mul(y, high)
    rest = b.fma(y, low, b.fma(y, high, b.neg(power)))
    # Outside, the power is 0 or infinite, and the rest possibly NaN.
    rest = b.select(b.lt(b.abs(power), b.like(x, 800.0)), rest, b.like(x, 0.0))
    n, r = reduced(b, at_least(b, at_most(b, power, 711.0), -747.0))
    out = horner(b, r, (1.0, 1.0, *EXP[64]))
    return _with_sign(b, x, y, scale(b, b.fma(out, rest, out), n))


def _log_twice(b: Lanes, x: Lane) -> tuple[Lane, Lane]:
    """log(x) as a sum of two, to about 2^-68, for x >= 0."""
    e, f = decompose(b, x)
    two = b.like(x, 2.0)
    # s = f / (2 + f); log(1 + f) = 2s + 2/3 s^3 + s^5 Q(s^2).
    v = b.add(two, f)
    v_low = b.sub(f, b.sub(v, two))
    inverse = b.div(b.like(x, 1.0), v)
    s = b.mul(f, inverse)
    minus = b.neg(s)
    s_low = b.mul(inverse, b.fma(minus, v_low, b.fma(minus, v, f)))
    z, z_low = _product(b, s, s_low, s, s_low)
    cube, cube_low = _product(b, z, z_low, s, s_low)
    third, third_low = _product(b, cube, cube_low, *(b.like(x, c) for c in TWO_THIRDS))
    small = b.mul(b.mul(cube, z), horner(b, z, LOG_S5))
    total, first = fast_two_sum(b, b.add(s, s), third)
    total, second = fast_two_sum(b, b.mul(e, b.like(e, LN2[64][0])), total)
    rest = b.add(b.add(s_low, s_low), b.add(third_low, small))
    rest = b.add(rest, b.mul(e, b.like(e, LN2[64][1])))
    total, rest = fast_two_sum(b, total, b.add(b.add(first, second), rest))
    zero, edge = b.like(x, 0.0), b.lt(x, b.like(x, INF))
    total = b.select(edge, b.select(b.eq(x, zero), b.like(x, -INF), total), x)
    return total, rest


def _product(b: Lanes, x: Lane, x_low: Lane, y: Lane, y_low: Lane) -> tuple[Lane, Lane]:
    """(x + x_low) * (y + y_low) as a sum of two."""
    high = b.mul(x, y)
    low = b.fma(x, y, b.neg(high))
    return high, b.fma(x, y_low, b.fma(x_low, y, low))


def _with_sign(b: Lanes, x: Lane, y: Lane, size: Lane) -> Lane:
    """x^y, given |x|^y where that is plain."""
    zero, one, inf = b.like(x, 0.0), b.like(x, 1.0), b.like(x, INF)
    size = b.select(b.eq(b.abs(x), one), one, size)
    half = b.mul(y, b.like(y, 0.5))
    whole = b.eq(b.trunc(y), y)
    odd = b.bit_and(whole, b.ne(b.trunc(half), half))
    out = b.select(odd, copysign(b, size, x), size)
    bad = b.bit_and(b.bit_and(b.lt(x, zero), b.gt(x, b.neg(inf))), b.bit_not(whole))
    out = b.select(b.bit_or(bad, b.bit_or(b.is_nan(x), b.is_nan(y))), b.like(x, NAN), out)
    return b.select(b.bit_or(b.eq(y, zero), b.eq(x, one)), one, out)


@elementary
def rsqrt(b: Lanes, x: Lane) -> Lane:
    """1 / sqrt(x): by both exact operations, or by the unit of NVIDIA's chips."""
    if b.target == "nvptx" and x.dtype.bits == 32:
        return b.call("llvm.nvvm.rsqrt.approx.f", x.dtype, x)
    return b.div(b.like(x, 1.0), b.sqrt(x))


@elementary
def cbrt(b: Lanes, x: Lane) -> Lane:
    """The cube root."""
    size = b.abs(x)
    # Away from both ends, so that the cube of the root is always a normal number.
    below = b.lt(size, b.like(x, 1.0))
    size = b.mul(size, b.select(below, b.like(x, 2.0**54), b.like(x, 2.0**-54)))
    root = _cbrt_guess(b, size)
    for _ in range(2 if x.dtype.bits == 32 else 3):
        # Halley's step, with the exact residue of the cube.
        square = b.mul(root, root)
        square_low = b.fma(root, root, b.neg(square))
        residue = b.fma(square_low, root, b.fma(square, root, b.neg(size)))
        slope = b.fma(residue, b.like(x, 2.0), b.mul(size, b.like(x, 3.0)))
        root = b.sub(root, b.mul(root, b.div(residue, slope)))
    root = b.mul(root, b.select(below, b.like(x, 2.0**-18), b.like(x, 2.0**18)))
    plain = b.bit_and(b.gt(size, b.like(x, 0.0)), b.lt(size, b.like(x, INF)))
    return b.select(plain, copysign(b, root, x), x)


def _cbrt_guess(b: Lanes, size: Lane) -> Lane:
    """The root within 4 %: a third of the exponent and mantissa, read as one number."""
    if size.dtype.bits == 64:
        code = b.bitcast(size, ty.uint64)
        code = b.cast(b.shr(code, b.like(code, 32)), ty.int32)
    else:
        code = b.bitcast(size, ty.int32)
    one = 1 << (size.dtype.mantissa - (32 if size.dtype.bits == 64 else 0))
    scaled = b.mul(b.cast(code, ty.float32), b.const(1 / 3, ty.float32, size.width))
    offset = (size.dtype.exponent_bias * 2 / 3 - 0.0331) * one
    code = b.cast(b.add(scaled, b.const(offset, ty.float32, size.width)), ty.int32)
    if size.dtype.bits == 32:
        return b.bitcast(code, ty.float32)
    code = b.cast(code, ty.uint64)
    return b.bitcast(b.shl(code, b.like(code, 32)), ty.float64)
