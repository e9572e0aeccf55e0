"""Arithmetic of floats of 16 bits, two at a time, without rounding what fp32 gives."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst
from tilewright.ops import math
from tilewright.targets.cuda.arch import Arch
from tilewright.targets.cuda.emitter import WORDS, Emitter

WORD_OF = {math.add: "fadd", math.sub: "fsub", math.mul: "fmul"}
KINDS = {t.float16: "half", t.bfloat16: "bfloat"}


def can_halve(inst: Inst, arch: Arch) -> bool:
    """Whether the chip has the operation; both ways round alike."""
    if inst.op not in WORD_OF or not inst.result.type.shape:
        return False
    dtype = inst.result.type.dtype
    return dtype is t.float16 or dtype is t.bfloat16 and arch.capability >= 90


def halved(e: Emitter, inst: Inst, xs: Sequence[Lane], ys: Sequence[Lane]) -> list[Lane]:
    """The operation on any number of lanes."""
    kind = f"<2 x {KINDS[xs[0].dtype]}>"
    out: list[Lane] = []
    for k in range(0, len(xs), 2):
        sides = [both(e, [*side[k : k + 2], side[k]][:2], kind) for side in (xs, ys)]
        made = e.w.value(f"{WORD_OF[inst.op]} {kind} {sides[0]}, {sides[1]}")
        word = e.b.value(f"bitcast {kind} {made} to i32", t.uint32, 1)
        out += [e.b.bitcast(w, xs[0].dtype) for w in e.unpack(word, WORDS[16].bits)]
    return out[: len(xs)]


def both(e: Emitter, two: Sequence[Lane], kind: str) -> str:
    word = e.pack([e.b.bitcast(x, t.uint16) for x in two])
    return e.w.value(f"bitcast {word.typed} to {kind}")
