"""Convert lanes between number formats, exactly: one rounding, to nearest even or to zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.codegen.literals import FORMATS, llvm_type
from tilewright.ir import types as ty
from tilewright.ir.types import DType

if TYPE_CHECKING:
    from tilewright.codegen.lanes import Lane, Lanes


def cast(b: Lanes, x: Lane, dtype: DType, rounding: str = "rtne") -> Lane:
    """The value of `x` in `dtype`.

    Float to integer truncates, saturates and takes NaN to 0; integers wrap into narrower ones;
    anything to int1 asks whether it is not 0; floats round once, to nearest even or (`rtz`) to
    zero.
    """
    if dtype is ty.int1:
        return b.ne(x, b.like(x, 0))
    if x.dtype.is_pointer or dtype.is_pointer:
        if x.dtype.is_integer:
            return b.bitcast(b.cast(x, ty.int64), dtype)
        if dtype.is_integer:
            return b.cast(b.bitcast(x, ty.int64), dtype)
        return b.bitcast(x, dtype)
    if x.dtype.is_integer:
        return _from_int(b, x, dtype)
    if dtype.is_integer:
        return _float_to_int(b, x, dtype)
    near = _float_to_float(b, x, dtype)
    return _towards_zero(b, x, near) if rounding == "rtz" and dtype.bits < x.dtype.bits else near


def _towards_zero(b: Lanes, x: Lane, near: Lane) -> Lane:
    """The neighbour of `near`, which is `x` rounded, towards zero if `near` is further away."""
    too_far = b.gt(b.abs(b.cast(near, x.dtype)), b.abs(x))
    bits = b.bitcast(near, _WORDS[near.dtype.bits])
    less = b.sub(bits, b.like(bits, 1))
    return b.bitcast(b.select(too_far, less, bits), near.dtype)


def _plain(b: Lanes, word: str, x: Lane, dtype: DType) -> Lane:
    return b.value(f"{word} {x.typed} to {llvm_type(dtype, x.width)}", dtype, x.width)


def _from_int(b: Lanes, x: Lane, dtype: DType) -> Lane:
    if dtype.is_integer:
        if dtype.bits == x.dtype.bits:
            return b.bitcast(x, dtype)
        if dtype.bits < x.dtype.bits:
            return _plain(b, "trunc", x, dtype)
        return _plain(b, "sext" if x.dtype.is_signed else "zext", x, dtype)
    word = "sitofp" if x.dtype.is_signed else "uitofp"
    if dtype.bits >= 32:
        return _plain(b, word, x, dtype)
    if dtype is not ty.bfloat16 or x.dtype.bits <= 16:
        # What an f32 cannot hold is beyond the range of these formats anyway.
        return b.cast(_plain(b, word, x, ty.float32), dtype)
    wide = ty.float64 if x.dtype.bits == 64 else ty.float32
    return b.cast(_plain(b, word, _fit_in(b, x, wide), wide), dtype)


def _fit_in(b: Lanes, x: Lane, wide: DType) -> Lane:
    """`x` with as many significant bits as a float of its size has; those dropped leave a mark
    that rounding to a narrower one sees."""
    digits = wide.mantissa + 1
    dropped = b.like(x, (1 << x.dtype.bits - digits) - 1)
    marked = b.bit_or(x, b.add(b.bit_and(x, dropped), dropped))
    marked = b.bit_and(marked, b.bit_not(dropped))
    if x.dtype.is_signed:
        shifted = b.add(x, b.like(x, 1 << digits))
        shifted = b.bitcast(shifted, ty.uint64 if x.dtype.bits == 64 else ty.uint32)
        small = b.lt(shifted, b.like(shifted, 2 << digits))
    else:
        small = b.lt(x, b.like(x, 1 << digits))
    return b.select(small, x, marked)


def _float_to_int(b: Lanes, x: Lane, dtype: DType) -> Lane:
    if x.dtype.bits < 32:
        x = b.cast(x, ty.float32)
    if x.width > 1 and b.target == "x86":
        return _clamp_to_int(b, x, dtype)
    if b.target == "nvptx" and x.dtype is ty.float32 and dtype.bits <= 32:
        return _convert_to_int(b, x, dtype)
    sign = "si" if dtype.is_signed else "ui"
    lanes = "" if x.width == 1 else f"v{x.width}"
    name = f"llvm.fpto{sign}.sat.{lanes}i{dtype.bits}.{lanes}f{x.dtype.bits}"
    return b.call(name, dtype, x)


def _convert_to_int(b: Lanes, x: Lane, dtype: DType) -> Lane:
    """By NVIDIA's instruction, which saturates and takes NaN to 0 by itself."""
    kind = f"{'s' if dtype.is_signed else 'u'}{dtype.bits}"
    wide = ty.int16 if dtype.bits == 16 else ty.int32
    letter = "h" if dtype.bits == 16 else "r"
    text = f'asm "cvt.rzi.{kind}.f32 $0, $1;", "={letter},f"'
    made = b.value(f"call {llvm_type(wide)} {text}({x.typed})", wide, 1)
    return b.cast(made, dtype)


