"""Loops that add up tiles of long rows, or find extremes, carry one number for each row instead.

A tile that is larger than the registers goes through memory in each turn. Where nothing is read of
it but a total of each row, each turn combines its own part of a row, in registers.
"""

from __future__ import annotations

from math import isnan

from tilewright.ir import types as t
from tilewright.ir.inst import Builder, Inst, Kernel, Value
from tilewright.ir.rewrite import count_uses, drop_dead, rebuild
from tilewright.ops import control, math
from tilewright.ops import reduce as reductions
from tilewright.passes import loops
from tilewright.passes.constants import constant, is_zero, number
from tilewright.targets.cpu.pieces import LONG

COMBINE = {"add": math.add, "max": math.max, "min": math.min}  # of rows -> of turns


def carry_row_totals(kernel: Kernel, vector_bytes: int) -> Kernel:
    """The kernel in which totals of long rows are carried in place of the rows."""
    found = find_totals(kernel, LONG * vector_bytes)
    if not found:
        return kernel
    totals = set(found.values())

    def rule(b: Builder, inst: Inst, operands: tuple[Value, ...]) -> object:
        if inst.op is control.for_:
            carried = {k: found[r] for k, r in enumerate(inst.results) if r in found}
            return new_loop(b, inst, operands, carried) if carried else None
        return operands if any(r in totals for r in inst.results) else None

    return drop_dead(rebuild(kernel, rule))


def find_totals(kernel: Kernel, row_bytes: int) -> dict[Value, Value]:
    """By result of a loop: the totals of its rows, which are all that is read of it."""
    uses = None
    found = {}
    for inst in kernel.walk():
        if inst.op is not reductions.reduce or not is_row_total(inst, row_bytes):
            continue
        (tile,) = inst.operands
        uses = uses or count_uses(kernel)
        if uses[tile] == 1 and is_total_of_turns(tile, inst.attrs["combine"], uses):
            found[tile] = inst.result
    return found


def is_row_total(inst: Inst, row_bytes: int) -> bool:
    """Whether an instruction combines long rows of what a loop gives, in their own type."""
    tile, made = inst.operands[0], inst.results[0]
    if len(inst.operands) > 1 or inst.attrs.get("combine") not in COMBINE:
        return False
    if tile.inst is None or tile.inst.op is not control.for_:
        return False
    dtype, shape = tile.type.dtype, tile.type.shape
    return (
        inst.attrs["axis"] == len(shape) - 1
        and dtype is made.type.dtype
        and dtype in (t.float32, t.float64)
        and shape[-1] * dtype.bytes >= row_bytes
    )


def is_total_of_turns(tile: Value, combine: str, uses: dict[Value, int]) -> bool:
    """Whether a loop does nothing with a tile that it carries but combine it with another."""
    loop = tile.inst
    k = loop.results.index(tile)
    param = loops.carried_params(loop, loops.body(loop))[k]
    end = loops.yields(loop)[k]
    return (
        may_begin(loop.operands[loops.bounds(loop) + k], combine)
        and end.inst is not None
        and end.inst.op is COMBINE[combine]
        and not end.inst.attrs.get("propagate_nan")
        and param in end.inst.operands
        and uses[param] == uses[end] == 1
    )


def may_begin(tile: Value, combine: str) -> bool:
    """Whether the total of a tile's row is the number in each of its elements."""
    if combine == "add":
        return is_zero(tile)
    found = number(tile)
    return found is not None and not isnan(found)


def new_loop(
    b: Builder, loop: Inst, operands: tuple[Value, ...], totals: dict[int, Value]
) -> tuple[Value, ...]:
    """The loop again, where some carried tiles are totals of their rows."""
    head, tiles = operands[: loops.bounds(loop)], operands[loops.bounds(loop) :]
    inits = list(tiles)
    old = loops.carried_params(loop, loops.body(loop))
    for k, total in totals.items():
        inits[k] = constant(b.emit, number(tiles[k]), total.type)
    carried: list[Value] = []

    def enter(values: tuple[Value, ...]) -> list[Value]:
        carried[:] = values
        return [tiles[k] if k in totals else v for k, v in enumerate(values)]

    def leave(values: tuple[Value, ...], names: dict[Value, Value]) -> list[Value]:
        out = list(values)
        for k, total in totals.items():
            x, y = loops.yields(loop)[k].inst.operands
            other = y if x is old[k] else x
            part = b.emit(reductions.reduce, names.get(other, other), **total.inst.attrs)
            out[k] = b.emit(COMBINE[total.inst.attrs["combine"]], carried[k], part)
        return out

    return loops.new_loop(b, loop, head, inits, enter, leave)
