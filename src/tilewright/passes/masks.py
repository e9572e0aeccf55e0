"""Drop masks that are always true, and accesses whose mask never is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tilewright.ir import types as t
from tilewright.ir.inst import Builder, Inst, Kernel, Value
from tilewright.ir.rewrite import rebuild
from tilewright.ops import atomic, memory
from tilewright.passes.constants import constant, integer
from tilewright.passes.fold import fold_inst
from tilewright.passes.ranges import Interval, interval


def drop_true_masks(kernel: Kernel) -> Kernel:
    """The kernel with comparisons that ranges decide as constants, and no access masked by one."""
    return rebuild(kernel, partial(decide, interval(kernel)))


def decide(
    range_of: Callable[[Value], Interval | None],
    b: Builder,
    inst: Inst,
    operands: tuple[Value, ...],
) -> Value | Sequence[Value] | None:
    if inst.op in MASKED:
        return unmask(b, inst, operands)
    if inst.op.is_pure and len(inst.results) == 1 and inst.result.type.dtype is t.int1:
        low, high = range_of(inst.result)
        if low == high and operands:
            return constant(b.emit, bool(low), inst.result.type)
    return fold_inst(b, inst, operands)


MASKED = (memory.load, memory.store, atomic.atomic_rmw)


def unmask(b: Builder, inst: Inst, operands: tuple[Value, ...]) -> Value | Sequence[Value] | None:
    """An access with its mask decided, or None where it has none or it is not known."""
    position = inst.op.access.mask
    if position >= len(operands):
        return None
    holds = integer(operands[position])
    if holds is None:
        return None
    if holds:
        return made(b.emit(inst.op, *operands[:position], **inst.attrs))
    if inst.op is memory.store:
        return ()
    if inst.op is memory.load and len(operands) == 3:
        return operands[2]
    return constant(b.emit, 0, inst.result.type)


def made(value: Value | None) -> Value | tuple:
    return () if value is None else value
