"""Let dots add to what is there instead of to zeros."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ir.inst import Block, Builder, Inst, Kernel, Value
from tilewright.ir.rewrite import count_uses, drop_dead, rebuild
from tilewright.ops import dot, math
from tilewright.passes.constants import number


def fuse_accumulators(kernel: Kernel) -> Kernel:
    """x + dot(a, b, 0) becomes dot(a, b, x) where nobody else reads the product."""
    if not any(inst.op is dot.dot for inst in kernel.walk()):
        return kernel
    uses = count_uses(kernel)
    blocks = {inst: block for block in all_blocks(kernel) for inst in block.insts}

    def rule(b: Builder, inst: Inst, operands: tuple[Value, ...]) -> Value | None:
        if inst.op is not math.add:
            return None
        for k in (1, 0):
            product = inst.operands[k].inst
            if product is None or product.op is not dot.dot or uses[product.result] != 1:
                continue
            new = operands[k].inst
            # Moving a product into a loop would compute it many times.
            if blocks[product] is blocks[inst] and number(new.operands[2]) == 0:
                return b.emit(dot.dot, *new.operands[:2], operands[1 - k], **new.attrs)
        return None

    return drop_dead(rebuild(kernel, rule))


def all_blocks(kernel: Kernel) -> Iterator[Block]:
    yield kernel.body
    for inst in kernel.walk():
        yield from inst.blocks
