"""Trigonometric functions and their inverses, as lane recipes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane, literal, suffix
from tilewright.codegen.mathlib import NEAR
from tilewright.codegen.recipe import (
    bits_dtype,
    copysign,
    elementary,
    fast_two_sum,
    horner,
    rounding_shift,
    two_sum,
)
from tilewright.ir import types as ty

PI, HALF_PI, QUARTER_PI = 3.141592653589793, 1.5707963267948966, 0.7853981633974483
# pi/2 as a sum of three.
HALF_PI_PARTS = {
    32: (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    64: (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}
# What the rounded constants lack: pi/2 and pi in two parts.
PI_LOW = {32: -8.742277657347586e-08, 64: 1.2246467991473532e-16}
# Up to here three parts of pi/2 reduce an argument; beyond, `_reduce_huge` does.
HUGE = {32: NEAR, 64: 2.0**28}
# floor(2/pi * 2^1240)
TWO_OVER_PI = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea09d1"
    "921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ff"
    "de05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb"
    "5fb11f8d5d0856033046fc7b6babf0cfbc",
    16,
)
CHUNKS = 23  # of 53 bits: the exponents of f64, and twice its precision more
# (sin(x) - x) / x^3 and (cos(x) - 1 + x^2/2) / x^4 in x^2, on |x| <= pi/4.
SIN = {
    32: (-0.16666654590656143, 0.0083321550852806758, -0.00019514088573230313),
    64: (
        -0.1666666666666663, 0.0083333333333218707, -0.00019841269829353955,
        2.7557313528435968e-6, -2.5050731655947466e-8, 1.5895215897991937e-10,
    ),
}  # fmt: skip
COS = {
    32: (0.04166664626890624, -0.0013887337092522935, 2.4434847001429921e-5),
    64: (
        0.041666666666666595, -0.0013888888888873389, 2.4801587289002408e-5,
        -2.7557314208257512e-7, 2.0875703003779974e-9, -1.1358565410754212e-11,
    ),
}  # fmt: skip
# (asin(x) - x) / x^3 in x^2, on |x| <= 1/2.
ASIN = {
    32: (
        0.1666675360636011, 0.074952520264919408, 0.045476007601691692,
        0.024152354111219355, 0.042211264359290702,
    ),
    64: (
        0.16666666666666762, 0.074999999999703175, 0.044642857175077229, 0.030381942685417742,
        0.022372215615372013, 0.017351600820265762, 0.013980953462444463, 0.011397836409975149,
        0.010786213427030481, 0.0036841605960051012, 0.021760930842571966,
        -0.021073845648233754, 0.032674837105915506,
    ),
}  # fmt: skip
# (atan(x) - x) / x^3 in x^2, on |x| <= tan(pi/8).
ATAN = {
    32: (
        -0.33333315519543929, 0.19998488526921131, -0.1424380971617948,
        0.10595593618430201, -0.060821782055083636,
    ),
    64: (
        -0.33333333333333328, 0.19999999999997675, -0.14285714285388626, 0.11111111088210144,
        -0.09090908145539574, 0.076922827788885138, -0.066662270256762931,
        0.058770241840772439, -0.052184184508127292, 0.045036020901227934,
        -0.033475591170295392, 0.015196222479650839,
    ),
}  # fmt: skip


def _reduce(b: Lanes, x: Lane) -> tuple[Lane, Lane, Lane]:
    """The quadrant (an unsigned integer, to be taken modulo 4) and x less that many quarter turns.

    The remainder comes as a sum of two. It branches, so it opens the function it is in.
    """
    quadrant, high, low = _reduce_quickly(b, x) if _is_quick(b, x) else _reduce_well(b, x)
    huge = b.gt(b.abs(x), b.like(x, HUGE[x.dtype.bits]))
    b.write(f"br {_any(b, huge).typed}, label %huge, label %ready")
    b.write("huge:")
    slow = _reduce_huge(b, x)
    merged = [b.select(huge, s, f) for s, f in zip(slow, (quadrant, high, low))]
    b.write("br label %ready")
    b.write("ready:")
    out = []
    for fast, other in zip((quadrant, high, low), merged):
        text = f"phi {fast.type} [{fast.text}, %0], [{other.text}, %turned]"
        out.append(b.value(text, fast.dtype, fast.width))
    return tuple(out)


def _is_quick(b: Lanes, x: Lane) -> bool:
    """Whether a chip's own sine and cosine may miss the nearest number by 1.6 ulp."""
    return b.target == "nvptx" and x.dtype is ty.float32


