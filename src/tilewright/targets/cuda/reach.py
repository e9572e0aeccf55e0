"""How far an access reaches: the first and last address of its elements that are on, as scalars.

One test of these in scalar code shows that a whole tile lies inside of its argument.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import starmap
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.ir.types import DType
from tilewright.ops import math, memory, shape
from tilewright.passes.constants import integer
from tilewright.passes.facts import interval
from tilewright.targets.cuda import reach_rules
from tilewright.targets.cuda.reach_rules import PASSING, Dims, dims_before, moved_by, uniform_scalar
from tilewright.targets.cuda.sums import INT32, INT64, Range, Sum, fixed, scalar

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering

INTS = {32: INT32, 64: INT64}
SWAPPED = {math.lt: math.gt, math.le: math.ge, math.gt: math.lt, math.ge: math.le}
Key = tuple[int, tuple[int, ...]]


@dataclass(frozen=True)
class Limit:
    """What a mask says of a tile where it is on; holds if the tile `of` does not wrap around."""

    number: Sum
    is_upper: bool
    of: Value


class Reach:
    """Asks of the accesses of a kernel.

    `find` gives scalars, None where one is not known at the place of the test; `counts` says
    which limits of masks to make use of.
    """

    def __init__(
        self,
        x: Lowering,
        find: Callable[[Value], Sum | None] | None = None,
        counts: Callable[[Sum], bool] = lambda limit: True,
    ):
        self.x = x
        self.find = find or self.at_hand
        self.counts = counts
        self.b = x.e.b
        self.range_of = interval(x.kernel)
        self.numbers: dict[Value, int] = {}
        self.known: dict[tuple, int] = {}
        self.conditions: list[Lane] = []
        self.between: dict[Lane, tuple[int, int]] = {}  # further conditions
        self.wide: dict[Lane, Lane] = {}  # as i64

    def inside(self, inst: Inst, start: Lane, end: Lane) -> Lane | None:
        """Whether all that an access touches lies in its argument; None where nobody can tell.

        `start` is the argument's address, `end` that of the end of its memory; what lies before
        the address is not looked at, and so may be inside all the same. The code is scalar, and
        the same in all threads.
        """
        access = inst.op.access
        pointer = inst.operands[access.pointer]
        self.begin()
        limits: dict[Key, list[Limit]] = {}
        dims = tuple(range(len(pointer.type.shape)))
        if 0 <= access.mask < len(inst.operands):
            self.collect(inst.operands[access.mask], dims, limits)
        found = self.bounds(pointer, dims, limits)
        if found is None:
            return None
        self.non_negative(found.low)
        size = pointer.type.dtype.element_ty.bytes
        last = self.emit(found.high.plus(fixed(size)).end(True))
        return self.told(self.b.le(self.b.add(start, last), end))

    # --- code

    def begin(self) -> None:
        """Forget what was required."""
        self.conditions, self.between, self.wide = [], {}, {}

    def told(self, fine: Lane) -> Lane:
        """A condition, and all that is required for it to mean something."""
        for condition in (*self.conditions, *starmap(self.is_between, self.between.items())):
            fine = self.x.e.both(fine, condition)
        return fine

    def require(self, condition: Lane) -> None:
        self.conditions.append(condition)

    def emit(self, x: Sum, dtype: DType = t.int64) -> Lane:
        """The sum as an integer; `dtype` says how wide it must be."""
        total = None
        for lane, by in x.parts:
            part = self.as_wide(lane) if dtype is t.int64 else lane
            if by != 1:
                part = self.b.mul(part, self.b.const(by, dtype))
            total = part if total is None else self.b.add(total, part)
        return self.b.const(x.number, dtype) if total is None else self.x.e.plus(total, x.number)

    def as_wide(self, lane: Lane) -> Lane:
        if lane not in self.wide:
            self.wide[lane] = self.b.cast(lane, t.int64)
        return self.wide[lane]

    def dtype(self, *sums: Sum) -> DType:
        """Of the arithmetic that gives these sums."""
        narrow = all(
            INT32[0] <= x.least
            and x.most <= INT32[1]
            and all(p.dtype is t.int32 for p, _ in x.parts)
            for x in sums
        )
        return t.int32 if narrow else t.int64

    def holds(self, x: Sum, least: int, most: int) -> None:
        """Go on only if a sum lies between two numbers, as far as it is not known to."""
        if x.has_counters:
            self.holds(x.end(False), least, INT64[1])
            self.holds(x.end(True), INT64[0], most)
            return
        least, most = max(least, x.least), min(most, x.most)
        if least == x.least and most == x.most:
            return
        if len(x.parts) == 1 and x.parts[0][1] > 0:
            lane, scale = x.parts[0]
            ends = -((x.number - least) // scale), (most - x.number) // scale
            before = self.between.get(lane, ends)
            self.between[lane] = max(ends[0], before[0]), min(ends[1], before[1])
            return
        lane = self.emit(x)
        if least > x.least:
            self.require(self.b.ge(lane, self.b.const(least, t.int64)))
        if most < x.most:
            self.require(self.b.le(lane, self.b.const(most, t.int64)))

    def is_between(self, lane: Lane, ends: tuple[int, int]) -> Lane:
        """Whether a number lies between two: one comparison, of unsigned numbers, for both."""
        limits = INTS[lane.dtype.bits]
        least, most = max(limits[0], ends[0]), min(limits[1], ends[1])
        if not lane.dtype.is_signed:
            return self.b.le(lane, self.b.const(max(most, 0), lane.dtype))
        if most == limits[1]:
            return self.b.ge(lane, self.b.const(least, lane.dtype))
        word = t.uint32 if lane.dtype.bits == 32 else t.uint64
        apart = self.b.bitcast(self.x.e.plus(lane, -least), word)
        return self.b.le(apart, self.b.const(max(most - least, 0), word))

    def scalar(self, value: Value) -> Sum | None:
        """A scalar integer."""
        known = integer(value)
        if known is not None:
            return fixed(known)
        if not value.type.dtype.is_integer or value.type.dtype is t.int1:
            return None
        found = self.find(value)
        if found is not None and found.has_counters:
            self.exact(Range(found, found), value.type.dtype)
        return found

    def at_hand(self, value: Value) -> Sum:
        """A scalar that has been computed."""
        return self.of_lane(self.x.scalar(value), value)

    def of_lane(self, lane: Lane, value: Value) -> Sum:
        """The lane of a scalar as a sum."""
        if lane.dtype.bits < 32:
            lane = self.b.cast(lane, t.int32)
        return scalar(lane, *(self.range_of(value) or INT64))

    def smaller(self, x: Sum, y: Sum, is_upper: bool) -> Sum:
        """The smaller of two numbers, or else the larger; the second where that takes code."""
        if x.has_counters or y.has_counters:
            return y
        first, last = (x, y) if is_upper else (y, x)
        difference = first.plus(last, -1)
        if difference.most <= 0:
            return x
        if difference.least >= 0:
            return y
        apart = fixed(y.number if y.parts else x.number)  # n < m + 1 is the same, n + 1 may wrap
        x, y = x.plus(apart, -1), y.plus(apart, -1)
        pick, dtype = self.b.minimum if is_upper else self.b.maximum, self.dtype(x, y)
        lane = pick(self.emit(x, dtype), self.emit(y, dtype))
        choose = min if is_upper else max
        ends = choose(x.least, y.least), choose(x.most, y.most)
        return scalar(lane, *ends).plus(apart)

    def exact(self, found: Range, dtype: DType) -> Range:
        """The range, going on only if none of its numbers wraps around in a dtype."""
        if dtype.bits > 32:
            return found  # the sums above wrap around alike
        bits = dtype.bits - dtype.is_signed
        least, most = -(1 << bits) if dtype.is_signed else 0, (1 << bits) - 2
        self.holds(found.low, least, INT64[1])
        self.holds(found.high, INT64[0], most)
        low = replace(found.low, least=max(least, found.low.least))
        return Range(low, replace(found.high, most=min(most, found.high.most)))

    def non_negative(self, x: Sum) -> None:
        """Go on only if a number is not negative."""
        self.holds(x, 0, INT64[1])

    # --- which values are one

    def number(self, value: Value) -> int:
        """The same number for values that are computed alike."""
        if value not in self.numbers:
            inst = value.inst
            if inst is None or inst.blocks or not inst.op.is_pure or len(inst.results) != 1:
                key: tuple = (value,)
            else:
                operands = tuple(map(self.number, inst.operands))
                key = inst.op.name, repr(sorted(inst.attrs.items())), operands, value.type
            self.numbers[value] = self.known.setdefault(key, len(self.known))
        return self.numbers[value]

    def key(self, value: Value, dims: tuple[int, ...]) -> Key:
        return self.number(value), tuple(
            d for d, n in zip(dims, value.type.shape, strict=True) if n > 1
        )

    # --- what masks say

    def collect(self, mask: Value, dims: Dims, limits: dict[Key, list[Limit]]) -> None:
        """Add the limits that hold wherever a mask is on."""
        inst = mask.inst
        if inst is None or dims is None or not mask.type.shape:
            return
        if inst.op is math.bit_and:
            for part in inst.operands:
                self.collect(part, dims, limits)
        elif inst.op in PASSING:
            self.collect(inst.operands[0], dims_before(inst, dims), limits)
        elif inst.op in SWAPPED and inst.operands[0].type.dtype.is_signed:
            x, y = inst.operands
            if uniform_scalar(y) is not None:
                self.limit(x, inst.op, y, dims, limits)
            elif uniform_scalar(x) is not None:
                self.limit(y, SWAPPED[inst.op], x, dims, limits)

    def limit(self, value: Value, op, by: Value, dims: Dims, limits: dict) -> None:
        """`value op by` for all elements; told of what the value is a moved copy of as well."""
        number = self.scalar(uniform_scalar(by))
        if number is None:
            return
        is_upper = op in (math.lt, math.le)
        if op in (math.lt, math.gt):
            number = number.plus(fixed(-1 if is_upper else 1))
        whole = value
        while dims is not None:
            if self.counts(number):
                found = Limit(number, is_upper, whole)
                limits.setdefault(self.key(value, dims), []).append(found)
            inst = value.inst
            if inst is None or not inst.operands:
                return
            if inst.op in PASSING:
                dims = dims_before(inst, dims)
                value = inst.operands[0]
                continue
            step = moved_by(inst)
            if step is None:
                return
            value, other, sign = step
            amount = self.scalar(uniform_scalar(other))
            if amount is None:
                return
            number = number.plus(amount, -sign)

    def limited(self, found: Range, value: Value, limits: list[Limit]) -> Range:
        """The range of the elements that are on."""
        for limit in limits:
            if limit.of is not value:
                whole = self.bounds(limit.of, None, {})
                if whole is None:
                    continue
                self.exact(whole, limit.of.type.dtype)
            else:
                found = self.exact(found, value.type.dtype)
            # What a mask says counts alone, unless it is of a tile of known numbers: a mask that
            # goes beyond the argument is most often on there, in some program.
            end, new = (found.high if limit.is_upper else found.low), limit.number
            if not (limit.is_upper and end.parts):
                new = self.smaller(end, new, limit.is_upper)
            found = Range(found.low, new) if limit.is_upper else Range(new, found.high)
        return found

    # --- ranges

    def bounds(self, value: Value, dims: Dims, limits: dict[Key, list[Limit]]) -> Range | None:
        """Between what the numbers of a value lie: bytes from the argument for pointers."""
        if dims is None or not limits:
            return self.plain(value, None, {})
        here = limits.get(self.key(value, dims))
        if not here:
            return self.plain(value, dims, limits)
        found = self.plain(value, dims, {})
        return between(value, here) if found is None else self.limited(found, value, here)

    def plain(self, value: Value, dims: Dims, limits: dict) -> Range | None:
        inst = value.inst
        if value.type.dtype.is_pointer:
            return self.pointer(value, dims, limits)
        if not value.type.shape:
            number = self.scalar(value)
            if number is not None:
                return Range(number, number)
        rule = reach_rules.RULES.get(inst.op) if inst is not None else None
        before = len(self.conditions), dict(self.between)
        found = rule(self, inst, dims, limits) if rule is not None else None
        if found is None:
            del self.conditions[before[0] :]
            self.between = before[1]
            return self.static(value)
        return found

    def static(self, value: Value) -> Range | None:
        """What the text of the kernel says, if that is anything."""
        low, high = self.range_of(value) or INT64
        if not value.type.dtype.is_integer or high - low >= INT32[1]:
            return None
        return Range(fixed(low), fixed(high))

    def pointer(self, value: Value, dims: Dims, limits: dict) -> Range | None:
        inst = value.inst
        if inst is None:
            return Range(fixed(0), fixed(0)) if value in self.x.kernel.body.params else None
        if inst.op in PASSING or inst.op is shape.splat:
            before = dims_before(inst, dims) if inst.op in PASSING else ()
            return self.bounds(inst.operands[0], before, limits)
        if inst.op is not memory.offset:
            return None
        base, index = inst.operands
        far = self.bounds(base, dims, limits)
        near = None if far is None else self.bounds(index, dims, limits)
        if near is None:
            return None
        near = self.exact(near, index.type.dtype)
        return far.plus(near.times(inst.attrs["bytes"]))


def between(value: Value, limits: list[Limit]) -> Range | None:
    """What masks alone say, of a value of which nothing else is known."""
    ends = [
        next((x.number for x in limits if x.of is value and x.is_upper is is_upper), None)
        for is_upper in (False, True)
    ]
    return None if None in ends else Range(*ends)
