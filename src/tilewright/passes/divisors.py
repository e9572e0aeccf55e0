"""The power of two that divides a number."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from tilewright.ir.inst import Inst, Kernel, Param, Value
from tilewright.ir.op import Op
from tilewright.ir.types import Type
from tilewright.ops import debug, math, memory, shape
from tilewright.passes.constants import integer
from tilewright.passes.flow import find_facts

MOST = 1 << 62  # what divides 0, and anything that nobody will ask about
MOST_PROMISED = 16


def divisor(kernel: Kernel) -> Callable[[Value], int]:
    """Of each value the largest known power of two that divides it; 1 for floats.

    Of a tile it is the first element that is meant. Pointers are counted in bytes.
    """
    return find_facts(kernel, DivisorAnalysis())


def power_of_two(n: int) -> int:
    """The largest power of two that divides n."""
    return min(n & -n, MOST) if n else MOST


class DivisorAnalysis:
    def param(self, index: int, param: Param) -> int:
        return power_of_two(param.divisible)

    def counter(self, loop: Inst, facts: list[int]) -> int:
        return min(facts[0], facts[2])

    def unknown(self, type: Type) -> int:
        return 1

    def join(self, x: int, y: int, type: Type) -> int:
        return min(x, y)

    widen = join

    def result(self, inst: Inst, facts: list[int], position: int) -> int:
        rule = RULES.get(inst.op)
        dtype = inst.results[position].type.dtype
        if rule is None or position or not (dtype.is_integer or dtype.is_pointer):
            return 1
        return rule(inst, facts)


def least(inst: Inst, facts: list[int]) -> int:
    return min(facts)


def same(inst: Inst, facts: list[int]) -> int:
    return facts[0]


def same_number(inst: Inst, facts: list[int]) -> int:
    """Of casts: the bits of a float are no multiple of anything."""
    return 1 if inst.operands[0].type.dtype.is_float else facts[0]


def shifted(inst: Inst, facts: list[int]) -> int:
    by = integer(inst.operands[1])
    if by is None or not 0 <= by < 62:
        return 1 if inst.op is math.shr else facts[0]
    return min(facts[0] << by, MOST) if inst.op is math.shl else max(1, facts[0] >> by)


def divided(inst: Inst, facts: list[int]) -> int:
    by = integer(inst.operands[1])
    if not by or by != power_of_two(by):
        return 1
    return max(1, facts[0] // by)


def hinted(inst: Inst, facts: list[int]) -> int:
    """What is promised, as far as it was ever relied on: programs promise a tile's whole size."""
    promised = inst.attrs.get("multiple", ())
    if not promised:
        return facts[0]
    return max(facts[0], min(power_of_two(gcd(*promised)), MOST_PROMISED))


RULES: dict[Op, Callable[[Inst, list[int]], int]] = {
    shape.constant: lambda inst, facts: power_of_two(int(inst.attrs["value"])),
    shape.arange: lambda inst, facts: power_of_two(inst.attrs["start"]),
    shape.splat: same,
    shape.broadcast: same,
    shape.reshape: same,
    shape.permute: same,
    shape.split: same,
    shape.join: same,
    shape.cat: same,
    debug.hint: hinted,
    math.add: least,
    math.sub: least,
    math.min: least,
    math.max: least,
    math.bit_or: least,
    math.bit_xor: least,
    math.irem: least,
    math.bit_and: lambda inst, facts: max(facts),
    math.mul: lambda inst, facts: min(facts[0] * facts[1], MOST),
    math.neg: same,
    math.abs: same,
    math.shl: shifted,
    math.shr: shifted,
    math.idiv: divided,
    math.select: lambda inst, facts: min(facts[1:]),
    math.cast: same_number,
    math.bitcast: same_number,
    memory.offset: lambda inst, facts: min(facts[0], facts[1] * power_of_two(inst.attrs["bytes"])),
}
