"""Loads that run ahead of their loop: asynchronous copies into a ring of tiles in shared memory."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir.inst import Inst
from tilewright.ops import shape
from tilewright.passes import loops
from tilewright.targets.cuda.ahead import Plan
from tilewright.targets.cuda.layout import Layout, union
from tilewright.targets.cuda.memory import Place, Vector
from tilewright.targets.cuda.operands import Shared
from tilewright.targets.cuda.tiles import Staged, Tile, uniform

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering

COPY = "llvm.nvvm.cp.async"


@dataclass(frozen=True)
class Copies:
    """What one thread copies for one load: vectors, where they go, and under which conditions."""

    load: Inst
    bytes: int  # of one vector
    vectors: list[Vector]
    targets: list[Lane]
    masks: list[Lane | None]
    layout: Layout
    mask: Tile | None


class Ring:
    """The copies of one loop: what is read in a turn was asked for `stages` - 1 turns before.

    Of the turn that is copied next, `counter` and `state` are the loop's number and the carried
    values that addresses need, and `go` says that it comes and that none of its accesses lies
    outside. `read` and `write` are stages, by their number.
    """

    def __init__(self, x: Lowering, loop: Inst, plan: Plan, starts: Sequence[Tile]):
        self.x, self.e = x, x.e
        self.plan = plan
        self.body = loop.blocks[0]
        self.low, self.high, self.step = (x.scalar(v) for v in loop.operands[:3])
        self.params = [loops.carried_params(loop, self.body)[k] for k in plan.carried]
        self.yields = [loops.yields(loop)[k] for k in plan.carried]
        self.layouts = [starts[k].layout for k in plan.carried]
        size = plan.stages
        self.bases = {k: self.e.memory.take(size * s.size) for k, s in plan.loads.items()}
        self.doubtful: set[Inst] = set()  # loads that no scalar code can answer for
        self.counter, self.state = self.low, [starts[k] for k in plan.carried]
        self.read, self.write = self.e.const(0), self.e.const(plan.stages - 1)
        for stage in range(plan.stages - 1):
            self.look()
            self.copy(self.e.const(stage))
        self.look()

    # --- what the loop carries for it

    def values(self) -> list[Tile]:
        one = self.x.layout(self.body.params[0])
        return [uniform(v, one) for v in (self.counter, self.read, self.write, self.go)] + (
            self.state
        )

    def set(self, values: Sequence[Tile]) -> None:
        self.counter, self.read, self.write, self.go = (v.lane for v in values[:4])
        self.state = list(values[4:])

    # --- one turn

    def turn(self) -> None:
        """At the start of the body: wait for this turn's tiles, ask for those of a later one."""
        self.wait(self.plan.stages - 2)
        self.e.barrier()
        self.copy(self.write)
        for load, shared in self.plan.loads.items():
            self.stage(load, Staged(shared, self.place(load, self.read)))
        self.read, self.write = self.following(self.read), self.following(self.write)

    @contextmanager
    def later(self) -> Iterator[None]:
        """Within, values are those of the turn that is copied next."""
        x = self.x
        x.bind([self.body.params[0]], [uniform(self.counter, x.layout(self.body.params[0]))])
        x.bind(self.params, self.state)
        x.converted.append({})
        for inst in self.plan.steps:
            x.inst(inst)
        yield
        x.converted.pop()

    def look(self) -> None:
        """Find out whether the next turn is without a doubt; best done among the products."""
        guard = self.x.guard
        with self.later():
            self.go = self.e.b.lt(self.counter, self.high)
            for load in filter(guard.is_checked, self.plan.loads):
                fine = guard.tile_inside(load)
                self.go = self.e.both(self.go, fine)
                if fine is None:
                    self.doubtful.add(load)

    def copy(self, stage: Lane) -> None:
        """Ask for the next turn's tiles, none past the end, and step on."""
        x, e = self.x, self.e
        with self.later():
            copies = [self.copies(k, s, self.place(k, stage)) for k, s in self.plan.loads.items()]
            go, unsure, join = (e.w.new_label(stem) for stem in ("go", "unsure", "copied"))
            e.w.branch_often(self.go.text, go, unsure)
            with e.w.apart(unsure):
                with e.w.when(e.b.lt(self.counter, self.high).text):
                    self.perform(copies, self.plan.loads)
                e.w.branch(join)
            e.w.label(go)
            self.perform(copies, self.doubtful)
            e.w.branch(join)
            e.w.label(join)
            e.w.declare(f"declare void @{COPY}.commit.group()")
            e.w.write(f"call void @{COPY}.commit.group()")
            self.counter = e.b.add(self.counter, self.step)
            made = [x.tiles[v] for v in self.yields]
        self.state = [x.in_layout(m, layout) for m, layout in zip(made, self.layouts, strict=True)]

    def stage(self, source: Inst, staged: Staged) -> None:
        """Bind what a load or a permutation gives to the tile in shared memory."""
        self.x.staged[source.result] = staged
        for user in self.x.planner.users[source.result]:
            if user.op is shape.permute:
                turned = Staged(staged.shared.permute(user.attrs["order"]), staged.base)
                self.stage(user, turned)

    def wait(self, count: int) -> None:
        """Until at most so many of this thread's groups of copies are under way."""
        self.e.w.declare(f"declare void @{COPY}.wait.group(i32 immarg)")
        self.e.w.write(f"call void @{COPY}.wait.group(i32 {count})")

    def close(self) -> None:
        """After the loop: nothing is under way any more."""
        self.wait(0)
        self.e.memory.give_back(len(self.bases))

    # --- stages

    def place(self, load: Inst, stage: Lane) -> Lane:
        """The address of a load's tile in a stage."""
        size = self.e.const(self.plan.loads[load].size)
        return self.e.b.add(self.bases[load], self.e.b.mul(stage, size))

    def following(self, stage: Lane) -> Lane:
        after = self.e.plus(stage, 1)
        last = self.e.b.eq(after, self.e.const(self.plan.stages))
        return self.e.b.select(last, self.e.const(0), after)

    # --- copies

    def copies(self, load: Inst, shared: Shared, base: Lane) -> Copies:
        """What a load would load, and zeros where its mask is false."""
        x, e, m = self.x, self.e, self.x.memory
        layout = x.access_layout(load)
        pointer = x.tile(load.operands[0], layout)
        mask = x.tile(load.operands[1], layout) if len(load.operands) > 1 else None
        spare = layout.free_bits()[0]
        accesses = [rs for rs in x.assigned.vectors(load) if not any(r & spare for r in rs)]
        places = m.places(load.operands[0], pointer)
        vectors = [Vector(rs, places[rs[0]]) for rs in accesses]
        owner = e.owner(layout)
        masks = [
            e.both(owner, mask.lanes[v.registers[0]] if mask is not None else None) for v in vectors
        ]
        m.hazards.before(load, layout)
        targets = self.targets(layout, shared, base, [rs[0] for rs in accesses])
        return Copies(
            load, len(accesses[0]) * shared.bytes, vectors, targets, masks, layout, mask
        )  # fmt: skip

    def perform(self, copies: Sequence[Copies], checked: Container[Inst]) -> None:
        """Copy, some of it with a check of every vector."""
        x = self.x
        for c in copies:

            def one(k: int, mask: Lane | None, c: Copies = c) -> list[Lane]:
                self.copy_vector(c.targets[k], c.vectors[k].place, c.bytes, mask)
                return []

            if x.counters is not None:
                x.counters.access(c.load, c.layout, c.vectors, c.masks, c.mask)
            if c.load in checked:
                size = self.plan.loads[c.load].bytes
                x.guard.guarded(c.load, c.vectors, c.masks, size, one)
            else:
                for k, mask in enumerate(c.masks):
                    one(k, mask)

    def targets(
        self, layout: Layout, shared: Shared, base: Lane, registers: Sequence[int]
    ) -> list[Lane]:
        """Where each register's element goes: a sum of a few bases and constants."""
        e = self.e
        columns = [shared.offset(c) * shared.bytes for c in layout.thread]
        own, used = e.of_thread(columns), union(columns)
        bases: dict[int, Lane] = {}
        out = []
        for r in registers:
            constant = shared.offset(layout.index(r)) * shared.bytes
            low = constant & used
            if low not in bases:
                bases[low] = e.b.add(base, e.xor(own, low))
            out.append(e.plus(bases[low], constant ^ low))
        return out

    def copy_vector(self, target: Lane, place: Place, bytes: int, on: Lane | None) -> None:
        e = self.e
        size = e.const(bytes) if on is None else e.b.select(on, e.const(bytes), e.const(0))
        kind = "cg" if bytes == 16 else "ca"
        name = f"{COPY}.{kind}.shared.global.{bytes}.s"
        e.w.declare(f"declare void @{name}(ptr addrspace(3), ptr addrspace(1), i32)")
        to = e.w.value(f"inttoptr {target.typed} to ptr addrspace(3)")
        source = self.x.memory.global_pointer(place.pointer)
        if place.bytes:
            source = e.w.value(f"getelementptr i8, ptr addrspace(1) {source}, i64 {place.bytes}")
        e.w.write(
            f"call void @{name}(ptr addrspace(3) {to}, ptr addrspace(1) {source}, {size.typed})"
        )
