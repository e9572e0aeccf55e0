"""The layouts that the products of a kernel want, by the instructions that an architecture has."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir.inst import Block, Inst, Kernel, Value
from tilewright.ops import dot
from tilewright.targets.cuda import mma, wgmma
from tilewright.targets.cuda.arch import Arch
from tilewright.targets.cuda.layout import LANE_BITS
from tilewright.targets.cuda.operands import DotLayouts, mma_accumulator

MOST_HELD = 64  # 32-bit registers of an operand that may be held through a loop
LANES = 1 << LANE_BITS
MOST_SUMS = 128  # of a product that a thread, with its 255 registers, can hold
FULL = 8  # warps, each thread of which can have so many


def warps_for(kernel: Kernel, asked: int) -> int:
    """How many warps a program has: more than asked for where they could not hold the sums."""
    sizes = [inst.result.type.size for inst in kernel.walk() if inst.op is dot.dot]
    while asked < FULL and max(sizes, default=0) > MOST_SUMS * LANES * asked:
        asked *= 2
    return asked


def table(kernel: Kernel) -> Callable[[Inst, Arch, int], DotLayouts | None]:
    """The layouts of the dots of a kernel."""
    home = homes(kernel.body, {})
    linked = chained(kernel)

    def layouts(inst: Inst, arch: Arch, num_warps: int) -> DotLayouts | None:
        shape = inst.result.type.shape
        if wgmma.instruction_for(inst, arch, num_warps) is not None:
            # Operands come as they are, or in shared memory.
            return DotLayouts(
                None, None, mma_accumulator(shape, *wgmma.split_warps(shape, num_warps))
            )
        found = mma.instruction_for(inst, arch)
        if found is None:
            return None
        split = mma.split_warps(shape, num_warps, inst in linked)
        held = []
        for k, fragment in enumerate(mma.fragments(inst, found, split)):
            outside = home.get(inst.operands[k]) is not home[inst.result]
            small = fragment.registers * found.operand.bits // 32 <= MOST_HELD
            held.append(fragment if outside and small else None)
        return DotLayouts(*held, mma_accumulator(shape, *split))

    return layouts


def homes(block: Block, found: dict[Value, Block]) -> dict[Value, Block]:
    """The block that each value is computed in."""
    for p in block.params:
        found[p] = block
    for inst in block.insts:
        for r in inst.results:
            found[r] = block
        for inner in inst.blocks:
            homes(inner, found)
    return found


def chained(kernel: Kernel) -> set[Inst]:
    """Dots of which one's left operand is computed from another's result, element by element."""
    linked = set()
    for inst in kernel.walk():
        if inst.op is dot.dot:
            source = source_dot(inst.operands[0])
            if source is not None:
                linked |= {inst, source}
    return linked


def source_dot(value: Value) -> Inst | None:
    """The dot that a value is computed from by elementwise ops, if any."""
    stack, seen = [value], set()
    while stack:
        inst = stack.pop().inst
        if inst is None or inst in seen:
            continue
        seen.add(inst)
        if inst.op is dot.dot:
            return inst
        if inst.op.is_elementwise:
            stack += inst.operands
    return None