def _quarters(b: Lanes, x: Lane) -> tuple[Lane, Lane]:
    """How many quarter turns are next to x, as bits that end with it; and minus that number."""
    shift = b.like(x, rounding_shift(x))
    shifted = b.fma(x, b.like(x, 1 / HALF_PI), shift)
    return b.bitcast(shifted, bits_dtype(x.dtype)), b.sub(shift, shifted)


def _reduce_well(b: Lanes, x: Lane) -> tuple[Lane, Lane, Lane]:
    """`_reduce` for what is not huge."""
    quadrant, minus = _quarters(b, x)
    first, second, third = (b.like(x, c) for c in HALF_PI_PARTS[x.dtype.bits])
    exact = b.fma(minus, first, x)
    product = b.mul(minus, second)
    high, low = two_sum(b, exact, product)
    lost = b.fma(minus, second, b.neg(product))
    return quadrant, high, b.add(low, b.fma(minus, third, lost))


def _reduce_quickly(b: Lanes, x: Lane) -> tuple[Lane, Lane, Lane]:
    """The same within 1 ulp, all in the first number of the sum."""
    quadrant, minus = _quarters(b, x)
    for part in HALF_PI_PARTS[x.dtype.bits]:
        x = b.fma(minus, b.like(x, part), x)
    return quadrant, x, b.like(x, 0.0)


def _any(b: Lanes, mask: Lane) -> Lane:
    if mask.width == 1:
        return mask
    name = f"llvm.vector.reduce.or.{suffix(ty.int1, mask.width)}"
    return b.call(name, ty.int1, mask, width=1)


def _reduce_huge(b: Lanes, x: Lane) -> tuple[Lane, Lane, Lane]:
    """`_reduce` for any size: x * 2/pi modulo 4, chunk by chunk of 2/pi, in pairs of f64."""
    count = 5 if x.dtype.bits == 32 else CHUNKS
    wide = b.cast(x, ty.float64)
    scaled = b.mul(wide, b.like(wide, 2.0**-200))
    zero = b.like(wide, 0.0)
    state = [replace(zero, text=f"%turn{i}") for i in range(3)]
    b.write("br label %turning")
    b.write("turning:")
    b.write("%chunk = phi i32 [0, %huge], [%chunk.next, %turning]")
    for lane in state:
        b.write(f"{lane.text} = phi {lane.type} [{zero.text}, %huge], [{lane.text}.next, %turning]")
    turns = _add_chunk(b, scaled, _chunk(b, x.width), *state)
    for lane, new in zip(state, turns):
        # A new name for the value that the phi above already refers to.
        b.write(f"{lane.text}.next = select i1 true, {new.typed}, {new.typed}")
    b.write("%chunk.next = add i32 %chunk, 1")
    b.write(f"%chunk.more = icmp ne i32 %chunk.next, {count}")
    b.write("br i1 %chunk.more, label %turning, label %turned")
    b.write("turned:")
    whole, high, low = turns
    half_pi, half_pi_low = (b.like(wide, c) for c in HALF_PI_PARTS[64][:2])
    angle = b.mul(high, half_pi)
    rest = b.fma(high, half_pi, b.neg(angle))
    angle, rest = fast_two_sum(b, angle, b.add(rest, b.fma(high, half_pi_low, b.mul(low, half_pi))))
    narrow = b.cast(angle, x.dtype)
    rest = b.cast(b.add(b.sub(angle, b.cast(narrow, ty.float64)), rest), x.dtype)
    # The count of quarter turns is small: it shows in the low bits.
    count = b.cast(whole, x.dtype)
    count = b.bitcast(b.add(count, b.like(x, rounding_shift(x))), bits_dtype(x.dtype))
    return count, narrow, rest


