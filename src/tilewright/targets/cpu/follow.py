"""Follow one dimension of a tile back to what it is made from."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tilewright.ir.inst import Inst, Value
from tilewright.targets.cpu.kinds import ALWAYS_KEPT

# Nothing with elements of its own lies behind these.
ENDS = frozenset({"splat", "constant", "arange", "program_id", "num_programs"})


def follow(
    value: Value, dim: int | None, kept: Collection[Value]
) -> Iterator[tuple[Value, int | None]]:
    """The loads and kept values that evaluating `value` reads, each with its dimension that runs
    along `dim` of `value`; None where it does not vary along it."""
    seen: set[tuple[Value, int | None]] = set()
    stack = [(value, dim)]
    while stack:
        value, dim = stack.pop()
        if (value, dim) in seen or not value.type.shape:
            continue
        seen.add((value, dim))
        inst = value.inst
        if inst is None or value in kept or inst.op.name in ALWAYS_KEPT:
            yield value, dim
            continue
        if inst.op.name in ENDS:
            continue
        if inst.op.name == "load":
            yield value, dim
            stack += [(x, dim) for x in inst.operands[2:]]
            continue
        moved = source_dim(inst, dim)
        stack += [(x, moved) for x in inst.operands]


def source_dim(inst: Inst, dim: int | None) -> int | None:
    """The dimension of the operands that runs along a dimension of the result."""
    if dim is None or inst.op.name not in ("permute", "broadcast", "reshape"):
        return dim
    if inst.op.name == "permute":
        return inst.attrs["order"][dim]
    before, after = inst.operands[0].type.shape, inst.result.type.shape
    if inst.op.name == "broadcast":
        return dim if before[dim] != 1 else None
    if after[dim] == 1 or [n for n in before if n != 1] != [n for n in after if n != 1]:
        return None
    number = sum(n != 1 for n in after[:dim])
    return [d for d, n in enumerate(before) if n != 1][number]
