"""Counting compiled into a kernel: elements by site, which elements were touched, flops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst
from tilewright.targets.counting import ELEMENTS, MAP, MASKED, SITE_WORDS

if TYPE_CHECKING:
    from tilewright.targets.cpu.evaluate import Evaluator
    from tilewright.targets.cpu.memory import Access, Memory

COUNTERS_SLOT = 4  # of the argument block


class Counters:
    """Writes the code that counts."""

    def __init__(self, e: Evaluator, memory: Memory):
        self.e = e
        self.memory = memory
        self.base: str = ""
        self.flops: list[tuple[int, int]] = []

    def words(self) -> str:
        """The address of the counters."""
        if not self.base:
            w = self.e.w
            with w.outside(0):
                slot = w.fresh("slot")
                w.write(f"{slot} = getelementptr i64, ptr %args, i64 {COUNTERS_SLOT}")
                self.base = w.fresh("counters")
                w.write(f"{self.base} = load ptr, ptr {slot}")
        return self.base

    def add(self, word: int | str, amount: Lane) -> None:
        if amount.known == 0:
            return
        w = self.e.w
        place = w.fresh()
        w.write(f"{place} = getelementptr i64, ptr {self.words()}, i64 {word}")
        w.write(f"{w.fresh()} = atomicrmw add ptr {place}, i64 {amount.text} monotonic")

    def row(self, inst: Inst, a: Access, count: Lane) -> None:
        """A whole row of an access, of which the first `count` lanes are on."""
        e, b = self.e, self.e.b
        site = self.memory.site(inst)
        self.add(site * SITE_WORDS + ELEMENTS, count)
        self.add(site * SITE_WORDS + MASKED, b.sub(e.row_count(), count))
        place, go = self.map_place(inst, site, e.lanes_at_start(a.pointer), a.size)
        if place is None:
            return
        zero = e.const(0)
        positive = b.maximum(count, zero)
        length = positive if a.contiguous else b.minimum(positive, e.const(1))
        e.w.fill(place.text, 1, length.text)
        self.end_map(go)

    def expect(self, inst: Inst) -> None:
        """A whole row of an access whose lanes are counted in the chunks that are not left out."""
        site = self.memory.site(inst)
        self.add(site * SITE_WORDS + MASKED, self.e.row_count())

    def lanes(self, inst: Inst, a: Access, mask: Lane, pointer: Lane, expected: bool) -> None:
        """The lanes of one chunk of an access; `expected`: all count as masked off until now."""
        e, b = self.e, self.e.b
        site, width = self.memory.site(inst), e.row.width
        mask, pointer = b.splat(mask, width), b.splat(pointer, width)
        on = self.population(mask)
        self.add(site * SITE_WORDS + ELEMENTS, on)
        off = b.sub(e.const(0 if expected else width), on)
        self.add(site * SITE_WORDS + MASKED, off)
        for i in range(width):
            self.one(inst, site, b.extract(pointer, i), b.extract(mask, i), a.size)

    def one(self, inst: Inst, site: int, pointer: Lane, mask: Lane, size: int) -> None:
        place, go = self.map_place(inst, site, pointer, size, mask)
        if place is None:
            return
        self.e.w.write(f"store i8 1, ptr {place.text}")
        self.end_map(go)

    def scalar(self, inst: Inst, a: Access, mask: Lane, pointer: Lane, lanes: Lane) -> None:
        """An access by one pointer for `lanes` elements."""
        e, b = self.e, self.e.b
        site = self.memory.site(inst)
        on = lanes if mask.text == "true" else b.select(mask, lanes, e.const(0))
        self.add(site * SITE_WORDS + ELEMENTS, on)
        self.add(site * SITE_WORDS + MASKED, b.sub(lanes, on))
        self.one(inst, site, pointer, mask, a.size)

    def population(self, mask: Lane) -> Lane:
        b, n = self.e.b, mask.width
        if n == 1:
            return b.cast(mask, t.int64)
        bits = b.value(f"bitcast {mask.typed} to i{n}", t.int1, 1).text
        b.require(f"declare i{n} @llvm.ctpop.i{n}(i{n})")
        count = b.value(f"call i{n} @llvm.ctpop.i{n}(i{n} {bits})", t.int1, 1).text
        return b.value(f"zext i{n} {count} to i64", t.int64, 1) if n < 64 else Lane(count, t.int64)

    def map_place(
        self, inst: Inst, site: int, pointer: Lane, size: int, mask: Lane | None = None
    ) -> tuple[Lane | None, str]:
        """The byte of an element in the site's map, in a block entered only if there is one."""
        param = self.memory.param(inst)
        if param is None:
            return None, ""
        b, w = self.e.b, self.e.w
        slot, table = w.fresh(), w.fresh()
        w.write(f"{slot} = getelementptr i64, ptr {self.words()}, i64 {site * SITE_WORDS + MAP}")
        w.write(f"{table} = load ptr, ptr {slot}")
        there = b.value(f"icmp ne ptr {table}, null", t.int1, 1)
        if mask is not None and mask.text != "true":
            there = b.bit_and(there, mask)
        low = b.bitcast(self.memory.extent(param).low, t.uint64)
        byte = b.sub(b.bitcast(pointer, t.uint64), low)
        element = b.idiv(byte, b.const(size, t.uint64))
        mark, go = w.new_label("mark"), w.new_label("go")
        w.write(f"br i1 {there.text}, label %{mark}, label %{go}")
        w.label(mark)
        return b.offset(Lane(table, t.pointer_to(t.uint8)), b.bitcast(element, t.int64)), go

    def end_map(self, go: str) -> None:
        self.e.w.write(f"br label %{go}")
        self.e.w.label(go)