def _add_chunk(b: Lanes, x: Lane, chunk: Lane, whole: Lane, high: Lane, low: Lane) -> tuple:
    """Add the exact product of x and a chunk to a sum, dropping turns and counting quarters."""
    product = b.mul(x, chunk)
    for term in (product, b.fma(x, chunk, b.neg(product))):
        turns = b.round_even(b.mul(term, b.like(x, 0.25)))
        term = b.fma(turns, b.like(x, -4.0), term)
        high, error = two_sum(b, high, term)
        low = b.add(low, error)
    quarters = b.round_even(high)
    high, low = two_sum(b, b.sub(high, quarters), low)
    return b.add(whole, quarters), high, low


@cache
def _two_over_pi() -> str:
    """The chunks of 2/pi * 2^200, as the elements of an LLVM array of doubles."""
    chunks = []
    for k in range(CHUNKS):
        bits = (TWO_OVER_PI >> (1240 - 53 * (k + 1))) & ((1 << 53) - 1)
        value = float(bits) * 2.0 ** (200 - 53 * (k + 1))
        chunks.append(f"double {literal(value, ty.float64)}")
    return ", ".join(chunks)


def _chunk(b: Lanes, width: int) -> Lane:
    space = " addrspace(1)" if b.target == "nvptx" else ""
    kind = f"[{CHUNKS} x double]"
    b.require(f"@tw_two_over_pi = internal{space} constant {kind} [{_two_over_pi()}]")
    b.write(f"%chunk.ptr = getelementptr {kind}, ptr{space} @tw_two_over_pi, i32 0, i32 %chunk")
    return b.splat(b.value(f"load double, ptr{space} %chunk.ptr", ty.float64, 1), width)


def _sin_cos(b: Lanes, x: Lane) -> tuple[Lane, tuple[Lane, Lane], tuple[Lane, Lane]]:
    """The quadrant of x, and sine and cosine of what is left of it, each as a sum of two."""
    quadrant, high, low = _reduce(b, x)
    if _is_quick(b, x):
        zero = b.like(x, 0.0)
        return quadrant, *((v, zero) for v in _quick_sin_cos(b, b.add(high, low)))
    bits = x.dtype.bits
    one = b.like(x, 1.0)
    z = b.mul(high, high)
    half = b.mul(z, b.like(x, 0.5))
    near = b.sub(one, half)
    # cos = near + the rounding error of near + ...; sin's own tail moves by low * cos.
    error = b.sub(b.sub(one, near), half)
    bend = b.fma(b.mul(z, z), horner(b, z, COS[bits]), b.neg(b.mul(high, low)))
    tail = b.fma(b.mul(z, high), horner(b, z, SIN[bits]), b.mul(low, near))
    return quadrant, (high, tail), (near, b.add(error, bend))


def _quick_sin_cos(b: Lanes, x: Lane) -> tuple[Lane, Lane]:
    """Sine and cosine on |x| <= pi/4."""
    z, bits = b.mul(x, x), x.dtype.bits
    sine = b.fma(b.mul(z, x), horner(b, z, SIN[bits]), x)
    return sine, horner(b, z, (1.0, -0.5, *COS[bits]))


def near_sin(b: Lanes, x: Lane) -> Lane:
    """The sine, within 1.6 ulp, of angles that are known not to be huge; f32 without branches."""
    quadrant, rest, _ = _reduce_quickly(b, x)
    out = _turned(b, quadrant, *_quick_sin_cos(b, rest))
    return b.select(b.eq(x, b.like(x, 0.0)), x, out)


def near_cos(b: Lanes, x: Lane) -> Lane:
    """The same for the cosine."""
    quadrant, rest, _ = _reduce_quickly(b, x)
    return _turned(b, b.add(quadrant, b.like(quadrant, 1)), *_quick_sin_cos(b, rest))


def _is_odd(b: Lanes, quadrant: Lane) -> Lane:
    return b.ne(b.bit_and(quadrant, b.like(quadrant, 1)), b.like(quadrant, 0))


