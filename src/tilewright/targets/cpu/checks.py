"""Checks compiled into a kernel: races, unwritten memory, views, and NaN that are stored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.errors import UnsupportedError
from tilewright.ir import types as t
from tilewright.ir.inst import Inst
from tilewright.targets.checking import (
    DEADLOCK,
    FIRST_PARAM,
    MASKED,
    NAN,
    OWN,
    PARAM_WORDS,
    RACE,
    SPAN_HIGH,
    SPAN_LOW,
    UNDEFINED,
    VIEW,
    WRITTEN,
    record_word,
)
from tilewright.targets.cpu.bounds import Extent, any_lane
from tilewright.targets.cpu.branches import value_where, where
from tilewright.targets.cpu.counters import COUNTERS_SLOT
from tilewright.targets.cpu.forms import Form, Uniform
from tilewright.targets.cpu.groups import Group, is_ordering
from tilewright.targets.cpu.lane_memory import (
    gather,
    load_memory,
    masked_load,
    masked_store,
    scatter,
)
from tilewright.targets.cpu.shadow import Shadow, is_on

if TYPE_CHECKING:
    from tilewright.codegen.lanes import Lanes
    from tilewright.targets.cpu.memory import Access, Memory
    from tilewright.targets.cpu.plan import Plan

MOST_ROUNDS = 1 << 24  # of a `while` loop in one program
FEW_ROUNDS = 1 << 12  # ... once one did not end
PATTERN = 0xA7A7A7A7  # what fresh memory is filled with
WORDS = {1: t.uint8, 2: t.uint16, 4: t.uint32, 8: t.uint64}

NOTE_IR = """
define internal void @tw_note(ptr %record, i64 %pid, i64 %other) cold noinline {
  %programs = load i64, ptr %record
  %lastp = getelementptr i64, ptr %record, i64 1
  %pairsp = getelementptr i64, ptr %record, i64 2
  %last = load i64, ptr %lastp
  %pairs = load i64, ptr %pairsp
  %number = add i64 %pid, 1
  %again = icmp eq i64 %last, %number
  %one = select i1 %again, i64 0, i64 1
  %counted = add i64 %programs, %one
  store i64 %counted, ptr %record
  store i64 %number, ptr %lastp
  %full = icmp uge i64 %pairs, 8
  br i1 %full, label %spread, label %look
spread:
  br i1 %again, label %done, label %put
put:
  %turn = and i64 %counted, 3
  %later = add i64 %turn, 4
  %there = shl i64 %later, 1
  %at2 = getelementptr i64, ptr %pairsp, i64 %there
  %placep2 = getelementptr i64, ptr %at2, i64 1
  %otherp2 = getelementptr i64, ptr %at2, i64 2
  store i64 %pid, ptr %placep2
  store i64 %other, ptr %otherp2
  br label %done
look:
  %twice = shl i64 %pairs, 1
  %at = getelementptr i64, ptr %pairsp, i64 %twice
  %beforep = getelementptr i64, ptr %at, i64 0
  %before = load i64, ptr %beforep
  %some = icmp ne i64 %pairs, 0
  %same = icmp eq i64 %before, %other
  %known0 = and i1 %again, %same
  %known = and i1 %known0, %some
  br i1 %known, label %done, label %add
add:
  %placep = getelementptr i64, ptr %at, i64 1
  %otherp = getelementptr i64, ptr %at, i64 2
  store i64 %pid, ptr %placep
  store i64 %other, ptr %otherp
  %more = add i64 %pairs, 1
  store i64 %more, ptr %pairsp
  br label %done
done:
  ret void
}
"""


class Checks:
    """Writes the code that notes what may be a fault."""

    def __init__(self, m: Memory, plan: Plan, groups: dict[int, Group]):
        self.m, self.e, self.b = m, m.e, m.e.b
        self.groups = groups
        self.kernel = plan.kernel
        self.count = len(plan.kernel.params)
        self.table = ""
        self.words: dict[int, Lane] = {}
        self.spans: dict[int, Extent] = {}
        self.maps: dict[tuple[int, int], Lane] = {}
        self.shadow = Shadow(self)
        # Stores whose lanes may go to one place.
        stores = (inst for inst in plan.kernel.walk() if inst.op.effect == "write")
        self.folding = {i for i in stores if not plan.distinct(i.operands[0])}

    def may_change(self, inst: Inst) -> bool:
        """Whether an instruction reads memory that programs of the launch may change."""
        if inst.op.effect not in ("read", "atomic"):
            return False
        return self.groups[self.m.param(inst)].kinds != {"load"}

    def refuse_waits(self, waits: bool) -> None:
        """Raise where programs wait for each other, which must run at the same time."""
        if waits:
            raise UnsupportedError("its programs wait for each other", self.kernel.loc)

    def facts(self) -> dict:
        """What a launch must know: the parameters with cells, the bytes that one stands for and
        whether readers have some; and whether locks may put programs in an order."""
        tracked = {i: g for i, g in sorted(self.groups.items()) if g.is_tracked}
        return {
            "tracked": [(i, g.granule, g.has_readers) for i, g in tracked.items()],
            "ordering": is_ordering(self.kernel),
        }

    # --- the table

    def base(self) -> str:
        """The address of the table."""
        if not self.table:
            w = self.e.w
            with w.outside(0):
                slot = w.fresh("slot")
                w.write(f"{slot} = getelementptr i64, ptr %args, i64 {COUNTERS_SLOT}")
                self.table = w.fresh("table")
                w.write(f"{self.table} = load ptr, ptr {slot}")
        return self.table

    def word(self, number: int) -> Lane:
        """A word of the table, which stays the same throughout."""
        if number not in self.words:
            base, w = self.base(), self.e.w
            with w.outside(0):
                place = w.fresh("slot")
                w.write(f"{place} = getelementptr i64, ptr {base}, i64 {number}")
                self.words[number] = self.b.value(f"load i64, ptr {place}", t.int64, 1)
        return self.words[number]

    def param_word(self, param: int, which: int) -> Lane:
        return self.word(FIRST_PARAM + PARAM_WORDS * param + which)

    def span(self, param: int) -> Extent:
        """What an argument spans itself."""
        if param not in self.spans:
            low, high = (self.param_word(param, which) for which in (SPAN_LOW, SPAN_HIGH))
            self.spans[param] = Extent(low, high)
        return self.spans[param]

    def has(self, param: int, which: int) -> Lane:
        """Whether an argument has a map."""
        if (param, which) not in self.maps:
            word = self.param_word(param, which)
            with self.e.w.outside(0):
                self.maps[param, which] = self.b.ne(word, self.e.const(0))
        return self.maps[param, which]

    def is_plain(self, param: int) -> Lane:
        """Whether nothing of an argument is to be looked at but that accesses are inside."""
        extent, span, b = self.m.extent(param), self.span(param), self.b
        with self.e.w.outside(0):
            same = b.bit_and(b.eq(extent.low, span.low), b.eq(extent.high, span.high))
            mapped = b.bit_or(self.has(param, OWN), self.has(param, WRITTEN))
            return b.bit_and(same, b.bit_not(mapped))

    def note_if(self, bad: Lane, inst: Inst, kind: int, other: Lane | None = None) -> None:
        """Note that something may be wrong, where it may."""
        w = self.e.w
        base = self.base()
        with where(w, bad):
            self.note(base, inst, kind, other)

    def note(self, base: str, inst: Inst, kind: int, other: Lane | None = None) -> None:
        w = self.e.w
        w.declare(NOTE_IR)
        record = w.fresh("record")
        number = record_word(self.count, self.m.site(inst), kind)
        w.write(f"{record} = getelementptr i64, ptr {base}, i64 {number}")
        met = "-1" if other is None else other.text
        w.write(f"call void @tw_note(ptr {record}, i64 %pid, i64 {met})")

    # --- what is looked at

    def ends(self, inst: Inst, rounds: Lane, test: Lane) -> Lane:
        """The condition of a `while` loop, which is left too, and noted, after very many rounds."""
        b, w = self.b, self.e.w
        place = w.fresh("record")
        number = record_word(self.count, self.m.site(inst), DEADLOCK)
        w.write(f"{place} = getelementptr i64, ptr {self.base()}, i64 {number}")
        noted = b.ne(b.value(f"load i64, ptr {place}", t.int64, 1), self.e.const(0))
        most = b.select(noted, self.e.const(FEW_ROUNDS), self.e.const(MOST_ROUNDS))
        few = b.lt(rounds, most)
        self.note_if(self.b.bit_and(test, self.b.bit_not(few)), inst, DEADLOCK)
        return self.b.bit_and(test, few)

    def look_at_view(self, inst: Inst, beyond: Lane) -> None:
        """Note an access beyond what an argument spans, perhaps inside its memory."""
        self.note_if(beyond, inst, VIEW)

    def look_at_mask(self, inst: Inst, mask: Form) -> None:
        """Note a load of a whole row some lanes of which are off."""
        if inst.op.name == "load" and not (isinstance(mask, Uniform) and is_on(mask.lane)):
            off = self.b.lt(self.m.active(mask), self.e.row_count())
            self.note_if(off, inst, MASKED)

    def loaded(self, inst: Inst, a: Access, mask: Lane, lane: Lane) -> None:
        """Lanes that were read; those that the mask leaves out hold anything."""
        if not is_on(mask) and not self.e.row.is_rest:  # whose lanes may stick out of a piece
            self.note_if(any_lane(self.b, self.b.bit_not(mask)), inst, MASKED)
        with self.where_on(mask):
            if self.groups[self.m.param(inst)].is_tracked:
                self.shadow.read(inst, a, mask, lane.width)
            self.look_for_pattern(inst, a, mask, lane)
            self.look_for_own(inst, a, mask, lane.width)

    def stored(self, inst: Inst, a: Access, mask: Lane, lane: Lane) -> None:
        """Lanes that are about to be written."""
        with self.where_on(mask):
            if self.groups[self.m.param(inst)].is_tracked:
                there = get(self, a, mask, lane.width)
                on = self.masked(self.b.ne(there, self.b.bitcast(lane, there.dtype)), mask)
                with self.where_on(on):
                    self.shadow.write(inst, a, on, lane.width)
            self.look_for_nan(inst, mask, lane)
            self.look_for_own(inst, a, mask, lane.width)
            self.mark_written(inst, a, mask, lane.width)

    def after_store(self, inst: Inst, a: Access, mask: Lane, lane: Lane) -> None:
        """Lanes that have been written, perhaps several of them to one place."""
        with self.where_on(mask):
            there = get(self, a, mask, lane.width)
            lost = self.b.ne(there, self.b.bitcast(lane, there.dtype))
            self.note_if(any_lane(self.b, self.masked(lost, mask)), inst, RACE)

    def changed(self, inst: Inst, a: Access, mask: Lane, lane: Lane) -> None:
        """Lanes that an atomic operation is about to combine with memory."""
        with self.where_on(mask):
            if self.groups[self.m.param(inst)].is_tracked:
                self.shadow.write(inst, a, mask, lane.width)
            self.look_for_pattern(inst, a, mask, get(self, a, mask, lane.width))
            self.look_for_nan(inst, mask, lane)
            self.look_for_own(inst, a, mask, lane.width)
            self.mark_written(inst, a, mask, lane.width)

    @contextmanager
    def where_on(self, mask: Lane) -> Iterator[None]:
        """What is written inside runs where a scalar is on, or for a vector in any case."""
        if mask.width > 1 or is_on(mask):
            yield
        else:
            with where(self.e.w, mask):
                yield

    def look_for_nan(self, inst: Inst, mask: Lane, lane: Lane) -> None:
        """Note NaN and infinities."""
        if lane.dtype.is_float:
            wide = self.b.cast(lane, t.float32) if lane.dtype.bits < 32 else lane
            bad = self.b.is_nan(self.b.sub(wide, wide))
            self.note_if(any_lane(self.b, self.masked(bad, mask)), inst, NAN)

    def masked(self, bad: Lane, mask: Lane) -> Lane:
        """Without the lanes that are off."""
        return bad if is_on(mask) else self.b.bit_and(*self.b.match(bad, mask))

    def look_for_pattern(self, inst: Inst, a: Access, mask: Lane, lane: Lane) -> None:
        """Note elements that hold what memory allocated as empty is filled with."""
        b, w = self.b, self.e.w
        param = self.m.param(inst)
        bad = self.masked(has_pattern(b, lane), mask)
        with where(w, b.bit_and(any_lane(b, bad), self.has(param, WRITTEN))):
            written = get(self, a, bad, lane.width, self.moved(param, a, lane.width, WRITTEN))
            bad = b.bit_and(bad, b.eq(written, b.like(written, 0)))
            if a.size < 4:
                bad = b.bit_and(bad, self.is_in_pattern(param, a, bad))
            self.note_if(any_lane(b, bad), inst, UNDEFINED)

    def moved(self, param: int, a: Access, width: int, which: int) -> Lane:
        """Places in a map of bytes, for those of elements."""
        b = self.b
        far = b.sub(self.param_word(param, which), self.m.extent(param).low)
        pointer = a.pointer.base if is_row(a, width) else b.splat(self.e.lanes_of(a.pointer), width)
        return b.offset(pointer, far, t.int8)

    def is_in_pattern(self, param: int, a: Access, on: Lane) -> Lane:
        """Whether the words around small elements hold the pattern, but for what was written."""
        b, extent = self.b, self.m.extent(param)
        address = b.bitcast(b.splat(self.e.lanes_of(a.pointer), on.width), t.int64)
        last = b.maximum(b.sub(b.sub(extent.high, extent.low), self.e.const(4)), self.e.const(0))
        offset = b.minimum(b.bit_and(b.sub(address, extent.low), b.const(-4, t.int64)), last)
        words = []
        for start in (extent.low, self.param_word(param, WRITTEN)):
            place = b.bitcast(b.add(offset, start), t.pointer_to(t.uint32))
            if on.width == 1:
                words.append(load_memory(b, place, t.uint32, 1))
            else:
                words.append(gather(b, place, on, b.const(0, t.uint32, on.width), 1))
        data, written = words
        other = b.bit_xor(data, b.like(data, PATTERN))
        other = b.bit_and(other, b.bit_not(b.mul(written, b.like(written, 255))))
        return b.eq(other, b.like(other, 0))

    def look_for_own(self, inst: Inst, a: Access, mask: Lane, width: int) -> None:
        """Note elements between those that a view has."""
        b, param = self.b, self.m.param(inst)
        span = self.span(param)
        with where(self.e.w, self.has(param, OWN)):
            address = b.bitcast(b.splat(self.e.lanes_of(a.pointer), width), t.int64)
            size = self.kernel.params[param].type.dtype.element_ty.bytes
            beyond = b.sub(b.sub(span.high, span.low), self.e.const(1))
            outside = b.const(False, t.int1, width)
            for byte in {0, a.size - 1}:
                at = b.sub(b.add(address, b.const(byte, t.int64)), span.low)
                inside = b.bit_and(b.ge(at, b.const(0, t.int64)), b.le(at, beyond))
                on = self.masked(inside, mask)
                at = b.shr(at, b.like(at, size.bit_length() - 1))
                first = b.bitcast(self.param_word(param, OWN), t.pointer_to(t.uint8))
                own = load_each(self, b.offset(first, at), on)
                outside = b.bit_or(outside, b.bit_and(on, b.eq(own, b.like(own, 0))))
            self.note_if(any_lane(b, outside), inst, VIEW)

    def mark_written(self, inst: Inst, a: Access, mask: Lane, width: int) -> None:
        """Note that bytes of memory that was allocated as empty have been written."""
        b, param = self.b, self.m.param(inst)
        with where(self.e.w, self.has(param, WRITTEN)):
            place = self.moved(param, a, width, WRITTEN)
            ones = b.const(0x0101010101010101 & ((1 << 8 * a.size) - 1), WORDS[a.size], width)
            if width == 1 or (is_on(mask) and is_row(a, width)):
                self.e.w.write(f"store {ones.typed}, ptr {place.text}, align 1")
            elif is_row(a, width):
                masked_store(b, place, mask, ones, 1)
            else:
                scatter(b, place, b.splat(mask, width), ones, 1)


def is_row(a: Access, width: int) -> bool:
    """Whether a chunk is one of neighbours."""
    return width > 1 and a.contiguous


def get(checks: Checks, a: Access, mask: Lane, width: int, places: Lane | None = None) -> Lane:
    """The bits of elements in memory, or of as much at other places."""
    b, kind = checks.b, WORDS[a.size]
    if places is None:
        pointer = a.pointer.base if is_row(a, width) else checks.e.lanes_of(a.pointer)
        places = pointer if is_row(a, width) else b.splat(pointer, width)
    if width == 1 or (is_row(a, width) and is_on(mask)):
        return load_memory(b, places, kind, width)
    if is_row(a, width):
        return masked_load(b, places, mask, b.const(0, kind, width), 1)
    return gather(b, places, mask, b.const(0, kind, width), 1)


def load_each(checks: Checks, places: Lane, on: Lane) -> Lane:
    """Bytes, where it is on; 1 where it is not."""
    b = checks.b
    if on.width > 1:
        return gather(b, places, on, b.const(1, t.uint8, on.width), 1)
    one = b.const(1, t.uint8)
    return value_where(checks.e.w, b, on, lambda: load_memory(b, places, t.uint8, 1), one)


def has_pattern(b: Lanes, lane: Lane) -> Lane:
    """In which lanes all bytes are those that fill memory allocated as empty."""
    if lane.dtype is t.int1:
        return b.const(True, t.int1, lane.width)
    size = lane.dtype.bytes
    bits = b.bitcast(lane, WORDS[size])
    return b.eq(bits, b.like(bits, 0xA7A7A7A7A7A7A7A7 & ((1 << 8 * size) - 1)))
