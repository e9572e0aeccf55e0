"""The functions of CUDA's libdevice, composed of the language's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.errors import UnsupportedError
from tilewright.ir import types as t
from tilewright.lang import arithmetic as a
from tilewright.lang import libdevice_bessel as bessel
from tilewright.lang import libdevice_bits as bits
from tilewright.lang import libdevice_directed as directed
from tilewright.lang import libdevice_special as special
from tilewright.lang.builtin import builtin
from tilewright.lang.conversion import cast, cast_function
from tilewright.lang.libdevice_bits import bits_of, named
from tilewright.lang.libdevice_special import PI, copysign, in_double, isinf
from tilewright.lang.promote import to_tensor
from tilewright.lang.tensor import tensor
from tilewright.ops import math as m

LOG2_10 = 3.321928094887362347870319429489390175864831393024580612054756
LOG10_E = 0.4342944819032518276511289189166050822943970058036665661144538


# --- functions that are ops

acos, acosh, asin, asinh, atan, atan2, atanh = (
    m.acos, m.acosh, m.asin, m.asinh, m.atan, m.atan2, m.atanh,
)  # fmt: skip
cbrt, ceil, cos, cosh, erf, erfc, exp, exp2, expm1 = (
    m.cbrt, m.ceil, m.cos, m.cosh, m.erf, m.erfc, m.exp, m.exp2, m.expm1,
)  # fmt: skip
floor, fma, fmod, log, log1p, log2, rint, rsqrt, sin = (
    m.floor, m.fma, m.fmod, m.log, m.log1p, m.log2, m.rint, m.rsqrt, m.sin,
)  # fmt: skip
sinh, sqrt, tan, tanh, trunc, abs = m.sinh, m.sqrt, m.tan, m.tanh, m.trunc, m.abs
nearbyint, fma_rn, sqrt_rn, rsqrt_rn = m.rint, m.fma, a.sqrt_rn, m.rsqrt
add_rn, sub_rn, mul_rn, div_rn = m.add, m.sub, m.mul, a.div_rn
fast_dividef, fast_sinf, fast_cosf, fast_tanf = a.fdiv, m.sin, m.cos, m.tan
fast_expf, fast_logf, fast_log2f = m.exp, m.log, m.log2

# --- of the parts of a float


@builtin
def isnan(x: Any) -> tensor:
    """Whether it is not a number."""
    x = to_tensor(x)
    return x != x


@builtin
def finitef(x: Any) -> tensor:
    """Whether it is neither infinite nor NaN."""
    return m.abs(x) < float("inf")


isfinited = finitef


@builtin
def signbit(x: Any) -> tensor:
    """1 where the sign bit is set, else 0."""
    x = to_tensor(x)
    return cast(bits_of(x) >> (x.dtype.bits - 1), t.int32)


@builtin
def nextafter(x: Any, y: Any) -> tensor:
    """The float next to x on the way to y."""
    x, y = a.tensors_together(x, y)
    whole = bits_of(x, signed=True)
    away = (y > x) == (x > 0)
    moved = cast_function(a.where(away, whole + 1, whole - 1), x.dtype, bitcast=True)
    smallest = cast_function(bits_of(x, signed=True) * 0 + 1, x.dtype, bitcast=True)
    out = a.where(x == 0, copysign(smallest, y), moved)
    out = a.where(x == y, y, out)
    return a.where((x != x) | (y != y), x + y, out)


def power_of_two(n: tensor) -> tensor:
    """2 ** n in fp64, for n from -1022 to 1023."""
    return cast_function((cast(n, t.int64) + 1023) << 52, t.float64, bitcast=True)


@builtin
def ldexp(x: Any, n: Any) -> tensor:
    """x * 2 ** n."""
    x, n = to_tensor(x), to_tensor(n)
    wide = cast(x, t.float64)
    rest = a.maximum(a.minimum(cast(n, t.int32), 2200), -2200)
    for _ in range(3):
        step = a.maximum(a.minimum(rest, 1000), -1000)
        wide, rest = wide * power_of_two(step), rest - step
    return cast(wide, x.dtype)


scalbn = ldexp


def exponent(x: tensor) -> tensor:
    """The exponent of a number that is not 0 and finite, as int64."""
    wide = m.abs(cast(x, t.float64))
    small = wide < 2.0**-1000
    scaled = a.where(small, wide * 2.0**100, wide)
    found = cast(bits_of(scaled) >> 52, t.int64) - 1023
    return a.where(small, found - 100, found)


@builtin
def ilogb(x: Any) -> tensor:
    """The exponent as an integer."""
    x = to_tensor(x)
    out = cast(exponent(x), t.int32)
    out = a.where(x == 0, -(2**31), out)
    return a.where(finitef(x), out, a.where(isnan(x), -(2**31), 2**31 - 1))


@builtin
def logb(x: Any) -> tensor:
    """The exponent as a float."""
    x = to_tensor(x)
    out = a.where(x == 0, -float("inf"), cast(exponent(x), x.dtype))
    return a.where(finitef(x), out, x * x)


# --- rounding and remainders


@builtin
def round(x: Any) -> tensor:
    """The nearest integer, ties away from zero."""
    x = to_tensor(x)
    whole = m.trunc(x)
    away = whole + copysign(1.0, x)
    return copysign(a.where(m.abs(x - whole) >= 0.5, away, whole), x)


@builtin
def llround(x: Any) -> tensor:
    """The nearest integer, ties away from zero, as int64."""
    return cast(round(x), t.int64)


@builtin
def llrint(x: Any) -> tensor:
    """The nearest integer, ties to even, as int64."""
    return cast(m.rint(x), t.int64)


@builtin
def remainder(x: Any, y: Any) -> tensor:
    """x - n * y with n the integer nearest to x / y, ties to even."""
    x, y = a.tensors_together(x, y)
    size = m.abs(y)
    double = size + size
    rest = a.where(double < float("inf"), m.fmod(m.abs(x), double), m.abs(x))
    above = a.where(size < 1e-30, rest + rest > size, rest > 0.5 * size)
    rest = a.where(above, rest - size, rest)
    again = a.where(size < 1e-30, rest + rest >= size, rest >= 0.5 * size)
    rest = a.where(above & again, rest - size, rest)
    signed = rest * copysign(1.0, x)
    return a.where((x != x) | (y != y) | (size == 0) | isinf(x), x * y * float("nan"), signed)


@builtin
def fdim(x: Any, y: Any) -> tensor:
    """x - y where that is positive, else 0."""
    x, y = a.tensors_together(x, y)
    return a.where(x <= y, 0.0, x - y)


@builtin
def saturatef(x: Any) -> tensor:
    """x between 0 and 1; 0 for NaN."""
    return a.minimum(a.maximum(x, 0.0), 1.0)


# --- powers, roots and angles


@builtin
def pow(x: Any, y: Any) -> tensor:
    """x ** y; y may be an integer."""
    x, y = to_tensor(x), to_tensor(y)
    return m.pow(x, cast(y, x.dtype) if y.dtype.is_integer else y)


fast_powf = pow


@in_double
def exp10(x):
    """10 ** x."""
    return m.exp2(x * LOG2_10)


@in_double
def log10(x):
    """Logarithm to base 10."""
    return m.log(x) * LOG10_E


fast_exp10f, fast_log10f = exp10, log10


@builtin
def rcp_rn(x: Any) -> tensor:
    """1 / x."""
    return a.div_rn(1.0, x)


@in_double
def rcbrt(x):
    """1 / cbrt(x)."""
    return 1 / m.cbrt(x)


def length(*xs):
    """The square root of the sum of squares, without overflow."""
    largest = m.abs(xs[0])
    for x in xs[1:]:
        largest = a.maximum(largest, m.abs(x))
    usual = (largest > 0) & (largest < float("inf"))
    safe = a.where(usual, largest, 1.0)
    total = None
    for x in xs:
        part = (x / safe) * (x / safe)
        total = part if total is None else total + part
    infinite = None
    for x in xs:
        infinite = isinf(x) if infinite is None else infinite | isinf(x)
    out = a.where(usual, safe * m.sqrt(total), m.sqrt(total))
    return a.where(infinite, float("inf"), out)


@in_double
def hypot(x, y):
    """The length of the vector (x, y)."""
    return length(x, y)


@in_double
def rhypot(x, y):
    """1 / hypot(x, y)."""
    return 1 / length(x, y)


@in_double
def norm3d(x, y, z):
    """The length of a vector in three dimensions."""
    return length(x, y, z)


@in_double
def rnorm3d(x, y, z):
    """1 / norm3d(x, y, z)."""
    return 1 / length(x, y, z)


@in_double
def norm4d(x, y, z, w):
    """The length of a vector in four dimensions."""
    return length(x, y, z, w)


@in_double
def rnorm4d(x, y, z, w):
    """1 / norm4d(x, y, z, w)."""
    return 1 / length(x, y, z, w)


@in_double
def sinpi(x):
    """sin(pi * x)."""
    return special.sine_of_pi(x)


@in_double
def cospi(x):
    """cos(pi * x)."""
    turn = m.abs(x - 2 * m.rint(x * 0.5))
    return m.sin((0.5 - turn) * PI)


# --- special functions, integers, bits, conversions

erfcinv, erfcx, erfinv, normcdf, normcdfinv = (
    special.erfcinv, special.erfcx, special.erfinv, special.normcdf, special.normcdfinv,
)  # fmt: skip
lgamma, tgamma = special.lgamma, special.tgamma

brev, byte_perm, clz, ffs, hadd, mul24 = (
    bits.brev, bits.byte_perm, bits.clz, bits.ffs, bits.hadd, bits.mul24,
)  # fmt: skip
mulhi, popc, rhadd, sad = bits.mulhi, bits.popc, bits.rhadd, bits.sad
hiloint2double, double2loint, double2hiint = (
    bits.hiloint2double, bits.double2loint, bits.double2hiint,
)  # fmt: skip
globals().update(bits.conversions())
globals().update(directed.functions())
j0, j1, jn, y0, y1, yn = bessel.j0, bessel.j1, bessel.jn, bessel.y0, bessel.y1, bessel.yn
cyl_bessel_i0, cyl_bessel_i1 = bessel.cyl_bessel_i0, bessel.cyl_bessel_i1

# --- what is not there


def missing(name: str) -> Callable:
    def call(*_: Any, **__: Any) -> Any:
        raise UnsupportedError(f"libdevice.{name} is not supported")

    return named(call, name, "Not supported.")


rcp64h = missing("rcp64h")

HELPERS = {
    "annotations", "bessel", "directed", "Callable", "Any", "UnsupportedError", "t", "a", "bits",
    "builtin", "bits_of", "named", "to_tensor", "tensor", "m", "in_double", "missing", "length",
    "power_of_two", "exponent", "special", "cast", "cast_function",
}  # fmt: skip
__all__ = [n for n in globals() if n not in HELPERS and n[0] != "_" and not n.isupper()]
