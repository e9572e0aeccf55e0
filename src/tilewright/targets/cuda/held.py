"""Operands of products in a loop that come from outside lie in shared memory while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.ir.inst import Block, Inst, Value, walk
from tilewright.ops import dot
from tilewright.targets.cuda import wgmma

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering

SHARE = 2  # this part of shared memory and no more; the rest is for what comes by


def hold(x: Lowering, blocks: Sequence[Block]) -> list[Value]:
    """Before a loop: put there what its products read."""
    held: list[Value] = []
    for block in blocks:
        for inst in walk(block):
            for side in sides(x, inst) if inst.op is dot.dot else ():
                value = inst.operands[side]
                if value in x.tiles and value not in x.staged and fits(x, value):
                    found = wgmma.instruction_for(inst, x.arch, x.e.num_warps)
                    x.staged[value] = wgmma.put(x, x.tiles[value], side, found)
                    held.append(value)
    if held:
        x.e.fence_async()
        x.e.barrier()
    return held


def sides(x: Lowering, inst: Inst) -> list[int]:
    """The operands of a product that it reads from shared memory."""
    found = wgmma.instruction_for(inst, x.arch, x.e.num_warps)
    if found is None:
        return []
    value = inst.operands[0]
    in_registers = value in x.tiles and wgmma.in_registers(x, inst, found) is not None
    return [1] if in_registers else [0, 1]


def fits(x: Lowering, value: Value) -> bool:
    size = x.e.memory.top + value.type.size * value.type.dtype.bytes
    return size <= x.arch.shared_limit // SHARE


def let_go(x: Lowering, held: Sequence[Value]) -> None:
    """After the loop."""
    for value in held:
        del x.staged[value]
    x.e.memory.give_back(len(held))
