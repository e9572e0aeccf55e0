"""The special functions of CUDA's libdevice: normal distribution, gamma, error functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.errors import want
from tilewright.ir import types as t
from tilewright.lang import arithmetic as a
from tilewright.lang.builtin import builtin
from tilewright.lang.conversion import cast, cast_function
from tilewright.lang.libdevice_bits import bits_of, named
from tilewright.lang.tensor import tensor
from tilewright.ops import math as m

PI = 3.141592653589793238462643383279502884
SQRT_HALF = 0.7071067811865475244008443621048490392848359376884740365883398


def in_double(function: Callable) -> Callable:
    """The function of floats computed in fp64 and rounded to the dtype of its operands."""

    def call(*xs: Any) -> tensor:
        xs = a.tensors_together(*xs)
        dtype = xs[0].dtype
        want(dtype.is_float, f"needs floats, got {xs[0].handle.type}; cast with .to(tl.float32)")
        return cast(function(*[cast(x, t.float64) for x in xs]), dtype)

    call.__signature__ = inspect.signature(function)
    return named(call, function.__name__, function.__doc__)


@builtin
def isinf(x: Any) -> tensor:
    """Whether it is infinite."""
    return m.abs(x) == float("inf")


@builtin
def copysign(x: Any, y: Any) -> tensor:
    """x with the sign of y."""
    x, y = a.tensors_together(x, y)
    sign = 1 << (x.dtype.bits - 1)
    both = (bits_of(x) & (sign - 1)) | (bits_of(y) & sign)
    return cast_function(both, x.dtype, bitcast=True)


@in_double
def normcdf(x):
    """The normal distribution function."""
    return 0.5 * m.erfc(-x * SQRT_HALF)


def inverse_normal(p: tensor) -> tensor:
    """Where the normal distribution function is p (fp64, from 0 to 1): a start and Halley steps."""
    q = a.where(p < 0.5, p, 1 - p)
    tail = m.sqrt(-2.0 * m.log(q))
    top = (0.010328 * tail + 0.802853) * tail + 2.515517
    bottom = ((0.001308 * tail + 0.189269) * tail + 1.432788) * tail + 1.0
    x = top / bottom - tail
    for _ in range(3):
        off = 0.5 * m.erfc(-x * SQRT_HALF) - q
        step = off * 2.5066282746310002 * m.exp(0.5 * x * x)
        x = x - step / (1 + 0.5 * x * step)
    x = a.where(p < 0.5, x, -x)
    x = a.where(p == 0.5, 0.0, x)
    x = a.where(p == 0, -float("inf"), a.where(p == 1, float("inf"), x))
    return a.where((p < 0) | (p > 1) | (p != p), float("nan"), x)


@in_double
def normcdfinv(x):
    """The inverse of normcdf."""
    return inverse_normal(x)


@in_double
def erfcinv(x):
    """The inverse of erfc."""
    return -inverse_normal(0.5 * x) * SQRT_HALF


# erfinv(x) / x in w - 2.5, where w = -log(1 - x^2) < 5; beyond in sqrt(w) from the number that is
# first: to 2^-32 for x of fp32, to 2^-25 for all of fp64.
ERFINV_NEAR = (
    1.501409351110792, 0.24664027678526776, -0.004177317810140035, -0.001252708083622281,
    0.00021825064939995, -4.99588144876006e-06, -3.4171152327450104e-06, 4.786448243400271e-07,
    1.3691496015199152e-08, -1.0854397093112376e-08, 8.327000821030813e-10,
    1.2302888973120805e-10, -2.1203565131819003e-11,
)  # fmt: skip
ERFINV_FAR = {
    32: (
        3.1680339887498947, 3.0015268114607454, 1.004297010587103, 0.006403730790347562,
        -0.004692725091588853, 0.003286307712536495, -0.0022058778176265643,
        0.0011578178776823053, -0.0003575265404943813, -4.1327214539403006e-05,
        0.000124287949736625, -5.7585517190871833e-05, -5.868157605754384e-06,
        9.633127629277498e-06,
    ),
    64: (
        4.168033988749895, 4.009444656226816, 1.0098486895881116, 0.0008714163388840792,
        -0.0006817776682121286, 0.00023972951517461157, -7.796645337917417e-05,
        3.1624164571074244e-05, -1.3294241548934903e-05, 6.114148723000764e-06,
        -5.617498583626048e-06, 3.4009884755762623e-06, -3.703287867519159e-07,
        -3.665319995891047e-07, 9.759081078462649e-08,
    ),
}  # fmt: skip


def polynomial(x: tensor, coefficients: Sequence[float]) -> tensor:
    """c[0] + c[1] x + c[2] x^2 + ..."""
    total = coefficients[-1]
    for c in coefficients[-2::-1]:
        total = total * x + c
    return total


@builtin
def erfinv(x: Any) -> tensor:
    """The inverse of erf."""
    (x,) = a.tensors_together(x)
    dtype = x.dtype
    want(dtype.is_float, f"needs floats, got {x.handle.type}; cast with .to(tl.float32)")
    x = cast(x, t.float64)
    size = m.abs(x)
    w = -m.log((1 - size) * (1 + size))
    start, *far = ERFINV_FAR[64 if dtype is t.float64 else 32]
    near = polynomial(w - 2.5, ERFINV_NEAR)
    y = size * a.where(w < 5, near, polynomial(m.sqrt(w) - start, far))
    if dtype is t.float64:
        # One of Halley's steps, on the function that has more digits there.
        off = a.where(size < 0.5, m.erf(y) - size, (1 - size) - m.erfc(y))
        step = off * 0.8862269254527580137 * m.exp(y * y)
        y = y - step / (1 + y * step)
    y = a.where(size < 1, y, a.where(size == 1, float("inf"), float("nan")))
    return cast(copysign(y, x), dtype)


@in_double
def erfcx(x):
    """exp(x * x) * erfc(x)."""
    inverse = 1 / (x * x)
    series = 1 - 0.5 * inverse * (1 - 1.5 * inverse * (1 - 2.5 * inverse * (1 - 3.5 * inverse)))
    far = 0.5641895835477562869 / x * series
    return a.where(x > 25.0, far, m.exp(a.minimum(x, 25.0) * a.minimum(x, 25.0)) * m.erfc(x))


# Lanczos' sum for g = 7, as a quotient of polynomials in x - 1.
LANCZOS_TOP = (
    10619610.099075992, 11246929.484659921, 5210869.017760827, 1379496.265878669,
    228235.21549971408, 24165.510665029473, 1599.0425347220414, 60.458333333341905,
    0.9999999999998099,
)  # fmt: skip
LANCZOS_BOTTOM = (40320.0, 109584.0, 118124.0, 67284.0, 22449.0, 4536.0, 546.0, 36.0, 1.0)


def log_gamma(x: tensor) -> tensor:
    """log(gamma(x)) for x >= 0.5."""
    x = x - 1
    near = a.minimum(x, 1e30)  # further out the quotient is the same, and its parts overflow
    total = polynomial(near, LANCZOS_TOP) / polynomial(near, LANCZOS_BOTTOM)
    base = x + 7.5
    return 0.91893853320467274178 + (x + 0.5) * m.log(base) - base + m.log(total)


def sine_of_pi(x: tensor) -> tensor:
    """sin(pi * x)."""
    turn = x - 2 * m.rint(x * 0.5)
    folded = a.where(m.abs(turn) > 0.5, copysign(1.0, turn) - turn, turn)
    return m.sin(folded * PI)


@in_double
def lgamma(x):
    """log(|gamma(x)|)."""
    above = log_gamma(a.where(x < 0.5, 1 - x, x))
    below = m.log(PI / m.abs(sine_of_pi(x))) - above
    out = a.where(x < 0.5, below, above)
    pole = (x <= 0) & (m.floor(x) == x)
    out = a.where(pole | isinf(x), float("inf"), out)
    return a.where(x != x, x, out)


@in_double
def tgamma(x):
    """gamma(x)."""
    above = m.exp(log_gamma(a.where(x < 0.5, 1 - x, x)))
    below = PI / (sine_of_pi(x) * above)
    out = a.where(x < 0.5, below, above)
    out = a.where(x == 0, copysign(float("inf"), x), out)
    pole = (x < 0) & (m.floor(x) == x)
    out = a.where(pole, float("nan"), a.where(x == float("inf"), x, out))
    return a.where(x != x, x, out)
