"""What must be computed of a loop's turn to know the addresses of its loads turns before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from tilewright.ir.inst import Inst, Value
from tilewright.ops import memory, shape
from tilewright.passes import loops

CHEAP = {shape.constant, shape.arange, shape.splat, shape.broadcast, shape.reshape, shape.permute}


class Needed:
    """Instructions of a loop's body, and the carried values, by number, that they start from.

    Args:
        may_load: whether a load may be among them; it is made before its turn then.
    """

    def __init__(self, loop: Inst, may_load: Callable[[Inst], bool]):
        body = loop.blocks[0]
        self.may_load = may_load
        self.inside = set(body.insts)
        self.params = {p: k for k, p in enumerate(loops.carried_params(loop, body))}
        self.yields = loops.yields(loop)
        self.insts: set[Inst] = set()
        self.carried: set[int] = set()

    def add(self, values: Sequence[Value]) -> bool:
        """Take in what some values are computed from; False, and nothing, if that is not cheap."""
        insts, carried, open_values = set(), set(), list(values)
        while open_values:
            value = open_values.pop()
            inst, number = value.inst, self.params.get(value)
            if number is not None and number not in carried:
                carried.add(number)
                open_values.append(self.yields[number])
            if inst in self.inside and inst not in insts:
                if not (inst.op.is_elementwise or inst.op in CHEAP or self.may_load(inst)):
                    return False
                insts.add(inst)
                open_values += inst.operands
        self.insts |= insts
        self.carried |= carried
        return True


def idle(
    steps: Sequence[Inst], copied: Collection[Inst], users: Mapping[Value, list[Inst]]
) -> frozenset[Inst]:
    """Those steps that, in their own turn, nobody reads but loads that were made before."""
    out: set[Inst] = set()
    for inst in reversed(steps):
        if all(user in out or user in copied for r in inst.results for user in users[r]):
            out.add(inst)
    return frozenset(out)


def is_load(inst: Inst) -> bool:
    return inst.op is memory.load and not inst.attrs.get("volatile")
