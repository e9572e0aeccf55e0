"""Tiles of pointers that never meet: they lie between one another, as channels do, or beyond."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir.inst import Value
from tilewright.passes.constants import integer
from tilewright.passes.strides import Strides

REPEATS = ("splat", "broadcast")


def never_meet(p: Value, q: Value, strides: Callable[[Value], Strides]) -> bool:
    """Whether two tiles are the same pointers moved to between one another, or beyond.

    So `out + 3 * i` and `out + 3 * i + 1`, `out + i` and `out + i + 64` for 64 neighbours, and two
    halves of the rows of a matrix.
    """
    if p.type != q.type:
        return False
    start, moved = parts(p)
    other, moved_other = parts(q)
    steps = [(s, n) for n, s in zip(p.type.shape, strides(p), strict=True) if n > 1]
    if start != other or moved == moved_other or any(s is None for s, _ in steps):
        return False
    size = p.type.dtype.element_ty.bytes
    apart = abs(moved - moved_other) * size
    steps = sorted((abs(s), n) for s, n in steps)
    return any(fit_between(apart, size, steps, k) for k in range(len(steps) + 1))


def fit_between(apart: int, size: int, steps: list[tuple[int, int]], inner: int) -> bool:
    """Whether blocks of so many inner dimensions lie between those of the other tile."""
    block = size + sum(step * (n - 1) for step, n in steps[:inner])
    outer = [step for step, _ in steps[inner:]]
    if not outer:
        return apart >= block
    least = outer[0]
    if not least or any(step % least for step in outer):
        return False
    return block <= apart % least <= least - block


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
