"""Loops that add up tiles of long rows carry the sums of the rows instead.

A tile that is larger than the registers goes through memory in each turn. Where nothing is read of
it but the sums of its rows, each turn adds up its own part of a row, in registers.
"""

from __future__ import annotations

from tilewright.ir import types as t
from tilewright.ir.inst import Builder, Inst, Kernel, Value
from tilewright.ir.rewrite import count_uses, drop_dead, rebuild
from tilewright.ops import control, math
from tilewright.ops import reduce as reductions
from tilewright.passes import loops
from tilewright.passes.constants import constant, is_zero
from tilewright.targets.cpu.pieces import LONG


def carry_row_sums(kernel: Kernel, vector_bytes: int) -> Kernel:
    """The kernel in which sums of long rows are carried in place of the rows."""
    sums = find_sums(kernel, LONG * vector_bytes)
    if not sums:
        return kernel
    totals = set(sums.values())

    def rule(b: Builder, inst: Inst, operands: tuple[Value, ...]) -> object:
        if inst.op is control.for_:
            found = {k: sums[r] for k, r in enumerate(inst.results) if r in sums}
            return summing_loop(b, inst, operands, found) if found else None
        return operands if any(r in totals for r in inst.results) else None

    return drop_dead(rebuild(kernel, rule))


def find_sums(kernel: Kernel, row_bytes: int) -> dict[Value, Value]:
    """By result of a loop: the sums of its rows, which are all that is read of it."""
    uses = None
    found = {}
    for inst in kernel.walk():
        if inst.op is not reductions.reduce or not is_row_sum(inst, row_bytes):
            continue
        (tile,) = inst.operands
        uses = uses or count_uses(kernel)
        if uses[tile] == 1 and is_sum_of_turns(tile, uses):
            found[tile] = inst.result
    return found


def is_row_sum(inst: Inst, row_bytes: int) -> bool:
    """Whether an instruction adds up long rows of what a loop gives, in their own type."""
    tile, made = inst.operands[0], inst.results[0]
    if len(inst.operands) > 1 or inst.attrs.get("combine") != "add":
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


def is_sum_of_turns(tile: Value, uses: dict[Value, int]) -> bool:
    """Whether a loop does nothing with a tile that it carries but add to it, from zero on."""
    loop = tile.inst
    k = loop.results.index(tile)
    param = loops.carried_params(loop, loops.body(loop))[k]
    end = loops.yields(loop)[k]
    return (
        is_zero(loop.operands[loops.bounds(loop) + k])
        and end.inst is not None
        and end.inst.op is math.add
        and param in end.inst.operands
        and uses[param] == uses[end] == 1
    )


def summing_loop(
    b: Builder, loop: Inst, operands: tuple[Value, ...], sums: dict[int, Value]
) -> tuple[Value, ...]:
    """The loop again, where some carried tiles are the sums of their rows."""
    head, inits = operands[: loops.bounds(loop)], list(operands[loops.bounds(loop) :])
    tiles = list(inits)
    old = loops.carried_params(loop, loops.body(loop))
    for k, total in sums.items():
        inits[k] = constant(b.emit, 0.0, total.type)
    carried: list[Value] = []

    def enter(values: tuple[Value, ...]) -> list[Value]:
        carried[:] = values
        return [tiles[k] if k in sums else v for k, v in enumerate(values)]

    def leave(values: tuple[Value, ...], names: dict[Value, Value]) -> list[Value]:
        out = list(values)
        for k, total in sums.items():
            x, y = loops.yields(loop)[k].inst.operands
            added = y if x is old[k] else x
            part = b.emit(reductions.reduce, names.get(added, added), **total.inst.attrs)
            out[k] = b.emit(math.add, carried[k], part)
        return out

    return loops.new_loop(b, loop, head, inits, enter, leave)
