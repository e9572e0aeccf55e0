"""Arithmetic of CUDA's libdevice that rounds down, up or towards zero.

Each result is rounded to nearest first; what the rounding lost is found exactly, and its sign says
whether the neighbour is meant.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tilewright.errors import want
from tilewright.ir import types as t
from tilewright.ir.types import DType
from tilewright.lang import arithmetic as a
from tilewright.lang.conversion import cast, cast_function
from tilewright.lang.libdevice_bits import bits_of, named
from tilewright.lang.promote import to_tensor
from tilewright.lang.tensor import tensor
from tilewright.ops import math as m

INFINITY = float("inf")
MODES = {"rd": "down", "ru": "up", "rz": "towards zero"}
Pair = tuple[tensor, tensor]  # a sum rounded to nearest in fp64, and the sign of what it lost


def neighbour(x: tensor, above: bool) -> tensor:
    """The next float above or below a number; of an infinity on that side, itself."""
    whole = bits_of(x, signed=True)
    away = (x > 0) if above else (x < 0)
    moved = cast_function(a.where(away, whole + 1, whole - 1), x.dtype, bitcast=True)
    sign = 0 if above else -(1 << x.dtype.bits - 1)
    least = cast_function(whole * 0 + (sign + 1), x.dtype, bitcast=True)
    return a.where(x == 0, least, moved)


def directed(value: Pair, dtype: DType, mode: str) -> tensor:
    """A pair rounded to a dtype in the direction of a mode."""
    total, lost = value
    near = cast(total, dtype)
    wide = cast(near, t.float64)
    missing = total - wide
    overflowed = (m.abs(wide) == INFINITY) & (m.abs(total) < INFINITY)
    missing = a.where(overflowed, -wide, missing)
    missing = a.where((missing == 0) | (total == wide), lost, missing)
    down = missing < 0
    up = missing > 0
    if mode == "rz":
        down, up = down & (near > 0), up & (near < 0)
    if mode != "ru":
        near = a.where(down, neighbour(near, above=False), near)
    if mode != "rd":
        near = a.where(up, neighbour(near, above=True), near)
    return near


def two_sum(x: tensor, y: tensor) -> Pair:
    """A sum, and exactly what its rounding lost."""
    total = x + y
    back = total - x
    lost = (x - (total - back)) + (y - back)
    overflowed = (m.abs(total) == INFINITY) & (m.abs(x) < INFINITY) & (m.abs(y) < INFINITY)
    return total, a.where(overflowed, -total, lost)


def add(x: tensor, y: tensor) -> Pair:
    """x + y."""
    return two_sum(x, y)


def sub(x: tensor, y: tensor) -> Pair:
    """x - y."""
    return two_sum(x, -y)


def mul(x: tensor, y: tensor) -> Pair:
    """x * y."""
    product = x * y
    lost = m.fma(x, y, -product)
    overflowed = (m.abs(product) == INFINITY) & (m.abs(x) < INFINITY) & (m.abs(y) < INFINITY)
    return product, a.where(overflowed, -product, lost)


def div(x: tensor, y: tensor) -> Pair:
    """x / y."""
    quotient = a.div_rn(x, y)
    rest = m.fma(-quotient, y, x)
    lost = a.where(y < 0, -rest, rest)
    overflowed = (m.abs(quotient) == INFINITY) & (m.abs(x) < INFINITY) & (y != 0)
    return quotient, a.where(overflowed, -quotient, lost)


def fma(x: tensor, y: tensor, z: tensor) -> Pair:
    """x * y + z with one rounding."""
    near = m.fma(x, y, z)
    product, rest = mul(x, y)
    low, lower = two_sum(z, rest)
    high, middle = two_sum(product, low)
    return near, ((high - near) + middle) + lower


def sqrt(x: tensor) -> Pair:
    """The square root."""
    root = m.sqrt(x)
    return root, m.fma(-root, root, x)


def rcp(x: tensor) -> Pair:
    """1 / x."""
    return div(cast(x * 0 + 1, t.float64), x)


def operation(function: Callable, mode: str) -> Callable:
    """The function of fp32 or fp64 that rounds in the direction of a mode."""

    def call(*xs: Any) -> tensor:
        xs = a.tensors_together(*xs)
        dtype = xs[0].dtype
        want(
            dtype in (t.float32, t.float64),
            f"needs fp32 or fp64, got {xs[0].handle.type}; cast with .to(tl.float32)",
        )
        return directed(function(*[cast(x, t.float64) for x in xs]), dtype, mode)

    call.__signature__ = inspect.signature(function)
    text = f"{function.__doc__[:-1]}, rounded {MODES[mode]}."
    return named(call, f"{function.__name__}_{mode}", text)


def halves(x: tensor) -> Pair:
    """An integer as a sum of two floats."""
    if x.dtype.bits <= 32:
        wide = cast(x, t.float64)
        return wide, wide * 0
    high = cast(x >> 32, t.float64) * 4294967296.0
    return two_sum(high, cast(x & 0xFFFFFFFF, t.float64))


def conversion(name: str, source: DType, target: DType, mode: str) -> Callable:
    """A conversion to a float that rounds in the direction of a mode."""

    def call(x: Any) -> tensor:
        x = cast(to_tensor(x), source)
        value = (x, x * 0) if source.is_float else halves(x)
        return directed(value, target, mode)

    call.__signature__ = inspect.Signature([inspect.Parameter("x", 1)])
    return named(call, name, f"{source} as {target}, rounded {MODES[mode]}.")


SOURCES = {
    "double": t.float64, "int": t.int32, "uint": t.uint32, "ll": t.int64, "ull": t.uint64,
}  # fmt: skip
TARGETS = {"float": t.float32, "double": t.float64}
CONVERSIONS = ("double2float", "int2float", "uint2float", "ll2float", "ull2float", "ll2double",
               "ull2double")  # fmt: skip


def functions() -> dict[str, Callable]:
    """All of them by name."""
    out = {}
    for mode in MODES:
        for function in (add, sub, mul, div, fma, sqrt, rcp):
            out[f"{function.__name__}_{mode}"] = operation(function, mode)
        for pair in CONVERSIONS:
            source, target = pair.split("2")
            name = f"{pair}_{mode}"
            out[name] = conversion(name, SOURCES[source], TARGETS[target], mode)
    return out
