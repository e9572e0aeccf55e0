"""Long chains of computation cut in two: the values between are kept, and loops share no turns.

A core looks some 200 instructions ahead. A chunk of a chain of several elementary functions fills
that, and what it computes waits for itself: tanh(log(1 + exp(x))) took 1.6 times as long in one
loop as in three.
"""

from __future__ import annotations

from tilewright.ir.inst import Block, Inst, Kernel, Value
from tilewright.ops.math import EXPENSIVE
from tilewright.targets.cpu.kinds import ALWAYS_KEPT, CHEAP, MOVES

FUNCTION = 60  # cycles from the operand of an elementary function to its result
SLOW = {"div": 15, "sqrt": 20, "rsqrt": 35, "umulhi": 9}
STEP = 4
LONGEST = 100  # cycles
LEAST = 50  # that are worth a loop of their own
FEWEST = 256  # elements of a tile: of less, loops are a few turns
MOST = 32768  # bytes: more leave the near cache


def find_cuts(kernel: Kernel) -> frozenset[Value]:
    """The values at which the chains of a kernel are cut."""
    cuts: set[Value] = set()
    scan(kernel.body, {}, cuts)
    return frozenset(cuts)


def scan(block: Block, depths: dict[Value, int], cuts: set[Value]) -> None:
    """Go through a block in order; `depths` has the cycles since a value was loaded or kept."""
    for inst in block.insts:
        for inner in inst.blocks:
            if inst.op.name != "reduce":
                scan(inner, depths, cuts)
        if inst.op.name in ALWAYS_KEPT or not inst.op.is_elementwise and inst.op.name not in MOVES:
            continue
        own = latency(inst)
        before = [depths.get(x, 0) for x in inst.operands]
        if own >= FUNCTION and max(before, default=0) + own > LONGEST:
            deep = [x for x, n in zip(inst.operands, before, strict=True) if n >= LEAST]
            if deep and all(map(may_cut, deep)):
                cuts.update(deep)
                depths.update(dict.fromkeys(deep, 0))
                before = [depths.get(x, 0) for x in inst.operands]
        depths.update(dict.fromkeys(inst.results, max(before, default=0) + own))


def latency(inst: Inst) -> int:
    """Cycles from the operands of an instruction to its result, about."""
    if inst.op.name in MOVES or inst.op.name in ("constant", "arange", "bitcast"):
        return 0
    if inst.op.flops >= EXPENSIVE:
        return FUNCTION
    return SLOW.get(inst.op.name, STEP if inst.op.name in CHEAP else 2 * STEP)


def may_cut(value: Value) -> bool:
    dtype, size = value.type.dtype, value.type.size
    if not value.type.shape or not (dtype.is_float or dtype.is_integer):
        return False
    return size >= FEWEST and size * dtype.bytes <= MOST
