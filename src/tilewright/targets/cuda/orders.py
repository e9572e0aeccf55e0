"""Which atomics on tiles must be in order with other accesses: those by which programs could talk.

An order can be told only by a program that reads what another one wrote in the same launch.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir.inst import Inst, Kernel, Value
from tilewright.passes.origins import Roots

RELEASING, ACQUIRING = ("release", "acq_rel"), ("acquire", "acq_rel")


class Orders:
    """Asks of the atomics of a kernel.

    Args:
        is_used: whether anybody reads a value.
    """

    def __init__(
        self, kernel: Kernel, roots: Callable[[Value], Roots], is_used: Callable[[Value], bool]
    ):
        self.roots = roots
        self.is_used = is_used
        insts = [inst for inst in kernel.walk() if inst.op.access is not None]
        self.writes = {i: self.root(i) for i in insts if i.op.access.kind != "load"}
        self.reads = {
            i: self.root(i) for i in insts if i.op.access.kind == "load" or self.reads_memory(i)
        }

    def root(self, inst: Inst) -> Roots:
        return self.roots(inst.operands[inst.op.access.pointer])

    def reads_memory(self, inst: Inst) -> bool:
        return inst.op.access.kind == "atomic" and self.is_used(inst.result)

    def releases(self, inst: Inst) -> bool:
        """Whether what the program wrote before must be seen before this."""
        return inst.attrs.get("sem", "acq_rel") in RELEASING and self.is_told(inst)

    def acquires(self, inst: Inst) -> bool:
        """Whether what the program reads afterwards must be read after this."""
        orders = inst.attrs.get("sem", "acq_rel") in ACQUIRING
        return orders and self.is_used(inst.result) and self.is_told(inst)

    def is_told(self, inst: Inst) -> bool:
        """Whether programs, or with this scope the host, could tell the order."""
        if inst.attrs.get("scope") == "sys":
            return True
        return any(
            reader is not inst and meets(read, written)
            for reader, read in self.reads.items()
            for written in self.writes.values()
        )


def meets(x: Roots, y: Roots) -> bool:
    return x is None or y is None or bool(x & y)
