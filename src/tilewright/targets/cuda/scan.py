"""Scans: running combinations within threads, then over the lanes of each warp, then over warps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir.inst import Inst
from tilewright.targets.cuda.combine import Combiner, Group
from tilewright.targets.cuda.emitter import Emitter
from tilewright.targets.cuda.layout import LANE_BITS, Layout, log2
from tilewright.targets.cuda.tiles import Tile, tile

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering

THREAD_BITS = 2  # of the axis that stay in a thread, before other dimensions are given lanes


def scan(x: Lowering, inst: Inst) -> list[Tile]:
    """At each place along the axis, everything up to it combined."""
    e, axis = x.e, inst.attrs["axis"]
    combiner = Combiner(x, inst)
    shape = inst.operands[0].type.shape
    plan = ScanLayout(shape, axis, log2(e.num_warps))
    first, count = plan.layout.span(axis)
    flip = ((1 << count) - 1 << first) if inst.attrs.get("reverse") else 0
    held = [x.in_layout(x.tile(v), plan.layout, flip) for v in inst.operands]
    groups = [
        tuple(e.b.cast(h.lanes[r], combiner.dtype(h.dtype)) for h in held)
        for r in range(plan.layout.registers)
    ]
    groups = Scan(e, combiner, plan).run(groups)
    out = []
    for k, (h, result) in enumerate(zip(held, inst.results, strict=True)):
        lanes = [e.b.cast(g[k], h.dtype) for g in groups]
        out.append(x.in_layout(tile(plan.layout, lanes), x.layout(result), flip))
    return out


class ScanLayout:
    """A layout in which an axis runs through registers, then lanes from lane 0 on, then warps."""

    def __init__(self, shape: tuple[int, ...], axis: int, warp_bits: int):
        first, count = Layout(shape, (), (), ()).span(axis)
        mine = [1 << first + k for k in range(count)]
        total = log2_of(shape)
        others = [1 << k for k in range(total) if not first <= k < first + count]
        warps_other = min(warp_bits, len(others))
        warps = min(warp_bits - warps_other, count)
        left = count - warps
        lanes = max(0, min(LANE_BITS, left - THREAD_BITS))
        lanes_other = min(LANE_BITS - lanes, len(others) - warps_other)
        lanes = min(LANE_BITS - lanes_other, left)
        registers = left - lanes
        self.registers = 1 << registers  # of a thread along the axis
        self.lanes = lanes
        self.warps = warps
        lane = mine[registers : registers + lanes] + others[warps_other:][:lanes_other]
        warp = mine[registers + lanes :] + others[:warps_other]
        rest = others[warps_other + lanes_other :]
        self.layout = Layout(
            shape,
            (*mine[:registers], *rest),
            (*lane, *[0] * (LANE_BITS - len(lane))),
            (*warp, *[0] * (warp_bits - len(warp))),
        )
        self.axis = axis


def log2_of(shape: tuple[int, ...]) -> int:
    return sum(map(log2, shape))


class Scan:
    """The running combination of the registers of a scan layout."""

    def __init__(self, e: Emitter, combine: Combiner, plan: ScanLayout):
        self.e = e
        self.combine = combine
        self.plan = plan

    def run(self, groups: list[Group]) -> list[Group]:
        n = self.plan.registers
        rows = [self.in_thread(groups[k : k + n]) for k in range(0, len(groups), n)]
        if not self.plan.lanes and not self.plan.warps:
            return [g for row in rows for g in row]
        totals = [self.in_warp(row[-1]) for row in rows]
        before = [self.shifted(total) for total in totals]
        has_before = self.lane_at_least(1)
        if self.plan.warps:
            earlier, has_earlier = self.over_warps(totals)
            before = [
                self.sum_of(w, has_earlier, p, has_before)
                for w, p in zip(earlier, before, strict=True)
            ]
            either = self.e.b.bit_or(has_earlier, has_before) if self.plan.lanes else has_earlier
            has_before = either
        return [
            self.after(p, has_before, g) for row, p in zip(rows, before, strict=True) for g in row
        ]

    def in_thread(self, row: list[Group]) -> list[Group]:
        out = [row[0]]
        for g in row[1:]:
            out.append(self.combine(out[-1], g))
        return out

    def lane_at_least(self, number: int) -> Lane | None:
        """Whether the lane's number along the axis is at least this."""
        if not self.plan.lanes:
            return None
        e = self.e
        with e.w.once():
            own = e.b.bit_and(e.thread, e.const((1 << self.plan.lanes) - 1))
            return e.b.ge(own, e.const(number))

    def up(self, group: Group, distance: int) -> Group:
        """The group of the lane so many before."""
        e = self.e
        clamp = (32 - (1 << self.plan.lanes)) << 8
        return tuple(e.shuffle_value(v, e.const(distance), "up", clamp) for v in group)

    def in_warp(self, total: Group) -> Group:
        """Each lane's total with those of all lanes before it."""
        for k in range(self.plan.lanes):
            other = self.up(total, 1 << k)
            total = self.after(other, self.lane_at_least(1 << k), total)
        return total

    def shifted(self, total: Group) -> Group:
        return self.up(total, 1) if self.plan.lanes else total

    def after(self, earlier: Group, there: Lane, group: Group) -> Group:
        """`group` preceded by `earlier`, where there is any."""
        both = self.combine(earlier, group, there)
        return tuple(self.e.b.select(there, x, y) for x, y in zip(both, group, strict=True))

    def sum_of(self, earlier: Group, has_earlier: Lane, before: Group, has_before: Lane) -> Group:
        """What comes before a thread: of earlier warps, and of earlier lanes, if there are any."""
        if has_before is None:
            return earlier
        select = self.e.b.select
        on = self.e.b.bit_and(has_earlier, has_before)
        both = self.combine(earlier, before, on)
        late = tuple(select(has_before, x, y) for x, y in zip(both, earlier, strict=True))
        return tuple(select(has_earlier, x, y) for x, y in zip(late, before, strict=True))

    def over_warps(self, totals: list[Group]) -> tuple[list[Group], Lane]:
        """Of each row what all earlier warps amount to, and whether there are any."""
        e, plan = self.e, self.plan
        count = 1 << plan.warps
        row = plan.layout.reduced(plan.axis)
        columns = [1 << k if k < plan.warps else 0 for k in range(len(row.warp))]
        lanes = [c << plan.warps for c in row.lane]
        others = [c << plan.warps for c in row.warp]
        constants = [c << plan.warps for c in row.split()[0]][:: plan.registers]
        size = count << row.bits
        words = [[e.to_word(v) for v in g] for g in totals]
        bases = [e.memory.take(size * w.dtype.bytes) for w in words[0]]
        store = e.of_thread((*lanes, *[a | b for a, b in zip(others, columns, strict=True)]))
        last = e.const((1 << plan.lanes) - 1)
        with e.w.once():
            own = e.b.bit_and(e.thread, e.const((1 << plan.lanes) - 1))
            is_last = e.b.eq(own, last)
        self.note(lanes, [w.dtype.bytes for w in words[0]], len(totals), count)
        with e.w.when(is_last.text):
            for k, base in enumerate(bases):
                bytes = words[0][k].dtype.bytes
                place = e.b.add(base, e.b.mul(store, e.const(bytes)))
                for g, constant in zip(words, constants, strict=True):
                    e.store_shared(e.plus(place, constant * bytes), [g[k]])
        e.barrier()
        load = e.of_thread((*lanes, *others))
        number = e.of_thread((*[0] * LANE_BITS, *columns))
        earlier = []
        for r, constant in enumerate(constants):
            parts = []
            for k, base in enumerate(bases):
                word = words[0][k].dtype
                place = e.b.add(base, e.b.mul(load, e.const(word.bytes)))
                parts.append(
                    [
                        e.from_word(
                            e.load_shared(e.plus(place, (constant + j) * word.bytes), word, 1)[0],
                            totals[r][k].dtype,
                        )
                        for j in range(count)
                    ]
                )
            earlier.append(
                self.before_warp([tuple(p[j] for p in parts) for j in range(count)], number)
            )
        e.memory.give_back(len(bases))
        return earlier, e.b.gt(number, e.const(0))

    def note(self, lanes: Sequence[int], sizes: Sequence[int], rows: int, count: int) -> None:
        """Say what is stored and loaded of each value, of so many bytes, in `over_warps`."""
        for size in sizes:
            columns = [c * size for c in lanes]
            self.e.note_shared("store", columns, size, rows, (1 << self.plan.lanes) - 1)
            self.e.note_shared("load", columns, size, rows * count)

    def before_warp(self, parts: list[Group], number: Lane) -> Group:
        """The parts of warps 0 to number - 1 combined."""
        e = self.e
        total = found = parts[0]
        for j in range(1, len(parts) - 1):
            total = self.combine(total, parts[j])
            here = e.b.eq(number, e.const(j + 1))
            found = tuple(e.b.select(here, x, y) for x, y in zip(total, found, strict=True))
        return found
