"""Products and sums of floats in one instruction that rounds once, as Triton has it."""

from __future__ import annotations

from tilewright.ir import types as t
from tilewright.ir.inst import Builder, Inst, Kernel, Value
from tilewright.ir.rewrite import count_uses, drop_dead, rebuild
from tilewright.ops import math
from tilewright.passes.dots import all_blocks


def contract(kernel: Kernel) -> Kernel:
    """x * y + z in fp32 becomes fma(x, y, z) where nobody else reads the product."""
    uses = count_uses(kernel)
    blocks = {inst: block for block in all_blocks(kernel) for inst in block.insts}

    def rule(b: Builder, inst: Inst, operands: tuple[Value, ...]) -> Value | None:
        if inst.op not in (math.add, math.sub) or inst.result.type.dtype is not t.float32:
            return None
        for k in (0, 1):
            product, made = inst.operands[k].inst, operands[k].inst
            if product is None or product.op is not math.mul or made.op is not math.mul:
                continue
            # A product of outside is better not made again in each turn of a loop.
            if uses[product.result] == 1 and blocks[product] is blocks[inst]:
                x, y, z = *made.operands, operands[1 - k]
                if inst.op is math.sub:
                    x, z = (b.emit(math.neg, x), z) if k else (x, b.emit(math.neg, z))
                return b.emit(math.fma, x, y, z)
        return None

    return drop_dead(rebuild(kernel, rule))
