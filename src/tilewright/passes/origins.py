"""Which parameters of a kernel a pointer comes from, and which ones memory ops touch."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir.inst import Inst, Kernel, Param, Value
from tilewright.ir.types import Type
from tilewright.ops import debug, math, memory, shape
from tilewright.passes.flow import find_facts

Roots = frozenset[int] | None  # None: may be any memory
NONE: Roots = frozenset()


def root_params(kernel: Kernel) -> Callable[[Value], Roots]:
    """Of each pointer the positions of the parameters it may be derived from; None: unknown."""
    return find_facts(kernel, RootAnalysis())


class RootAnalysis:
    def param(self, index: int, param: Param) -> Roots:
        return frozenset((index,)) if param.type.dtype.is_pointer else NONE

    def counter(self, loop: Inst, facts: list[Roots]) -> Roots:
        return NONE

    def unknown(self, type: Type) -> Roots:
        return None if type.dtype.is_pointer else NONE

    def join(self, x: Roots, y: Roots, type: Type) -> Roots:
        return None if x is None or y is None else x | y

    widen = join

    def result(self, inst: Inst, facts: list[Roots], position: int) -> Roots:
        type = inst.results[position].type
        if not type.dtype.is_pointer:
            return NONE
        if inst.op is shape.constant:
            return NONE
        if inst.op not in DERIVED:
            return None
        if inst.op in CASTS and not inst.operands[0].type.dtype.is_pointer:
            return None
        out: Roots = NONE
        for x, roots in zip(inst.operands, facts, strict=True):
            if x.type.dtype.is_pointer:
                out = self.join(out, roots, type)
        return out


CASTS = {math.cast, math.bitcast}
DERIVED = CASTS | {
    debug.hint, memory.offset, math.select, shape.splat, shape.broadcast, shape.reshape,
    shape.permute, shape.join, shape.split, shape.cat, shape.flip, shape.gather,
}  # fmt: skip


def written_params(kernel: Kernel) -> set[int]:
    """Positions of the parameters whose memory a store or an atomic may change."""
    return touched(kernel, ("store", "atomic"))


def read_params(kernel: Kernel) -> set[int]:
    """Positions of the parameters whose memory a load or an atomic may read."""
    return touched(kernel, ("load", "atomic"))


def touched(kernel: Kernel, kinds: tuple[str, ...]) -> set[int]:
    roots_of = root_params(kernel)
    pointers = {k for k, p in enumerate(kernel.params) if p.type.dtype.is_pointer}
    out: set[int] = set()
    for inst in kernel.walk():
        access = inst.op.access
        if access is not None and access.kind in kinds:
            roots = roots_of(inst.operands[access.pointer])
            out |= pointers if roots is None else roots
    return out
