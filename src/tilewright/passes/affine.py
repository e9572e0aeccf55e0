"""Which tiles are affine in their indices, and which masks are convex: known from their corners."""

from __future__ import annotations

from tilewright.ir.inst import Inst, Value

ALIKE = frozenset({"broadcast", "permute", "add", "sub", "offset", "hint"})
COMPARISONS = frozenset({"lt", "le", "gt", "ge"})
WRAPPING = frozenset({"irem", "select", "min", "max"})


class Affine:
    """Asks of a kernel's values; remembers the answers."""

    def __init__(self) -> None:
        self.affine: dict[tuple[Value, bool], bool] = {}
        self.convex: dict[Value, bool] = {}

    def is_affine(self, value: Value, unless_wrapped: bool = False) -> bool:
        """Whether every element is a base plus a fixed step for each index.

        With `unless_wrapped` that is asked of elements that no operation of `wrapped` changes.
        """
        key = value, unless_wrapped
        if key not in self.affine:
            self.affine[key] = self.find_affine(value, unless_wrapped)
        return self.affine[key]

    def find_affine(self, value: Value, unless_wrapped: bool) -> bool:
        if not value.type.shape:
            return True
        inst = value.inst
        if inst is None:
            return False
        name, operands = inst.op.name, inst.operands
        if name in ("arange", "splat", "constant"):
            return True
        if name in ALIKE or (name == "reshape" and only_units(inst)):
            return all(self.is_affine(x, unless_wrapped) for x in operands)
        if name == "mul":
            parts = [self.is_affine(x, unless_wrapped) for x in operands]
            return all(parts) and any(map(is_uniform, operands))
        if name == "cast":
            source, to = operands[0].type.dtype, value.type.dtype
            widens = source.is_integer and to.is_integer and to.bits >= source.bits
            return widens and self.is_affine(operands[0], unless_wrapped)
        inside = wrapped(inst) if unless_wrapped else None
        if inside is None or (name == "select" and not self.is_convex(operands[0])):
            return False
        return self.is_affine(inside, unless_wrapped)

    def is_convex(self, mask: Value) -> bool:
        """Whether a mask that is true at all corners of the tile is true everywhere."""
        if mask not in self.convex:
            self.convex[mask] = self.find_convex(mask)
        return self.convex[mask]

    def find_convex(self, mask: Value) -> bool:
        if not mask.type.shape:
            return True
        inst = mask.inst
        if inst is None:
            return False
        name, operands = inst.op.name, inst.operands
        if name in ("splat", "constant"):
            return True
        if name in ("broadcast", "permute", "bit_and") or (name == "reshape" and only_units(inst)):
            return all(self.is_convex(x) for x in operands)
        return name in COMPARISONS and all(self.is_affine(x) for x in operands)


def wrapped(inst: Inst) -> Value | None:
    """The operand that a remainder, clamp or choice of indices is equal to where it is inside.

    That is a convex set of elements. The choice is that of a number where a mask is off.
    """
    name, operands = inst.op.name, inst.operands
    if name not in WRAPPING or not inst.result.type.dtype.is_integer:
        return None
    if name in ("irem", "select") and is_uniform(operands[-1]):
        return operands[-2]
    for x, y in (operands, operands[::-1]) if name in ("min", "max") else ():
        if is_uniform(y):
            return x
    return None


def only_units(inst: Inst) -> bool:
    """Whether a reshape only adds or removes dimensions of size 1."""
    before = [n for n in inst.operands[0].type.shape if n != 1]
    return before == [n for n in inst.result.type.shape if n != 1]


def is_uniform(value: Value) -> bool:
    """Whether a tile has one value everywhere, seen from how it is made."""
    while value.inst is not None and value.inst.op.name in ("broadcast", "reshape"):
        value = value.inst.operands[0]
    return not value.type.shape or (
        value.inst is not None and value.inst.op.name in ("splat", "constant")
    )
