"""Move what a loop computes anew each time, always the same, in front of it."""

from __future__ import annotations

from tilewright.ir.inst import Block, Builder, Inst, Kernel, Value
from tilewright.ir.rewrite import copy_inst, free_values
from tilewright.passes.loops import LOOPS, has_loops


def licm(kernel: Kernel) -> Kernel:
    """The kernel with pure loop-invariant instructions outside of its loops."""
    if not has_loops(kernel):
        return kernel
    b = Builder()
    names = {value: b.block.add_param(value.type) for value in kernel.body.params}
    copy_block(kernel.body, b, names)
    return Kernel(kernel.name, list(kernel.params), b.block, kernel.loc, kernel.meta)


def copy_block(block: Block, b: Builder, names: dict[Value, Value]) -> None:
    """Append a block to where the builder stands; values in `names` are there already."""
    for inst in block.insts:
        if inst.results and inst.results[0] in names:
            continue
        if not inst.blocks or inst.op.is_pure:
            copy_inst(inst, b, names, None)
            continue
        if inst.op in LOOPS and not inst.attrs.get("disable_licm"):
            for region in inst.blocks:
                hoist(region, b, names)
        copy_control(inst, b, names)


def copy_control(inst: Inst, b: Builder, names: dict[Value, Value]) -> None:
    regions = []
    for block in inst.blocks:
        region = Block()
        for p in block.params:
            names[p] = region.add_param(p.type)
        with b.inside(region):
            copy_block(block, b, names)
        regions.append(region)
    b.loc = inst.loc
    operands = tuple([names[x] for x in inst.operands])
    types = [r.type for r in inst.results]
    made = b.place(Inst(inst.op, operands, inst.attrs, tuple(regions), loc=inst.loc), types)
    names.update(zip(inst.results, made, strict=True))


def hoist(region: Block, b: Builder, names: dict[Value, Value]) -> None:
    """Append the instructions of a loop's region, and of loops inside, that need nothing of it."""
    for inst in region.insts:
        if inst.op in LOOPS:
            for inner in inst.blocks:
                hoist(inner, b, names)
        elif is_invariant(inst, names):
            copy_inst(inst, b, names, None)


def is_invariant(inst: Inst, names: dict[Value, Value]) -> bool:
    if not inst.op.is_pure or not all(x in names for x in inst.operands):
        return False
    return all(x in names for block in inst.blocks for x in free_values(block))
