"""In which order the programs of a grid run: neighbours in memory after each other.

Programs may run in any order, and Triton's axis 0 is the one that runs first. Where axis 1 of the
grid steps through memory by less than axis 0 does, in every access that uses both, rows are read
in short pieces far apart; then axis 1 runs first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.ir.inst import Inst, Kernel, Value
from tilewright.passes.constants import integer

SAME = frozenset({"splat", "broadcast", "reshape", "permute", "cast", "hint"})
# Programs that meet, or whose order was chosen with care.
ORDERED = frozenset({"atomic_rmw", "atomic_cas", "while", "barrier", "dot", "device_print"})


@dataclass(frozen=True, slots=True)
class Step:
    """By how much something grows with an axis: a number times scalars of the kernel."""

    number: int
    factors: tuple[int, ...] = ()  # ids of values, in order

    def is_less(self, other: Step) -> bool:
        """Whether it is smaller, if all scalars are large."""
        left = list(other.factors)
        for x in self.factors:
            if x not in left:
                return False
            left.remove(x)
        return bool(left) or abs(self.number) < abs(other.number)


UNKNOWN = object()  # it depends on the axis in another way


@dataclass(slots=True)
class Steps:
    """What each value of a kernel grows by with one axis of the grid; None where it doesn't."""

    axis: int
    params: frozenset[Value]
    found: dict[Value, object] = field(default_factory=dict)
    values: dict[int, Value] = field(default_factory=dict)  # the factors of steps, by id

    def of(self, value: Value) -> object:
        stack = [value]  # kernels are long: no recursion along their operands
        while stack:
            x = stack[-1]
            later = [] if x in self.found or x.inst is None else x.inst.operands
            waiting = [y for y in later if y not in self.found]
            if waiting:
                stack += waiting
                continue
            if x not in self.found:
                other = None if x in self.params else UNKNOWN
                self.found[x] = other if x.inst is None else self.find(x.inst)
            stack.pop()
        return self.found[value]

    def find(self, inst: Inst) -> object:
        name, operands = inst.op.name, inst.operands
        if name == "program_id":
            return Step(1) if inst.attrs["axis"] == self.axis else None
        steps = [self.found[x] for x in operands]
        if inst.blocks:
            return UNKNOWN
        if all(s is None for s in steps):
            return None
        if UNKNOWN in steps:
            return UNKNOWN
        if name in SAME:
            return steps[0]
        if name in ("add", "sub"):
            known = {s for s in steps if s is not None}
            return known.pop() if len(known) == 1 and None in steps else UNKNOWN
        if name == "offset":
            p, i = steps
            moved = None if i is None else Step(i.number * inst.attrs["bytes"], i.factors)
            return moved if p is None else p if moved is None else UNKNOWN
        return self.product(inst, steps) if name == "mul" else UNKNOWN

    def product(self, inst: Inst, steps: list[object]) -> object:
        """A step times something that is the same in all programs."""
        if None not in steps:
            return UNKNOWN
        step, by = (steps[0], 1) if steps[1] is None else (steps[1], 0)
        factor = inst.operands[by]
        number = integer(factor)
        if number is not None:
            return Step(step.number * number, step.factors)
        while factor.inst is not None and factor.inst.op.name in SAME:
            factor = factor.inst.operands[0]
        if factor.type.shape:
            return UNKNOWN
        self.values[id(factor)] = factor
        return Step(step.number, tuple(sorted((*step.factors, id(factor)))))

    def length(self, value: Value) -> Step:
        """Something that is the same in all programs, as a step."""
        number = integer(value)
        if number is not None:
            return Step(number)
        self.values[id(value)] = value
        return Step(1, (id(value),))


def second_axis_first(kernel: Kernel) -> bool:
    """Whether axis 1 of the grid runs before axis 0."""
    insts = list(kernel.walk())
    axes = {i.attrs["axis"] for i in insts if i.op.name == "program_id"}
    if not axes >= {0, 1} or any(i.op.name in ORDERED for i in insts):
        return False
    params = frozenset(kernel.body.params)
    first, second = Steps(0, params), Steps(1, params)
    is_found = False
    for inst in insts:
        if inst.op.access is None:
            continue
        x, y = first.of(inst.operands[0]), second.of(inst.operands[0])
        if not isinstance(x, Step) or not isinstance(y, Step):
            continue
        if not y.is_less(x):
            return False
        is_found = True
    return is_found
