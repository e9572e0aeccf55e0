"""NumPy arrays from one dtype to another with one rounding, and a fused multiply-add."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from tilewright.ir import types as t
from tilewright.ir.types import DType
from tilewright.later import later
from tilewright.ops.rules import NUMPY, numpy_dtype

libraries = later("ctypes.util")

SATURATING = {t.float8e4nv: 448.0, t.float8e4b8: 240.0, t.float8e4b15: 1.875}
SATURATES = {NUMPY[d]: d for d in SATURATING}


def through_double(function: Callable) -> Callable:
    """`function` computed in float64 and rounded once to the dtype of its operands."""

    def apply(*xs):
        return function(*[x.astype(np.float64) for x in xs]).astype(xs[0].dtype)

    return apply


def saturating(function: Callable) -> Callable:
    """`function`, whose results are rounded as casts do in the formats that saturate."""

    def apply(*xs):
        dtype = SATURATES.get(xs[0].dtype)
        if dtype is None:
            return function(*xs)
        return cast_array(function(*[x.astype(np.float32) for x in xs]), dtype)

    return apply


def cast_array(x: np.ndarray, to: DType, rounding: str = "rtne") -> np.ndarray:
    """`x` as `to`: floats round to nearest even or to zero; floats to ints truncate, saturate."""
    target = numpy_dtype(to)
    if x.dtype == target:
        return x
    if x.dtype == NUMPY[t.float8e4b15]:
        x = decode_e4b15(x)
    is_float = x.dtype.kind not in "iub"
    if to is t.int1:
        return x != 0
    if is_float and to.is_integer:
        return saturate(x, target)
    if not to.is_float:
        return x.astype(target)
    if to is t.float8e4b15:
        return encode_e4b15(x)
    if rounding == "rtz":
        return towards_zero(x, target)
    return narrow(x, to, target)


def saturate(x: np.ndarray, target: np.dtype) -> np.ndarray:
    wide = x.astype(np.float64)
    info = np.iinfo(target)
    low, high = float(info.min), float(info.max)
    inside = np.where(np.isnan(wide) | (wide <= low) | (wide >= high), 0.0, np.trunc(wide))
    out = inside.astype(target)
    out = np.where(wide >= high, np.asarray(info.max, target), out)
    return np.where(wide <= low, np.asarray(info.min, target), out)


def narrow(x: np.ndarray, to: DType, target: np.dtype) -> np.ndarray:
    if x.dtype.kind in "iub" and to.bits < 32:
        x = odd_single(x.astype(np.float64)) if x.dtype.itemsize < 8 else integer_odd(x)
    elif x.dtype == np.float64 and to.bits < 32:
        x = odd_single(x)
    if to in SATURATING:
        limit = SATURATING[to]
        x = x.astype(np.float32)
        x = np.where(np.isnan(x), x, np.clip(x, -limit, limit))
    return x.astype(target)


def integer_odd(x: np.ndarray) -> np.ndarray:
    """64-bit integers as float32, rounded to odd, so that a later rounding is the only one."""
    coarse = (x >> 11) | ((x & 2047) != 0)  # the last of 53 bits says whether more follow
    large = (x >= 1 << 53) | (x < -(1 << 53) if x.dtype.kind == "i" else np.False_)
    wide = np.where(large, coarse.astype(np.float64) * 2048, x.astype(np.float64))
    return odd_single(wide)


def odd_single(x: np.ndarray) -> np.ndarray:
    """float64 as float32 rounded to odd: what is inexact ends in an odd bit."""
    single = x.astype(np.float32)
    back = single.astype(np.float64)
    inexact = (back != x) & np.isfinite(single) & np.isfinite(x)
    bits = single.view(np.int32)
    away = np.abs(back) > np.abs(x)
    truncated = np.where(away, bits - 1, bits)
    return np.where(inexact, truncated | 1, bits).astype(np.int32).view(np.float32)


def towards_zero(x: np.ndarray, target: np.dtype) -> np.ndarray:
    near = x.astype(target)
    back = near.astype(np.float64)
    too_far = np.abs(back) > np.abs(x.astype(np.float64))
    bits = near.view(np.dtype(f"u{target.itemsize}"))
    return np.where(too_far, bits - 1, bits).astype(bits.dtype).view(target)


def decode_e4b15(x: np.ndarray) -> np.ndarray:
    """Triton's fp8e4b15 (bias 15, no infinities, no NaN) as float32."""
    bits = x.view(np.uint8).astype(np.int32)
    exponent, fraction = (bits >> 3) & 15, bits & 7
    normal = np.ldexp(1 + fraction / 8, exponent - 15)
    small = np.ldexp(fraction / 8, -14)
    value = np.where(exponent == 0, small, normal)
    return np.where(bits & 128, -value, value).astype(np.float32)


def encode_e4b15(x: np.ndarray) -> np.ndarray:
    codes = np.arange(128, dtype=np.uint8)
    grid = decode_e4b15(codes).astype(np.float64)
    wide = np.abs(np.nan_to_num(x.astype(np.float64), nan=1.875, posinf=1.875, neginf=-1.875))
    above = np.clip(np.searchsorted(grid, wide), 1, 127)
    below = above - 1
    down, up = wide - grid[below], grid[above] - wide
    take_up = (up < down) | ((up == down) & (above % 2 == 0))
    code = np.where(take_up, above, below).astype(np.uint8)
    sign = np.signbit(x.astype(np.float64)).astype(np.uint8) << 7
    return np.asarray(code | sign, np.uint8).view(NUMPY[t.float8e4b15])


def fma_array(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """x * y + z with one rounding, in every float dtype."""
    if x.dtype == np.float64:
        return double_fma(x, y, z)
    x, y, wide = (a.astype(np.float64) for a in (x, y, z))
    product = x * y  # exact: at most 48 bits
    total = product + wide
    rest = total - product
    error = (product - (total - rest)) + (wide - rest)
    bits = total.view(np.int64)
    inexact = (error != 0) & np.isfinite(total) & (bits & 1 == 0)
    step = np.where((error > 0) == (total > 0), 1, -1)
    odd = np.where(inexact, bits + step, bits).view(np.float64)
    if z.dtype == np.float32:
        return odd.astype(np.float32)
    dtype = SATURATES.get(z.dtype)
    return odd_single(odd).astype(z.dtype) if dtype is None else cast_array(odd, dtype)


_fma: list[Callable] = []


def double_fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    if not _fma:
        function = ctypes.CDLL(libraries.find_library("m")).fma
        function.restype = ctypes.c_double
        function.argtypes = [ctypes.c_double] * 3
        _fma.append(np.vectorize(function, otypes=[np.float64]))
    return _fma[0](x, y, z)
