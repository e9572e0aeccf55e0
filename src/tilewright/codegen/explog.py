"""Exponentials, logarithms, powers and hyperbolic functions, as lane recipes.

The polynomials are minimax fits (Remez, 60 digits) on the interval that a comment names.
"""

from __future__ import annotations

from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane
from tilewright.codegen.recipe import (
    at_least,
    at_most,
    bits_dtype,
    bits_of,
    copysign,
    elementary,
    fast_two_sum,
    horner,
    power_of_two,
    rounding_shift,
    scale,
    through_f64,
    two_sum,
)

INF, NAN = float("inf"), float("nan")
LOG2_E = 1.4426950408889634
LN_2 = 0.6931471805599453
# ln 2 and log2(e) in two parts, the first so short that its product with an exponent is exact.
LN2 = {32: (0.693359375, -2.12194440e-4), 64: (0.693147180369123816490, 1.90821492927058770e-10)}
IVLN2 = {32: (1.4428710938, -1.7605285393e-4), 64: (1.44269504072144627571, 1.67517131648865e-10)}
# (e^x - 1 - x) / x^2 on +-0.3535.
EXP = {
    32: (
        0.49999992630049822, 0.16666508722447541, 0.041668528210396671,
        0.0083701343167483202, 0.0013811664148510061,
    ),
    64: (
        0.5, 0.16666666666666687, 0.04166666666666597, 0.0083333333333142652,
        0.0013888888889154196, 0.00019841269903271193, 2.4801586879806866e-5,
        2.7557227968155227e-6, 2.7557603223921145e-7, 2.511443910386501e-8, 2.0824654069015698e-9,
    ),
}  # fmt: skip
# (2^x - 1) / x on +-0.5.
EXP2 = {
    32: (
        0.69314720639252726, 0.24022651349820882, 0.055503274717032024,
        0.0096180033917593799, 0.001340039936557885, 0.00015476444603176908,
    ),
    64: (
        0.69314718055994531, 0.24022650695910071, 0.055504108664821773, 0.0096181291076284867,
        0.0013333558146373796, 0.0001540353039335456, 1.525273387143651e-5, 1.3215486823495732e-6,
        1.0178045133643041e-7, 7.0548913870205634e-9, 4.457556997764031e-10, 2.5737932444201744e-11,
    ),
}  # fmt: skip
# (log(1+x) - x + x^2/2) / x^3 on [-1/3, 1/3].
LOG_F32 = (
    0.33333338604287234, -0.24999819316678152, 0.199993085538155, -0.1667967693365504,
    0.14312921065197092, -0.12193719883875307, 0.10659364604601165, -0.12856789373123599,
    0.12368426022355116,
)  # fmt: skip
# (log((1+s)/(1-s)) - 2s) / s^3 in s^2, on |s| <= 0.204.
LOG_F64 = (
    0.66666666666666618, 0.40000000000050727, 0.28571428555993241, 0.22222224366463394,
    0.18181658181626097, 0.15391441939940532, 0.13167114337762196, 0.13891517165986888,
)  # fmt: skip
# (tanh(x) - x) / x^3 in x^2, on |x| <= 0.985.
TANH_F32 = (
    -0.33333330414460105, 0.13333230713955579, -0.053955912321691865, 0.021797101221259006,
    -0.0086241522186689541, 0.0031159781954205771, -0.00086602861620687419,
    0.00012816965887711114,
)  # fmt: skip
# (sinh(x) - x) / x^3 in x^2, on |x| <= 1.
SINH = {
    32: (0.16666666488824136, 0.0083333505925567747, 0.00019836067110704372, 2.8174354301013001e-6),
    64: (
        0.16666666666666667, 0.0083333333333333336, 0.0001984126984126959, 2.7557319224120229e-6,
        2.5052108345644105e-8, 1.6059050705573587e-10, 7.6464763784943328e-13,
        2.8483978737228631e-15,
    ),
}  # fmt: skip


def _exponential(b: Lanes, x: Lane, power: int) -> Lane:
    """e^x * 2^power, without overflow between."""
    # At the lower limits a factor of the scale is 0: denormal results, as e^-inf had them if it
    # were taken for the last one that is not 0, take three times as long.
    low, high = (-175.3, 90.0) if x.dtype.bits == 32 else (-1417.43, 711.0)
    n, r = reduced(b, at_least(b, at_most(b, x, high), low))
    if power:
        n = b.add(n, b.like(n, float(power)))
    return scale(b, horner(b, r, (1.0, 1.0, *EXP[x.dtype.bits])), n)


