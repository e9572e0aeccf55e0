"""Kinds of instructions as planning and scheduling tell them apart."""

from __future__ import annotations

from tilewright.ir.inst import Inst, Value

# Cheap to recompute: the index arithmetic that SIMD units do in a cycle.
CHEAP = frozenset([
    "constant", "arange", "splat", "broadcast", "reshape", "permute",
    "add", "sub", "mul", "neg", "shl", "shr", "bit_and", "bit_or", "bit_xor", "bit_not",
    "lt", "le", "gt", "ge", "eq", "ne", "select", "cast", "bitcast", "offset", "min", "max", "abs",
])  # fmt: skip
INDEXING = CHEAP | {"idiv", "irem"}  # never kept where it is made of positions only
# What may take positions to one number.
FOLDS = frozenset(
    ["idiv", "irem", "shr", "bit_and", "bit_or", "bit_xor", "min", "max", "abs", "select"]
)
MOVES = frozenset(["splat", "broadcast", "reshape", "permute"])  # other positions, same elements
CONTROL = frozenset({"for", "while", "if"})
# From buffer to buffer.
WHOLE = frozenset(["scan", "sort", "histogram", "join", "cat", "flip", "gather", "split"])
ALWAYS_KEPT = CONTROL | WHOLE | {"reduce", "dot"}  # their results lie in buffers
READ_WHOLE = WHOLE | {"device_print"}  # operands lie in buffers


def is_reshuffle(inst: Inst) -> bool:
    """Whether a reshape changes more than dimensions of size 1."""
    if inst.op.name != "reshape":
        return False
    before = [n for n in inst.operands[0].type.shape if n != 1]
    return before != [n for n in inst.result.type.shape if n != 1]


def is_repeat(inst: Inst) -> bool:
    """Whether an instruction gives its operand's elements again, in the same order."""
    return inst.op.name in ("splat", "broadcast", "reshape") and not is_reshuffle(inst)


def is_large(value: Value) -> bool:
    """Whether a tile is a matrix with sides worth turning."""
    return len(value.type.shape) == 2 and min(value.type.shape) >= 8
