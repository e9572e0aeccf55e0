"""Loops whose direction shows at run time only."""

from __future__ import annotations

from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane


def either_way(b: Lanes, low: Lane, high: Lane, step: Lane) -> tuple[Lane, Lane | None]:
    """The end of a loop and what mirrors its counter, where it may count down or not at all.

    Mirrored, with all bits turned if the step is negative, the counter is less than the end as
    long as the loop runs. A step of 0 makes no turns.
    """
    if step.known is not None or not step.dtype.is_signed:
        return high, None
    zero = b.const(0, step.dtype)
    high = b.select(b.eq(step, zero), low, high)
    mirror = b.select(b.lt(step, zero), b.const(-1, step.dtype), zero)
    return b.bit_xor(high, mirror), mirror
