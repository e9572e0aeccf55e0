"""Reductions: accumulators along a row, their one value at its end, and sums across a loop."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from math import inf, nan

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value, walk
from tilewright.ir.types import DType
from tilewright.later import later
from tilewright.targets.cpu.branches import meet
from tilewright.targets.cpu.buffers import read_raw, write_buffer
from tilewright.targets.cpu.evaluate import Evaluator
from tilewright.targets.cpu.forms import Form, Index, Steps, Uniform, Vector
from tilewright.targets.cpu.loops import Carried, Loop
from tilewright.targets.cpu.schedule import Anchor, Nest

commutes = later("tilewright.passes.commutes")
extremes = later("tilewright.targets.cpu.extremes")
regions = later("tilewright.targets.cpu.regions")
rows = later("tilewright.targets.cpu.rows")

OPPOSITE = {"max": "min", "min": "max"}
UNROLL = 4  # accumulators of a reduction: one costs 1.9x (latency), eight spill on streams
SHORT_REGION = 16  # instructions of a combining function that is worth as many copies


def identity(combine: str, dtype: DType) -> int | float:
    """The value that changes nothing when it is combined."""
    if combine in ("max", "min"):
        if dtype.is_float:
            return -inf if combine == "max" else inf
        low = -(1 << dtype.bits - 1) if dtype.is_signed else 0
        high = (1 << dtype.bits - (1 if dtype.is_signed else 0)) - 1
        return low if combine == "max" else high
    return {"add": -0.0 if dtype.is_float else 0, "mul": 1, "bit_and": -1}.get(combine, 0)


def keeps_order(inst: Inst) -> bool:
    """Whether the operands of a reduction's function may not change places."""
    if inst.attrs.get("combine") or inst.attrs.get("any_order"):
        return False
    return not commutes.commutes(inst.blocks[0])


@dataclass(eq=False, slots=True)
class Reduction:
    """A reduction along the vector axis while its row is written."""

    inst: Inst
    dtypes: list[DType]  # of the accumulators
    names: list[str]  # the ops that combine into each, "" for a region
    in_order: bool = False  # only neighbours may be combined, the earlier one first
    accumulators: list[list[Carried | Lane]] = field(default_factory=list)  # by unrolled copy

    @property
    def combine(self) -> str:
        return self.inst.attrs.get("combine", "")

    @property
    def is_long(self) -> bool:
        """Whether it combines by a function of many instructions."""
        return not self.combine and len(list(walk(self.inst.blocks[0]))) > SHORT_REGION

    @property
    def is_extreme(self) -> bool:
        """Whether this is the largest or least float; the opposite tells if there was any."""
        return len(self.names) > len(self.inst.operands)


