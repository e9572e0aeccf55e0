"""Products that are still under way when their turn of a loop ends."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tilewright.ir.inst import Inst, Value
from tilewright.ops import dot, shape
from tilewright.passes import loops
from tilewright.targets.cuda import wgmma
from tilewright.targets.cuda.arch import Arch


def wide_dots(loop: Inst, arch: Arch, num_warps: int) -> list[Inst]:
    """The products of a loop's body, not of loops within, that warpgroups make, in order."""
    return [
        inst
        for inst in loop.blocks[0].insts
        if inst.op is dot.dot and wgmma.instruction_for(inst, arch, num_warps) is not None
    ]


def unfinished(
    loop: Inst, dots: Sequence[Inst], lasting: Collection[Value], users: Mapping[Value, list[Inst]]
) -> list[Inst]:
    """Of these products those that only the next turn's adds to, or what comes after the loop.

    Args:
        lasting: values that stay in shared memory until the first product of the next turn.
    """
    body = loop.blocks[0]
    end, params = body.terminator, loops.carried_params(loop, body)
    carried = dict(zip(loops.yields(loop), params, strict=True))

    def is_kept(value: Value) -> bool:
        """Whether an operand is there for longer than a turn."""
        while value not in lasting and value.inst is not None and value.inst.op is shape.permute:
            (value,) = value.inst.operands
        return value in lasting

    return [
        inst
        for inst in dots
        if users[inst.result] == [end]
        and carried[inst.result] is inst.operands[2]
        and users[inst.operands[2]] == [inst]
        and inst.result.type.dtype.bits == 32
        and all(map(is_kept, inst.operands[:2]))
    ]
