"""Cells beside memory that remember who wrote and who read each element, in checked code.

Programs run one after the other. Numbers of programs count on from launch to launch, so that what
an earlier one left in a cell is less than any of now.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst
from tilewright.targets.checking import RACE, READERS, TOP, WRITERS
from tilewright.targets.cpu.bounds import any_lane, first_lane
from tilewright.targets.cpu.branches import where
from tilewright.targets.cpu.lane_memory import (
    gather,
    load_memory,
    masked_load,
    masked_store,
    scatter,
)

if TYPE_CHECKING:
    from tilewright.targets.cpu.checks import Checks
    from tilewright.targets.cpu.groups import Group
    from tilewright.targets.cpu.memory import Access

CELLS = t.uint32


@dataclass(slots=True)
class Cells:
    """The cells of some elements: neighbours from one place on, or one place for each."""

    place: Lane
    width: int
    mask: Lane  # i1, as wide
    in_a_row: bool


class Shadow:
    """Writes the code that looks at cells and changes them."""

    def __init__(self, checks: Checks):
        self.checks = checks
        self.e, self.b, self.m = checks.e, checks.b, checks.m
        self.before_me: Lane | None = None
        self.my_number: Lane | None = None

    def before(self) -> Lane:
        """The number that comes before those of all programs."""
        if self.before_me is None:
            word = self.checks.word(0)
            with self.e.w.outside(0):
                self.before_me = self.b.cast(word, CELLS)
        return self.before_me

    def begin_program(self) -> None:
        """The number of the program that begins here."""
        pid = self.b.cast(Lane("%pid", t.int64), CELLS)
        self.my_number = self.b.add(self.b.add(self.before(), pid), self.b.const(1, CELLS))

    # --- accesses

    def read(self, inst: Inst, a: Access, mask: Lane, width: int) -> None:
        """Note where others wrote what is read, and that it was read."""
        param = self.m.param(inst)
        group, b = self.checks.groups[param], self.b
        for cells in self.parts(param, WRITERS, group, a, mask, width):
            seen = self.get(cells)
            bad = self.by_others(self.number(seen, group))
            self.tell(inst, cells, bad, seen)
        for cells in self.parts(param, READERS, group, a, mask, width):
            seen = self.get(cells)
            plain = self.number(seen)
            old = b.gt(plain, self.splat(self.before(), cells))
            other = b.bit_or(b.ne(plain, self.me(cells)), self.is_top(seen))
            many = b.select(
                b.bit_and(old, other), b.const(TOP, CELLS, cells.width), b.like(seen, 0)
            )
            self.put(cells, b.bit_or(self.me(cells), many))

    def write(self, inst: Inst, a: Access, mask: Lane, width: int) -> None:
        """Note where others read or wrote what changes."""
        param = self.m.param(inst)
        group, b = self.checks.groups[param], self.b
        atomic = inst.op.access.kind == "atomic"
        mark = b.bit_or(self.my_number, b.const(TOP, CELLS)) if atomic else self.my_number
        for cells in self.parts(param, WRITERS, group, a, mask, width):
            seen = self.get(cells)
            bad = self.by_others(self.number(seen, group))
            if atomic:
                bad = b.bit_and(bad, b.bit_not(self.is_top(seen)))
            self.tell(inst, cells, bad, seen)
            if inst in self.checks.folding:  # another lane of it may have been here
                mine = b.eq(seen, self.me(cells))
                self.checks.note_if(any_lane(b, self.checks.masked(mine, cells.mask)), inst, RACE)
            self.put(cells, self.splat(mark, cells))
        if not group.has_readers:
            return
        for cells in self.parts(param, READERS, group, a, mask, width):
            seen = self.get(cells)
            plain = self.number(seen)
            old = b.gt(plain, self.splat(self.before(), cells))
            other = b.bit_or(b.ne(plain, self.me(cells)), self.is_top(seen))
            self.tell(inst, cells, b.bit_and(old, other), seen)
            self.put(cells, b.like(seen, 0))

    def tell(self, inst: Inst, cells: Cells, bad: Lane, seen: Lane) -> None:
        """Note the first program that was met, if one was."""
        b, checks = self.b, self.checks
        bad = checks.masked(bad, cells.mask)
        base = checks.base()
        with where(self.e.w, any_lane(b, bad)):
            first = first_lane(b, bad, self.number(seen))
            other = b.sub(b.sub(first, self.before()), b.const(1, CELLS))
            checks.note(base, inst, RACE, b.cast(other, t.int64))

    # --- numbers

    def number(self, seen: Lane, group: Group | None = None) -> Lane:
        """The programs in some cells, without marks (writers of a group without any have none)."""
        if group is not None and "atomic" not in group.kinds:
            return seen
        return self.b.bit_and(seen, self.b.like(seen, TOP - 1))

    def is_top(self, seen: Lane) -> Lane:
        return self.b.ge(seen, self.b.like(seen, TOP))

    def by_others(self, plain: Lane) -> Lane:
        """Where these are programs of this launch, and others."""
        b, width = self.b, plain.width
        # As signed numbers, so that marks of earlier launches count as early.
        late = b.gt(*(b.bitcast(b.splat(x, width), t.int32) for x in (plain, self.before())))
        return b.bit_and(late, b.ne(plain, b.splat(self.my_number, width)))

    def me(self, cells: Cells) -> Lane:
        return self.splat(self.my_number, cells)

    def splat(self, lane: Lane, cells: Cells) -> Lane:
        return self.b.splat(lane, cells.width)

    # --- places

    def parts(
        self, param: int, which: int, group: Group, a: Access, mask: Lane, width: int
    ) -> Iterator[Cells]:
        """The cells of some elements: of each as many as it has granules, one after the other."""
        b, granule = self.b, group.granule
        in_a_row = width > 1 and a.contiguous and a.size == granule
        pointer = a.pointer.base if in_a_row else b.splat(self.e.lanes_of(a.pointer), width)
        mask = b.splat(mask, width)
        at = b.sub(b.bitcast(pointer, t.int64), self.m.extent(param).low)
        at = b.shr(at, b.like(at, granule.bit_length() - 1))
        first = b.bitcast(self.checks.param_word(param, which), t.pointer_to(CELLS))
        place = b.offset(first, at)
        for i in range(a.size // granule):
            here = b.offset(place, b.const(i, t.int64)) if i else place
            yield Cells(here, width, mask, in_a_row)

    def get(self, cells: Cells) -> Lane:
        b = self.b
        zero = b.const(0, CELLS, cells.width)
        if cells.width == 1 or (cells.in_a_row and is_on(cells.mask)):
            return load_memory(b, cells.place, CELLS, cells.width)
        if cells.in_a_row:
            return masked_load(b, cells.place, cells.mask, zero, 4)
        return gather(b, cells.place, cells.mask, zero, 4)

    def put(self, cells: Cells, lane: Lane) -> None:
        b = self.b
        if cells.width == 1 or (cells.in_a_row and is_on(cells.mask)):
            self.e.w.write(f"store {lane.typed}, ptr {cells.place.text}, align 4")
        elif cells.in_a_row:
            masked_store(b, cells.place, cells.mask, lane, 4)
        else:
            scatter(b, cells.place, cells.mask, lane, 4)


def is_on(mask: Lane) -> bool:
    """Whether a mask is the constant true."""
    return mask.text in ("true", "splat (i1 true)")
