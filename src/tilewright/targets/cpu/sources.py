"""Operands of products read from the arguments' own memory where a whole tile lies in bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.passes.affine import wrapped
from tilewright.targets.cpu.bounds import span
from tilewright.targets.cpu.extents import is_separable
from tilewright.targets.cpu.forms import Index, Uniform
from tilewright.targets.cpu.shapes import operand_index

if TYPE_CHECKING:
    from tilewright.targets.cpu.lower import Lowering
    from tilewright.targets.cpu.plan import Plan


@dataclass(frozen=True, slots=True)
class Needed:
    """How much of a tile in memory is needed along a dimension."""

    size: Uniform
    may_load_more: bool  # whether its load may be on for more than that


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A right operand that was not packed, if `here` is true, because few rows are multiplied."""

    here: Lane
    base: Lane
    lead: Lane
    flipped: bool  # whether its columns are contiguous, not its rows


@dataclass(frozen=True, slots=True)
class Source:
    """A load of a matrix in memory, and whether the operand is its transpose."""

    load: Inst
    transposed: bool

    @property
    def pointer(self) -> Value:
        return self.load.operands[0]

    @property
    def mask(self) -> Value | None:
        return self.load.operands[1] if len(self.load.operands) > 1 else None


def load_behind(plan: Plan, value: Value) -> tuple[Inst, bool] | None:
    """The load that an operand is, or is the transpose of, if nobody else reads it."""
    transposed = False
    while value.inst is not None and value not in plan.kept and value.inst.op.name == "permute":
        if tuple(value.inst.attrs["order"]) != (1, 0):
            return None
        transposed = not transposed
        value = value.inst.operands[0]
    inst = value.inst
    if inst is None or value in plan.kept or inst.op.name != "load" or len(value.type.shape) != 2:
        return None
    if len(plan.users[value]) != 1 or value.type.dtype is t.int1:
        return None
    if plan.tracked and plan.tracked & plan.sharing.roots(inst.operands[0]):
        return None
    return inst, transposed


def find_source(plan: Plan, value: Value) -> Source | None:
    """The load behind an operand, if it reads rows of neighbouring elements of one argument."""
    found = load_behind(plan, value)
    if found is None:
        return None
    source = Source(*found)
    if not plan.affine.is_affine(source.pointer, unless_wrapped=True):
        return None
    if source.mask is not None and not plan.affine.is_convex(source.mask):
        return None
    steps = plan.strides_inside(source.pointer)
    return source if value.type.dtype.bytes in steps else None


class Corners:
    """The addresses and masks at the corners of the part of a tile in memory that is needed."""

    def __init__(self, x: Lowering, source: Source, needed: tuple[Needed, Needed]):
        self.x, self.e, self.b = x, x.e, x.e.b
        self.source = source
        self.shape = source.pointer.type.shape
        self.needed = needed  # rows and columns as the tile lies in memory
        self.ends = [self.first_and_last(n.size) for n in needed]
        self.along = 1 if along_rows(x, source) else 0  # where addresses ascend

    def first_and_last(self, size: Uniform) -> list[Index]:
        if size.lane.known is not None:
            return [self.e.scalar_index(i) for i in sorted({0, size.lane.known - 1})]
        with self.x.e.w.outside(size.depth):
            last = self.b.maximum(self.b.sub(size.lane, self.e.const(1)), self.e.const(0))
        return [self.e.scalar_index(0), Index(last, size.depth)]

    def at(self, value: Value, index: tuple[Index, ...]) -> Lane:
        return self.e.lanes_of(self.e.eval(value, index))

    def address(self, index: tuple[Index, ...]) -> Lane:
        return self.b.bitcast(self.at(self.source.pointer, index), t.uint64)

    def all_inside(self) -> Lane:
        """Whether every needed element is on, in its argument and where the stride puts it, and
        every other one of the tile is masked off or in its argument."""
        corners = list(product(*self.ends))
        tests: dict[str, Lane] = {}
        for index in corners:
            tests |= {test.text: test for test in self.straight(self.source.pointer, index)}
        mask = self.source.mask
        if mask is not None:
            apart = is_separable(mask)
            for index in (corners[0], corners[-1]) if apart else corners:
                test = self.at(mask, index)
                tests[test.text] = test
        inside = self.in_argument(corners)
        beyond = [
            [*ends, self.e.scalar_index(n - 1)] if needed.may_load_more else ends
            for ends, needed, n in zip(self.ends, self.needed, self.shape, strict=True)
        ]
        others = [self.harmless(i) for i in product(*beyond) if i not in corners]
        return self.both([*tests.values(), *inside, *others])

    def both(self, tests: Iterable[Lane]) -> Lane:
        out = self.e.true.lane
        for test in tests:
            if test.text != "true":
                out = test if out.text == "true" else self.b.bit_and(out, test)
        return out

    def in_argument(self, corners: Sequence[tuple[Index, ...]]) -> list[Lane]:
        """Tests that these elements lie in their argument; along one dimension they ascend."""
        param = self.x.memory.param(self.source.load)
        if not self.x.memory.bounds or param is None:
            return []
        size = self.source.pointer.type.dtype.element_ty.bytes
        ends = span(self.x.memory, self.x.memory.extent(param), size)
        low, high = (self.b.bitcast(x, t.uint64) for x in ends)
        first, last = corners[0][self.along], corners[-1][self.along]
        lows = [self.address(i) for i in corners if i[self.along] is first]
        highs = [self.address(i) for i in corners if i[self.along] is last]
        checks = self.x.memory.checks
        plain = [] if checks is None else [checks.is_plain(param)]
        return [*plain, *(self.b.ge(x, low) for x in lows), *(self.b.le(x, high) for x in highs)]

    def harmless(self, index: tuple[Index, ...]) -> Lane:
        """Whether a load that need not happen would do no harm, so that it need not be told."""
        inside = self.both(self.in_argument([index]))
        if self.source.mask is None or inside.text == "true":
            return inside
        return self.b.bit_or(self.b.bit_not(self.at(self.source.mask, index)), inside)

    def straight(self, value: Value, index: tuple[Index, ...]) -> list[Lane]:
        """Tests that no index is wrapped around or clamped here."""
        inst = value.inst
        if inst is None or not value.type.shape or inst.op.name == "load":
            return []
        inner, index = wrapped(inst), operand_index(self.e, inst, index)
        if inner is None or self.x.plan.affine.is_affine(value):
            return [t for x in inst.operands for t in self.straight(x, index)]
        if inst.op.name == "select":
            test = self.at(inst.operands[0], index)
        else:
            test = self.b.eq(self.at(value, index), self.at(inner, index))
        return [test, *self.straight(inner, index)]

    def step(self, axis: int) -> Lane:
        """Bytes between neighbours along a dimension of the loaded tile."""
        if self.shape[axis] == 1:
            return self.e.const(0)
        index = [self.e.scalar_index(0)] * 2
        start = self.address(tuple(index))
        index[axis] = self.e.scalar_index(1)
        return self.b.bitcast(self.b.sub(self.address(tuple(index)), start), t.int64)


def along_rows(x: Lowering, source: Source) -> bool:
    """Whether neighbours in memory are neighbours in a row of the loaded tile."""
    return x.plan.strides_inside(source.pointer)[1] == source.pointer.type.dtype.element_ty.bytes


def is_flipped(x: Lowering, source: Source) -> bool:
    """Whether it is the columns of the operand that are contiguous in memory."""
    return along_rows(x, source) == source.transposed
