"""Tiles of pointers that lie between one another, as the channels of an image do."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir.inst import Value
from tilewright.passes.constants import integer
from tilewright.passes.strides import Strides

REPEATS = ("splat", "broadcast")


def lie_between(p: Value, q: Value, strides: Callable[[Value], Strides]) -> bool:
    """Whether two tiles are the same pointers moved by less than they are apart: they never meet.

    So `out + 3 * i` and `out + 3 * i + 1`.
    """
    if p.type != q.type:
        return False
    start, moved = parts(p)
    other, moved_other = parts(q)
    steps = [s for n, s in zip(p.type.shape, strides(p), strict=True) if n > 1]
    if start != other or moved == moved_other or not steps or None in steps or 0 in steps:
        return False
    least = min(map(abs, steps))
    size = p.type.dtype.element_ty.bytes
    apart = abs(moved - moved_other) * size
    return apart + size <= least and all(step % least == 0 for step in steps)


def parts(pointer: Value) -> tuple[tuple, int]:
    """What a pointer is made of but for constants, and how many elements these move it."""
    terms: list[Value] = []
    moved = 0
    while pointer.inst is not None:
        name, operands = pointer.inst.op.name, pointer.inst.operands
        if name == "offset":
            rest, constant = without_constant(operands[1])
            moved += constant
            terms += [] if rest is None else [rest]
        elif name not in REPEATS:
            break
        pointer = operands[0]
    return (pointer, *sorted(map(id, terms))), moved


def without_constant(index: Value) -> tuple[Value | None, int]:
    """An index as a value and a constant that is added to it."""
    constant = 0
    while (number := integer(index)) is None:
        if index.inst is None or index.inst.op.name != "add":
            return index, constant
        for x, y in (index.inst.operands, index.inst.operands[::-1]):
            added = integer(y)
            if added is not None:
                index, constant = x, constant + added
                break
        else:
            return index, constant
    return None, constant + number
