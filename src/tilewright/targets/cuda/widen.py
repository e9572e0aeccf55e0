"""Bytes as floats, four at a time, by arithmetic on bits: conversions take many times as long.

A byte is put into the mantissa of a number so large that its last place is 1, which is then taken
away again. All of this is exact.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.types import DType
from tilewright.targets.cuda.emitter import WORDS, Emitter

FOUR = 4
SIGNS = 0x80808080
BYTES = (t.int8, t.uint8)
LARGE = {t.float16: 0x6400, t.float32: 0x4B000000}  # bits of 2^10, of 2^23
TWO_TO_7 = 0x4300  # bits of 128 in bf16, whose last place is 1
MANTISSA = 0xFF7F, 0xFF80  # with a byte in place of the lower one: without its sign, and with that


def can_widen(source: DType, to: DType, capability: int) -> bool:
    """Whether there is such a way, which bf16 needs its own arithmetic for."""
    if to is t.bfloat16:
        return source is t.int8 and capability >= 80
    return source in BYTES and to in LARGE


def widened(e: Emitter, lanes: Sequence[Lane], to: DType) -> list[Lane]:
    """Bytes, a multiple of four, as floats."""
    out = []
    for k in range(0, len(lanes), FOUR):
        four = lanes[k : k + FOUR]
        word = e.pack([e.b.bitcast(x, t.uint8) for x in four])
        if to is t.bfloat16:
            out += brains(e, word)
        elif four[0].dtype is t.int8:
            out += floats(e, e.b.bit_xor(word, e.b.const(SIGNS, t.uint32)), to, 1 << 7)
        else:
            out += floats(e, word, to, 0)
    return out


def floats(e: Emitter, word: Lane, to: DType, bias: int) -> list[Lane]:
    """Unsigned bytes, less a bias."""
    large = LARGE[to]
    found = []
    for first in range(0, FOUR, 4 // to.bytes):
        numbers = range(first, first + 4 // to.bytes)
        # Of each number its own byte, then the rest of the large one's.
        rest = range(FOUR + 1, FOUR + to.bytes)
        bits = spread(e, word, filled(large, to), [pick for n in numbers for pick in (n, *rest)])
        found += less(e, bits, e.b.const(filled(large + bias, to), t.uint32), to)
    return found


def filled(bits: int, dtype: DType) -> int:
    """A word of floats with these bits."""
    return bits << 16 | bits if dtype.bytes == 2 else bits


def brains(e: Emitter, word: Lane) -> list[Lane]:
    """Signed bytes as bf16: 128 plus the lower 7 bits, less 128 or, where negative, 256."""
    b, found = e.b, []
    for first in (0, 2):
        bits = spread(e, word, filled(TWO_TO_7, t.bfloat16), [first, 5, first + 1, 7])
        parts = [b.bit_and(bits, b.const(filled(kept, t.bfloat16), t.uint32)) for kept in MANTISSA]
        found += less(e, *parts, t.bfloat16)
    return found


def spread(e: Emitter, word: Lane, other: int, picks: Sequence[int]) -> Lane:
    """Bytes of a word (0 to 3), and of another one (4 to 7), as a word."""
    vector = f"<{FOUR} x i8>"
    own = e.w.value(f"bitcast {word.typed} to {vector}")
    bytes = ", ".join(f"i8 {x if x < 128 else x - 256}" for x in other.to_bytes(4, "little"))
    mask = ", ".join(f"i32 {p}" for p in picks)
    name = e.w.value(f"shufflevector {vector} {own}, {vector} <{bytes}>, <{FOUR} x i32> <{mask}>")
    return e.b.value(f"bitcast {vector} {name} to i32", t.uint32, 1)


def less(e: Emitter, x: Lane, y: Lane, dtype: DType) -> list[Lane]:
    """Differences of the floats in two words."""
    count = 4 // dtype.bytes
    if count == 1:
        return [e.b.sub(e.b.bitcast(x, dtype), e.b.bitcast(y, dtype))]
    kind = "half" if dtype is t.float16 else "bfloat"
    vector = f"<{count} x {kind}>"
    p, q = (e.w.value(f"bitcast {v.typed} to {vector}") for v in (x, y))
    if dtype is t.bfloat16:  # older chips have no other arithmetic of it
        e.w.declare(f"declare {vector} @llvm.fma.v{count}bf16({vector}, {vector}, {vector})")
        ones = ", ".join([f"{kind} -1.0"] * count)
        name = e.w.value(
            f"call {vector} @llvm.fma.v{count}bf16({vector} {q}, {vector} <{ones}>, {vector} {p})"
        )
    else:
        name = e.w.value(f"fsub {vector} {p}, {q}")
    whole = e.b.value(f"bitcast {vector} {name} to i32", t.uint32, 1)
    return [e.b.bitcast(w, dtype) for w in e.unpack(whole, WORDS[dtype.bits].bits)]
