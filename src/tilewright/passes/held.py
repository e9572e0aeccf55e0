"""Keep loads whose results nobody reads, as checked code looks at them."""

from __future__ import annotations

from tilewright.ir.inst import Block, Kernel, Value
from tilewright.ir.rewrite import has_effect
from tilewright.ops import memory


def hold_loads(kernel: Kernel) -> Kernel:
    """The kernel with every load that `drop_dead` would drop made volatile."""
    hold_in_block(kernel.body, set())
    return kernel


def hold_in_block(block: Block, live: set[Value]) -> None:
    for inst in reversed(block.insts):
        wanted = inst.op.name == "yield" or has_effect(inst) or any(r in live for r in inst.results)
        if not wanted and inst.op is memory.load:
            inst.attrs = {**inst.attrs, "volatile": True}
            wanted = True
        for inner in inst.blocks:
            hold_in_block(inner, live)
            wanted = wanted or has_effect(inst)
        if wanted:
            live.update(inst.operands)