def _turned(b: Lanes, quadrant: Lane, even: Lane, odd: Lane) -> Lane:
    """`even` or `odd` by the quadrant's parity, negated in its upper half."""
    size = b.bitcast(b.select(_is_odd(b, quadrant), odd, even), quadrant.dtype)
    sign = b.bit_and(quadrant, b.like(quadrant, 2))
    sign = b.shl(sign, b.like(quadrant, quadrant.dtype.bits - 2))
    return b.bitcast(b.bit_xor(size, sign), even.dtype)


@elementary
def sin(b: Lanes, x: Lane) -> Lane:
    """The sine of an angle in radians."""
    quadrant, sine, cosine = _sin_cos(b, x)
    out = _turned(b, quadrant, b.add(*sine), b.add(*cosine))
    return b.select(b.eq(x, b.like(x, 0.0)), x, out)


@elementary
def cos(b: Lanes, x: Lane) -> Lane:
    """The cosine of an angle in radians."""
    quadrant, sine, cosine = _sin_cos(b, x)
    return _turned(b, b.add(quadrant, b.like(quadrant, 1)), b.add(*sine), b.add(*cosine))


@elementary
def tan(b: Lanes, x: Lane) -> Lane:
    """The tangent of an angle in radians."""
    quadrant, sine, cosine = _sin_cos(b, x)
    sine, cosine = fast_two_sum(b, *sine), fast_two_sum(b, *cosine)
    odd = _is_odd(b, quadrant)
    top, top_low = (b.select(odd, b.neg(c), s) for s, c in zip(sine, cosine))
    bottom, bottom_low = (b.select(odd, s, c) for s, c in zip(sine, cosine))
    inverse = b.div(b.like(x, 1.0), bottom)
    minus = b.neg(b.mul(top, inverse))
    # The quotient again, from what it left over.
    residue = b.add(b.fma(minus, bottom, top), b.fma(minus, bottom_low, top_low))
    out = b.sub(b.mul(residue, inverse), minus)
    return b.select(b.eq(x, b.like(x, 0.0)), x, out)


def _arc(b: Lanes, x: Lane) -> tuple[Lane, Lane, Lane]:
    """Whether |x| > 1/2; and p + q, the arc sine of |x|, or else of sqrt((1 - |x|) / 2)."""
    size = b.abs(x)
    half = b.like(x, 0.5)
    outer = b.gt(size, half)
    z = b.select(outer, b.mul(b.sub(b.like(x, 1.0), size), half), b.mul(x, x))
    root = b.sqrt(z)
    # The root's own rounding error counts, being doubled later.
    error = b.div(b.fma(b.neg(root), root, z), b.add(root, root))
    safe = b.bit_and(outer, b.gt(root, b.like(x, 0.0)))
    error = b.select(safe, error, b.like(x, 0.0))
    base = b.select(outer, root, size)
    return outer, base, b.fma(b.mul(base, z), horner(b, z, ASIN[x.dtype.bits]), error)


@elementary
def asin(b: Lanes, x: Lane) -> Lane:
    """The arc sine; NaN outside [-1, 1]."""
    outer, base, rest = _arc(b, x)
    low = b.like(x, PI_LOW[x.dtype.bits] / 2)
    far = b.sub(b.like(x, HALF_PI), b.add(base, base))
    error = b.sub(b.sub(b.like(x, HALF_PI), far), b.add(base, base))
    far = b.add(far, b.add(error, b.sub(low, b.add(rest, rest))))
    return copysign(b, b.select(outer, far, b.add(base, rest)), x)


@elementary
def acos(b: Lanes, x: Lane) -> Lane:
    """The arc cosine; NaN outside [-1, 1]."""
    outer, base, rest = _arc(b, x)
    zero = b.like(x, 0.0)
    negative = b.lt(x, zero)
    twice = b.select(outer, b.like(x, 2.0), b.like(x, 1.0))
    base, rest = b.mul(base, twice), b.mul(rest, twice)
    # From pi/2 minus the arc (inside), 0 plus it, or pi minus it.
    start = b.select(outer, b.select(negative, b.like(x, PI), zero), b.like(x, HALF_PI))
    low = PI_LOW[x.dtype.bits]
    low = b.select(outer, b.select(negative, b.like(x, low), zero), b.like(x, low / 2))
    plus = b.bit_xor(outer, negative)
    base, rest = (b.select(plus, v, b.neg(v)) for v in (base, rest))
    total, error = two_sum(b, start, base)
    return b.add(total, b.add(error, b.add(low, rest)))