def reduced(b: Lanes, x: Lane) -> tuple[Lane, Lane]:
    """n and r with x = n ln 2 + r and |r| <= ln(2)/2."""
    high, low = LN2[x.dtype.bits]
    shift = b.like(x, rounding_shift(x))
    n = b.sub(b.fma(x, b.like(x, LOG2_E), shift), shift)
    minus = b.neg(n)
    return n, b.fma(minus, b.like(x, low), b.fma(minus, b.like(x, high), x))


def by_unit(b: Lanes, x: Lane) -> bool:
    """Whether the machine has a unit for 2^x: NVIDIA's special function unit, in f32."""
    return b.target == "nvptx" and x.dtype.bits == 32


def unit_exp2(b: Lanes, x: Lane) -> Lane:
    """2^x by the unit, within 2 ulp; denormals, infinities and NaN are right."""
    return b.call("llvm.nvvm.ex2.approx.f", x.dtype, x)


def unit_exp(b: Lanes, x: Lane) -> Lane:
    """e^x as 2^(x log2 e), as Triton has it.

    What rounding the product loses grows with |x|: 4 ulp where |x| < 5, 60 at the ends.
    """
    return unit_exp2(b, b.mul(x, b.like(x, LOG2_E)))


@elementary
def exp(b: Lanes, x: Lane) -> Lane:
    """e^x."""
    return unit_exp(b, x) if by_unit(b, x) else _exponential(b, x, 0)


@elementary
def half_exp(b: Lanes, x: Lane) -> Lane:
    """e^x / 2, which overflows later than e^x."""
    return _exponential(b, x, -1)


@elementary
def exp2(b: Lanes, x: Lane) -> Lane:
    """2^x; the unit takes results below the normal numbers to 0, as Triton has it."""
    if by_unit(b, x):
        return b.call("llvm.nvvm.ex2.approx.ftz.f", x.dtype, x)
    low, high = (-252.95, 130.0) if x.dtype.bits == 32 else (-2044.95, 1026.0)  # as for e^x
    x = at_least(b, at_most(b, x, high), low)
    shift = b.like(x, rounding_shift(x))
    n = b.sub(b.add(x, shift), shift)
    return scale(b, horner(b, b.sub(x, n), (1.0, *EXP2[x.dtype.bits])), n)


@elementary
def expm1(b: Lanes, x: Lane) -> Lane:
    """e^x - 1, accurate near 0."""
    # At the upper limits the result is infinite, and n just what the two halves can hold.
    low, high = (-20.0, 89.0) if x.dtype.bits == 32 else (-40.0, 709.9)
    clamped = at_least(b, at_most(b, x, high), low)
    n, r = reduced(b, clamped)
    high, low = LN2[x.dtype.bits]
    lost = b.sub(b.fma(b.neg(n), b.like(x, high), clamped), r)
    lost = b.fma(b.neg(n), b.like(x, low), lost)
    tail = b.fma(b.mul(r, r), horner(b, r, EXP[x.dtype.bits]), lost)
    # 2^n (1 + r + tail) - 1, by halves, since n may be one more than the largest exponent.
    half = power_of_two(b, b.add(n, b.like(x, rounding_shift(x) - 1.0)))
    total, error = fast_two_sum(b, b.sub(half, b.like(x, 0.5)), b.mul(half, r))
    out = b.add(total, b.fma(half, tail, error))
    tiny = b.lt(b.abs(x), b.like(x, 2.0 ** -(x.dtype.mantissa + 2)))
    return b.select(tiny, x, b.add(out, out))


