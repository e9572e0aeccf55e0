"""Tables that lie in registers: one instruction looks up a whole vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane, literal
from tilewright.ir import types as ty


def table_lanes(b: Lanes) -> int:
    """How many lanes one instruction looks up; 0 where there is no such instruction."""
    if "avx512f" in b.features:
        return 16
    return 8 if "avx2" in b.features else 0


def look_up(b: Lanes, number: Lane, values: Sequence[float]) -> Lane:
    """Of 32 numbers (AVX2: 8) the one that the low bits of each lane name, in a whole register."""
    lanes = number.width
    parts = (
        "<" + ", ".join(f"float {literal(v, ty.float32)}" for v in values[i : i + lanes]) + ">"
        for i in range(0, len(values), lanes)
    )
    tables = [Lane(text, ty.float32, lanes) for text in parts]
    if lanes == 8:
        return b.call("llvm.x86.avx2.permps", ty.float32, *tables, number)
    low, high = tables
    return b.call("llvm.x86.avx512.vpermi2var.ps.512", ty.float32, low, number, high)


def in_full(b: Lanes, function: Callable[[Lanes, Lane], Lane], x: Lane) -> Lane:
    """A function of whole registers, of as many lanes as there are."""
    width, full = x.width, table_lanes(b)
    if width == full:
        return function(b, x)
    if width == 1:
        return b.extract(function(b, b.splat(x, full)), 0)
    if width > full:
        half = width // 2
        low, high = (in_full(b, function, b.slice(x, start, half)) for start in (0, half))
        mask = ", ".join(f"i32 {i}" for i in range(width))
        text = f"shufflevector {low.typed}, {high.typed}, <{width} x i32> <{mask}>"
        return b.value(text, x.dtype, width)
    mask = ", ".join(f"i32 {i % width}" for i in range(full))
    text = f"shufflevector {x.typed}, {x.type} poison, <{full} x i32> <{mask}>"
    return b.slice(function(b, b.value(text, x.dtype, full)), 0, width)
