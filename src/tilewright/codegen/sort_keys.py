"""Integers that are in the order in which elements are wanted sorted, and back."""

from __future__ import annotations

from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.types import DType


def key_dtype(dtype: DType) -> DType:
    """The integers that are sorted in place of a dtype."""
    if dtype.is_float or dtype.bits < 32:
        return t.int64 if dtype.bits == 64 else t.int32
    return dtype


def encoded(b: Lanes, x: Lane, descending: bool) -> Lane:
    """Integers in the order in which the elements are wanted; NaN is the largest."""
    key = key_dtype(x.dtype)
    if not x.dtype.is_float:
        lane = b.cast(x, key)
    else:
        wide = b.cast(x, t.float32) if x.dtype.bits < 32 else x
        lane = magnitude_order(b, b.bitcast(wide, key))
        nan = b.bitcast(b.const(float("nan"), wide.dtype, wide.width), key)
        lane = b.select(b.is_nan(wide), nan, lane)
    return b.bit_not(lane) if descending else lane


def decoded(b: Lanes, lane: Lane, dtype: DType, descending: bool) -> Lane:
    """The elements that keys stand for."""
    lane = b.bit_not(lane) if descending else lane
    if not dtype.is_float:
        return b.cast(lane, dtype)
    wide = t.float64 if dtype.bits == 64 else t.float32
    return b.cast(b.bitcast(magnitude_order(b, lane), wide), dtype)


def magnitude_order(b: Lanes, bits: Lane) -> Lane:
    """Bits of floats as integers in the same order, and back: below 0 all but the sign flips."""
    sign = b.shr(bits, b.like(bits, bits.dtype.bits - 1))
    return b.bit_xor(bits, b.bit_and(sign, b.like(bits, (1 << bits.dtype.bits - 1) - 1)))
