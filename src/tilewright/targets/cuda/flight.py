"""Products that are still under way when their turn of a loop ends."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tilewright.ir.inst import Block, Inst, Value, walk
from tilewright.ops import dot, shape
from tilewright.passes import loops
from tilewright.targets.cuda import wgmma
from tilewright.targets.cuda.arch import Arch


def first_product(body: Block, arch: Arch, num_warps: int) -> Inst | None:
    """The first product of a loop's body, not of a loop within, that warpgroups make."""
    for inst in body.insts:
        if inst.op is dot.dot and wgmma.instruction_for(inst, arch, num_warps) is not None:
            return inst
    return None


def unfinished(
    loop: Inst, first: Inst, lasting: Collection[Value], users: Mapping[Value, list[Inst]]
) -> dict[Inst, Value]:
    """Products that may go on until the first one of the next turn has begun, and what the loop
    carries for them.

    Nothing reads their sums before that: the first one adds to its own, the others' are read by
    what comes later. Operands of the first one that do not last must be kept in two places.

    Args:
        lasting: values that stay in shared memory for as long.
    """
    body = loop.blocks[0]
    params = dict(zip(loops.yields(loop), loops.carried_params(loop, body), strict=True))
    order = {inner: k for k, inst in enumerate(body.insts) for inner in within(inst)}

    def goes_on(inst: Inst) -> bool:
        if inst.op is not dot.dot or users[inst.result] != [body.terminator]:
            return False
        if inst.result.type.dtype.bits != 32:
            return False
        readers = users[params[inst.result]]
        if inst is first:
            return inst.operands[2] is params[inst.result] and readers == [inst]
        return lasts(inst.operands[1], lasting) and all(
            order[user] > order[first] for user in readers
        )

    found = body.insts[body.insts.index(first) :]
    return {inst: params[inst.result] for inst in found if goes_on(inst)}


def lasts(value: Value, lasting: Collection[Value]) -> bool:
    """Whether a value, perhaps a turned one, is among those that stay."""
    while value not in lasting and value.inst is not None and value.inst.op is shape.permute:
        (value,) = value.inst.operands
    return value in lasting


def within(inst: Inst) -> list[Inst]:
    """An instruction, and those in its blocks."""
    return [inst, *(inner for block in inst.blocks for inner in walk(block))]
