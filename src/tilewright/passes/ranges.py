"""The range that an integer is known to be in."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Kernel, Param, Value
from tilewright.ir.op import Op
from tilewright.ir.types import DType, Type
from tilewright.ops import debug, math, program, reduce, shape
from tilewright.passes.constants import wrap
from tilewright.passes.flow import find_facts

Interval = tuple[int, int]
NONE: Interval = (0, -1)  # stands for what is no integer; never looked at

MOST_PROGRAMS = (1 << 31) - 1


def interval(kernel: Kernel) -> Callable[[Value], Interval | None]:
    """Of each value the least and the largest integer that any element may be.

    None for floats and pointers; booleans are 0 and 1.
    """
    find = find_facts(kernel, RangeAnalysis())
    return lambda value: find(value) if value.type.dtype.is_integer else None


def every(dtype: DType) -> Interval:
    """All numbers of a dtype."""
    if not dtype.is_integer:
        return NONE
    if dtype.is_signed:
        return -(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1
    return 0, (1 << dtype.bits) - 1


class RangeAnalysis:
    def param(self, index: int, param: Param) -> Interval:
        return every(param.type.dtype)

    def counter(self, loop: Inst, facts: list[Interval]) -> Interval:
        low, high, step = facts[:3]
        if step[0] <= 0:
            return every(loop.operands[0].type.dtype)
        last = high[1] - 1
        if low[0] == low[1] and step[0] == step[1] and last >= low[0]:
            last -= (last - low[0]) % step[0] if high[0] == high[1] else 0
        return low[0], max(low[0], last)

    def unknown(self, type: Type) -> Interval:
        return every(type.dtype)

    def join(self, x: Interval, y: Interval, type: Type) -> Interval:
        return min(x[0], y[0]), max(x[1], y[1])

    def widen(self, old: Interval, new: Interval, type: Type) -> Interval:
        least, most = every(type.dtype)
        return old[0] if new[0] >= old[0] else least, old[1] if new[1] <= old[1] else most

    def result(self, inst: Inst, facts: list[Interval], position: int) -> Interval:
        dtype = inst.results[position].type.dtype
        if not dtype.is_integer:
            return NONE
        all_of_type = every(dtype)
        rule = RULES.get(inst.op)
        if rule is None:
            return all_of_type
        found = rule(inst, facts)
        if found is None or found[0] < all_of_type[0] or found[1] > all_of_type[1]:
            return all_of_type  # it may wrap around
        return found


Rule = Callable[[Inst, list[Interval]], "Interval | None"]


def hull(*numbers: int) -> Interval:
    return min(numbers), max(numbers)


def is_number(inst: Inst) -> bool:
    """Whether the operands are integers of more than one bit."""
    dtype = inst.operands[0].type.dtype
    return dtype.is_integer and dtype is not t.int1


def corners(function: Callable[[int, int], int]) -> Rule:
    """The rule of a function that is monotone in each operand."""

    def rule(inst: Inst, facts: list[Interval]) -> Interval | None:
        if not is_number(inst):
            return None
        return hull(*(function(x, y) for x in facts[0] for y in facts[1]))

    return rule


def truncated(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def quotient(inst: Inst, facts: list[Interval]) -> Interval | None:
    (a, b), (c, d) = facts
    if c <= 0 or not is_number(inst):
        return None
    return hull(*(truncated(x, y) for x in (a, b) for y in (c, d)))


def remainder(inst: Inst, facts: list[Interval]) -> Interval | None:
    (a, b), (c, d) = facts
    if c <= 0 or not is_number(inst):
        return None
    return (0 if a >= 0 else max(a, 1 - d)), (min(b, d - 1) if b >= 0 else 0)


def bit_and(inst: Inst, facts: list[Interval]) -> Interval | None:
    (a, b), (c, d) = facts
    if inst.result.type.dtype is t.int1:
        return a & c, b & d
    if a >= 0 and c >= 0:
        return 0, min(b, d)
    if a >= 0 or c >= 0:
        return 0, b if a >= 0 else d
    return None


def bit_or(inst: Inst, facts: list[Interval]) -> Interval | None:
    (a, b), (c, d) = facts
    if a < 0 or c < 0:
        return None
    return max(a, c), (1 << max(b.bit_length(), d.bit_length())) - 1


def bit_xor(inst: Inst, facts: list[Interval]) -> Interval | None:
    (a, b), (c, d) = facts
    if a < 0 or c < 0:
        return None
    return 0, (1 << max(b.bit_length(), d.bit_length())) - 1


def bit_not(inst: Inst, facts: list[Interval]) -> Interval:
    low, high = every(inst.result.type.dtype)
    return low + high - facts[0][1], low + high - facts[0][0]


def shl(inst: Inst, facts: list[Interval]) -> Interval | None:
    (a, b), (c, d) = facts
    if not is_number(inst) or c < 0 or d >= inst.result.type.dtype.bits:
        return None
    return hull(*(x << y for x in (a, b) for y in (c, d)))


def shr(inst: Inst, facts: list[Interval]) -> Interval | None:
    (a, b), (c, d) = facts
    if not is_number(inst) or c < 0:
        return None
    return hull(*(x >> y for x in (a, b) for y in (c, d)))


def absolute(inst: Inst, facts: list[Interval]) -> Interval:
    ((a, b),) = facts
    return (0 if a <= 0 <= b else min(abs(a), abs(b))), max(abs(a), abs(b))


def cast(inst: Inst, facts: list[Interval]) -> Interval | None:
    source, to = inst.operands[0].type.dtype, inst.result.type.dtype
    if not source.is_integer:
        return None
    low, high = facts[0]
    if to is t.int1:
        return int(low > 0 or high < 0), int((low, high) != (0, 0))
    return low, high


def bitcast(inst: Inst, facts: list[Interval]) -> Interval | None:
    """A number that is not negative is the same, signed or not."""
    source = inst.operands[0].type.dtype
    return facts[0] if source.is_integer and facts[0][0] >= 0 else None


def comparison(always: Callable, never: Callable) -> Rule:
    def rule(inst: Inst, facts: list[Interval]) -> Interval | None:
        if not inst.operands[0].type.dtype.is_integer:
            return None
        x, y = facts
        return int(always(x, y)), int(not never(x, y))

    return rule


def less(x: Interval, y: Interval) -> bool:
    return x[1] < y[0]


def less_or_equal(x: Interval, y: Interval) -> bool:
    return x[1] <= y[0]


def swapped(test: Callable) -> Callable:
    return lambda x, y: test(y, x)


def equal(x: Interval, y: Interval) -> bool:
    return x == y and x[0] == x[1]


def different(x: Interval, y: Interval) -> bool:
    return less(x, y) or less(y, x)


def select(inst: Inst, facts: list[Interval]) -> Interval:
    condition, x, y = facts
    if condition[0] == condition[1]:
        return x if condition[0] else y
    return hull(*x, *y)


def same(inst: Inst, facts: list[Interval]) -> Interval:
    return facts[0]


def union(inst: Inst, facts: list[Interval]) -> Interval:
    return hull(*facts[0], *facts[1])


def constant(inst: Inst, facts: list[Interval]) -> Interval:
    value = int(wrap(inst.attrs["value"], inst.result.type.dtype))
    return value, value


KEEPING = ("max", "min", "bit_and", "bit_or")


def reduced(inst: Inst, facts: list[Interval]) -> Interval | None:
    """Of reductions and scans by a named op; one to n elements are combined."""
    low, high = facts[0]
    combine = inst.attrs.get("combine")
    if combine in ("max", "min") or (combine in KEEPING and inst.result.type.dtype is t.int1):
        return facts[0]
    if combine != "add" or not is_number(inst):
        return None
    n = inst.operands[0].type.shape[inst.attrs["axis"]]
    few = n if inst.op is reduce.reduce else 1
    return hull(few * low, n * low, few * high, n * high)


RULES: dict[Op, Rule] = {
    shape.constant: constant,
    shape.arange: lambda inst, facts: (inst.attrs["start"], inst.attrs["end"] - 1),
    shape.splat: same,
    shape.broadcast: same,
    shape.reshape: same,
    shape.permute: same,
    shape.split: same,
    shape.flip: same,
    shape.gather: same,
    debug.hint: same,
    shape.join: union,
    shape.cat: union,
    program.program_id: lambda inst, facts: (0, MOST_PROGRAMS - 1),
    program.num_programs: lambda inst, facts: (1, MOST_PROGRAMS),
    math.add: corners(lambda x, y: x + y),
    math.sub: corners(lambda x, y: x - y),
    math.mul: corners(lambda x, y: x * y),
    math.max: lambda inst, facts: tuple(map(max, *facts)),
    math.min: lambda inst, facts: tuple(map(min, *facts)),
    math.idiv: quotient,
    math.irem: remainder,
    math.neg: lambda inst, facts: (-facts[0][1], -facts[0][0]),
    math.abs: absolute,
    math.bit_and: bit_and,
    math.bit_or: bit_or,
    math.bit_xor: bit_xor,
    math.bit_not: bit_not,
    math.shl: shl,
    math.shr: shr,
    math.cast: cast,
    math.bitcast: bitcast,
    math.select: select,
    math.lt: comparison(less, swapped(less_or_equal)),
    math.le: comparison(less_or_equal, swapped(less)),
    math.gt: comparison(swapped(less), less_or_equal),
    math.ge: comparison(swapped(less_or_equal), less),
    math.eq: comparison(equal, different),
    math.ne: comparison(different, equal),
    reduce.reduce: reduced,
    reduce.scan: reduced,
    reduce.sort: same,
    reduce.histogram: lambda inst, facts: (0, prod(inst.operands[0].type.shape)),
}
