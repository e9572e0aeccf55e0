"""Rebuild a kernel with rules, count uses, drop dead code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from tilewright.ir.inst import Block, Builder, Inst, Kernel, Value, walk

# A rule sees an instruction with its new operands and gives the values that replace its results
# (one value or a sequence), or None to keep it.
Rule = Callable[[Builder, Inst, tuple[Value, ...]], "Value | Sequence[Value] | None"]


def rebuild(kernel: Kernel, rule: Rule | None = None) -> Kernel:
    """The kernel emitted anew through the builder: rules applied, common subexpressions one."""
    builder = Builder()
    names: dict[Value, Value] = {}
    for value in kernel.body.params:
        names[value] = builder.block.add_param(value.type)
    copy_block(kernel.body, builder, names, rule)
    return Kernel(kernel.name, list(kernel.params), builder.block, kernel.loc, kernel.meta)


def copy_block(
    block: Block, builder: Builder, names: dict[Value, Value], rule: Rule | None
) -> None:
    """Append the instructions of `block` to where the builder stands."""
    for inst in block.insts:
        copy_inst(inst, builder, names, rule)


def copy_inst(inst: Inst, builder: Builder, names: dict[Value, Value], rule: Rule | None) -> None:
    operands = tuple([names.get(x, x) for x in inst.operands])
    blocks = inst.blocks
    if blocks:
        blocks = tuple([copy_region(b, builder, names, rule) for b in blocks])
    builder.loc = inst.loc
    if rule is not None:
        seen = inst
        if blocks:
            seen = Inst(inst.op, operands, inst.attrs, blocks, inst.results, inst.loc)
        new = rule(builder, seen, operands)
        if new is not None:
            names.update(zip(inst.results, [new] if isinstance(new, Value) else new, strict=True))
            return
    # Rules keep types, so the op's own rule need not be asked again (a third of the time).
    types = [r.type for r in inst.results]
    copy = Inst(inst.op, operands, inst.attrs, blocks, (), inst.loc, inst.frozen)
    made = builder.place(copy, types)
    names.update(zip(inst.results, made, strict=True))


def copy_region(
    block: Block, builder: Builder, names: dict[Value, Value], rule: Rule | None
) -> Block:
    new = Block()
    for p in block.params:
        names[p] = new.add_param(p.type)
    with builder.inside(new):
        copy_block(block, builder, names, rule)
    return new


def inline(
    block: Block, builder: Builder, names: dict[Value, Value], rule: Rule | None = None
) -> tuple[Value, ...]:
    """Append what `block` does, its parameters standing in `names`; gives what it yields."""
    for inst in block.insts:
        if inst.op.name == "yield":
            return tuple(names.get(x, x) for x in inst.operands)
        copy_inst(inst, builder, names, rule)
    return ()


def count_uses(kernel: Kernel) -> Counter[Value]:
    """How often each value is an operand."""
    return Counter(x for inst in kernel.walk() for x in inst.operands)


def free_values(block: Block) -> set[Value]:
    """Values used inside a block, and the blocks in it, but defined outside."""
    defined, used = set(block.params), set()
    for inst in walk(block):
        used.update(inst.operands)
        defined.update(inst.results)
        for inner in inst.blocks:
            defined.update(inner.params)
    return used - defined


def has_effect(inst: Inst) -> bool:
    """Whether an instruction, or one inside it, must stay although nobody reads its result."""
    if inst.op.effect in ("write", "atomic", "debug"):
        return True
    if inst.attrs.get("volatile"):
        return True
    if inst.op.name == "while":
        return True  # it may wait for somebody
    return any(has_effect(i) for block in inst.blocks for i in block.insts)


def drop_dead(kernel: Kernel) -> Kernel:
    """Without the instructions that have no effect and whose results nobody reads."""
    live: set[Value] = set()
    drop_dead_block(kernel.body, live)
    return kernel


def drop_dead_block(block: Block, live: set[Value]) -> None:
    keep: list[Inst] = []
    for inst in reversed(block.insts):
        wanted = inst.op.name == "yield" or has_effect(inst) or any(r in live for r in inst.results)
        if not wanted:
            continue
        live.update(inst.operands)
        for inner in inst.blocks:
            drop_dead_block(inner, live)
        keep.append(inst)
    block.insts[:] = reversed(keep)
