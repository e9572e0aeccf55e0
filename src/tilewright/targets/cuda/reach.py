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
from tilewright.ops import debug, math, memory, shape
from tilewright.passes.affine import only_units
from tilewright.passes.constants import integer
from tilewright.passes.facts import interval

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering

INT32 = (-(1 << 31), (1 << 31) - 1)
INT64 = (-(1 << 63), (1 << 63) - 1)
INTS = {32: INT32, 64: INT64}
SWAPPED = {math.lt: math.gt, math.le: math.ge, math.gt: math.lt, math.ge: math.le}
Dims = tuple[int, ...] | None  # of each dimension that of the access; None: unknown
Key = tuple[int, tuple[int, ...]]


@dataclass(frozen=True)
class Sum:
    """A number plus multiples of scalars, and what it is known to be at least and at most."""

    number: int
    parts: tuple[tuple[Lane, int], ...]
    least: int
    most: int

    def plus(self, other: Sum, sign: int = 1) -> Sum:
        """The sum of both, or their difference."""
        other = other.times(sign)
        found = dict(self.parts)
        for lane, by in other.parts:
            found[lane] = found.get(lane, 0) + by
        parts = tuple((lane, by) for lane, by in found.items() if by)
        least, most = self.least + other.least, self.most + other.most
        number = self.number + other.number
        return Sum(number, parts, least, most) if parts else fixed(number)

    def times(self, by: int) -> Sum:
        ends = sorted((self.least * by, self.most * by))
        return Sum(self.number * by, tuple((p, c * by) for p, c in self.parts), *ends)


def fixed(number: int) -> Sum:
    return Sum(number, (), number, number)


@dataclass(frozen=True)
class Range:
    """All numbers of a tile lie between these two."""

    low: Sum
    high: Sum

    def plus(self, other: Range, sign: int = 1) -> Range:
        first, last = (other.low, other.high) if sign > 0 else (other.high, other.low)
        return Range(self.low.plus(first, sign), self.high.plus(last, sign))

    def times(self, by: int) -> Range:
        ends = self.low.times(by), self.high.times(by)
        return Range(*(ends if by >= 0 else ends[::-1]))


@dataclass(frozen=True)
class Limit:
    """What a mask says of a tile where it is on; holds if the tile `of` does not wrap around."""

    number: Sum
    is_upper: bool
    of: Value


