"""Compute what is known: constants, identities, uniform tiles as scalars, decided branches."""

from __future__ import annotations

from typing import Any

from tilewright.ir.inst import Block, Builder, Inst, Kernel, Value
from tilewright.ir.op import Op
from tilewright.ir.rewrite import inline, rebuild
from tilewright.ops import control, debug, shape
from tilewright.ops.known import evaluate
from tilewright.passes.constants import constant, integer, number, scalar_of
from tilewright.passes.identities import IDENTITIES


def fold(kernel: Kernel) -> Kernel:
    """The kernel with everything computed that its text decides."""
    return rebuild(kernel, fold_inst)


def fold_inst(b: Builder, inst: Inst, operands: tuple[Value, ...]) -> Any:
    """What stands for the results of an instruction, or None to keep it."""
    if inst.op in DECIDED:
        return DECIDED[inst.op](b, inst, operands)
    if inst.blocks or not inst.op.is_pure:
        return None
    return simplify(b, inst.op, operands, inst.attrs)


class Maker:
    """Emits like a builder, simplified."""

    def __init__(self, builder: Builder):
        self.builder = builder

    def __call__(self, op: Op, *operands: Value, **attrs: Any) -> Any:
        found = simplify(self.builder, op, operands, attrs)
        return found if found is not None else self.builder.emit(op, *operands, **attrs)


def simplify(b: Builder, op: Op, operands: tuple[Value, ...], attrs: dict[str, Any]) -> Any:
    """A simpler value (or values) for one use of a pure op, or None."""
    make = Maker(b)
    if op.emit is not None and op is not debug.hint:
        found = known(make, op, operands, attrs)
        if found is not None:
            return found
    rule = IDENTITIES.get(op)
    return rule(make, operands, attrs) if rule is not None else None


def known(make: Maker, op: Op, operands: tuple[Value, ...], attrs: dict) -> Value | None:
    """An elementwise op on numbers as a number, one on uniform tiles as a splat of a scalar."""
    for x in operands:
        if x.inst is None or (x.inst.op is not shape.constant and x.inst.op is not shape.splat):
            return None
    numbers = [number(x) for x in operands]
    if None not in numbers:
        dtypes = [x.type.dtype for x in operands]
        type = op.rule(*[x.type for x in operands], **attrs)
        found = evaluate(op, dtypes, numbers, attrs, type.dtype)
        if found is not None:
            return constant(make.builder.emit, found, type)
    if not operands[0].type.shape:
        return None
    scalars = [scalar_of(make.builder.emit, x) for x in operands]
    return make(shape.splat, make(op, *scalars, **attrs), shape=operands[0].type.shape)


# --- branches and loops that are decided


def fold_if(b: Builder, inst: Inst, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
    """The instructions of the region that a constant condition chooses."""
    chosen = integer(operands[0])
    if chosen is None:
        return None
    position = 0 if chosen else 1
    if position >= len(inst.blocks):
        return ()
    return inline(inst.blocks[position], b, {}, fold_inst)


def fold_for(b: Builder, inst: Inst, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
    """Without iterations the initial values, with one the body itself."""
    low, high, step = (integer(x) for x in operands[:3])
    if operands[0] is operands[1] and step is not None and step > 0:
        return operands[3:]
    if low is None or high is None or step is None or step <= 0:
        return None
    if low >= high:
        return operands[3:]
    if low + step < high:
        return None
    body = inst.blocks[0]
    names = dict(zip(body.params, (operands[0], *operands[3:]), strict=True))
    return inline(body, b, names, fold_inst)


def fold_while(b: Builder, inst: Inst, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
    """What is handed on when the condition never holds."""
    condition = inst.blocks[0]
    if not never(condition):
        return None
    inline(condition, b, dict(zip(condition.params, operands, strict=True)), fold_inst)
    return operands


def never(condition: Block) -> bool:
    """Whether the first value that a region yields is false."""
    end = condition.terminator
    return end is not None and integer(end.operands[0]) == 0


DECIDED = {control.for_: fold_for, control.while_: fold_while, control.if_: fold_if}