def decompose(b: Lanes, x: Lane) -> tuple[Lane, Lane]:
    """e and f with x = 2^e (1 + f), 1 + f in [2/3, 4/3), for positive finite x."""
    dtype = x.dtype
    mantissa, bias = dtype.mantissa, dtype.exponent_bias
    tiny = b.lt(x, b.like(x, 2.0 ** (1 - bias)))
    x = b.select(tiny, b.mul(x, b.like(x, 2.0 ** (mantissa + 1))), x)
    code = b.bitcast(x, bits_dtype(dtype))
    start = bits_of(2 / 3, dtype)
    moved = b.add(code, b.like(code, (bias << mantissa) - start))
    exponent = b.shr(moved, b.like(code, mantissa))
    # Integer to float without the conversion that AVX2 lacks for 64 bits: 2^mantissa + exponent.
    big = 2.0**mantissa
    e = b.bitcast(b.bit_or(exponent, b.like(code, bits_of(big, dtype))), dtype)
    e = b.sub(e, b.select(tiny, b.like(x, big + bias + mantissa + 1), b.like(x, big + bias)))
    fraction = b.add(b.bit_and(moved, b.like(code, (1 << mantissa) - 1)), b.like(code, start))
    return e, b.sub(b.bitcast(fraction, dtype), b.like(x, 1.0))


def _log_tail(b: Lanes, f: Lane) -> tuple[Lane, Lane]:
    """h = f^2/2 and r, with log(1 + f) = f - (h - r)."""
    h = b.mul(b.mul(f, b.like(f, 0.5)), f)
    if f.dtype.bits == 32:
        return h, b.mul(b.mul(b.mul(f, f), f), horner(b, f, LOG_F32))
    s = b.div(f, b.add(f, b.like(f, 2.0)))
    z = b.mul(s, s)
    return h, b.mul(s, b.fma(z, horner(b, z, LOG_F64), h))


def _log_edges(b: Lanes, x: Lane, zero: float, out: Lane) -> Lane:
    """`out`, except that log is -inf at `zero`, NaN below, and infinity and NaN stay."""
    zero_lane = b.like(x, zero)
    out = b.select(b.lt(x, b.like(x, INF)), out, x)
    out = b.select(b.eq(x, zero_lane), b.like(x, -INF), out)
    return b.select(b.lt(x, zero_lane), b.like(x, NAN), out)


def _log_sum(b: Lanes, e: Lane, f: Lane, extra: Lane | None) -> Lane:
    """e ln 2 + log(1 + f) + extra."""
    high, low = LN2[f.dtype.bits]
    h, r = _log_tail(b, f)
    total, rest = fast_two_sum(b, b.mul(e, b.like(e, high)), f)
    if extra is not None:
        rest = b.add(rest, extra)
    return b.add(total, b.sub(rest, b.sub(h, b.fma(e, b.like(e, low), r))))


def _quick_log(b: Lanes, x: Lane) -> Lane:
    """The natural logarithm within 0.9 ulp, in fewer steps."""
    e, f = decompose(b, x)
    near = b.fma(b.mul(f, f), horner(b, f, (-0.5, *LOG_F32)), f)
    out = b.fma(e, b.like(e, LN_2), near)
    # Infinity stays, NaN too, and of what is below 0 the difference of infinities is NaN.
    code = b.bitcast(x, bits_dtype(x.dtype))
    inf = b.like(x, INF)
    out = b.select(b.ge(code, b.like(code, bits_of(INF, x.dtype))), b.fma(x, inf, inf), out)
    return b.select(b.eq(x, b.like(x, 0.0)), b.like(x, -INF), out)


@elementary
def log(b: Lanes, x: Lane) -> Lane:
    """The natural logarithm."""
    if by_unit(b, x):
        return _quick_log(b, x)
    e, f = decompose(b, x)
    return _log_edges(b, x, 0.0, _log_sum(b, e, f, None))


@elementary
def log2(b: Lanes, x: Lane) -> Lane:
    """The logarithm to base 2."""
    e, f = decompose(b, x)
    h, r = _log_tail(b, f)
    # log(1 + f) as head + tail, the head short enough for an exact product with log2(e)'s first.
    code = b.bitcast(b.sub(f, h), bits_dtype(x.dtype))
    mask = 0xFFFFF000 if x.dtype.bits == 32 else 0xFFFFFFFF00000000
    head = b.bitcast(b.bit_and(code, b.like(code, mask)), x.dtype)
    tail = b.add(b.sub(b.sub(f, head), h), r)
    high, low = (b.like(x, c) for c in IVLN2[x.dtype.bits])
    total, rest = fast_two_sum(b, e, b.mul(head, high))
    rest = b.add(rest, b.fma(b.add(tail, head), low, b.mul(tail, high)))
    return _log_edges(b, x, 0.0, b.add(total, rest))


