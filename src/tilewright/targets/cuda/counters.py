"""Counting compiled into a kernel: elements, sectors, shared memory, numbers that are none, flops.

Each warp sums what its lanes count, and one of them adds it to the words of `targets.counting`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst
from tilewright.targets.counting import (
    ELEMENTS,
    FIRST,
    INFINITIES,
    LEAST_UNITS,
    MAP,
    MASKED,
    NANS,
    REQUESTS,
    SITE_WORDS,
    UNITS,
)
from tilewright.targets.cuda.banks import SharedUse
from tilewright.targets.cuda.layout import LANE_BITS, Layout, log2
from tilewright.targets.cuda.tiles import Tile

if TYPE_CHECKING:
    from tilewright.targets.cuda.emitter import Emitter
    from tilewright.targets.cuda.memory import Memory, Vector

MATCH = "llvm.nvvm.match.any.sync.i64"
BALLOT = "llvm.nvvm.vote.ballot.sync"
SECTOR_BITS = 5
FLOPS_WORD = "@FLOPS@"  # stands for the number of the word after those of all sites


class Counters:
    """Writes the code that counts."""

    def __init__(self, e: Emitter, memory: Memory):
        self.e = e
        self.memory = memory
        self.maps: dict[int, Lane] = {}

    # --- adding

    def place(self, word: int | str) -> str:
        w = self.e.w
        if not self.e.specials.get("counters"):
            with w.once():
                base = w.value("inttoptr i64 %counters to ptr addrspace(1)", "counters")
                self.e.specials["counters"] = Lane(base, t.uint64)
        base = self.e.specials["counters"].text
        return w.value(f"getelementptr i64, ptr addrspace(1) {base}, i64 {word}")

    def update(self, kind: str, word: int | str, amount: Lane) -> None:
        wide = self.e.b.cast(amount, t.uint64)
        self.e.w.write(
            f"atomicrmw {kind} ptr addrspace(1) {self.place(word)}, {wide.typed} "
            'syncscope("device") monotonic'
        )

    def one_thread(self, bits: int) -> Lane:
        """Whether these bits of the thread's number are 0: one thread of a warp or a program."""
        key = f"owner {bits}"
        if key not in self.e.specials:
            with self.e.w.once():
                self.e.specials[key] = self.e.is_zero(bits)
        return self.e.specials[key]

    def add_once(self, amounts: dict[int | str, int]) -> None:
        """Add numbers that are known, once for the program."""
        wanted = {word: n for word, n in amounts.items() if n}
        if not wanted:
            return
        with self.e.w.when(self.one_thread((1 << self.e.thread_bits) - 1).text):
            for word, amount in wanted.items():
                self.update("add", word, self.e.b.const(amount, t.uint64))

    def add_by_warp(self, amounts: dict[int, Lane]) -> None:
        """Add what is the same in all lanes of a warp, once for each."""
        with self.e.w.when(self.one_thread((1 << LANE_BITS) - 1).text):
            for word, amount in amounts.items():
                self.update("add", word, amount)

    def warp_sum(self, x: Lane) -> Lane:
        for bit in range(LANE_BITS):
            x = self.e.b.add(x, self.e.shuffle(x, self.e.const(1 << bit), "bfly"))
        return x

    def population(self, layout: Layout, lanes: Sequence[Lane]) -> Lane:
        """In how many elements, of those that this thread owns, a condition holds."""
        e, b = self.e, self.e.b
        spare = layout.free_bits()[0]
        weights: dict[str, tuple[Lane, int]] = {}
        for r, lane in enumerate(lanes):
            if not r & spare:
                weights[lane.text] = lane, weights.get(lane.text, (lane, 0))[1] + 1
        total = b.const(0, t.uint32)
        for lane, weight in weights.values():
            total = b.add(total, b.select(lane, b.const(weight, t.uint32), b.const(0, t.uint32)))
        owner = e.owner(layout)
        return total if owner is None else b.select(owner, total, b.const(0, t.uint32))

    # --- accesses of global memory

    def access(
        self,
        inst: Inst,
        layout: Layout,
        vectors: Sequence[Vector],
        masks: Sequence[Lane | None],
        mask: Tile | None,
    ) -> None:
        """An access of a tile: `masks` of its vectors in this thread, `mask` of its elements."""
        word = self.memory.site(inst) * SITE_WORDS
        total = prod(layout.shape)
        if mask is None:
            self.add_once({word + ELEMENTS: total})
        else:
            on = self.warp_sum(self.population(layout, mask.lanes))
            self.add_once({word + MASKED: total})
            with self.e.w.when(self.one_thread((1 << LANE_BITS) - 1).text):
                self.update("add", word + ELEMENTS, on)
                self.update("sub", word + MASKED, on)
        bytes = inst.operands[0].type.dtype.element_ty.bytes
        self.mark(inst, vectors, masks, bytes)
        self.requests(word, vectors, masks, bytes)

    def mark(
        self, inst: Inst, vectors: Sequence[Vector], masks: Sequence[Lane | None], bytes: int
    ) -> None:
        """Note in the site's map, if there is one, which elements are touched."""
        param = self.memory.param(inst)
        if param is None:
            return
        b, m = self.e.b, self.memory
        table = self.map_of(m.site(inst))
        there = b.ne(table, b.const(0, t.uint64))
        low, high = Lane(f"%low{param}", t.uint64), Lane(f"%high{param}", t.uint64)
        size, one = b.sub(high, low), b.const(1, t.uint8)
        for v, mask in zip(vectors, masks, strict=True):
            start = b.sub(m.address(v.place), low)
            for k in range(len(v.registers)):
                offset = self.e.plus(start, k * bytes)
                on = self.e.both(self.e.both(mask, b.lt(offset, size)), there)
                element = b.shr(offset, b.const(log2(bytes), t.uint64))
                place = b.bitcast(b.add(table, element), t.pointer_to(t.uint8))
                m.store_byte(place, on, one)

    def map_of(self, site: int) -> Lane:
        if site not in self.maps:
            with self.e.w.once():
                text = f"load i64, ptr addrspace(1) {self.place(site * SITE_WORDS + MAP)}"
                self.maps[site] = self.e.b.value(text, t.uint64, 1)
        return self.maps[site]

    def requests(
        self, word: int, vectors: Sequence[Vector], masks: Sequence[Lane | None], bytes: int
    ) -> None:
        """Accesses of this warp, the sectors that they touch, and the fewest that could do."""
        b = self.e.b
        requests = sectors = least = b.const(0, t.uint32)
        for v, mask in zip(vectors, masks, strict=True):
            on = b.const(True, t.int1) if mask is None else mask
            active = self.ballot(on)
            touched = self.different(self.sector(v), on)
            wide = bytes * len(v.registers)
            moved = b.mul(self.bits(active), b.const(wide, t.uint32))
            could = b.shr(self.e.plus(moved, (1 << SECTOR_BITS) - 1), b.like(moved, SECTOR_BITS))
            any_on = b.ne(active, b.const(0, t.uint32))
            requests = b.add(requests, b.cast(any_on, t.uint32))
            sectors = b.add(sectors, touched)
            least = b.add(least, b.minimum(touched, could))
        self.add_by_warp(
            {word + REQUESTS: requests, word + UNITS: sectors, word + LEAST_UNITS: least}
        )

    def sector(self, v: Vector) -> Lane:
        address = self.memory.address(v.place)
        return self.e.b.shr(address, self.e.b.like(address, SECTOR_BITS))

    def different(self, key: Lane, on: Lane) -> Lane:
        """How many different keys there are in the lanes that are on."""
        e, b = self.e, self.e.b
        e.w.declare(f"declare i32 @{MATCH}(i32, i64)")
        own = b.select(on, key, b.const(-1, t.uint64))
        same = b.value(f"call i32 @{MATCH}(i32 -1, {own.typed})", t.uint32, 1)
        first = b.eq(b.bit_and(same, self.lanes_before()), b.const(0, t.uint32))
        return self.bits(self.ballot(b.bit_and(first, on)))

    def lanes_before(self) -> Lane:
        """The lanes of the warp with lower numbers, as bits."""
        e, b = self.e, self.e.b
        if "lanes before" not in e.specials:
            with e.w.once():
                lane = b.bit_and(b.bitcast(e.thread, t.uint32), b.const(31, t.uint32))
                one = b.const(1, t.uint32)
                e.specials["lanes before"] = b.sub(b.shl(one, lane), one)
        return e.specials["lanes before"]

    def ballot(self, on: Lane) -> Lane:
        """The lanes of the warp in which a condition holds, as bits."""
        self.e.w.declare(f"declare i32 @{BALLOT}(i32, i1)")
        return self.e.b.value(f"call i32 @{BALLOT}(i32 -1, {on.typed})", t.uint32, 1)

    def bits(self, word: Lane) -> Lane:
        return self.e.b.intrinsic("ctpop", word)

    # --- shared memory, arithmetic

    def shared(self, inst: Inst, use: SharedUse) -> None:
        """Accesses of shared memory that are made here."""
        word = self.memory.site(inst, "shared") * SITE_WORDS
        self.add_once(
            {word + REQUESTS: use.requests, word + UNITS: use.taken, word + LEAST_UNITS: use.turns}
        )

    def work(self, flops: int) -> None:
        self.add_once({FLOPS_WORD: flops})

    # --- numbers that are none

    def odd(
        self, site: int, layout: Layout, nans: Sequence[Lane], infinities: Sequence[Lane]
    ) -> None:
        """Count elements in which conditions hold, and note the first of them."""
        e, b = self.e, self.e.b
        bad = [b.bit_or(x, y) for x, y in zip(nans, infinities, strict=True)]
        anywhere = bad[0]
        for lane in {x.text: x for x in bad[1:]}.values():
            anywhere = b.bit_or(anywhere, lane)
        word = site * SITE_WORDS
        with e.w.when(b.ne(self.ballot(anywhere), b.const(0, t.uint32)).text):
            self.add_by_warp(
                {
                    word + NANS: self.warp_sum(self.population(layout, nans)),
                    word + INFINITIES: self.warp_sum(self.population(layout, infinities)),
                }
            )
            first = b.const(-1, t.uint64)
            program = b.shl(self.memory.program(), b.const(32, t.uint64))
            for lane, index in zip(bad, e.indices(layout), strict=True):
                wide = b.cast(b.bitcast(index, t.uint32), t.uint64)
                first = b.minimum(first, b.select(lane, b.bit_or(program, wide), b.like(first, -1)))
            self.update("umin", word + FIRST, first)
