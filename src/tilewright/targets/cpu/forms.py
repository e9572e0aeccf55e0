"""What a value looks like along the vector axis: uniform, a progression, a prefix, or lanes."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.codegen.literals import Lane
from tilewright.ir.types import DType


@dataclass(frozen=True, slots=True)
class Uniform:
    """The same scalar in every lane."""

    lane: Lane
    depth: int

    @property
    def dtype(self) -> DType:
        return self.lane.dtype


@dataclass(frozen=True, slots=True)
class Steps:
    """`base + stride * lane`, of integers (stride in units) or pointers (stride in bytes).

    The stride is a Python int where it is known, else an i64 scalar. One that was widened from
    `narrow` wraps around as that does where lanes are made of it.
    """

    base: Lane
    stride: int | Lane
    depth: int
    narrow: DType | None = None

    @property
    def dtype(self) -> DType:
        return self.base.dtype


@dataclass(frozen=True, slots=True)
class Prefix:
    """A mask that is true in the lanes below `limit`, an i64 scalar of any sign."""

    limit: Lane
    depth: int
    is_near: bool = False  # whether the limit is no number that 32 bits do not hold


@dataclass(frozen=True, slots=True)
class Vector:
    """Lanes in a register."""

    lane: Lane
    depth: int

    @property
    def dtype(self) -> DType:
        return self.lane.dtype


# `None` stands for a value that varies along the axis in no known way, where a whole row is asked
# for and so no registers exist.
Form = Uniform | Steps | Prefix | Vector | None


@dataclass(frozen=True, slots=True)
class Index:
    """Where along one dimension: a scalar, `lane 0 at base` of a vector, or the whole row."""

    base: Lane
    depth: int
    vector: bool = False
    whole: bool = False
    off: bool = False  # the part of the whole row in which every mask is off

    @property
    def key(self) -> tuple:
        return (self.base.text, self.vector, self.whole, self.off)

    def beyond(self, limit: Lane) -> Index:
        """The part of the row from `limit` on, where its masks are off."""
        return Index(limit, self.depth, True, True, True)
