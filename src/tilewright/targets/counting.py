"""What counted code counts: so many words of 64 bits for each site, and after all sites the flops.

Every target fills the first three words; what a target has no notion of stays as it was.
"""

from __future__ import annotations

from math import prod

from tilewright.ir.inst import Inst

# Elements that were asked for, lanes that were masked off, and the address of a map with one byte
# for each element of the argument (0: no map).
ELEMENTS, MASKED, MAP = range(3)
# Of warps: their accesses, the units that these touched (sectors of 32 bytes of global memory,
# turns of shared memory), and the fewest that could hold as much.
REQUESTS, UNITS, LEAST_UNITS = range(3, 6)
# NaN and infinities that were read, written, or made of numbers that are none; and where first:
# the program in the high half, the element of the tile in the low one.
NANS, INFINITIES, FIRST = range(6, 9)
SITE_WORDS = 9
NOWHERE = -1  # of the word FIRST


def flops_of(inst: Inst) -> float:
    """The floating operations of one instruction, as its op books them."""
    if not inst.operands or not inst.operands[0].type.dtype.is_float:
        return 0
    if inst.op.name == "dot":
        x, y, _ = (v.type for v in inst.operands)
        return 2 * prod(x.shape) * y.shape[-1]
    if inst.op.name in ("reduce", "scan"):
        return inst.operands[0].type.size - (
            inst.results[0].type.size if inst.op.name == "reduce" else 0
        )
    return inst.op.flops * inst.results[0].type.size if inst.results else 0


def work_of(insts: list[Inst]) -> int:
    """The floating operations that a straight line of instructions stands for."""
    return int(sum(flops_of(inst) for inst in insts))
