"""Which arguments of a checked launch share memory, and how a kernel touches it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.errors import UnsupportedError
from tilewright.ir.inst import Kernel
from tilewright.passes.origins import root_params


@dataclass(slots=True)
class Group:
    """Parameters that share one piece of memory, and how a kernel touches it."""

    params: list[int]
    kinds: set[str] = field(default_factory=set)
    sizes: set[int] = field(default_factory=set)

    @property
    def is_tracked(self) -> bool:
        """Whether programs may race for it; atomic operations alone do not."""
        return "store" in self.kinds or {"load", "atomic"} <= self.kinds

    @property
    def has_readers(self) -> bool:
        return "load" in self.kinds

    @property
    def granule(self) -> int:
        """The bytes that one cell stands for."""
        return min(self.sizes, default=1)


def find_groups(kernel: Kernel, numbers: tuple[int, ...]) -> dict[int, Group]:
    """Of each pointer parameter its group; `numbers` tells which are in one.

    Raises:
        UnsupportedError: for accesses of which it is not known where they go.
    """
    roots = root_params(kernel)
    groups: dict[int, Group] = {}
    out: dict[int, Group] = {}
    for param, number in enumerate(numbers):
        out[param] = groups.setdefault(number, Group([]))
        out[param].params.append(param)
    for inst in kernel.walk():
        access = inst.op.access
        if inst.op.name == "device_print":
            raise UnsupportedError("it prints", inst.loc)
        if access is None:
            continue
        pointer = inst.operands[access.pointer]
        found = roots(pointer)
        if not found or len(found) != 1:
            raise UnsupportedError("a pointer may belong to several arguments, or none", inst.loc)
        group = out[next(iter(found))]
        group.kinds.add(access.kind)
        group.sizes.add(pointer.type.dtype.element_ty.bytes)
    return out


def is_ordering(kernel: Kernel) -> bool:
    """Whether there are atomic operations of single elements, which may be locks."""
    atomics = (inst for inst in kernel.walk() if inst.op.effect == "atomic")
    return any(not inst.operands[0].type.shape for inst in atomics)
