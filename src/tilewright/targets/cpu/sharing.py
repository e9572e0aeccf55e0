"""Which arguments are taken not to share memory, and how far apart they must start."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tilewright.ir.inst import Kernel, Value
from tilewright.passes.origins import root_params
from tilewright.passes.strides import Strides

ANYWHERE = 1 << 61  # arguments may not meet at all
FAR_APART = 1 << 60  # they may only start at one place


class Reliance(NamedTuple):
    """What is taken of a pair of arguments."""

    reach: int  # bytes that they start apart, at least
    same: bool  # or they start at one place


class Sharing:
    """What a plan relies on, which a launch then makes sure of."""

    def __init__(self, kernel: Kernel, strides: Callable[[Value], Strides], shared: bool):
        self.params = kernel.body.params
        self.strides = strides
        self.roots = root_params(kernel)
        self.shared = shared  # arguments may share memory
        # Pairs of parameters that were taken not to share memory, or not to start less than so many
        # bytes apart; those with `same` may start at one place.
        self.relied: dict[tuple[int, int], Reliance] = {}

    def apart(self, p: Value, q: Value, same: bool) -> bool:
        """Whether two pointers come from different arguments, which a launch then makes sure of.

        `same`: elements at one position may be the same one.
        """
        a, b = self.roots(p), self.roots(q)
        if self.shared or not a or not b or a & b:
            return False
        reach = self.reach(p, q) if self.alike(p, q) else ANYWHERE
        for i in a:
            for j in b:
                pair = (min(i, j), max(i, j))
                before = self.relied.get(pair, Reliance(0, True))
                self.relied[pair] = Reliance(max(reach, before.reach), same and before.same)
        return True

    def reach(self, p: Value, q: Value) -> int:
        """How far apart two tiles of pointers of the same offsets must start to never meet."""
        reach = 0
        for pointer in (p, q):
            steps = self.strides(pointer)
            if None in steps:
                return FAR_APART
            spans = [abs(s) * (n - 1) for n, s in zip(pointer.type.shape, steps, strict=True)]
            reach = max(reach, sum(spans) + pointer.type.dtype.element_ty.bytes)
        return reach

    def alike(self, p: Value, q: Value) -> bool:
        """Whether two pointers are moved by the same offsets from the start of an argument each."""
        while p.inst is not None and q.inst is not None:
            x, y = p.inst, q.inst
            moved = x.op.name in ("offset", "splat", "broadcast", "reshape", "hint")
            if not moved or (x.op, x.attrs) != (y.op, y.attrs) or x.operands[1:] != y.operands[1:]:
                return False
            p, q = x.operands[0], y.operands[0]
        return p in self.params and q in self.params
