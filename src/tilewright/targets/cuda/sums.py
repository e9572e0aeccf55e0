"""Sums of scalars with bounds, as the tests of accesses compute with them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from tilewright.codegen.literals import Lane

INT32 = (-(1 << 31), (1 << 31) - 1)
INT64 = (-(1 << 63), (1 << 63) - 1)


@dataclass(frozen=True, eq=False)
class Counter:
    """The index of a loop: from `low` to `high`, as far as the loop is run at all."""

    low: Sum
    high: Sum


@dataclass(frozen=True)
class Sum:
    """A number plus multiples of scalars, and what it is known to be at least and at most."""

    number: int
    parts: tuple[tuple[Lane | Counter, int], ...]
    least: int
    most: int

    @property
    def has_counters(self) -> bool:
        return any(isinstance(part, Counter) for part, _ in self.parts)

    def plus(self, other: Sum, sign: int = 1) -> Sum:
        """The sum of both, or their difference."""
        other = other.times(sign)
        found = dict(self.parts)
        for part, by in other.parts:
            found[part] = found.get(part, 0) + by
        parts = tuple((part, by) for part, by in found.items() if by)
        number = self.number + other.number
        if not parts:
            return fixed(number)
        return Sum(number, parts, self.least + other.least, self.most + other.most)

    def times(self, by: int) -> Sum:
        ends = sorted((self.least * by, self.most * by))
        return Sum(self.number * by, tuple((p, c * by) for p, c in self.parts), *ends)

    def end(self, is_upper: bool) -> Sum:
        """At its largest over all turns of the loops, or else at its smallest."""
        out = self
        while out.has_counters:
            total = Sum(out.number, (), out.number, out.number)
            for part, by in out.parts:
                if isinstance(part, Counter):
                    more = (part.high if (by > 0) is is_upper else part.low).times(by)
                else:
                    more = Sum(0, ((part, by),), 0, 0)
                total = total.plus(more)
            out = Sum(total.number, total.parts, self.least, self.most)
        return out


def fixed(number: int) -> Sum:
    return Sum(number, (), number, number)


def scalar(part: Lane | Counter, least: int, most: int) -> Sum:
    return Sum(0, ((part, 1),), least, most)


def known(*sums: Sum) -> bool:
    """Whether no scalar is needed to tell them."""
    return not any(chain.from_iterable(s.parts for s in sums))


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
