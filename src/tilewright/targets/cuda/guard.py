"""The check of every access against its argument, and the report of what lies outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Block, Inst
from tilewright.ops import control
from tilewright.targets.cuda.doubts import Doubts, FirstWrong
from tilewright.targets.cuda.early import Early
from tilewright.targets.cuda.index import indexed_inside
from tilewright.targets.cuda.memory import Place, Vector
from tilewright.targets.cuda.near import Near
from tilewright.targets.cuda.reach import Reach

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering

# The words of a fault: see targets/cuda/launch.py.
SITE_SHIFT, LAUNCH_SHIFT = 48, 31
# The first report stays: a later one would most often tell of its consequences.
REPORT = (
    "{ .reg .b64 old; .reg .pred first; @$3 ld.volatile.global.b64 old, [$0]; "
    "setp.eq.and.b64 first, old, 0, $3; @first st.global.v2.b64 [$0], {$1, $2}; }"
)
MANY = 8  # accesses of a thread that are better tested all before any is made
# One access, under a condition: the registers that it gives.
Perform = Callable[[int, "Lane | None"], list[Lane]]


class Guard:
    """Keeps accesses inside of their arguments."""

    def __init__(self, x: Lowering, bounds: bool):
        self.x = x
        self.e = x.e
        self.bounds = bounds
        self.reach = Reach(x) if bounds else None
        self.proven: set[Inst] = set()
        self.is_careful = False
        self.doubts = Doubts(self)
        self.ends: dict[int, tuple[Lane, Lane]] = {}
        self.rooms: dict[tuple[int, int], tuple[Lane, Lane]] = {}
        self.places: dict[tuple[int, int], Lane] = {}
        self.near = Near(self)

    def guarded(
        self,
        inst: Inst,
        vectors: Sequence[Vector],
        masks: Sequence[Lane | None],
        size: int,
        perform: Perform,
    ) -> list[list[Lane]]:
        """What `perform` gives for each vector, without what lies outside of the argument.

        A few are tested one by one, and told later. Of more, where scalars tell how far the access
        reaches, one test is enough for the whole tile. Else each thread tests its own part: all
        that lies at known distances at once.
        """
        param = self.x.memory.param(inst)
        if not self.is_checked(inst):
            return [perform(k, mask) for k, mask in enumerate(masks)]
        if self.is_careful or self.doubts.takes(inst, len(vectors)):
            return self.each(inst, param, vectors, masks, size, perform)
        fine = self.tile_inside(inst)
        if fine is None:
            fine = indexed_inside(self, inst, param, vectors, masks)
        if fine is None and len(vectors) >= MANY:
            fine = self.near.inside(param, vectors, masks, size)
        if fine is None:
            anchors = {v.place.pointer.text for v in vectors}
            if len(anchors) == len(vectors):
                return self.each(inst, param, vectors, masks, size, perform)
            fine = self.all_inside(param, vectors, size)
        return self.in_two_ways(inst, param, vectors, masks, size, perform, fine)

    def moved(
        self,
        inst: Inst,
        vectors: Sequence[Vector],
        masks: Sequence[Lane | None],
        size: int,
        perform: Perform,
    ) -> None:
        """`perform` each vector, but what lies outside of the argument, where nothing is given.

        All are tested first, and seldom need to be tested again one by one.
        """
        param = self.x.memory.param(inst)
        if not self.is_checked(inst):
            for k, mask in enumerate(masks):
                perform(k, mask)
            return
        fine = self.near.inside(param, vectors, masks, size)
        if fine is None:
            fine = self.all_fine(
                [self.inside(param, v.place, size * len(v.registers)) for v in vectors], masks
            )
        self.in_two_ways(inst, param, vectors, masks, size, perform, fine)

    def is_checked(self, inst: Inst) -> bool:
        """Whether an access might lie outside."""
        return self.bounds and self.x.memory.param(inst) is not None and inst not in self.proven

    def tile_inside(self, inst: Inst) -> Lane | None:
        """Whether all of a checked access is inside, in scalar code; None: nobody can tell."""
        if self.is_careful:
            return None
        return self.reach.inside(inst, *self.ends_of(self.x.memory.param(inst)))

    def prove(self, block: Block) -> Lane | None:
        """Whether accesses, save those under conditions, are inside, told at the kernel's start.

        They are `proven` from then on; None if nothing can be told of any of them.
        """
        if not self.bounds:
            return None
        b, steps, fine = self.e.b, set(), None
        early = Early(self.x, steps)
        early.reach = reach = Reach(self.x, early)
        self.proven.clear()
        for inst in unconditional(block):
            param = self.x.memory.param(inst)
            found = None if param is None else reach.inside(inst, *self.ends_of(param))
            if found is not None:
                self.proven.add(inst)
                fine = self.e.both(fine, found)
        for step in steps if fine is not None else ():
            fine = self.e.both(fine, b.gt(step, b.const(0, step.dtype)))
        for condition in early.needed.values() if fine is not None else ():
            fine = self.e.both(fine, condition)
        return fine

    def be_careful(self) -> None:
        """From now on every access is checked by itself."""
        self.proven.clear()
        self.is_careful = True
        self.doubts.is_off = True
        self.rooms.clear()

    def in_two_ways(
        self,
        inst: Inst,
        param: int,
        vectors: Sequence[Vector],
        masks: Sequence[Lane | None],
        size: int,
        perform: Perform,
        fine: Lane,
    ) -> list[list[Lane]]:
        """Where all is fine just the accesses; else, apart, each is checked by itself."""
        e, w = self.e, self.e.w
        slow, go, join = (w.new_label(stem) for stem in ("outside", "inside", "go"))
        w.branch_often(fine.text, go, slow)
        careful = []
        with w.apart(slow):
            first_wrong, places = FirstWrong(self), self.anew(vectors)
            for k, (v, mask) in enumerate(zip(vectors, masks, strict=True)):
                ok = self.inside(param, places[k], size * len(v.registers))
                first_wrong.add(self.x.memory.address(v.place), e.both(mask, e.b.bit_not(ok)))
                careful.append(perform(k, e.both(mask, ok)))
            first_wrong.report(inst)
            last = w.here
            w.branch(join)
        w.label(go)
        plain = [perform(k, mask) for k, mask in enumerate(masks)]
        first = w.here
        w.branch(join)
        w.label(join)
        return [
            [
                e.b.value(f"phi {x.type} [{x.text}, %{first}], [{y.text}, %{last}]", x.dtype, 1)
                for x, y in zip(xs, ys, strict=True)
            ]
            for xs, ys in zip(plain, careful, strict=True)
        ]

    def each(
        self,
        inst: Inst,
        param: int,
        vectors: Sequence[Vector],
        masks: Sequence[Lane | None],
        size: int,
        perform: Perform,
    ) -> list[list[Lane]]:
        """Every vector checked by itself; reports are made later, or else apart."""
        e, w = self.e, self.e.w
        later = self.doubts.of(inst) if self.doubts.takes(inst, len(vectors)) else None
        out, some = [], None
        for k, (v, mask) in enumerate(zip(vectors, masks, strict=True)):
            ok = self.inside(param, v.place, size * len(v.registers))
            on = e.both(mask, ok)
            wrong = e.both(mask, e.b.bit_not(ok))
            if mask is not None and not self.is_careful:
                wrong = e.b.bit_xor(mask, on)  # of two at hand: else it would be compared anew
            if later is not None:
                later.add(self.x.memory.address(v.place), wrong)
            some = wrong if some is None else e.b.bit_or(some, wrong)
            out.append(perform(k, on))
        if out and later is None:
            tell, on = w.new_label("outside"), w.new_label("on")
            w.branch_often(e.b.bit_not(some).text, on, tell)
            with w.apart(tell):
                self.find_first(inst, param, vectors, masks, size).report(inst)
                w.branch(on)
            w.label(on)
        return out

    def find_first(
        self,
        inst: Inst,
        param: int,
        vectors: Sequence[Vector],
        masks: Sequence[Lane | None],
        size: int,
    ) -> FirstWrong:
        """Which access lies outside, by code apart."""
        first_wrong = FirstWrong(self)
        for v, mask, place in zip(vectors, masks, self.anew(vectors), strict=True):
            ok = self.inside(param, place, size * len(v.registers))
            wrong = self.e.both(mask, self.e.b.bit_not(ok))
            first_wrong.add(self.x.memory.address(place), wrong)
        return first_wrong

    def anew(self, vectors: Sequence[Vector]) -> list[Place]:
        """The places of vectors for code apart, so that the assembler does not see what has been
        computed of them before: it would keep that at hand."""
        b, zero, found = self.e.b, self.e.no_address(), {}
        for pointer in (v.place.pointer for v in vectors):
            if pointer.text not in found:
                address = b.bit_xor(b.bitcast(pointer, t.uint64), zero)
                found[pointer.text] = b.bitcast(address, pointer.dtype)
        return [Place(found[v.place.pointer.text], v.place.bytes) for v in vectors]

    # --- tests

    def all_fine(self, inside: Sequence[Lane], masks: Sequence[Lane | None]) -> Lane:
        """Whether what is on is inside."""
        wrong = None
        for fine, mask in zip(inside, masks, strict=True):
            outside = self.e.both(mask, self.e.b.bit_not(fine))
            wrong = outside if wrong is None else self.e.b.bit_or(wrong, outside)
        return self.e.b.bit_not(wrong)

    def ends_of(self, param: int) -> tuple[Lane, Lane]:
        """The argument's address, and that of the end of its memory."""
        if param not in self.ends:
            b = self.e.b
            with self.e.w.once():
                own = b.bitcast(self.x.tiles[self.x.kernel.body.params[param]].lane, t.int64)
                self.ends[param] = own, b.bitcast(Lane(f"%high{param}", t.uint64), t.int64)
        return self.ends[param]

    def room(self, param: int, bytes: int) -> tuple[Lane, Lane]:
        """(low, room): `bytes` bytes from an address on are inside if address - low <= room.

        Computed at the start of the kernel, but anew in code apart: registers are worth more.
        """
        if self.e.w.is_apart:
            return self.find_room(param, bytes)
        key = param, bytes
        if key not in self.rooms:
            with self.e.w.once():
                self.rooms[key] = self.find_room(param, bytes)
        return self.rooms[key]

    def find_room(self, param: int, bytes: int) -> tuple[Lane, Lane]:
        b = self.e.b
        low, high = Lane(f"%low{param}", t.uint64), Lane(f"%high{param}", t.uint64)
        size = b.sub(high, low)
        least = b.const(bytes, t.uint64)
        fits = b.ge(size, least)
        # Where nothing fits, no address is inside: -1 is 0 from -1 on, at a size of 1.
        low = b.select(fits, low, b.const(-1, t.uint64))
        return low, b.select(fits, b.sub(size, least), b.const(0, t.uint64))

    def inside(self, param: int, place: Place, bytes: int) -> Lane:
        b = self.e.b
        low, room = self.room(param, bytes)
        address = b.bitcast(place.pointer, t.uint64)
        return b.le(self.e.plus(b.sub(address, low), place.bytes), room)

    def all_inside(self, param: int, vectors: Sequence[Vector], size: int) -> Lane:
        """Whether everything between the first and the last access is inside."""
        spans: dict[str, list[Vector]] = {}
        for v in vectors:
            spans.setdefault(v.place.pointer.text, []).append(v)
        fine = None
        for group in spans.values():
            start = min(v.place.bytes for v in group)
            end = max(v.place.bytes + size * len(v.registers) for v in group)
            anchor = Place(group[0].place.pointer, start)
            fine = self.e.both(fine, self.inside(param, anchor, end - start))
        return fine

    # --- reports

    def report(self, inst: Inst, address: Lane, bad: Lane) -> None:
        """Write what happened to the record of the launch, in threads where `bad` holds."""
        e, b = self.e, self.e.b
        launch = b.shl(b.cast(Lane("%launch", t.uint32), t.uint64), b.const(LAUNCH_SHIFT, t.uint64))
        site = b.const(self.x.memory.site(inst) + 1 << SITE_SHIFT, t.uint64)
        word = b.bit_or(b.bit_or(self.x.memory.program(), launch), site)
        e.w.write(
            f'call void asm sideeffect "{REPORT}", "l,l,l,b,~{{memory}}"'
            f"(i64 %record, {word.typed}, {address.typed}, {bad.typed})"
        )


def unconditional(block: Block) -> Iterator[Inst]:
    """The accesses that the kernel makes whenever it gets to where its loops begin."""
    for inst in block.insts:
        if inst.op.access is not None:
            yield inst
        elif inst.op is control.for_:
            yield from unconditional(inst.blocks[0])
