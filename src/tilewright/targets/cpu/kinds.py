"""Kinds of instructions as planning and scheduling tell them apart."""

from __future__ import annotations

from collections.abc import Mapping

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


def is_outer(inst: Inst, symbolic: Mapping[Value, bool], found: dict[Inst, bool]) -> bool:
    """Whether indices are made of those along single dimensions, cheaply: as an outer sum is.

    Kept, they would be as large as the tile, and nothing would be known of their steps. `found`
    remembers the answers.
    """
    if inst not in found:
        found[inst] = find_outer(inst, symbolic, found)
    return found[inst]


def find_outer(inst: Inst, symbolic: Mapping[Value, bool], found: dict[Inst, bool]) -> bool:
    result = inst.results[0] if len(inst.results) == 1 else None
    if result is None or inst.op.name not in CHEAP or len(result.type.shape) < 2:
        return False
    if is_reshuffle(inst) or result.type.dtype.is_float:
        return False

    def is_thin(x: Value) -> bool:
        if not x.type.shape or symbolic.get(x, False):
            return True
        if x.inst is None:
            return False
        source = x.inst.operands[0] if is_repeat(x.inst) else None
        if source is not None and source.type.size < x.type.size:
            return True
        return is_outer(x.inst, symbolic, found)

    return all(map(is_thin, inst.operands))


def is_large(value: Value) -> bool:
    """Whether a tile is a matrix with sides worth turning."""
    return len(value.type.shape) == 2 and min(value.type.shape) >= 8