class RowReductions:
    """What a nest reduces, while one of its rows is written."""

    def __init__(self, e: Evaluator, nest: Nest):
        self.e = e
        self.b = e.b
        self.axis = nest.axis
        self.unroll = 1  # chunks that are taken at once
        self.unrolled = e.true.lane  # whether a row had so many
        self.along = {
            a: self.start(a.inst)
            for a in nest.anchors
            if a.kind == "reduce" and a.inst.attrs["axis"] == nest.axis
        }

    def start(self, inst: Inst) -> Reduction:
        combine = inst.attrs.get("combine", "")
        names = [combine] * len(inst.operands)
        dtypes = [x.type.dtype for x in inst.operands]
        if combine and dtypes[0].is_float:
            # Sums round once, and fp32 holds the extremes of all narrower floats.
            dtypes = [t.float32 if d.bits < 32 else d for d in dtypes]
            if combine in OPPOSITE and not extremes.has_range(self.b, dtypes[0]):
                names, dtypes = [combine, OPPOSITE[combine]], dtypes * 2
        out = Reduction(inst, dtypes, names, keeps_order(inst))
        width = self.e.row.width
        for _ in range(UNROLL):
            out.accumulators.append(
                [
                    self.b.const(self.nothing(n, d) if n else 0, d, width)
                    for n, d in zip(names, dtypes, strict=True)
                ]
            )
        return out

    def nothing(self, combine: str, dtype: DType) -> int | float:
        """What an accumulator begins with; where NaN gives way to every number, that."""
        if combine in OPPOSITE and extremes.has_range(self.b, dtype):
            return nan
        return identity(combine, dtype)

    def copies(self, length: int, width: int) -> int:
        """How many chunks to take at once, each with accumulators of its own."""
        self.unroll = max(1, min(UNROLL if self.along else 1, length // width))
        if any(r.is_long or r.in_order for r in self.along.values()):
            self.unroll = 1
        return self.unroll

    def carry_into(self, loop: Loop, unroll: int) -> list:
        """Let a loop hand the accumulators of so many copies from turn to turn."""
        out = []
        for reduction in self.along.values():
            for u in range(unroll):
                for k in range(len(reduction.dtypes)):
                    entry = loop.carry(reduction.accumulators[u][k])
                    reduction.accumulators[u][k] = entry.phi
                    out.append((entry, (reduction, u, k)))
        return out

    def hand_on(self, carried: list) -> None:
        """Let the next turn of a loop begin with the accumulators of this one."""
        for entry, (reduction, u, k) in carried:
            entry.next = reduction.accumulators[u][k]

    def take_carried(self, carried: list) -> None:
        """Go on with the accumulators that a loop leaves."""
        for entry, (reduction, u, k) in carried:
            reduction.accumulators[u][k] = entry.phi

    def now(self) -> list[list[list[Lane]]]:
        """The accumulators, as they are."""
        return [[list(copy) for copy in r.accumulators] for r in self.along.values()]

    def go_on(self, accumulators: list[list[list[Lane]]]) -> None:
        """Go on with accumulators as they were."""
        for reduction, copies in zip(self.along.values(), accumulators, strict=True):
            reduction.accumulators = [list(copy) for copy in copies]

    def meet(self, one: tuple[list, str], two: tuple[list, str]) -> None:
        """Go on with the accumulators of two ways, each with the label of its end."""
        for k, reduction in enumerate(self.along.values()):
            reduction.accumulators = [
                [
                    x if x.text == y.text else meet(self.b, (x, one[1]), (y, two[1]))
                    for x, y in zip(copy, other, strict=True)
                ]
                for copy, other in zip(one[0][k], two[0][k], strict=True)
            ]

    def take_chunk(self, anchor: Anchor, at: tuple[Index, ...], copy: int) -> None:
        """Take the elements of a chunk in."""
        e, inst = self.e, anchor.inst
        values = [e.lanes_of(e.eval(x, at)) for x in inst.operands]
        reduction = self.along.get(anchor)
        if reduction is None:
            reduce_across(e, inst, at, values)
            return
        values = [self.b.splat(v, e.row.width) for v in values]
        values *= len(reduction.dtypes) // len(values)
        values = [self.b.cast(v, d) for v, d in zip(values, reduction.dtypes, strict=True)]
        old = reduction.accumulators[copy]
        cover = e.cover(at)
        if cover is not None:
            values = self.without_rest(reduction, values, e.prefix_lanes(cover))
        new = self.accumulate(reduction, old, values, self.rising(inst, at))
        if not reduction.combine:
            start = next(i.base for i in at if i.vector)
            first = self.b.eq(start, e.const(copy * e.row.width))
            new = [self.b.select(first, v, n) for v, n in zip(values, new, strict=True)]
        reduction.accumulators[copy] = list(new)

    def without_rest(self, reduction: Reduction, values: list[Lane], cover: Lane) -> list[Lane]:
        """Values that change nothing in the lanes that stick out of a piece."""
        nothing = [
            self.b.like(v, self.nothing(name, d))
            for v, name, d in zip(values, reduction.names, reduction.dtypes, strict=True)
        ]
        return [self.b.select(cover, v, n) for v, n in zip(values, nothing, strict=True)]

    def rising(self, inst: Inst, at: tuple[Index, ...]) -> list[int]:
        """The operands that grow along the row, as positions do."""
        if inst.attrs.get("combine"):
            return []
        row = tuple(self.e.whole_index(i) for i in at)
        return [k for k, x in enumerate(inst.operands) if rises(self.e.eval(x, row), self.e)]

    def accumulate(
        self,
        reduction: Reduction,
        xs: list[Lane],
        ys: list[Lane],
        rising: Collection[int] = (),
    ) -> list[Lane]:
        """Accumulators with more elements taken in."""
        if reduction.in_order and xs[0].width > 1:
            # As one row of twice the width, of which each lane and the next become one.
            even, odd = (list(range(i, 2 * xs[0].width, 2)) for i in (0, 1))
            pairs = list(zip(xs, ys, strict=True))
            xs = [rows.shuffle_pair(self.e, x, y, even) for x, y in pairs]
            ys = [rows.shuffle_pair(self.e, x, y, odd) for x, y in pairs]
        if not reduction.is_extreme:
            if reduction.combine in OPPOSITE and extremes.has_range(self.b, xs[0].dtype):
                return [extremes.extreme_number(self.b, reduction.combine, xs[0], ys[0])]
            return regions.combined(self.e, reduction.inst, xs, ys, rising)
        out = []
        for name, x, y in zip(reduction.names, xs, ys, strict=True):
            # An accumulator is never NaN, so one comparison decides (a single vmaxps).
            better = self.b.gt(y, x) if name == "max" else self.b.lt(y, x)
            out.append(self.b.select(better, y, x))
        return out

    def take_beyond(self, anchor: Anchor, value: Lane, left: Lane) -> None:
        """Take in as many elements beyond the clipped end, all of one value."""
        reduction = self.along[anchor]
        rest = self.beyond(reduction, value, left)
        reduction.accumulators[0] = self.accumulate(reduction, reduction.accumulators[0], rest)

    def beyond(self, reduction: Reduction, value: Lane, left: Lane) -> list[Lane]:
        """The elements beyond the clipped end as one vector for each accumulator."""
        e, b = self.e, self.b
        width = e.row.width
        out = []
        for name, dtype in zip(reduction.names, reduction.dtypes, strict=True):
            nothing = b.const(self.nothing(name, dtype), dtype)
            one = b.cast(value, dtype)
            if name == "add":
                one = b.mul(one, b.cast(left, dtype))
            some = b.select(b.gt(left, e.const(0)), one, nothing)
            empty = b.const(self.nothing(name, dtype), dtype, width)
            text = f"insertelement {empty.typed}, {some.typed}, i32 0"
            out.append(b.value(text, dtype, width) if width > 1 else some)
        return out

    def finish(self, index: list[Index]) -> None:
        """The values of a row that is over, put where their readers find them."""
        place = tuple(i for d, i in enumerate(index) if d != self.axis)
        for reduction in self.along.values():
            for value, lane in zip(reduction.inst.results, self.total(reduction), strict=True):
                put(self.e, value, place, self.b.cast(lane, value.type.dtype))

    def total(self, reduction: Reduction) -> Sequence[Lane]:
        """All accumulators of a row as one value."""
        copies = reduction.accumulators
        used = UNROLL if reduction.combine else self.unroll
        groups = [list(c) for c in copies[:used]]
        while len(groups) > 1:
            groups = [
                self.join(reduction, groups[i], groups[i + 1]) for i in range(0, len(groups), 2)
            ]
        lanes = self.fold(reduction, groups[0])
        return [self.extreme(reduction, *lanes)] if reduction.is_extreme else lanes

    def fold(self, reduction: Reduction, lanes: list[Lane]) -> Sequence[Lane]:
        """All lanes of a group as one."""
        if not reduction.in_order:
            return self.b.fold(
                lambda x, y: tuple(self.accumulate(reduction, list(x), list(y))), tuple(lanes)
            )
        while (width := lanes[0].width) > 1:
            first, second = (
                [rows.shuffle(self.e, x, list(range(i, width, 2))) for x in lanes] for i in (0, 1)
            )
            lanes = regions.combined(self.e, reduction.inst, first, second)
        return lanes

    def join(self, reduction: Reduction, xs: list[Lane], ys: list[Lane]) -> list[Lane]:
        """The accumulators of two copies as one; only the first may have seen a chunk."""
        both = self.accumulate(reduction, xs, ys)
        if reduction.combine:
            return both
        return [self.b.select(self.unrolled, v, x) for v, x in zip(both, xs, strict=True)]

    def extreme(self, reduction: Reduction, best: Lane, worst: Lane) -> Lane:
        """The best of all numbers, or NaN if there were none: then both are where they began."""
        untouched = self.b.gt(worst, best) if reduction.combine == "max" else self.b.lt(worst, best)
        return self.b.select(untouched, self.b.like(best, nan), best)


def rises(form: Form, e: Evaluator) -> bool:
    """Whether a row's elements are known to grow, none wrapping around."""
    if not isinstance(form, Steps) or not form.dtype.is_integer or form.narrow is not None:
        return False
    start, step = form.base.known, form.stride
    if start is None or not isinstance(step, int) or start < 0 or step <= 0:
        return False
    return start + step * e.row.length < 1 << form.dtype.bits - 1


def put(e: Evaluator, value: Value, place: tuple[Index, ...], lane: Lane) -> None:
    """Put the value of a reduction where its readers find it."""
    if value.type.shape:
        write_buffer(e, e.buffers[value], place, Uniform(lane, e.w.at))
    else:
        e.bind(value, (), Uniform(lane, e.w.at))


def reduce_across(e: Evaluator, inst: Inst, at: tuple[Index, ...], values: list[Lane]) -> None:
    """A reduction along a loop: combined into the buffer of the result, chunk by chunk."""
    b, axis = e.b, inst.attrs["axis"]
    place = tuple(i for d, i in enumerate(at) if d != axis)
    buffers = [e.buffers[r] for r in inst.results]
    values = [
        b.cast(b.splat(v, e.row.width), buf.type.dtype)
        for v, buf in zip(values, buffers, strict=True)
    ]
    old = [e.lanes_of(read_raw(e, buf, place)) for buf in buffers]
    new = regions.combined(e, inst, old, values)
    first = b.eq(at[axis].base, e.const(0))
    for buf, v, n in zip(buffers, values, new, strict=True):
        lane = b.select(first, v, n)
        write_buffer(e, buf, place, Vector(lane, e.w.at))