def _clamp_to_int(b: Lanes, x: Lane, dtype: DType) -> Lane:
    """What `llvm.fptosi.sat` does, which LLVM takes apart into scalars on x86."""
    low = -1 << (dtype.bits - 1) if dtype.is_signed else 0
    high = (1 << (dtype.bits - dtype.is_signed)) - 1
    # The greatest float that does not exceed `high`.
    spare = max(0, high.bit_length() - x.dtype.mantissa - 1)
    limit = (high >> spare) << spare
    word = "fptosi" if dtype.is_signed else "fptoui"
    wide = dtype if dtype.bits >= 32 else ty.int32 if dtype.is_signed else ty.uint32
    top, bottom = b.like(x, float(limit)), b.like(x, float(low))
    inside = b.select(b.lt(top, x), top, x)
    inside = b.select(b.gt(bottom, inside), bottom, inside)
    inside = b.select(b.is_nan(x), b.like(x, 0.0), inside)
    out = b.cast(_plain(b, word, inside, wide), dtype)
    return b.select(b.gt(x, top), b.like(out, high), out) if spare else out


def _float_to_float(b: Lanes, x: Lane, dtype: DType) -> Lane:
    source = x.dtype
    if source is ty.float32 and dtype is ty.float64:
        return _plain(b, "fpext", x, dtype)
    if source is ty.float16 and dtype.bits > 16 and _has_half(b):
        return _plain(b, "fpext", x, dtype)
    if source.bits < 32:
        if source is ty.bfloat16 and b.target == "nvptx":
            kind = "bfloat" if x.width == 1 else f"<{x.width} x bfloat>"
            held = b.value(f"bitcast {x.typed} to {kind}", source, x.width)
            wide = b.value(
                f"fpext {kind} {held.text} to {llvm_type(ty.float32, x.width)}", ty.float32, x.width
            )
        else:
            wide = b.outline(bf16_to_f32, x) if source is ty.bfloat16 else _widen(b, x)
        return b.cast(wide, dtype)
    if dtype is ty.float32:
        return _plain(b, "fptrunc", x, dtype)
    if source is ty.float64:
        x = b.outline(f64_to_odd_f32, x)
    if dtype is ty.float16 and _has_half(b):
        return _plain(b, "fptrunc", x, dtype)
    if dtype is ty.bfloat16 and b.target == "nvptx":
        kind = "bfloat" if x.width == 1 else f"<{x.width} x bfloat>"
        near = b.value(f"fptrunc {x.typed} to {kind}", dtype, x.width)
        return b.value(f"bitcast {kind} {near.text} to {near.type}", dtype, x.width)
    return b.outline(_ROUND[dtype], x)


def _has_half(b: Lanes) -> bool:
    """Whether the machine converts fp16; else LLVM calls a library that is not there."""
    return b.target != "x86" or "f16c" in b.features


def _widen(b: Lanes, x: Lane) -> Lane:
    if x.dtype is ty.float16:
        return _plain(b, "fpext", x, ty.float32) if _has_half(b) else b.outline(f16_to_f32, x)
    if x.dtype is ty.float8e5:
        # The upper byte of a half.
        half = b.shl(b.cast(b.bitcast(x, ty.uint8), ty.uint16), b.const(8, ty.uint16, x.width))
        return b.cast(b.bitcast(half, ty.float16), ty.float32)
    return b.outline(f8_to_f32, x)


def bf16_to_f32(b: Lanes, x: Lane) -> Lane:
    wide = b.cast(b.bitcast(x, ty.uint16), ty.uint32)
    return b.bitcast(b.shl(wide, b.like(wide, 16)), ty.float32)