@elementary
def log1p(b: Lanes, x: Lane) -> Lane:
    """log(1 + x), accurate near 0."""
    one = b.like(x, 1.0)
    u = b.add(x, one)
    e, f = decompose(b, u)
    lost = b.select(b.ge(x, one), b.sub(one, b.sub(u, x)), b.sub(x, b.sub(u, one)))
    near = b.eq(e, b.like(e, 0.0))
    extra = b.select(near, b.like(x, 0.0), b.div(lost, u))
    out = _log_edges(b, x, -1.0, _log_sum(b, e, b.select(near, x, f), extra))
    return b.select(b.eq(x, b.like(x, 0.0)), x, out)


@elementary
def tanh(b: Lanes, x: Lane) -> Lane:
    """The hyperbolic tangent."""
    size = b.abs(x)
    one, two = b.like(x, 1.0), b.like(x, 2.0)
    if x.dtype.bits == 32:
        z = b.mul(x, x)
        small = b.fma(b.mul(size, z), horner(b, z, TANH_F32), size)
        large = b.sub(one, b.div(two, b.add(exp(b, b.add(size, size)), one)))
        return copysign(b, b.select(b.lt(size, b.like(x, 0.975)), small, large), x)
    # t / (t + 2) or 1 - 2 / (t + 2), the quotient mended by what sum and division rounded away.
    size = at_most(b, size, 44.0)
    t = expm1(b, b.add(size, size))
    near = b.lt(size, one)
    top = b.select(near, t, b.like(x, -2.0))
    bottom, lost = two_sum(b, t, two)
    inverse = b.div(one, bottom)
    part = b.mul(top, inverse)
    residue = b.fma(b.neg(part), lost, b.fma(b.neg(part), bottom, top))
    part = b.fma(residue, inverse, part)
    return copysign(b, b.add(b.select(near, b.like(x, 0.0), one), part), x)


@elementary
def sinh(b: Lanes, x: Lane) -> Lane:
    """The hyperbolic sine."""
    size, z = b.abs(x), b.mul(x, x)
    small = b.fma(b.mul(x, z), horner(b, z, SINH[x.dtype.bits]), x)
    half = half_exp(b, size)
    large = copysign(b, b.sub(half, b.div(b.like(x, 0.25), half)), x)
    return b.select(b.lt(size, b.like(x, 1.0)), small, large)


@elementary
def cosh(b: Lanes, x: Lane) -> Lane:
    """The hyperbolic cosine."""
    half = half_exp(b, b.abs(x))
    return b.add(half, b.div(b.like(x, 0.25), half))


@through_f64
def asinh(b: Lanes, x: Lane) -> Lane:
    """The inverse hyperbolic sine."""
    size = b.abs(x)
    one = b.like(x, 1.0)
    big = b.gt(size, b.like(x, 2.0**60))
    z = b.mul(size, size)
    near = b.add(size, b.div(z, b.add(b.sqrt(b.add(z, one)), one)))
    out = log1p(b, b.select(big, size, near))
    out = b.select(big, b.add(out, b.like(x, 0.6931471805599453)), out)
    return copysign(b, out, x)


@through_f64
def acosh(b: Lanes, x: Lane) -> Lane:
    """The inverse hyperbolic cosine; NaN below 1."""
    big = b.gt(x, b.like(x, 2.0**60))
    t = b.sub(x, b.like(x, 1.0))
    near = b.add(t, b.sqrt(b.fma(t, t, b.add(t, t))))
    out = log1p(b, b.select(big, x, near))
    out = b.select(big, b.add(out, b.like(x, 0.6931471805599453)), out)
    return b.select(b.lt(x, b.like(x, 1.0)), b.like(x, NAN), out)


@through_f64
def atanh(b: Lanes, x: Lane) -> Lane:
    """The inverse hyperbolic tangent; infinite at 1, NaN beyond."""
    size = b.abs(x)
    ratio = b.div(b.add(size, size), b.sub(b.like(x, 1.0), size))
    return copysign(b, b.mul(b.like(x, 0.5), log1p(b, ratio)), x)
