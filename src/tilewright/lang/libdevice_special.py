"""The special functions of CUDA's libdevice: normal distribution, gamma, error functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
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


@in_double
def erfinv(x):
    """The inverse of erf."""
    size = m.abs(x)
    y = -inverse_normal(0.5 * (1 - size)) * SQRT_HALF
    # Near 0 the difference from 1 has lost digits that two steps on erf itself bring back.
    for _ in range(2):
        step = (m.erf(y) - size) * 0.8862269254527580137 * m.exp(y * y)
        y = a.where(size < 0.7, y - step / (1 + y * step), y)
    return copysign(y, x)


@in_double
def erfcx(x):
    """exp(x * x) * erfc(x)."""
    inverse = 1 / (x * x)
    series = 1 - 0.5 * inverse * (1 - 1.5 * inverse * (1 - 2.5 * inverse * (1 - 3.5 * inverse)))
    far = 0.5641895835477562869 / x * series
    return a.where(x > 25.0, far, m.exp(a.minimum(x, 25.0) * a.minimum(x, 25.0)) * m.erfc(x))


LANCZOS = (
    0.99999999999980993227684700473478, 676.520368121885098567009190444019,
    -1259.13921672240287047156078755283, 771.3234287776530788486528258894,
    -176.61502916214059906584551354, 12.507343278686904814458936853,
    -0.13857109526572011689554707, 9.984369578019570859563e-6, 1.50563273514931155834e-7,
)  # fmt: skip


def log_gamma(x: tensor) -> tensor:
    """log(gamma(x)) for x >= 0.5."""
    x = x - 1
    total = LANCZOS[0]
    for i, factor in enumerate(LANCZOS[1:], 1):
        total = factor / (x + i) + total
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
    reflected = log_gamma(a.maximum(1 - x, 0.5))
    below = m.log(PI / m.abs(sine_of_pi(x))) - reflected
    out = a.where(x < 0.5, below, log_gamma(a.maximum(x, 0.5)))
    pole = (x <= 0) & (m.floor(x) == x)
    out = a.where(pole | isinf(x), float("inf"), out)
    return a.where(x != x, x, out)


@in_double
def tgamma(x):
    """gamma(x)."""
    above = m.exp(log_gamma(a.maximum(x, 0.5)))
    below = PI / (sine_of_pi(x) * m.exp(log_gamma(a.maximum(1 - x, 0.5))))
    out = a.where(x < 0.5, below, above)
    out = a.where(x == 0, copysign(float("inf"), x), out)
    pole = (x < 0) & (m.floor(x) == x)
    out = a.where(pole, float("nan"), a.where(x == float("inf"), x, out))
    return a.where(x != x, x, out)