def upper_half(b: Lanes, x: Lane) -> Lane:
    """An f32 as bf16, given that it is one."""
    bits = b.bitcast(x, ty.uint32)
    upper = b.cast(b.shr(bits, b.like(bits, 16)), ty.uint16)
    return b.bitcast(upper, ty.bfloat16)


def f16_to_f32(b: Lanes, x: Lane) -> Lane:
    """As `f8_to_f32`; the codes from that of infinity on keep all bits of the exponent set."""
    code = b.cast(b.bitcast(x, ty.uint16), ty.uint32)
    size = b.bit_and(code, b.like(code, 0x7FFF))
    placed = b.shl(size, b.like(code, 13))
    scaled = b.mul(b.bitcast(placed, ty.float32), b.const(2.0**112, ty.float32, x.width))
    special = b.bit_or(placed, b.like(code, 0x7F800000))
    bits = b.select(b.lt(size, b.like(code, 0x7C00)), b.bitcast(scaled, ty.uint32), special)
    sign = b.shl(b.bit_and(code, b.like(code, 0x8000)), b.like(code, 16))
    return b.bitcast(b.bit_or(bits, sign), ty.float32)


def f8_to_f32(b: Lanes, x: Lane) -> Lane:
    """Put the code where exponent and mantissa of an f32 are, then mend the bias by a product."""
    form, source = FORMATS[x.dtype], x.dtype
    code = b.cast(b.bitcast(x, ty.uint8), ty.uint32)
    size = b.bit_and(code, b.like(code, 0x7F))
    size = b.bitcast(b.shl(size, b.like(code, 23 - source.mantissa)), ty.float32)
    size = b.mul(size, b.like(size, 2.0 ** (127 - source.exponent_bias)))
    sign = b.shl(b.bit_and(code, b.like(code, 0x80)), b.like(code, 24))
    out = b.bitcast(b.bit_or(b.bitcast(size, ty.uint32), sign), ty.float32)
    if not form.signed_zero:
        is_nan = b.eq(code, b.like(code, form.nan))
    elif form.nan > form.largest:
        is_nan = b.eq(b.bit_and(code, b.like(code, 0x7F)), b.like(code, form.nan))
    else:
        return out
    return b.select(is_nan, b.like(out, float("nan")), out)


def f64_to_odd_f32(b: Lanes, x: Lane) -> Lane:
    """Round f64 to f32 so that an inexact result is odd: rounding that again rounds only once."""
    near = _plain(b, "fptrunc", x, ty.float32)
    back = b.cast(near, ty.float64)
    bits = b.bitcast(near, ty.int32)
    # The result is even and inexact: step to its odd neighbour on the other side of x.
    inexact = b.bit_and(b.ne(back, x), b.bit_not(b.is_nan(x)))
    even = b.eq(b.bit_and(bits, b.like(bits, 1)), b.like(bits, 0))
    too_big = b.gt(b.abs(back), b.abs(x))
    step = b.select(too_big, b.like(bits, -1), b.like(bits, 1))
    odd = b.add(bits, step)
    return b.bitcast(b.select(b.bit_and(inexact, even), odd, bits), ty.float32)


def f32_to_bf16(b: Lanes, x: Lane) -> Lane:
    return _bf16_by_unit(b, x) if _has_bf16_unit(b, x) else _bf16_by_bits(b, x)


def _has_bf16_unit(b: Lanes, x: Lane) -> bool:
    return b.target == "x86" and x.width == 16 and {"avx512bf16", "avx512dq"} <= b.features


def _bf16_by_unit(b: Lanes, x: Lane) -> Lane:
    """By AVX-512's instruction, unless any lane is denormal, which it takes to 0.

    The body of a function, as it has branches.
    """
    lanes, codes = x.type, llvm_type(ty.bfloat16, x.width)
    b.require("declare <16 x i1> @llvm.x86.avx512.fpclass.ps.512(<16 x float>, i32)")
    b.require("declare <16 x bfloat> @llvm.x86.avx512bf16.cvtneps2bf16.512(<16 x float>)")
    tiny, word, some, near, code = (b.fresh() for _ in range(5))
    b.write(f"{tiny} = call <16 x i1> @llvm.x86.avx512.fpclass.ps.512({lanes} {x.text}, i32 32)")
    b.write(f"{word} = bitcast <16 x i1> {tiny} to i16")
    b.write(f"{some} = icmp ne i16 {word}, 0")
    b.write(f"br i1 {some}, label %tiny, label %plain")
    b.write("tiny:")
    exact = _bf16_by_bits(b, x)
    b.write("br label %done")
    b.write("plain:")
    b.write(f"{near} = call <16 x bfloat> @llvm.x86.avx512bf16.cvtneps2bf16.512({lanes} {x.text})")
    b.write(f"{code} = bitcast <16 x bfloat> {near} to {codes}")
    b.write("br label %done")
    b.write("done:")
    text = f"phi {codes} [{exact.text}, %tiny], [{code}, %plain]"
    return b.value(text, ty.bfloat16, x.width)