class Reach:
    """Asks of the accesses of a kernel."""

    def __init__(self, x: Lowering, scalar: Callable[[Value], Lane | None] | None = None):
        self.x = x
        self.lane = scalar or x.scalar  # of a scalar; None where it is not known yet
        self.b = x.e.b
        self.range_of = interval(x.kernel)
        self.numbers: dict[Value, int] = {}
        self.known: dict[tuple, int] = {}
        self.conditions: list[Lane] = []
        self.between: dict[Lane, tuple[int, int]] = {}  # further conditions
        self.wide: dict[Lane, Lane] = {}  # as i64

    def inside(self, inst: Inst, room: Lane) -> Lane | None:
        """Whether all that an access touches lies in its argument; None where nobody can tell.

        `room` are the bytes from the argument's address to the end of its memory; what lies before
        the address is not looked at, and so may be inside all the same. The code is scalar, and
        the same in all threads.
        """
        access = inst.op.access
        pointer = inst.operands[access.pointer]
        self.conditions, self.between, self.wide = [], {}, {}
        limits: dict[Key, list[Limit]] = {}
        dims = tuple(range(len(pointer.type.shape)))
        if 0 <= access.mask < len(inst.operands):
            self.collect(inst.operands[access.mask], dims, limits)
        found = self.bounds(pointer, dims, limits)
        if found is None:
            return None
        size = pointer.type.dtype.element_ty.bytes
        self.non_negative(found.low)
        fine = self.b.le(self.emit(found.high.plus(fixed(size))), room)
        for condition in (*self.conditions, *starmap(self.is_between, self.between.items())):
            fine = self.x.e.both(fine, condition)
        return fine

    # --- code

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
        least = least if x.least < least else x.least
        most = most if x.most > most else x.most
        if least == x.least and most == x.most:
            return
        if len(x.parts) == 1 and x.parts[0][1] > 0:
            lane, scale = x.parts[0]
            least, most = -((x.number - least) // scale), (most - x.number) // scale
            before = self.between.get(lane, (least, most))
            self.between[lane] = max(least, before[0]), min(most, before[1])
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
        lane = self.lane(value)
        if lane is None:
            return None
        if lane.dtype.bits < 32:
            lane = self.b.cast(lane, t.int32)
        return Sum(0, ((lane, 1),), *(self.range_of(value) or INT64))

    def smaller(self, x: Sum, y: Sum, is_upper: bool) -> Sum:
        """The smaller of two numbers, or else the larger."""
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
        return Sum(0, ((lane, 1),), *ends).plus(apart)

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
            if limit.is_upper:
                found = Range(found.low, self.smaller(found.high, limit.number, True))
            else:
                found = Range(self.smaller(found.low, limit.number, False), found.high)
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
        return None if found is None else self.limited(found, value, here)

    def plain(self, value: Value, dims: Dims, limits: dict) -> Range | None:
        inst = value.inst
        if value.type.dtype.is_pointer:
            return self.pointer(value, dims, limits)
        if not value.type.shape:
            number = self.scalar(value)
            return None if number is None else Range(number, number)
        rule = RULES.get(inst.op) if inst is not None else None
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


def arange(r: Reach, inst: Inst, dims: Dims, limits: dict) -> Range:
    return Range(fixed(inst.attrs["start"]), fixed(inst.attrs["end"] - 1))


def constant(r: Reach, inst: Inst, dims: Dims, limits: dict) -> Range:
    number = fixed(int(inst.attrs["value"]))
    return Range(number, number)


def splat(r: Reach, inst: Inst, dims: Dims, limits: dict) -> Range | None:
    return r.bounds(inst.operands[0], (), {})


def passed(r: Reach, inst: Inst, dims: Dims, limits: dict) -> Range | None:
    return r.bounds(inst.operands[0], dims_before(inst, dims), limits)


def added(r: Reach, inst: Inst, dims: Dims, limits: dict) -> Range | None:
    x, y = (r.bounds(v, dims, limits) for v in inst.operands)
    if x is None or y is None:
        return None
    return x.plus(y, 1 if inst.op is math.add else -1)


def multiplied(r: Reach, inst: Inst, dims: Dims, limits: dict) -> Range | None:
    """By one number, which must not be negative: the code goes on only if it is not."""
    x, y = inst.operands
    if uniform_scalar(y) is None:
        x, y = y, x
    if uniform_scalar(y) is None:
        return None
    found, by = r.bounds(x, dims, limits), r.scalar(uniform_scalar(y))
    if found is None or by is None:
        return None
    if not by.parts:
        return found.times(by.number)
    r.non_negative(by)
    return Range(product(r, found.low, by), product(r, found.high, by))


def product(r: Reach, x: Sum, by: Sum) -> Sum:
    """Of a number and one that is not negative."""
    if not x.parts:
        return by.times(x.number)
    most = max(by.most, 0)
    ends = sorted((0, x.least * most, x.most * most))
    least = 0 if x.least >= 0 else ends[0]
    lane = r.b.mul(r.emit(x), r.emit(by))
    return Sum(0, ((lane, 1),), least, ends[-1])


def shifted(r: Reach, inst: Inst, dims: Dims, limits: dict) -> Range | None:
    by = integer(inst.operands[1])
    if by is None or not 0 <= by < 32:
        return None
    found = r.bounds(inst.operands[0], dims, limits)
    return None if found is None else found.times(1 << by)


def divided(r: Reach, inst: Inst, dims: Dims, limits: dict) -> Range | None:
    by = integer(inst.operands[1])
    found = r.bounds(inst.operands[0], dims, limits) if by and by > 0 else None
    if found is None:
        return None
    found = r.exact(found, inst.operands[0].type.dtype)
    r.non_negative(found.low)

    def quotient(x: Sum) -> Sum:
        if not x.parts:
            return fixed(max(x.number, 0) // by)
        dtype = r.dtype(x)
        lane = r.b.idiv(r.emit(x, dtype), r.b.const(by, dtype))
        return Sum(0, ((lane, 1),), 0, max(x.most, 0) // by)

    return Range(quotient(found.low), quotient(found.high))


def remainder(r: Reach, inst: Inst, dims: Dims, limits: dict) -> Range | None:
    """Of numbers that are not negative, by one that is positive."""
    x, y = inst.operands
    by = r.scalar(uniform_scalar(y)) if uniform_scalar(y) is not None else None
    found = r.bounds(x, dims, limits) if by is not None else None
    if found is None:
        return None
    found = r.exact(found, x.type.dtype)
    r.non_negative(found.low)
    r.non_negative(by.plus(fixed(-1)))
    return Range(fixed(0), r.smaller(found.high, by.plus(fixed(-1)), True))


def cast(r: Reach, inst: Inst, dims: Dims, limits: dict) -> Range | None:
    source, to = inst.operands[0].type.dtype, inst.result.type.dtype
    if not source.is_integer or source is t.int1 or not to.is_integer:
        return None
    found = r.bounds(inst.operands[0], dims, limits)
    if found is None:
        return None
    found = r.exact(found, source)
    return r.exact(found, to) if to.bits <= source.bits else found


def extremum(r: Reach, inst: Inst, dims: Dims, limits: dict) -> Range | None:
    x, y = (r.bounds(v, dims, limits) for v in inst.operands)
    if x is None or y is None:
        return None
    x, y = (r.exact(one, inst.result.type.dtype) for one in (x, y))
    is_min = inst.op is math.min
    return Range(r.smaller(x.low, y.low, is_min), r.smaller(x.high, y.high, is_min))


PASSING = {shape.broadcast, shape.reshape, shape.permute, debug.hint}
RULES = {
    shape.arange: arange,
    shape.constant: constant,
    shape.splat: splat,
    **dict.fromkeys(PASSING, passed),
    math.add: added,
    math.sub: added,
    math.mul: multiplied,
    math.shl: shifted,
    math.idiv: divided,
    math.irem: remainder,
    math.cast: cast,
    math.min: extremum,
    math.max: extremum,
}


def uniform_scalar(value: Value) -> Value | None:
    """The scalar that a tile repeats, or the constant; None if it is not uniform."""
    while value.inst is not None and value.inst.op in (*PASSING, shape.splat):
        value = value.inst.operands[0]
    if not value.type.shape or integer(value) is not None:
        return value
    return None


def moved_by(inst: Inst) -> tuple[Value, Value, int] | None:
    """(tile, what is added to it, with which sign), of a tile that is moved by one number."""
    if inst.op is math.add:
        for x, y in (inst.operands, inst.operands[::-1]):
            if uniform_scalar(y) is not None:
                return x, y, 1
    if inst.op is math.sub and uniform_scalar(inst.operands[1]) is not None:
        return *inst.operands, -1
    return None


def dims_before(inst: Inst, dims: Dims) -> Dims:
    """The dimensions of an operand in terms of the access, given those of the result."""
    if dims is None or inst.op in (shape.broadcast, debug.hint):
        return dims
    if inst.op is shape.permute:
        out = [0] * len(dims)
        for d, old in enumerate(inst.attrs["order"]):
            out[old] = dims[d]
        return tuple(out)
    if not only_units(inst):
        return None
    rest = iter(d for d, n in zip(dims, inst.result.type.shape, strict=True) if n > 1)
    return tuple(next(rest) if n > 1 else -1 for n in inst.operands[0].type.shape)
