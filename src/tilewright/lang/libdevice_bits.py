"""The functions of CUDA's libdevice on integers and bits, and its conversions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.errors import want
from tilewright.ir import types as t
from tilewright.ir.types import DType
from tilewright.lang import arithmetic as a
from tilewright.lang.builtin import builtin
from tilewright.lang.conversion import cast, cast_function
from tilewright.lang.promote import to_tensor
from tilewright.lang.tensor import tensor
from tilewright.ops import math as m


def bits_of(x: tensor, signed: bool = False) -> tensor:
    """The bits of a number as an integer of its width."""
    want(x.dtype is not t.int1, f"needs numbers, got {x.handle.type}")
    name = f"{'' if signed else 'u'}int{x.dtype.bits}"
    return cast_function(x, t.BY_NAME[name], bitcast=True)


def integer(x: Any, *dtypes: DType) -> tensor:
    x = to_tensor(x)
    allowed = dtypes or (t.int32, t.uint32, t.int64, t.uint64)
    names = ", ".join(d.name for d in allowed)
    want(x.dtype in allowed, f"needs one of {names}, got {x.handle.type}")
    return x


def masks(bits: int) -> list[tuple[int, int]]:
    """For each power of two below the width, the mask of every second group of so many bits."""
    full = (1 << bits) - 1
    return [(n, full // ((1 << n) + 1)) for n in (1, 2, 4, 8, 16, 32) if n < bits]


@builtin
def popc(x: Any) -> tensor:
    """How many bits are set."""
    x = bits_of(integer(x))
    for n, mask in masks(x.dtype.bits):
        x = (x & mask) + ((x >> n) & mask)
    return cast(x, t.int32)


@builtin
def clz(x: Any) -> tensor:
    """How many bits above the highest set one are 0."""
    x = bits_of(integer(x))
    for n, _ in masks(x.dtype.bits):
        x = x | (x >> n)
    return popc(~x)


@builtin
def ffs(x: Any) -> tensor:
    """The position of the lowest set bit, from 1; 0 where none is set."""
    x = bits_of(integer(x))
    return a.where(x == 0, 0, popc(x ^ (x - 1)))


@builtin
def brev(x: Any) -> tensor:
    """The bits in opposite order."""
    dtype = integer(x).dtype
    x = bits_of(integer(x))
    for n, mask in masks(x.dtype.bits):
        x = ((x & mask) << n) | ((x >> n) & mask)
    return cast_function(x, dtype, bitcast=True)


@builtin
def byte_perm(x: Any, y: Any, selector: Any) -> tensor:
    """Four bytes out of the eight of x and y, each chosen by three bits of the selector."""
    low, high = (cast(bits_of(integer(v, t.int32, t.uint32)), t.uint64) for v in (x, y))
    both = low | (high << 32)
    selector = cast(bits_of(to_tensor(selector)), t.uint64)
    out = None
    for i in range(4):
        shift = ((selector >> (4 * i)) & 7) * 8
        byte = ((both >> shift) & 0xFF) << (8 * i)
        out = byte if out is None else out | byte
    return cast(out, t.int32)


@builtin
def mulhi(x: Any, y: Any) -> tensor:
    """The upper half of the product, signed for signed integers."""
    x, y = a.tensors_together(integer(x), integer(y))
    high = m.umulhi(x, y)
    if x.dtype.is_signed:
        high = high - a.where(x < 0, y, 0) - a.where(y < 0, x, 0)
    return high


@builtin
def mul24(x: Any, y: Any) -> tensor:
    """The lower 32 bits of the product of the lower 24 bits."""
    x, y = a.tensors_together(integer(x, t.int32, t.uint32), integer(y, t.int32, t.uint32))
    return ((x << 8) >> 8) * ((y << 8) >> 8)


@builtin
def sad(x: Any, y: Any, z: Any) -> tensor:
    """|x - y| + z."""
    x, y = a.tensors_together(integer(x, t.int32, t.uint32), integer(y, t.int32, t.uint32))
    distance = a.where(x > y, x - y, y - x)
    return distance + cast(to_tensor(z), x.dtype)


@builtin
def hadd(x: Any, y: Any) -> tensor:
    """The mean, rounded down, without overflow."""
    x, y = a.tensors_together(integer(x, t.int32, t.uint32), integer(y, t.int32, t.uint32))
    return (x & y) + ((x ^ y) >> 1)


@builtin
def rhadd(x: Any, y: Any) -> tensor:
    """The mean, rounded up, without overflow."""
    x, y = a.tensors_together(integer(x, t.int32, t.uint32), integer(y, t.int32, t.uint32))
    return (x | y) - ((x ^ y) >> 1)


# --- conversions: SOURCE2TARGET_MODE, and the same bits under another type

NAMES = {
    "float": t.float32,
    "double": t.float64,
    "int": t.int32,
    "uint": t.uint32,
    "ll": t.int64,
    "ull": t.uint64,
}
ROUND: dict[str, Callable] = {"rn": m.rint, "rz": m.trunc, "rd": m.floor, "ru": m.ceil}
REINTERPRET = {
    "int_as_float": (t.int32, t.float32),
    "float_as_int": (t.float32, t.int32),
    "uint_as_float": (t.uint32, t.float32),
    "float_as_uint": (t.float32, t.uint32),
    "longlong_as_double": (t.int64, t.float64),
    "double_as_longlong": (t.float64, t.int64),
}


def conversion(source: DType, target: DType, rounding: Callable | None) -> Callable:
    def convert(x: Any) -> tensor:
        x = to_tensor(x)
        want(x.dtype is source, f"needs {source}, got {x.handle.type}")
        return cast(x if rounding is None else rounding(x), target)

    return convert


def reinterpretation(source: DType, target: DType) -> Callable:
    def convert(x: Any) -> tensor:
        x = to_tensor(x)
        want(x.dtype.bits == source.bits, f"needs {source}, got {x.handle.type}")
        return cast_function(x, target, bitcast=True)

    return convert


def named(function: Callable, name: str, doc: str) -> Callable:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return builtin(function)


def conversions() -> dict[str, Callable]:
    """All conversions whose rounding the language can express."""
    out = {}
    for source, of in NAMES.items():
        for target, to in NAMES.items():
            modes = ROUND if of.is_float and to.is_integer else {"rn": None}
            if of.is_float == to.is_float and (source, target) != ("double", "float"):
                continue
            for mode, rounding in modes.items():
                name = f"{source}2{target}_{mode}"
                doc = f"{of} as {to}."
                out[name] = named(conversion(of, to, rounding), name, doc)
    for name, (of, to) in REINTERPRET.items():
        out[name] = named(reinterpretation(of, to), name, f"The bits of {of} as {to}.")
    return out


@builtin
def hiloint2double(high: Any, low: Any) -> tensor:
    """The double with these two halves."""
    high, low = (cast(bits_of(integer(v, t.int32, t.uint32)), t.uint64) for v in (high, low))
    return cast_function((high << 32) | low, t.float64, bitcast=True)


@builtin
def double2loint(x: Any) -> tensor:
    """The lower half of a double's bits."""
    return cast(bits_of(to_tensor(x)), t.int32)


@builtin
def double2hiint(x: Any) -> tensor:
    """The upper half of a double's bits."""
    return cast(bits_of(to_tensor(x)) >> 32, t.int32)
