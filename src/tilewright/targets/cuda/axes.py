"""How the elements of a tile run along each dimension: consecutive, equal, multiples of what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Kernel, Param, Value
from tilewright.ir.op import Op
from tilewright.ir.types import Type
from tilewright.ops import debug, math, memory, program, shape
from tilewright.passes.constants import integer
from tilewright.passes.divisors import MOST, power_of_two
from tilewright.passes.flow import find_facts

Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Axes:
    """Facts along each dimension (a scalar has one, of size 1); all numbers are powers of two.

    Along dimension d, elements in aligned groups of `contiguous[d]` are consecutive (pointers: to
    consecutive elements), in groups of `constant[d]` equal, and `divisor[d]` divides the first of
    each group of `contiguous[d]`, in bytes for pointers. `positive`: no element is negative.
    """

    contiguous: Numbers
    divisor: Numbers
    constant: Numbers
    positive: bool = False

    def at(self, d: int, group: int) -> int:
        """What divides the elements at multiples of `group` along a dimension."""
        return self.divisor[d] if group >= self.contiguous[d] else min(self.divisor[d], group)

    @property
    def every(self) -> int:
        """What divides every element."""
        return max(self.at(d, 1) for d in range(len(self.divisor)))


def axes(kernel: Kernel) -> Callable[[Value], Axes]:
    """The facts of each value. Integers are assumed not to wrap around."""
    return find_facts(kernel, AxesAnalysis())


def dims_of(type: Type) -> tuple[int, ...]:
    return type.shape or (1,)


def unknown(type: Type, divisor: int = 1, positive: bool = False) -> Axes:
    ones = (1,) * len(dims_of(type))
    return Axes(ones, tuple(divisor for _ in ones), ones, positive)


def uniform(type: Type, divisor: int, positive: bool) -> Axes:
    """Of a tile that has one value everywhere."""
    dims = dims_of(type)
    return Axes((1,) * len(dims), (divisor,) * len(dims), dims, positive)


class AxesAnalysis:
    def param(self, index: int, param: Param) -> Axes:
        return unknown(param.type, power_of_two(param.divisible))

    def counter(self, loop: Inst, facts: list[Axes]) -> Axes:
        low, _, step = facts[:3]
        by = integer(loop.operands[2])
        positive = low.positive and by is not None and by > 0
        return unknown(loop.operands[0].type, min(low.every, step.every), positive)

    def unknown(self, type: Type) -> Axes:
        return unknown(type)

    def join(self, x: Axes, y: Axes, type: Type) -> Axes:
        group = least(x.contiguous, y.contiguous)
        return Axes(
            group, divisors(group, x, y), least(x.constant, y.constant), x.positive and y.positive
        )

    widen = join

    def result(self, inst: Inst, facts: list[Axes], position: int) -> Axes:
        value = inst.results[position]
        rule = RULES.get(inst.op)
        found = rule(inst, facts) if rule is not None else None
        if found is not None:
            return found
        if inst.op.is_elementwise and facts:
            return equal_where_all_are(facts)
        return unknown(value.type)


def least(*numbers: Numbers) -> Numbers:
    return tuple(map(min, *numbers)) if len(numbers) > 1 else numbers[0]


def divisors(group: Numbers, *facts: Axes) -> Numbers:
    """What divides sums of elements at multiples of the groups."""
    return tuple(min(x.at(d, g) for x in facts) for d, g in enumerate(group))


def equal_where_all_are(facts: list[Axes]) -> Axes:
    constant = least(*[x.constant for x in facts])
    return Axes((1,) * len(constant), (1,) * len(constant), constant)


def is_number(inst: Inst) -> bool:
    dtype = inst.result.type.dtype
    return dtype.is_pointer or (dtype.is_integer and dtype is not t.int1)


def constant(inst: Inst, facts: list[Axes]) -> Axes:
    value = inst.attrs["value"]
    if not is_number(inst):
        return uniform(inst.result.type, 1, False)
    return uniform(inst.result.type, power_of_two(int(value)), int(value) >= 0)


def arange(inst: Inst, facts: list[Axes]) -> Axes:
    start = inst.attrs["start"]
    return Axes(inst.result.type.shape, (power_of_two(start),), (1,), start >= 0)


def splat(inst: Inst, facts: list[Axes]) -> Axes:
    return uniform(inst.result.type, facts[0].every, facts[0].positive)


def broadcast(inst: Inst, facts: list[Axes]) -> Axes:
    (x,) = facts
    old, new = inst.operands[0].type.shape, inst.result.type.shape
    repeated = tuple(n if m == 1 else c for m, n, c in zip(old, new, x.constant, strict=True))
    return Axes(x.contiguous, x.divisor, repeated, x.positive)


def reshape(inst: Inst, facts: list[Axes]) -> Axes:
    """Dimensions of size 1 come and go; else only what all elements have stays."""
    (x,) = facts
    old, type = inst.operands[0].type.shape, inst.result.type
    if x.constant == old:
        return uniform(type, x.every, x.positive)
    kept = [d for d, n in enumerate(old) if n > 1]
    if [old[d] for d in kept] != [n for n in type.shape if n > 1]:
        return unknown(type, x.every, x.positive)
    rest = iter(kept)
    which = [next(rest) if n > 1 else None for n in type.shape]

    def spread(numbers: Numbers, new: int) -> Numbers:
        return tuple(new if d is None else numbers[d] for d in which)

    return Axes(
        spread(x.contiguous, 1), spread(x.divisor, x.every), spread(x.constant, 1), x.positive
    )


def permute(inst: Inst, facts: list[Axes]) -> Axes:
    (x,) = facts

    def turn(numbers: Numbers) -> Numbers:
        return tuple(numbers[d] for d in inst.attrs["order"])

    return Axes(turn(x.contiguous), turn(x.divisor), turn(x.constant), x.positive)


def added(inst: Inst, facts: list[Axes]) -> Axes | None:
    """Of sums, and of pointers moved: consecutive plus constant is consecutive."""
    if not is_number(inst):
        return None
    x, y = facts
    scale = power_of_two(inst.attrs["bytes"]) if inst.op is memory.offset else 1
    group = tuple(
        max(min(a, d), min(b, c) if inst.op is not math.sub else 1)
        for a, b, c, d in zip(x.contiguous, x.constant, y.contiguous, y.constant, strict=True)
    )
    divisor = tuple(min(x.at(d, g), y.at(d, g) * scale, MOST) for d, g in enumerate(group))
    positive = x.positive and y.positive and inst.op is math.add
    return Axes(group, divisor, least(x.constant, y.constant), positive)


def multiplied(inst: Inst, facts: list[Axes]) -> Axes | None:
    if not is_number(inst):
        return None
    x, y = facts
    for one, other in ((x, inst.operands[1]), (y, inst.operands[0])):
        if integer(other) == 1:
            return one
    each = [min(x.at(d, 1) * y.at(d, 1), MOST) for d in range(len(x.divisor))]
    positive = x.positive and y.positive
    return Axes((1,) * len(each), tuple(each), least(x.constant, y.constant), positive)


def shifted(inst: Inst, facts: list[Axes]) -> Axes | None:
    by = integer(inst.operands[1])
    if by is None or not 0 <= by < 62:
        return None
    x, type = facts[0], inst.result.type
    if by == 0:
        return x
    if inst.op is math.shl:
        each = tuple(min(x.at(d, 1) << by, MOST) for d in range(len(x.divisor)))
        return Axes((1,) * len(each), each, x.constant, x.positive)
    return divided_by(x, uniform(type, 1 << by, True), x.positive, 1 << by)


def divided(inst: Inst, facts: list[Axes]) -> Axes | None:
    if not is_number(inst):
        return None
    x, y = facts
    by = integer(inst.operands[1]) or 0
    whole = by if by == power_of_two(by) else MOST
    return divided_by(x, y, x.positive and y.positive, whole)


def divided_by(x: Axes, y: Axes, positive: bool, by: int) -> Axes:
    """Numbers from a multiple of 2**k on have one quotient by a multiple of 2**k, 2**k times.

    Multiples of `by` times a power of two have quotients that this power divides.
    """
    base = least(x.constant, y.constant)
    each = tuple(max(1, x.at(d, 1) // by) for d in range(len(base)))
    if not x.positive:
        return Axes((1,) * len(base), each, base)
    runs = aligned_runs(x, y)
    return Axes((1,) * len(base), each, tuple(map(max, base, runs)), positive)


def aligned_runs(x: Axes, y: Axes) -> Numbers:
    """How many consecutive elements of x start at a multiple of what divides a constant y."""
    return tuple(
        min(x.contiguous[d], x.divisor[d], y.constant[d], y.every) for d in range(len(x.contiguous))
    )


def remainder(inst: Inst, facts: list[Axes]) -> Axes | None:
    if not is_number(inst):
        return None
    x, y = facts
    base = least(x.constant, y.constant)
    # Only a run that starts at a negative multiple of y does not go on from there: as in Triton,
    # no index is taken to be one.
    group = aligned_runs(x, y)
    return Axes(group, divisors(group, x, y), base, x.positive)


def compared(inst: Inst, facts: list[Axes]) -> Axes:
    """x < y holds for all or none of 2**k numbers from a multiple on, if y is a multiple."""
    x, y = facts
    base = least(x.constant, y.constant)
    if inst.op in (math.gt, math.le):
        x, y = y, x
    runs = aligned_runs(x, y) if inst.operands[0].type.dtype.is_integer else base
    ones = (1,) * len(base)
    return Axes(ones, ones, tuple(map(max, base, runs)))


def selected(inst: Inst, facts: list[Axes]) -> Axes | None:
    condition, x, y = facts
    group = least(condition.constant, x.contiguous, y.contiguous)
    equal = least(condition.constant, x.constant, y.constant)
    return Axes(group, divisors(group, x, y), equal, x.positive and y.positive)


def extremum(inst: Inst, facts: list[Axes]) -> Axes | None:
    if not is_number(inst):
        return None
    x, y = facts
    ones = (1,) * len(x.contiguous)
    either = x.positive or y.positive if inst.op is math.max else x.positive and y.positive
    return Axes(ones, divisors(ones, x, y), least(x.constant, y.constant), either)


def masked(inst: Inst, facts: list[Axes]) -> Axes | None:
    """Of the bits of x that are set in y as well."""
    if not is_number(inst):
        return None
    x, y = facts
    ones = (1,) * len(x.contiguous)
    each = tuple(max(x.at(d, 1), y.at(d, 1)) for d in range(len(ones)))
    return Axes(ones, each, least(x.constant, y.constant), x.positive or y.positive)


def cast(inst: Inst, facts: list[Axes]) -> Axes | None:
    source, to = inst.operands[0].type.dtype, inst.result.type.dtype
    if source.is_pointer and to.is_pointer and source.element_ty.bytes != to.element_ty.bytes:
        each = tuple(facts[0].at(d, 1) for d in range(len(facts[0].divisor)))
        return Axes((1,) * len(each), each, facts[0].constant)
    if source.is_pointer is to.is_pointer and not source.is_float and not to.is_float:
        return facts[0] if t.int1 not in (source, to) else None
    return None


def hinted(inst: Inst, facts: list[Axes]) -> Axes:
    (x,) = facts

    def promised(numbers: Numbers, name: str) -> Numbers:
        promises = inst.attrs.get(name) or ()
        return tuple(
            max(n, power_of_two(promises[d])) if d < len(promises) else n
            for d, n in enumerate(numbers)
        )

    dims = dims_of(inst.result.type)
    return Axes(
        least(promised(x.contiguous, "contiguous"), dims),
        promised(x.divisor, "multiple"),
        least(promised(x.constant, "constant"), dims),
        x.positive,
    )


def loaded(inst: Inst, facts: list[Axes]) -> Axes | None:
    return None if inst.attrs.get("volatile") else equal_where_all_are(facts)


RULES: dict[Op, Callable[[Inst, list[Axes]], Axes | None]] = {
    shape.constant: constant,
    shape.arange: arange,
    shape.splat: splat,
    shape.broadcast: broadcast,
    shape.reshape: reshape,
    shape.permute: permute,
    program.program_id: lambda inst, facts: unknown(inst.result.type, 1, True),
    program.num_programs: lambda inst, facts: unknown(inst.result.type, 1, True),
    math.add: added,
    math.sub: added,
    memory.offset: added,
    math.mul: multiplied,
    math.shl: shifted,
    math.shr: shifted,
    math.idiv: divided,
    math.irem: remainder,
    math.lt: compared,
    math.ge: compared,
    math.gt: compared,
    math.le: compared,
    math.select: selected,
    math.max: extremum,
    math.min: extremum,
    math.bit_and: masked,
    math.cast: cast,
    math.bitcast: cast,
    debug.hint: hinted,
    memory.load: loaded,
}
