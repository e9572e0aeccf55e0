"""Which loads of a loop can be made some turns ahead: those that only products read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tilewright.ir.inst import Block, Inst, Kernel, Value, walk
from tilewright.ops import dot, memory, shape
from tilewright.targets.cuda import descriptors, f2, flight, ldmatrix, mma, wgmma
from tilewright.targets.cuda.layout import Layout, log2, union
from tilewright.targets.cuda.lending import rounded
from tilewright.targets.cuda.needed import Needed, idle, is_load
from tilewright.targets.cuda.operands import Shared, operand_tile, row_major

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering

COPIED = (4, 8, 16)  # bytes that one asynchronous copy moves
RESHAPING = {shape.broadcast, shape.reshape, shape.permute, shape.join, shape.split, shape.cat}
HARMLESS = ("pure", "program", "read", "control")
MOST_ASKED = 16  # registers of a tile from which addresses are computed turns before


@dataclass(frozen=True)
class Plan:
    """A loop whose loads run `stages` - 1 turns ahead.

    Those that are `fetched` go on to registers, products read the others as they lie. `steps`
    computes, from the body's parameters, the addresses and masks of the loads, and the parameters
    (`carried`, by number) of the turn after; loads among them are `asked` one turn earlier still,
    and those that are `idle` have nothing to do in their own turn. Where memory that the loop has
    `stored` to, as parameters tell, is that of the loads, these are repeated in their turn.

    Products that are `unfinished` go on until `first`, a
    product, has begun in the turn after; None: none do. Operands that are `kept` are in two places
    by turns, so that the next ones can be computed while products go on. With `waits_later` threads
    wait for one another only once these are there, before the first product.
    """

    loads: dict[Inst, Shared]
    fetched: frozenset[Inst]
    steps: tuple[Inst, ...]
    asked: tuple[Inst, ...]
    idle: frozenset[Inst]
    carried: tuple[int, ...]
    stored: frozenset[int]
    stages: int
    is_wide: bool  # whether warpgroups make products of it
    first: Inst | None
    unfinished: dict[Inst, Value]
    kept: dict[Value, Shared]
    waits_later: bool


class Planner:
    """Finds the loops of a kernel whose loads can run ahead.

    Args:
        stages: tiles of each load that shared memory holds at once, unless a loop says otherwise.
    """

    def __init__(self, x: Lowering, kernel: Kernel, stages: int):
        self.x = x
        self.stages = stages
        self.users: dict[Value, list[Inst]] = defaultdict(list)
        for inst in kernel.walk():
            for value in inst.operands:
                self.users[value].append(inst)

    def plan(self, loop: Inst) -> Plan | None:
        """How the loads of a `for` loop run ahead, if any can."""
        body = loop.blocks[0]
        limit = self.x.arch.shared_limit - rounded(self.x.e.memory.top, descriptors.ALIGNMENT)
        wanted = loop.attrs.get("num_stages")
        stages = min(self.stages, wanted) if wanted else self.stages
        stored = self.stored(body)
        if not self.x.arch.has_async or stages < 2 or not rises(loop) or stored is None:
            return None
        loads: dict[Inst, Shared] = {}
        self.apart = partial(self.is_apart, stored)
        needed = Needed(loop, lambda inst: inst not in loads and self.can_be_asked(inst))
        for inst in body.insts:
            shared = self.shared_of(inst)
            if shared is not None and needed.add(inst.operands[:2]):
                loads[inst] = shared
        fetched = self.fetched(body, loads, limit // stages, needed)
        if not loads:
            return None
        stages = min(stages, limit // sum(s.size for s in loads.values()))
        if stages < 2:
            return None
        steps = tuple(inst for inst in body.insts if inst in needed.insts)
        first = flight.first_product(body, self.x.arch, self.x.e.num_warps)
        lasting = {inst.result for inst in loads if inst not in fetched} | self.x.staged.keys()
        going = flight.unfinished(loop, first, lasting, self.users) if first else {}
        layout = self.x.layout
        going = {dot: v for dot, v in going.items() if layout(v) == layout(dot.result)}
        kept: dict[Value, Shared] = {}
        if first in going:
            kept = self.kept(first, lasting)
            if stages * sum(s.size for s in loads.values()) + size_of_two(kept) > limit:
                kept, going = {}, {dot: v for dot, v in going.items() if dot is not first}
        is_wide, first = first is not None, first if going else None
        carried = tuple(sorted(needed.carried))
        asked = tuple(inst for inst in steps if inst.op is memory.load)
        shared_out = any(map(self.is_shared_out, fetched))
        later = bool(kept) and first is first_dot(body) and not shared_out and not stored
        return Plan(
            loads, frozenset(fetched), steps, asked, idle(steps, loads, self.users), carried,
            stored, stages, is_wide, first, going, kept, later,
        )  # fmt: skip

    def stored(self, body: Block) -> frozenset[int] | None:
        """The parameters to which a loop's body stores; None: that, or more, is not known."""
        found = set()
        for inst in walk(body):
            if inst.op is memory.store:
                found.add(self.x.memory.param(inst))
            elif inst.op.effect not in HARMLESS:
                return None
        return None if None in found else frozenset(found)

    def is_apart(self, stored: Collection[int], load: Inst) -> bool:
        """Whether a load most likely meets none of these stores of its loop."""
        return not stored or self.x.memory.param(load) not in {None, *stored}

    def can_be_asked(self, inst: Inst) -> bool:
        """Whether a load is a small one, that can be made turns before what is read there."""
        if not is_load(inst) or not self.apart(inst):
            return False
        return not inst.result.type.shape or self.x.layout(inst.result).registers <= MOST_ASKED

    def can_be_copied(self, load: Inst) -> bool:
        """Whether copies, some turns before, give what a tile's load gives."""
        if not is_load(load) or not load.result.type.shape or not self.apart(load):
            return False
        return len(load.operands) < 3 or is_zero(load.operands[2])

    def is_shared_out(self, load: Inst) -> bool:
        """Whether threads read what others have copied."""
        return any(self.x.access_layout(load).free_bits())

    def kept(self, product: Inst, lasting: Collection[Value]) -> dict[Value, Shared]:
        """Where a product's operands lie that are computed in its turn."""
        x, out = self.x, {}
        found = wgmma.instruction_for(product, x.arch, x.e.num_warps)
        for side, value in enumerate(product.operands[:2]):
            held = side == 0 and wgmma.comes_in_place(x, product, x.layout(value), found)
            if not held and not flight.lasts(value, lasting):
                out[value] = wgmma.staging(x.layout(value), side, found)
        return out

    def fetched(
        self, body: Block, loads: dict[Inst, Shared], room: int, needed: Needed
    ) -> set[Inst]:
        """Add further loads that products wait for; each thread has its part.

        Args:
            room: bytes of a stage, of which other things must find some as well.
        """
        found: set[Inst] = set()
        room = room * 3 // 4 - sum(s.size for s in loads.values())
        for inst in body.insts:
            fresh = inst not in loads and inst not in needed.insts and self.can_be_copied(inst)
            if fresh and self.feeds(inst.result):
                vector = self.x.assigned.vectors(inst)[0]
                bytes = inst.result.type.dtype.bytes
                shared = own_tile(self.x.access_layout(inst), vector, bytes)
                fits = shared.size <= room and self.is_copied(inst, shared)
                if fits and needed.add(inst.operands[:2]):
                    loads[inst] = shared
                    found.add(inst)
                    room -= shared.size
        return found

    def feeds(self, value: Value) -> bool:
        """Whether products are computed from a value."""
        seen, open_values = {value}, [value]
        while open_values:
            for user in self.users[open_values.pop()]:
                if user.op is dot.dot:
                    return True
                if user.op.is_elementwise or user.op in RESHAPING:
                    fresh = [r for r in user.results if r not in seen]
                    seen.update(fresh)
                    open_values += fresh
        return False

    def shared_of(self, load: Inst) -> Shared | None:
        """Where a load's tiles lie in shared memory, if only products use it, from there."""
        if not self.can_be_copied(load) or len(load.result.type.shape) != 2:
            return None
        layout, bytes = self.x.access_layout(load), load.result.type.dtype.bytes
        for shared in (ldmatrix.stage_for(layout, bytes), row_major(layout.shape, bytes)):
            fits = shared is not None and self.is_copied(load, shared)
            if fits and self.is_read(load.result, shared):
                return shared
        return None

    def is_copied(self, load: Inst, shared: Shared) -> bool:
        """Whether neighbours in global memory are neighbours in shared memory, in one copy."""
        layout, vectors = self.x.access_layout(load), self.x.assigned.vectors(load)
        count = len(vectors[0])
        threads = union(shared.offset(c) for c in layout.thread)
        for registers in vectors:
            offsets = [shared.offset(layout.index(r)) for r in registers]
            if (threads | offsets[0]) & count - 1 or offsets != [
                offsets[0] + k for k in range(count)
            ]:
                return False
        return count * shared.bytes in COPIED

    def is_read(self, value: Value, shared: Shared) -> bool:
        """Whether all users are products, perhaps of the tile turned, that read it as it lies."""
        for user in self.users[value]:
            if user.op is shape.permute:
                if not self.is_read(user.result, shared.permute(user.attrs["order"])):
                    return False
            elif user.op is not dot.dot or not self.multiplies(user, value, shared):
                return False
        return bool(self.users[value])

    def multiplies(self, inst: Inst, value: Value, shared: Shared) -> bool:
        sides = [k for k in (0, 1) if inst.operands[k] is value]
        if inst.operands[2] is value:
            return False
        tiles = [operand_tile(shared.shape, shared.bytes, order) for order in ((1, 0), (0, 1))]
        wide = wgmma.instruction_for(inst, self.x.arch, self.x.e.num_warps)
        if wide is not None:
            return shared in tiles and all(wgmma.can_read(shared, side, wide) for side in sides)
        found = mma.instruction_for(inst, self.x.arch)
        if found is None:
            return shared == row_major(shared.shape, shared.bytes)
        if found.operand is not value.type.dtype or shared not in tiles:
            return False
        return all(ldmatrix.can_load(shared, side, found) for side in sides)


def own_tile(layout: Layout, vector: Sequence[int], bytes: int) -> Shared:
    """A tile of which each thread's vectors lie side by side: in no access do lanes meet."""
    inner = [layout.register[log2(r)] for r in vector if r.bit_count() == 1]
    order = f2.independent([*inner, *layout.lane, *layout.warp, *layout.register])
    return Shared(layout.shape, f2.inverse(order), bytes)


def first_dot(body: Block) -> Inst | None:
    return next((inst for inst in walk(body) if inst.op is dot.dot), None)


def size_of_two(kept: dict[Value, Shared]) -> int:
    """Bytes of the places of these operands."""
    return 2 * sum(rounded(s.size, descriptors.ALIGNMENT) for s in kept.values())


def rises(loop: Inst) -> bool:
    """Whether a loop counts upwards, as far as is known."""
    step = loop.operands[2].inst
    return step is not None and step.op is shape.constant and step.attrs["value"] > 0


def is_zero(value: Value) -> bool:
    inst = value.inst
    while inst is not None and inst.op in (shape.splat, shape.broadcast):
        inst = inst.operands[0].inst
    return inst is not None and inst.op is shape.constant and not inst.attrs["value"]
