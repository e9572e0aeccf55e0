"""Loops that take a lock which the same program gives back: they wait for nobody else to begin."""

from __future__ import annotations

from tilewright.ir.inst import Block, Inst, Value
from tilewright.passes.constants import integer

EFFECTS = ("read", "write", "atomic")


def takes_lock(body: Block, loop: Inst) -> bool:
    """Whether a `while` loop only exchanges a free word for a taken one until it was free, and its
    program makes it free again later on, come what may.

    Then whoever holds the lock runs, and programs may come one after the other in a thread.
    """
    inner = [i for block in loop.blocks for i in block.insts if i.op.effect in EFFECTS or i.blocks]
    if len(inner) != 1:
        return False
    taken = taking(inner[0])
    if taken is None:
        return False
    pointer, free = taken
    after = following(body, loop)
    return any(gives_back(inst, pointer, free) for inst in after)


def taking(inst: Inst) -> tuple[Value, int | None] | None:
    """The lock that an atomic takes, and what it holds while it is free (None: not known)."""
    if inst.op.name == "atomic_cas":
        pointer, free, taken = inst.operands[:3]
        numbers = integer(free), integer(taken)
        return None if None in numbers or numbers[0] == numbers[1] else (pointer, numbers[0])
    if inst.op.name == "atomic_rmw" and inst.attrs.get("kind") == "xchg":
        return inst.operands[0], None
    return None


def gives_back(inst: Inst, pointer: Value, free: int | None) -> bool:
    """Whether an instruction makes a lock free."""
    is_store = inst.op.name == "store"
    is_swap = inst.op.name == "atomic_rmw" and inst.attrs.get("kind") == "xchg"
    if not (is_store or is_swap) or inst.operands[0] is not pointer or len(inst.operands) > 2:
        return False
    return free is None or integer(inst.operands[1]) == free


def following(block: Block, inst: Inst) -> list[Inst]:
    """What runs after an instruction in its own block."""
    if inst in block.insts:
        return block.insts[block.insts.index(inst) + 1 :]
    for other in block.insts:
        for inner in other.blocks:
            found = following(inner, inst)
            if found:
                return found
    return []
