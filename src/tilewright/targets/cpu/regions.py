"""Regions of elementwise instructions, such as combining functions, run on lanes."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.errors import InternalError, UnsupportedError
from tilewright.ir import types as t
from tilewright.ir.inst import Block, Inst, Value
from tilewright.ir.op import OPS

if TYPE_CHECKING:
    from tilewright.targets.cpu.evaluate import Evaluator


LESS_OR_MORE = {"lt": (True, False), "le": (True, False), "gt": (False, True), "ge": (False, True)}


def combined(
    e: Evaluator, inst: Inst, xs: list[Lane], ys: list[Lane], rising: Collection[int] = ()
) -> list[Lane]:
    """Two groups of lanes as one, by the op that is named or by the region.

    `rising` has the operands of which each element is less than any later one.
    """
    name = inst.attrs.get("combine")
    if not name:
        block = inst.blocks[0]
        known = dict(zip(block.params, [*xs, *ys], strict=True))
        known.update(compared(e, block, rising, xs[0].width))
        return run_insts(e, block, known)
    (x,), (y,) = xs, ys
    return [OPS[name].emit(e.b, x, y)]


def compared(e: Evaluator, block: Block, rising: Collection[int], width: int) -> dict[Value, Lane]:
    """The comparisons of elements with later ones whose results are known."""
    half = len(block.params) // 2
    later = {block.params[k]: block.params[half + k] for k in rising if is_choice(block, k, half)}
    out = {}
    for inst in block.insts:
        if inst.op.name in LESS_OR_MORE:
            x, y = inst.operands
            forward, backward = LESS_OR_MORE[inst.op.name]
            if later.get(x) is y or later.get(y) is x:
                truth = forward if later.get(x) is y else backward
                out[inst.result] = e.b.const(truth, t.int1, width)
    return out


def is_choice(block: Block, k: int, half: int) -> bool:
    """Whether a result is one of the two elements of its operand."""
    both = {block.params[k], block.params[half + k]}
    end = block.terminator.operands[k] if block.terminator is not None else None
    made = end.inst if end is not None else None
    chosen = {end} if made is None or made.op.name != "select" else set(made.operands[1:])
    return chosen <= both


def run_block(e: Evaluator, block: Block, lanes: list[Lane]) -> list[Lane]:
    """What a region of elementwise instructions gives for these lanes."""
    known = dict(zip(block.params, lanes, strict=True))
    return run_insts(e, block, known)


def run_insts(
    e: Evaluator, block: Block, known: dict[Value, Lane], on: Lane | None = None
) -> list[Lane]:
    """The same with what is known so far, where `on` holds."""
    for inst in block.insts:
        if inst.results and inst.results[0] in known:
            continue
        if inst.op.name == "yield":
            return [lane_in(e, known, x) for x in inst.operands]
        known.update(zip(inst.results, run_inst(e, inst, known, on), strict=True))
    raise InternalError("a region without a yield")


def run_inst(e: Evaluator, inst: Inst, known: dict[Value, Lane], on: Lane | None) -> list[Lane]:
    lanes = [lane_in(e, known, x) for x in inst.operands]
    if inst.op.name == "constant":
        return [e.b.const(inst.attrs["value"], inst.result.type.dtype)]
    if inst.op.name == "if":
        condition = lanes[0]
        sides = (both(e, on, condition), both(e, on, e.b.bit_not(condition)))
        yes, no = (
            run_insts(e, block, dict(known), side)
            for block, side in zip(inst.blocks, sides, strict=True)
        )
        return [e.b.select(condition, x, y) for x, y in zip(yes, no, strict=True)]
    if inst.op.name == "device_assert":
        mask = both(e, on, lanes[1] if len(lanes) > 1 else None)
        e.stop_unless(inst, [lanes[0]] if mask is None else [lanes[0], mask])
        return []
    if not inst.op.is_elementwise:
        raise UnsupportedError(f"a combining function cannot use {inst.op.name}", inst.loc)
    return [inst.op.emit(e.b, *lanes, **inst.attrs)]


def both(e: Evaluator, x: Lane | None, y: Lane | None) -> Lane | None:
    """Two conditions as one; None is one that holds."""
    if x is None or y is None:
        return y if x is None else x
    return e.b.bit_and(*e.b.match(x, y))


def lane_in(e: Evaluator, known: dict[Value, Lane], value: Value) -> Lane:
    return known[value] if value in known else e.scalar(value).lane
