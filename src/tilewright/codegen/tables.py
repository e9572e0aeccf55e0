"""Tables that lie in registers: one instruction looks up a whole vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane, literal
from tilewright.ir import types as ty

TABLE_LANES = 16  # of one register of the widest kind


def look_up(b: Lanes, number: Lane, values: Sequence[float]) -> Lane:
    """Of 32 numbers the one that the low bits of each lane name; 16 lanes, AVX-512."""
    halves = (
        "<" + ", ".join(f"float {literal(v, ty.float32)}" for v in half) + ">"
        for half in (values[:TABLE_LANES], values[TABLE_LANES:])
    )
    low, high = (Lane(text, ty.float32, TABLE_LANES) for text in halves)
    return b.call("llvm.x86.avx512.vpermi2var.ps.512", ty.float32, low, number, high)


def in_full(b: Lanes, function: Callable[[Lanes, Lane], Lane], x: Lane) -> Lane:
    """A function of whole registers, of as many lanes as there are."""
    width = x.width
    if width == 1:
        return b.extract(function(b, b.splat(x, TABLE_LANES)), 0)
    if width < TABLE_LANES:
        mask = ", ".join(f"i32 {i % width}" for i in range(TABLE_LANES))
        text = f"shufflevector {x.typed}, {x.type} poison, <{TABLE_LANES} x i32> <{mask}>"
        x = b.value(text, x.dtype, TABLE_LANES)
    return b.slice(function(b, x), 0, width) if width < TABLE_LANES else function(b, x)
