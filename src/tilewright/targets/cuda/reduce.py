"""Reductions: within threads, then over the lanes of each warp, then over warps."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir.inst import Inst
from tilewright.targets.cuda.combine import Combiner, Group
from tilewright.targets.cuda.emitter import Emitter
from tilewright.targets.cuda.layout import LANE_BITS, Layout, blocked, log2
from tilewright.targets.cuda.tiles import Tile, tile

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering


def reduce(x: Lowering, inst: Inst) -> list[Tile]:
    """Every element along the axis combined into one."""
    combiner = Combiner(x, inst)
    axis = inst.attrs["axis"]
    layout = source_layout(x.tile(inst.operands[0]).layout, axis, combiner.commutes, x.e)
    held = [x.tile(v, layout) for v in inst.operands]
    dtypes = [h.dtype for h in held]
    groups = [
        tuple(x.e.b.cast(h.lanes[r], combiner.dtype(h.dtype)) for h in held)
        for r in range(layout.registers)
    ]
    natural, groups = Reduction(x.e, combiner, layout, axis).run(groups)
    out = []
    for k, (dtype, result) in enumerate(zip(dtypes, inst.results, strict=True)):
        lanes = [x.e.b.cast(g[k], dtype) for g in groups]
        one = tile(natural, lanes)
        if not result.type.shape:
            one = Tile(x.layout(result), (lanes[0],), True)
        out.append(x.in_layout(one, x.layout(result)))
    return out


def source_layout(held: Layout, axis: int, commutes: bool, e: Emitter) -> Layout:
    """A layout to reduce from: each bit of a slot moves along one dimension at most.

    Where the order of operands matters, neighbours along the axis are combined first, so
    registers must come before lanes, and lanes before warps.
    """
    layout = held.compact()
    if is_plain(layout) and (commutes or in_order(layout, axis)):
        return layout
    order = [axis, *(d for d in reversed(range(len(layout.shape))) if d != axis)]
    size, threads = layout.shape[axis], 1 << e.thread_bits
    wanted = blocked(layout.shape, e.num_warps, order, max(1, size // threads))
    return wanted if commutes or in_order(wanted, axis) else along_registers(layout, axis, e)


def is_plain(layout: Layout) -> bool:
    """Whether every column is one bit of the index, each at most once, or none."""
    columns = [c for c in layout.columns if c]
    return all(c & c - 1 == 0 for c in columns) and len(set(columns)) == len(columns)


def in_order(layout: Layout, axis: int) -> bool:
    """Whether along an axis registers hold the lowest bits, then lanes, then warps."""
    parts = layout.along(axis)
    each = (parts.register, parts.lane, parts.warp)
    bits = [c for part in each for c in sorted(filter(None, part))]
    return bits == sorted(bits)


def along_registers(layout: Layout, axis: int, e: Emitter) -> Layout:
    """All of an axis in the registers of one thread, the rest over the threads."""
    first, count = layout.span(axis)
    mine = [1 << first + k for k in range(count)]
    others = [1 << k for k in range(layout.bits) if not first <= k < first + count]
    lane, rest = others[:LANE_BITS], others[LANE_BITS:]
    warps = log2(e.num_warps)
    warp, rest = rest[:warps], rest[warps:]
    lane += [0] * (LANE_BITS - len(lane))
    warp += [0] * (warps - len(warp))
    return Layout(layout.shape, (*mine, *rest), tuple(lane), tuple(warp))


class Reduction:
    """Combines the registers of a plain layout along one axis."""

    def __init__(self, e: Emitter, combine: Combiner, layout: Layout, axis: int):
        self.e = e
        self.combine = combine
        self.layout = layout
        first, count = layout.span(axis)
        self.mask = (1 << count) - 1 << first
        self.axis = axis

    def bits(self, columns: Sequence[int]) -> list[int]:
        """Which bits of a part of the slot move along the axis, those that move least first."""
        mine = [(c, k) for k, c in enumerate(columns) if c & self.mask]
        return [k for _, k in sorted(mine)]

    def run(self, groups: list[Group]) -> tuple[Layout, list[Group]]:
        """The layout of the result, whose copies all threads hold, and its registers."""
        groups = self.in_thread(groups)
        rest = [c for c in self.layout.register if not c & self.mask]
        layout = Layout(self.layout.shape, tuple(rest), self.layout.lane, self.layout.warp)
        groups = [self.in_warp(g) for g in groups]
        result = layout.reduced(self.axis)
        if self.bits(self.layout.warp):
            groups = self.over_warps(groups, result)
        return result, groups

    def in_thread(self, groups: list[Group]) -> list[Group]:
        bits = self.bits(self.layout.register)
        kept = dict(enumerate(groups))
        for bit in bits:
            one = 1 << bit
            kept = {r: self.combine(g, kept[r | one]) for r, g in kept.items() if not r & one}
        return [kept[r] for r in sorted(kept)]

    def in_warp(self, group: Group) -> Group:
        """Butterfly over the lanes; the one with the lower number is the first operand."""
        e = self.e
        for bit in self.bits(self.layout.lane):
            distance = e.const(1 << bit)
            other = tuple(e.shuffle_value(v, distance, "bfly") for v in group)
            if self.combine.commutes:
                group = self.combine(group, other)
                continue
            upper = e.parity(1 << bit, 0)
            first = [e.b.select(upper, o, v) for v, o in zip(group, other, strict=True)]
            second = [e.b.select(upper, v, o) for v, o in zip(group, other, strict=True)]
            group = self.combine(first, second)
        return group

    def over_warps(self, groups: list[Group], result: Layout) -> list[Group]:
        """Each warp's part to shared memory, from where every thread combines them all."""
        e = self.e
        warps = self.bits(self.layout.warp)
        count = 1 << len(warps)
        # The parts of an element side by side, so that they load at once; but where lanes hold
        # different elements, these side by side, or lanes would meet in one bank.
        apart = any(result.lane)
        shift, step = (0, 1 << result.bits) if apart else (len(warps), 1)
        columns = [0] * len(self.layout.warp)
        for k, bit in enumerate(warps):
            columns[bit] = step << k
        lanes = [c << shift for c in result.lane]
        others = [w | c << shift for w, c in zip(columns, result.warp, strict=True)]
        constants = [c << shift for c in result.split()[0]]
        words = [[e.to_word(v) for v in g] for g in groups]
        bases = []
        idle = self.copies(result, warps)
        active = e.is_zero(idle)
        store = e.of_thread((*lanes, *others))
        for k in range(len(groups[0])):
            bases.append(e.memory.take((count << result.bits) * words[0][k].dtype.bytes))
        at_once = 1 if apart else count
        self.note(lanes, [w.dtype.bytes for w in words[0]], len(groups), count, at_once, idle)
        with e.w.when(active.text) if active is not None else contextlib.nullcontext():
            for base, k in zip(bases, range(len(groups[0])), strict=True):
                size = words[0][k].dtype.bytes
                own = e.b.add(base, e.b.mul(store, e.const(size)))
                for g, constant in zip(words, constants, strict=True):
                    e.store_shared(e.plus(own, constant * size), [g[k]])
        e.barrier()
        load = e.of_thread((*lanes, *[c << shift for c in result.warp]))
        parts: list[list[list[Lane]]] = []
        for base, k in zip(bases, range(len(groups[0])), strict=True):
            word = words[0][k].dtype
            own = e.b.add(base, e.b.mul(load, e.const(word.bytes)))
            parts.append(
                [self.load_parts(own, c * word.bytes, word, count, step) for c in constants]
            )
        e.memory.give_back(len(bases))
        return [self.combined(r, parts, groups[0]) for r in range(len(groups))]

    def note(
        self,
        lanes: Sequence[int],
        sizes: Sequence[int],
        elements: int,
        count: int,
        at_once: int,
        idle: int,
    ) -> None:
        """Say what is stored and loaded of each value, of so many bytes, in `over_warps`."""
        for size in sizes:
            columns = [c * size for c in lanes]
            self.e.note_shared("store", columns, size, elements, idle)
            wide = min(at_once, max(1, 16 // size))
            self.e.note_shared("load", columns, wide * size, elements * -(-count // wide))

    def combined(self, r: int, parts: list[list[list[Lane]]], like: Group) -> Group:
        """The parts of all warps of one element as one group."""
        columns = [
            [self.e.from_word(w, v.dtype) for w in part[r]]
            for part, v in zip(parts, like, strict=True)
        ]
        groups = list(zip(*columns, strict=True))
        while len(groups) > 1:
            pairs = zip(groups[::2], groups[1::2], strict=True)
            groups = [self.combine(a, b) for a, b in pairs]
        return groups[0]

    def copies(self, result: Layout, warps: Sequence[int]) -> int:
        """The bits of a thread's number that tell apart those which hold the same part."""
        lane = sum(1 << k for k, c in enumerate(result.lane) if not c)
        warp = sum(1 << k for k, c in enumerate(result.warp) if not c and k not in warps)
        return lane | warp << LANE_BITS

    def load_parts(self, own: Lane, offset: int, word, count: int, step: int) -> list[Lane]:
        """All warps' parts of one element, `step` apart; side by side 16 bytes at most at once."""
        e, wide = self.e, max(1, 16 // word.bytes) if step == 1 else 1
        out = []
        for k in range(0, count, wide):
            n = min(wide, count - k)
            out += e.load_shared(e.plus(own, offset + k * step * word.bytes), word, n)
        return out
