"""Products of fp32 as several products of its parts, in what the tensor cores take."""

from __future__ import annotations

from tilewright.ir import types as t
from tilewright.ir.inst import Builder, Inst, Kernel, Value
from tilewright.ir.rewrite import drop_dead, rebuild
from tilewright.ir.types import DType, Type
from tilewright.ops import dot, math, shape
from tilewright.targets.cuda.arch import Arch

# Precisions: the type of parts, and how many there are of an operand.
PARTS = {"tf32x3": (t.float32, 2), "bf16x3": (t.bfloat16, 2), "bf16x6": (t.bfloat16, 3)}
KEPT = ~0x1FFF  # the bits of fp32 that tf32 has


def in_parts(kernel: Kernel, arch: Arch) -> Kernel:
    """Products that ask for it, smallest ones first; those of two last parts are left out."""
    asked = any(i.op is dot.dot and i.attrs.get("precision") in PARTS for i in kernel.walk())
    if not asked or not arch.has_bf16:
        return kernel

    def rule(b: Builder, inst: Inst, operands: tuple[Value, ...]) -> Value | None:
        if inst.op is not dot.dot or inst.attrs.get("precision") not in PARTS:
            return None
        dtype, count = PARTS[inst.attrs["precision"]]
        lefts, rights = (parts(b, x, dtype, count) for x in operands[:2])
        total, kind = operands[2], "tf32" if dtype is t.float32 else "ieee"
        for order in reversed(range(count)):
            for k in range(order + 1):
                total = b.emit(dot.dot, lefts[k], rights[order - k], total, precision=kind)
        return total

    return drop_dead(rebuild(kernel, rule))


def parts(b: Builder, x: Value, dtype: DType, count: int) -> list[Value]:
    """Numbers of fewer bits whose sum is x, the largest one first."""
    out = []
    for _ in range(count - 1):
        part = cut(b, x) if dtype is t.float32 else b.emit(math.cast, x, to=dtype.short)
        wide = b.emit(math.cast, part, to="f32")
        # Infinities have no rest.
        rest, zero = b.emit(math.sub, x, wide), constant(b, 0.0, x.type)
        x = b.emit(math.select, b.emit(math.eq, x, wide), zero, rest)
        out.append(part)
    return [*out, b.emit(math.cast, x, to=dtype.short)]


def cut(b: Builder, x: Value) -> Value:
    """x without the bits that tf32 has not."""
    bits = b.emit(math.bitcast, x, to="i32")
    kept = b.emit(math.bit_and, bits, constant(b, KEPT, bits.type))
    return b.emit(math.bitcast, kept, to="f32")


def constant(b: Builder, value: float, type: Type) -> Value:
    return b.emit(shape.constant, value=value, type=str(type))
