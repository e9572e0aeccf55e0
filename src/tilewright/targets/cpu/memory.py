"""What loads, stores and atomics share: accesses taken apart, their masks, checks and sites."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.errors import Loc
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Kernel, Value
from tilewright.ir.types import DType
from tilewright.passes.affine import Affine
from tilewright.targets.checking import KINDS
from tilewright.targets.cpu.ahead import Ahead
from tilewright.targets.cpu.bounds import (
    Extent,
    Found,
    Places,
    Sure,
    any_lane,
    check_indices,
    check_lanes,
    check_row,
    leave_for,
    leave_if,
    row_inside,
    tile_inside,
)
from tilewright.targets.cpu.branches import value_where, where
from tilewright.targets.cpu.evaluate import Evaluator
from tilewright.targets.cpu.forms import Form, Index, Prefix, Steps, Uniform, Vector
from tilewright.targets.cpu.lane_memory import is_spaced
from tilewright.targets.cpu.launch import HEAD_SLOTS
from tilewright.targets.cpu.streams import Streams
from tilewright.targets.places import place_fields

if TYPE_CHECKING:
    from tilewright.targets.cpu.checks import Checks
    from tilewright.targets.cpu.counters import Counters

GRID_SLOT = 1


def site_record(inst: Inst, kind: str, param: int, dtype: DType) -> dict:
    """What a report or an error says of one access in the source."""
    loc = inst.loc or Loc("<unknown>", 0)
    return {
        "kind": kind,
        "param": param,
        **place_fields(loc),
        "dtype": dtype.name,
        "bytes": dtype.bytes,
        "expression": loc.text,
        "message": inst.attrs.get("message", ""),
    }


@dataclass(slots=True)
class Access:
    """One access at one index, taken apart."""

    pointer: Form
    mask: Form  # Uniform true where there is none
    size: int
    dtype: DType
    limit: Lane | None = None  # of a whole row: how many of its lanes are on

    @property
    def contiguous(self) -> bool:
        return isinstance(self.pointer, Steps) and self.pointer.stride == self.size

    @property
    def all_or_none(self) -> bool:
        """Whether the mask is one scalar that shows at run time."""
        return isinstance(self.mask, Uniform) and not self.unmasked

    @property
    def is_off(self) -> bool:
        return isinstance(self.mask, Uniform) and self.mask.lane.text == "false"

    @property
    def unmasked(self) -> bool:
        return isinstance(self.mask, Uniform) and self.mask.lane.text == "true"


@dataclass(slots=True)
class Tile:
    """The loops around the rows of a nest."""

    depth: int  # of the block that the nest stands in
    rare: bool = False  # rows are looked at one by one
    loops: dict[str, int] = field(default_factory=dict)  # by counter: how many turns
    inside: dict[tuple, Lane | None] = field(default_factory=dict)  # access -> if no row is out
    goes_on: bool = False  # whether the next turn of a loop around goes on where a row ends


@dataclass(eq=False, slots=True)
class Memory:
    """The memory rules of one kernel's lowering."""

    e: Evaluator
    kernel: Kernel
    roots: object  # Value -> set of parameter indices, or None
    affine: Affine
    bounds: bool
    streams: Streams
    ahead: Ahead
    counters: Counters | None = None
    checks: Checks | None = None
    extents: dict[int, Extent] = field(default_factory=dict)
    sites: list[dict] = field(default_factory=list)
    numbers: dict[Inst, int] = field(default_factory=dict)
    checked: set[tuple] = field(default_factory=set)
    expected: set[tuple] = field(default_factory=set)  # counted by row, less what chunks count
    inside: dict[tuple, Lane] = field(default_factory=dict)  # access -> if its row needs no masks
    index_spans: dict[tuple, tuple[str, tuple[Lane, Lane]]] = field(default_factory=dict)
    row_masks: dict[tuple, str] = field(default_factory=dict)  # access -> its mask as a limit
    row_values: dict[tuple, Lane] = field(default_factory=dict)  # loads by one pointer for a row
    tile: Tile = field(default_factory=lambda: Tile(0))  # whose rows are being written
    sure: Sure | None = None  # what holds in all of it, as has been asked
    pending: list[Found] | None = None  # checks that are to take one branch
    is_by_stride: bool = False  # whether a row has loads that go by a stride known at run time
    takes_near: bool = True  # whether loads of near places have a way of their own
    fault_label: str = "leave"
    may_be_alone: bool = False  # whether atomics may ask if another thread can meet them
    is_asking: bool = False
    may_fault: bool = False
    spare: str = ""  # memory that is there for accesses of no lane
    imports: dict[str, str] = field(default_factory=dict)  # what is asked before the programs
    moves: str | None = None  # in a loop that may wait: where changes of memory are counted

    # --- sites

    def site(self, inst: Inst) -> int:
        """The number of an access in the table of sites."""
        if inst not in self.numbers:
            other = "wait" if inst.op.name == "while" else "assert"
            kind = inst.op.access.kind if inst.op.access else other
            dtype = t.int1
            param = -1
            if inst.op.access:
                pointer = inst.operands[0]
                dtype = pointer.type.dtype.element_ty
                roots = self.roots(pointer)
                param = next(iter(roots)) if roots and len(roots) == 1 else -1
            self.numbers[inst] = len(self.sites)
            self.sites.append(site_record(inst, kind, param, dtype))
        return self.numbers[inst]

    def extent(self, param: int) -> Extent:
        if param not in self.extents:
            e = self.e

            def slot(offset: int) -> Lane:
                place = e.w.fresh("slot")
                number = HEAD_SLOTS + 3 * param + offset
                e.w.write(f"{place} = getelementptr i64, ptr %args, i64 {number}")
                return e.b.value(f"load i64, ptr {place}", t.int64, 1)

            with e.w.outside(0):
                self.extents[param] = Extent(slot(1), slot(2))
        return self.extents[param]

    # --- taking an access apart

    def mask_of(self, inst: Inst) -> Value | None:
        where = inst.op.access.mask
        return inst.operands[where] if 0 <= where < len(inst.operands) else None

    def access(self, inst: Inst, index: tuple[Index, ...]) -> Access:
        e = self.e
        pointer = e.eval(inst.operands[0], index)
        mask = self.mask_of(inst)
        if self.sure is not None and mask in self.sure.masks:
            mask = None
        form = e.eval(mask, index) if mask is not None else e.true
        dtype = inst.operands[0].type.dtype.element_ty
        return Access(pointer, form, dtype.bytes, dtype)

    def prepare(self, inst: Inst, index: tuple[Index, ...]) -> Access:
        """Look at an access over a whole row: note its limit, check its bounds at once."""
        a = self.access(inst, index)
        e = self.e
        key = (inst, tuple(i.key for i in index))
        if e.row.cuts is not None and e.row.start is None:
            return a  # of a first piece that is only sought
        self.is_by_stride = self.is_by_stride or self.may_be_spaced(a)
        if isinstance(a.mask, Prefix):
            a.limit = a.mask.limit
        elif isinstance(a.mask, Uniform) and not a.unmasked and e.row.start is None:
            a.limit = e.b.select(a.mask.lane, e.row_count(), e.const(0))
            self.row_masks[key] = a.limit.text
        if a.limit is not None and not (
            isinstance(a.pointer, Uniform) and isinstance(a.mask, Uniform)
        ):
            depth = a.mask.depth if isinstance(a.mask, Prefix) else e.w.at
            e.row.limits[a.limit.text] = Prefix(a.limit, depth)
        if isinstance(a.pointer, Steps) and isinstance(a.mask, (Prefix, Uniform)):
            self.check_whole(inst, index, a)
            self.checked.add(key)
            if self.checks is not None:
                self.checks.look_at_mask(inst, a.mask)
        elif isinstance(a.pointer, Steps) and self.checks is None:
            inside = self.row_inside(inst, index, a)
            if inside is not None:
                self.inside[key] = inside
        if self.checks is None and self.sure is None:  # checks read what is stored to
            self.streams.look(self, inst, key, a)
        if e.row.cuts is None and self.sure is None and not self.tile.rare:
            self.ahead.row(self, inst, a, self.streams.rows.get(key))
        if self.counters is not None:
            if key in self.checked and a.contiguous:
                self.counters.row(inst, a, self.active(a.mask))
            elif not isinstance(a.pointer, Uniform):
                self.counters.expect(inst)
                self.expected.add(key)
        return a

    def check_whole(self, inst: Inst, index: tuple[Index, ...], a: Access) -> None:
        """Check a row at once, unless its tile is known to lie inside."""
        inside = self.known_inside(inst, index, a)
        if inside is None:
            check_row(self, inst, a)
            return
        held, self.pending = self.pending, None
        with where(self.e.w, self.e.b.bit_not(inside)):
            check_row(self, inst, a)
        self.pending = held

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Checks of rows that are made meanwhile, in one scope, take one branch at the end."""
        self.pending = []
        yield
        found, self.pending = self.pending, None
        leave_for(self, found)

    def known_inside(self, inst: Inst, index: tuple[Index, ...], a: Access) -> Lane | None:
        """Whether a row lies inside its argument, if that is known of more than the row."""
        if self.checks is not None:
            return None
        if self.sure is not None:
            return self.sure.perhaps.get(inst)
        return tile_inside(self, inst, index, a)

    def row_inside(self, inst: Inst, index: tuple[Index, ...], a: Access) -> Lane | None:
        """Whether all elements of a row lie inside, for masks that are made lane by lane."""
        tile = self.known_inside(inst, index, a)
        if tile is None:
            return row_inside(self, inst, a)
        e = self.e
        outside = e.b.bit_not(tile)
        return value_where(e.w, e.b, outside, lambda: row_inside(self, inst, a), e.true.lane)

    # --- changes, as loops that wait count them

    def count_move(self, changed: Lane | None = None) -> None:
        """Note a change of memory, if there was one."""
        w = self.e.w
        before, after = w.fresh(), w.fresh()
        by = "1"
        if changed is not None:
            by = w.fresh()
            w.write(f"{by} = zext i1 {changed.text} to i64")
        w.write(f"{before} = load i64, ptr {self.moves}")
        w.write(f"{after} = add i64 {before}, {by}")
        w.write(f"store i64 {after}, ptr {self.moves}")

    # --- what is active, and in which argument

    def active(self, mask: Form) -> Lane:
        """How many elements of the row are not masked off."""
        e, b = self.e, self.e.b
        whole = e.row_count()
        if isinstance(mask, Prefix):
            return b.minimum(b.maximum(mask.limit, e.const(0)), whole)
        return whole if mask.lane.text == "true" else b.select(mask.lane, whole, e.const(0))

    def param(self, inst: Inst) -> int | None:
        roots = self.roots(inst.operands[0])
        return next(iter(roots)) if roots and len(roots) == 1 else None

    def bounded(self, inst: Inst) -> int | None:
        """The argument that an access must not leave, if that is tested here."""
        is_sure = self.sure is not None and inst in self.sure.inside
        return self.param(inst) if self.bounds and not is_sure else None

    # --- masks, and what is checked of a chunk

    def covered(self, mask: Form, index: tuple[Index, ...]) -> Form:
        """A mask without the lanes that stick out of a piece of a row."""
        e = self.e
        cover = e.cover(index)
        if cover is None:
            return mask
        if isinstance(mask, Uniform) and mask.lane.text == "true":
            return cover
        if isinstance(mask, Prefix):
            return Prefix(e.b.minimum(mask.limit, cover.limit), e.w.at)
        lanes = e.b.match(e.lanes_of(mask), e.prefix_lanes(cover))
        return Vector(e.b.bit_and(*lanes), e.w.at)

    def limit_at(self, inst: Inst, index: tuple[Index, ...]) -> Lane | None:
        """How many lanes of a row an access takes, if its mask is a prefix."""
        mask = self.mask_of(inst)
        if mask is None:
            return None
        form = self.e.eval(mask, tuple(self.e.whole_index(i) for i in index))
        return form.limit if isinstance(form, Prefix) else None

    def holds(self, inst: Inst, index: tuple[Index, ...], mask: Form) -> bool:
        """Whether the mask is known to be true in this part of the row."""
        if isinstance(mask, Uniform) and mask.lane.text == "true":
            return True
        key = (inst, tuple(self.e.whole_index(i).key for i in index))
        return self.row_masks.get(key) in self.e.row.true_masks

    def check_chunk(self, inst: Inst, index: tuple[Index, ...], a: Access) -> None:
        """Check the lanes of an access whose row could not be checked at once."""
        key = (inst, tuple(self.e.whole_index(i).key for i in index))
        checked = key in self.checked
        counted = self.counters is None or (checked and a.contiguous)
        if checked and counted:
            return
        mask = self.e.lanes_of(a.mask)
        if not checked:
            self.check_each(inst, index, a, mask, self.inside.get(key))
        if not counted:
            pointer = self.e.lanes_of(a.pointer)
            self.counters.lanes(inst, a, mask, pointer, key in self.expected)

    def check_each(
        self, inst: Inst, index: tuple[Index, ...], a: Access, mask: Lane, inside: Lane | None
    ) -> None:
        """Check the lanes of a chunk that are on, unless its row is inside anyway."""
        places = self.places(inst, index, a)
        if places is not None:
            check_indices(self, inst, places, mask, a.size)
        elif inside is None:
            check_lanes(self, inst, self.e.lanes_of(a.pointer), mask, a.size)
        else:
            with where(self.e.w, self.e.b.bit_not(inside)):
                check_lanes(self, inst, self.e.lanes_of(a.pointer), mask, a.size)

    def places(self, inst: Inst, index: tuple[Index, ...], a: Access) -> Places | None:
        """The addresses of gathered lanes, if they are one address and an index for each."""
        made = inst.operands[0].inst
        if self.checks is not None:  # whose tests are of addresses
            return None
        if not isinstance(a.pointer, Vector) or made is None or made.op.name != "offset":
            return None
        if inst.operands[0] in self.e.buffers or made.attrs["bytes"] != a.size:
            return None
        base, number = (self.e.eval(x, index) for x in made.operands)
        if not isinstance(base, Uniform) or not isinstance(number, Vector):
            return None
        dtype = number.dtype
        is_signed = dtype.is_signed and dtype.bits >= 32
        return Places(base.lane, base.depth, number.lane) if is_signed else None

    def addresses(self, inst: Inst, index: tuple[Index, ...], a: Access) -> Lane:
        """The address of each lane, made where it is used, so that gathers take it apart."""
        places = self.places(inst, index, a)
        lane = self.e.lanes_of(a.pointer)
        if places is not None:
            lane = self.e.b.offset(places.base, places.index)
        return self.e.b.splat(lane, self.e.row.width)

    def is_spaced(self, a: Access) -> bool:
        """Whether an access of a whole chunk goes by vectors though it isn't contiguous."""
        steps = isinstance(a.pointer, Steps) and isinstance(a.pointer.stride, int)
        return steps and self.e.row.width > 1 and is_spaced(a.pointer.stride, a.size)

    def may_be_spaced(self, a: Access) -> bool:
        """Whether it shows at run time that an access of a chunk can go by vectors."""
        steps = isinstance(a.pointer, Steps) and isinstance(a.pointer.stride, Lane)
        is_plain = a.dtype is not t.int1 and a.size >= 4 and self.e.row.width > 1
        return steps and is_plain and self.counters is None and self.checks is None

    # --- assertions

    def check_assert(self, inst: Inst, index: tuple[Index, ...]) -> None:
        """Stop the launch where a condition does not hold in a lane that is on."""
        e = self.e
        self.stop_unless(inst, [e.lanes_of(e.eval(x, index)) for x in inst.operands])

    def stop_unless(self, inst: Inst, lanes: list[Lane]) -> None:
        """The same for the condition, and the mask if there is one, as lanes."""
        e, b = self.e, self.e.b
        bad = b.bit_not(lanes[0])
        if len(lanes) > 1:
            bad = b.bit_and(*b.match(bad, lanes[1]))
        if self.checks is not None:
            kind = KINDS.index(inst.attrs.get("soft") or "assert")
            self.checks.note_if(any_lane(b, bad), inst, kind)
            return
        leave_if(self, inst, any_lane(b, bad), *[e.const(0)] * 3)