def _arc_tangent(b: Lanes, top: Lane, bottom: Lane) -> tuple[Lane, Lane, Lane]:
    """atan(top / bottom) for 0 <= top <= bottom, as a start (0 or pi/4), a ratio and a rest."""
    upper = b.gt(top, b.mul(bottom, b.like(top, 0.41421356237309503)))
    down = b.select(upper, b.add(top, bottom), bottom)
    ratio = b.div(b.select(upper, b.sub(top, bottom), top), down)
    z = b.mul(ratio, ratio)
    rest = b.mul(b.mul(ratio, z), horner(b, z, ATAN[top.dtype.bits]))
    zero = b.like(top, 0.0)
    rest = b.add(rest, b.select(upper, b.like(top, PI_LOW[top.dtype.bits] / 4), zero))
    return b.select(upper, b.like(top, QUARTER_PI), zero), ratio, rest


def _swapped(b: Lanes, swap: Lane, start: Lane, ratio: Lane, rest: Lane) -> tuple[Lane, ...]:
    """pi/2 minus the angle where `swap`."""
    half_pi, low = b.like(start, HALF_PI), b.like(start, PI_LOW[start.dtype.bits] / 2)
    return (
        b.select(swap, b.sub(half_pi, start), start),
        b.select(swap, b.neg(ratio), ratio),
        b.select(swap, b.sub(low, rest), rest),
    )


@elementary
def atan(b: Lanes, x: Lane) -> Lane:
    """The arc tangent."""
    size, one = b.abs(x), b.like(x, 1.0)
    swap = b.gt(size, one)
    parts = _arc_tangent(b, b.select(swap, one, size), b.select(swap, size, one))
    start, ratio, rest = _swapped(b, swap, *parts)
    total, error = fast_two_sum(b, start, ratio)
    return copysign(b, b.add(total, b.add(error, rest)), x)


@elementary
def atan2(b: Lanes, y: Lane, x: Lane) -> Lane:
    """The angle of the point (x, y), in all four quadrants and with C's special cases."""
    dtype = x.dtype
    tall, wide = b.abs(y), b.abs(x)
    zero, one, inf = b.like(x, 0.0), b.like(x, 1.0), b.like(x, float("inf"))
    swap = b.gt(tall, wide)
    top, bottom = b.select(swap, wide, tall), b.select(swap, tall, wide)
    # Sums of the largest numbers must not overflow, and 0/0 and inf/inf are no ratios.
    shrink = b.select(b.gt(bottom, b.like(x, 2.0**100)), b.like(x, 0.25), one)
    both = b.eq(top, inf)
    bottom = b.select(b.bit_or(both, b.eq(bottom, zero)), one, b.mul(bottom, shrink))
    top = b.select(both, one, b.mul(top, shrink))
    start, ratio, rest = _swapped(b, swap, *_arc_tangent(b, top, bottom))
    left = b.lt(b.bitcast(x, _signed(dtype)), b.const(0, _signed(dtype)))
    pi, low = b.like(x, PI), b.like(x, PI_LOW[dtype.bits])
    start = b.select(left, b.sub(pi, start), start)
    ratio = b.select(left, b.neg(ratio), ratio)
    rest = b.select(left, b.sub(low, rest), rest)
    total, error = fast_two_sum(b, start, ratio)
    angle = copysign(b, b.add(total, b.add(error, rest)), y)
    return b.select(b.bit_or(b.is_nan(x), b.is_nan(y)), b.like(x, float("nan")), angle)


def _signed(dtype: ty.DType) -> ty.DType:
    return ty.int32 if dtype.bits == 32 else ty.int64
