"""What single PTX instructions compute, written with functions of the language."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir import types as t
from tilewright.ir.types import DType
from tilewright.lang import arithmetic as a
from tilewright.lang import libdevice_bits as bits
from tilewright.lang.conversion import cast, cast_function
from tilewright.lang.libdevice_special import copysign, isinf
from tilewright.lang.promote import integer_range
from tilewright.lang.tensor import tensor
from tilewright.ops import math as m


def mad(x: tensor, y: tensor, z: tensor) -> tensor:
    return x * y + z


def logic(x: tensor, y: tensor, z: tensor, table: tensor) -> tensor:
    """`lop3`: bit i of the table says what the three bits of i give."""
    number = table.concrete("the table of lop3")
    out = x ^ x
    for i in range(8):
        if number >> i & 1:
            out = out | (x if i & 4 else ~x) & (y if i & 2 else ~y) & (z if i & 1 else ~z)
    return out


def nth_set(mask: tensor, base: tensor, offset: tensor) -> tensor:
    """`fns`: where the offset-th set bit is, from the base up or down; all ones where none is."""
    offset = cast(offset, t.int32)
    wanted, upward = cast(a.abs(offset), t.uint32), offset > 0
    none = mask ^ mask
    found, met = ~none, (none, none)
    for i in range(32):
        met = tuple(
            n + cast(reached & ((mask >> place & 1) != 0), t.uint32)
            for n, place, reached in zip(met, (i, 31 - i), (base <= i, base >= 31 - i))
        )
        found = a.where(upward & (met[0] == wanted) & (found == ~none), none + i, found)
        found = a.where((offset < 0) & (met[1] == wanted) & (found == ~none), none + 31 - i, found)
    return a.where((offset == 0) & ((mask >> base & 1) != 0), base, found)


def funnel(left: bool) -> Callable:
    """`shf`: the upper, or lower, half of two registers shifted together."""

    def shift(low: tensor, high: tensor, by: tensor) -> tensor:
        both = cast(low, t.uint64) | (cast(high, t.uint64) << 32)
        by = cast(by & 31, t.uint64)
        return cast((both << by) >> 32 if left else both >> by, t.uint32)

    return shift


def shift_by(function: Callable) -> Callable:
    """A shift, in PTX by at most the width."""

    def shift(x: tensor, by: tensor) -> tensor:
        width = x.dtype.bits
        by = cast(by, getattr(t, f"uint{width}"))
        inside = function(x, cast(by & (width - 1), x.dtype))
        far = function(function(x, width - 1), 1) if x.dtype.is_signed else x ^ x
        return a.where(by < width, inside, far)

    return shift


def to_tf32(x: tensor) -> tensor:
    """fp32 rounded to 10 bits of mantissa, halves away from zero, as bits."""
    return (bits.bits_of(x) + 0x1000) & 0xFFFFE000


def field(x: tensor, start: tensor, size: tensor) -> tensor:
    """`bfe`: so many bits from a place on, those beyond the last one like it, or 0."""
    wide = cast(x, t.int64) if x.dtype.is_signed else cast(cast(x, t.uint32), t.int64)
    start, size = (cast(cast(n, t.uint32) & 255, t.int64) for n in (start, size))
    up = a.maximum(64 - size, 0)
    moved = wide >> a.minimum(start, 63) << up
    part = moved >> up if x.dtype.is_signed else cast(moved, t.uint64) >> cast(up, t.uint64)
    return cast(a.where(size == 0, 0, part), x.dtype)


def insert(x: tensor, into: tensor, start: tensor, size: tensor) -> tensor:
    """`bfi`: the lowest bits of x in the place of others."""
    start, size = (cast(cast(n, t.uint32) & 255, t.uint64) for n in (start, size))
    ones = (cast(into ^ into, t.uint64) + 1 << a.minimum(size, 32)) - 1
    there = ones << a.minimum(start, 32)
    moved = (cast(x, t.uint64) & ones) << a.minimum(start, 32)
    return cast(cast(into, t.uint64) & ~there | moved, t.uint32)


def highest(x: tensor) -> tensor:
    """`bfind`: the place of the highest bit that differs from the sign; -1 if none does."""
    if x.dtype.is_signed:
        x = a.where(x < 0, ~x, x)
    return 31 - bits.clz(cast_function(x, t.int32, bitcast=True))


def dot_of_bytes(x: tensor, y: tensor, total: tensor) -> tensor:
    """`dp4a`: a sum of products of four pairs of bytes, signed as the types of x and y."""
    for k in range(0, 32, 8):
        bytes_ = [cast(v >> k & 255, t.int32) for v in (x, y)]
        signed = [
            (v ^ 128) - 128 if of.dtype.is_signed else v
            for v, of in zip(bytes_, (x, y), strict=True)
        ]
        total = total + signed[0] * signed[1]
    return total


def to_e2m1(x: tensor) -> tensor:
    """fp32 as the 4 bits of e2m1: to nearest, ties to even codes, NaN to the largest."""
    size = a.abs(x)
    code = cast(x != x, t.uint32) * 7
    for place, limit in enumerate((0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)):
        above = size >= limit if place % 2 else size > limit
        code = code + cast(above, t.uint32)
    return code | cast(x < 0, t.uint32) << 3 | (bits.bits_of(x) >> 28 & 8) * cast(x == 0, t.uint32)


def of_e2m1(code: tensor) -> tensor:
    """The fp32 that 4 bits of e2m1 mean."""
    code = cast(code, t.uint32) & 15
    size, exponent = code & 1, code >> 1 & 3
    normal = cast(exponent + 126 << 23 | size << 22, t.uint32)
    value = cast_function(normal, t.float32, bitcast=True)
    value = a.where(exponent == 0, cast(size, t.float32) * 0.5, value)
    return a.where(code >= 8, -value, value)


def to_ue8m0(x: tensor, up: bool) -> tensor:
    """fp32 as the exponent alone, rounded towards zero or up."""
    number = bits.bits_of(x) & 0x7FFFFFFF
    exponent = number >> 23
    if up:
        more = (number & 0x7FFFFF) > a.where(exponent == 0, 0x400000, 0)
        exponent = exponent + cast(more, t.uint32)
    return a.where(x != x, 255, a.minimum(exponent, 254))


def of_ue8m0(code: tensor) -> tensor:
    """The power of two that 8 bits of exponent mean; 255 is NaN."""
    code = cast(code, t.uint32)
    whole = a.where(code == 0, 0x400000, code << 23)
    whole = a.where(code == 255, 0x7FFFFFFF, whole)
    return cast_function(cast(whole, t.uint32), t.float32, bitcast=True)


def extremum(name: str, modifiers: list[str], x: tensor, y: tensor) -> tensor:
    """`min` and `max`: of magnitudes with `abs`, with the product of the signs with `xorsign`."""
    nan = a.PropagateNan.ALL if "NaN" in modifiers else a.PropagateNan.NONE
    pair = (a.abs(x), a.abs(y)) if "abs" in modifiers else (x, y)
    found = {"min": a.minimum, "max": a.maximum}[name](*pair, propagate_nan=nan)
    if "xorsign" not in modifiers:
        return found
    sign = (bits.bits_of(x) ^ bits.bits_of(y)) >> (x.dtype.bits - 1)
    return a.where(sign & 1 != 0, -found, found)


def is_nan(x: tensor) -> tensor:
    return x != x


def compare(word: str, x: tensor, y: tensor) -> tensor:
    """A comparison, false with NaN unless it ends with `u`, or asks for NaN.

    Raises:
        KeyError: when it is not known.
    """
    if word in ("num", "nan"):
        nan = is_nan(x) | is_nan(y)
        return nan if word == "nan" else ~nan
    plain = word.removesuffix("u")
    found = (x < y) | (x > y) if plain == "ne" else a.binary(COMPARE[plain], x, y)
    return found | is_nan(x) | is_nan(y) if plain != word else found


def finished(x: tensor, later: list[str], dtype: DType | None = None) -> tensor:
    """A float as `dtype`: between 0 and 1 with `sat`, not below 0 with `relu`, the largest number
    in place of infinity with `satfinite`."""
    dtype = dtype or x.dtype
    if "sat" in later:
        x = a.minimum(a.maximum(x, 0.0), 1.0)
    if "relu" in later:
        x = a.where(x < 0, 0, x)
    if "satfinite" in later and dtype in LARGEST:
        most = LARGEST[dtype]
        x = a.where(x > most, most, a.where(x < -most, -most, x))
    return cast(x, dtype)


def narrowed(x: tensor, dtype: DType) -> tensor:
    """A number as an integer type, beyond its range the end of it."""
    if not x.dtype.is_float:
        low, high = integer_range(dtype)
        least, most = integer_range(x.dtype)
        x = a.maximum(x, low) if least < low else x
        x = a.minimum(x, high) if most > high else x
    return cast(x, dtype)


def absolute_difference(x: tensor, y: tensor, total: tensor) -> tensor:
    """`sad`: a total and how far two integers are apart."""
    return a.where(x > y, x - y, y - x) + total


def low_24_bits(function: Callable) -> Callable:
    """An instruction on the low 24 bits of its first two operands."""

    def low(x: tensor, y: tensor, *rest: tensor) -> tensor:
        x, y = ((v << 8) >> 8 for v in (x, y))
        return function(x, y, *rest)

    return low


# By the first word: what an instruction does, its operands in the type that it ends with.
PLAIN: dict[str, Callable] = {
    "mov": lambda x: x, "add": a.add, "sub": a.sub, "mul": a.mul, "mad": mad, "fma": m.fma,
    "div": lambda x, y: a.fdiv(x, y) if x.dtype.is_float else a.integer_divide(x, y),
    "rem": a.remainder, "min": a.minimum, "max": a.maximum, "abs": a.abs, "neg": a.negative,
    "and": a.bit_and, "or": a.bit_or, "xor": a.bit_xor, "not": a.invert,
    "shl": shift_by(a.shift_left), "shr": shift_by(a.shift_right), "ex2": m.exp2, "lg2": m.log2,
    "rcp": lambda x: 1.0 / x, "sqrt": m.sqrt, "rsqrt": m.rsqrt, "sin": m.sin, "cos": m.cos,
    "tanh": m.tanh, "popc": bits.popc, "clz": bits.clz, "brev": bits.brev,
    "prmt": bits.byte_perm, "lop3": logic, "fns": nth_set, "bfe": field, "bfi": insert,
    "bfind": highest, "sad": absolute_difference, "mul24": low_24_bits(a.mul),
    "mad24": low_24_bits(mad), "copysign": lambda x, y: copysign(y, x),
    "cnot": lambda x: cast(x == 0, x.dtype),
}  # fmt: skip
COMPARE: dict[str, Callable] = {
    "eq": m.eq, "ne": m.ne, "lt": m.lt, "le": m.le, "gt": m.gt, "ge": m.ge, "lo": m.lt,
    "ls": m.le, "hi": m.gt, "hs": m.ge,
}  # fmt: skip
JOIN: dict[str, Callable] = {"and": a.bit_and, "or": a.bit_or, "xor": a.bit_xor}
ROUND: dict[str, Callable] = {"rni": m.rint, "rzi": m.trunc, "rmi": m.floor, "rpi": m.ceil}
TESTS: dict[str, Callable] = {
    "notanumber": is_nan, "number": lambda x: x == x, "infinite": isinf,
    "finite": lambda x: (x == x) & ~isinf(x),
}  # fmt: skip
LARGEST = {t.float8e5: 57344.0, t.float16: 65504.0, t.bfloat16: float.fromhex("0x1.fep127")}
