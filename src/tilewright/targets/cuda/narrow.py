"""Floats of 8 bits by the chip's conversions, which take and give two at a time."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.literals import FORMATS, Lane
from tilewright.ir import types as t
from tilewright.ir.types import DType
from tilewright.targets.cuda.emitter import Emitter

LEAST_CAPABILITY = 89
NAMES = {t.float8e4nv: "e4m3x2", t.float8e5: "e5m2x2"}
FLOATS = (t.float16, t.bfloat16, t.float32)
# What the conversion takes to its largest number though it is to become infinite.
TOO_LARGE = {t.float8e5: 61440.0}


def can_pair(source: DType, to: DType, capability: int, rounding: str) -> bool:
    """Whether the chip converts these: from or to 8 bits, to nearest."""
    if capability < LEAST_CAPABILITY or rounding != "rtne":
        return False
    return source in NAMES and to in FLOATS or source in FLOATS and to in NAMES


def paired(e: Emitter, lanes: Sequence[Lane], to: DType) -> list[Lane]:
    """Any number of lanes in another dtype."""
    out: list[Lane] = []
    for k in range(0, len(lanes), 2):
        two = [*lanes[k : k + 2], lanes[k]][:2]
        out += widened(e, two, to) if lanes[0].dtype in NAMES else narrowed(e, two, to)
    return out[: len(lanes)]


def widened(e: Emitter, two: Sequence[Lane], to: DType) -> list[Lane]:
    """Through fp16, which holds all of them."""
    name = f"llvm.nvvm.{NAMES[two[0].dtype]}.to.f16x2.rn"
    e.w.declare(f"declare <2 x half> @{name}(i16)")
    word = e.pack([e.b.bitcast(x, t.uint8) for x in two])
    made = e.w.value(f"call <2 x half> @{name}({word.typed})")
    halves = [e.b.value(f"extractelement <2 x half> {made}, i32 {k}", t.float16, 1) for k in (0, 1)]
    return [e.b.cast(x, to) for x in halves]


def narrowed(e: Emitter, two: Sequence[Lane], to: DType) -> list[Lane]:
    """The second float becomes the lower byte."""
    name = f"llvm.nvvm.ff.to.{NAMES[to]}.rn"
    e.w.declare(f"declare i16 @{name}(float, float)")
    wide = [e.b.cast(x, t.float32) for x in two]
    made = e.b.value(f"call i16 @{name}({wide[1].typed}, {wide[0].typed})", t.uint16, 1)
    codes = e.unpack(made, 8)
    if to in TOO_LARGE:
        codes = [overflown(e, x, code, to) for x, code in zip(wide, codes, strict=True)]
    return [e.b.bitcast(code, to) for code in codes]


def overflown(e: Emitter, x: Lane, code: Lane, to: DType) -> Lane:
    """What is too large as the format has it, with its sign."""
    b, form = e.b, FORMATS[to]
    sign = b.bit_and(code, b.like(code, 0x80))
    is_large = b.ge(b.abs(x), b.like(x, TOO_LARGE[to]))
    return b.select(is_large, b.bit_or(sign, b.like(code, form.overflow)), code)
