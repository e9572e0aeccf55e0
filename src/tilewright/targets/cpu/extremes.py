"""The greater or lesser of two floats, NaN giving way to numbers: one instruction of AVX-512."""

from __future__ import annotations

from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.types import DType

RANGE = {"min": 4, "max": 5}  # of vrange: which of the two, with its own sign


def has_range(b: Lanes, dtype: DType) -> bool:
    """Whether the machine has the instruction for vectors of a dtype."""
    return dtype in (t.float32, t.float64) and {"avx512dq", "avx512vl"} <= b.features


def extreme_number(b: Lanes, name: str, x: Lane, y: Lane) -> Lane:
    """The better of two numbers; of a number and NaN the number."""
    bits = x.width * x.dtype.bits
    if bits not in (128, 256, 512):
        return b.maximum(x, y) if name == "max" else b.minimum(x, y)
    function = f"llvm.x86.avx512.mask.range.p{'s' if x.dtype.bits == 32 else 'd'}.{bits}"
    mask = f"i{max(8, x.width)} -1"
    rounding = ("i32 4",) if bits == 512 else ()
    return b.call(function, x.dtype, x, y, f"i32 {RANGE[name]}", x, mask, *rounding)