def _bf16_by_bits(b: Lanes, x: Lane) -> Lane:
    bits = b.bitcast(x, ty.uint32)
    lowest = b.bit_and(b.shr(bits, b.like(bits, 16)), b.like(bits, 1))
    rounded = b.add(bits, b.add(lowest, b.like(bits, 0x7FFF)))
    quiet = b.bit_or(bits, b.like(bits, 0x400000))
    rounded = b.select(b.is_nan(x), quiet, rounded)
    return b.bitcast(b.cast(b.shr(rounded, b.like(bits, 16)), ty.uint16), ty.bfloat16)


def _f32_to_code(b: Lanes, x: Lane, dtype: DType) -> Lane:
    form, mantissa, bias = FORMATS[dtype], dtype.mantissa, dtype.exponent_bias
    bits = b.bitcast(x, ty.uint32)
    size = b.bit_and(bits, b.like(bits, 0x7FFFFFFF))
    drop = 23 - mantissa
    # Normal results: add half a unit (less one if even), drop bits, and shift the exponent.
    lowest = b.bit_and(b.shr(size, b.like(bits, drop)), b.like(bits, 1))
    half = b.add(lowest, b.like(bits, (1 << (drop - 1)) - 1))
    normal = b.shr(b.add(size, half), b.like(bits, drop))
    normal = b.sub(normal, b.like(bits, (127 - bias) << mantissa))
    # Denormal results: adding 2^k whose last place is the least denormal rounds to units of it.
    magic = b.like(x, 2.0 ** (24 - bias - mantissa))
    units = b.bitcast(b.add(b.bitcast(size, ty.float32), magic), ty.uint32)
    units = b.sub(units, b.bitcast(magic, ty.uint32))
    code = b.select(b.lt(size, b.like(bits, (128 - bias) << 23)), units, normal)
    code = b.select(b.gt(code, b.like(bits, form.largest)), b.like(bits, form.overflow), code)
    code = b.select(b.gt(size, b.like(bits, 0x7F800000)), b.like(bits, form.nan), code)
    sign = b.shr(bits, b.like(bits, 32 - dtype.bits))
    sign = b.bit_and(sign, b.like(bits, 1 << dtype.bits - 1))
    if not form.signed_zero:
        sign = b.select(b.eq(code, b.like(bits, 0)), b.like(bits, 0), sign)
    return b.bitcast(b.cast(b.bit_or(code, sign), _WORDS[dtype.bits]), dtype)


def f32_to_f16(b: Lanes, x: Lane) -> Lane:
    return _f32_to_code(b, x, ty.float16)


def f32_to_f8e5(b: Lanes, x: Lane) -> Lane:
    return _f32_to_code(b, x, ty.float8e5)


def f32_to_f8e5b16(b: Lanes, x: Lane) -> Lane:
    return _f32_to_code(b, x, ty.float8e5b16)


def f32_to_f8e4nv(b: Lanes, x: Lane) -> Lane:
    return _f32_to_code(b, x, ty.float8e4nv)


def f32_to_f8e4b8(b: Lanes, x: Lane) -> Lane:
    return _f32_to_code(b, x, ty.float8e4b8)


def f32_to_f8e4b15(b: Lanes, x: Lane) -> Lane:
    return _f32_to_code(b, x, ty.float8e4b15)


_WORDS = {8: ty.uint8, 16: ty.uint16, 32: ty.uint32}
_ROUND = {
    ty.float16: f32_to_f16,
    ty.bfloat16: f32_to_bf16,
    ty.float8e5: f32_to_f8e5,
    ty.float8e5b16: f32_to_f8e5b16,
    ty.float8e4nv: f32_to_f8e4nv,
    ty.float8e4b8: f32_to_f8e4b8,
    ty.float8e4b15: f32_to_f8e4b15,
}
