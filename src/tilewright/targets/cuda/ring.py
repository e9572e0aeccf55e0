"""Loads that run ahead of their loop: asynchronous copies into a ring of tiles in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
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


class Ring:
    """The copies of one loop: what is read in a turn was asked for `stages` - 1 turns before.

    `counter` and `state` are the loop's number and its carried values (those that addresses
    need) of the turn that is copied next; `read` and `write` are stages, by their number.
    """

    def __init__(self, x: Lowering, loop: Inst, plan: Plan, starts: Sequence[Tile]):
        self.x, self.e = x, x.e
        self.plan = plan
        self.body = loop.blocks[0]
        self.low, self.high, self.step = (x.scalar(v) for v in loop.operands[:3])
        self.params = [loops.carried_params(loop, self.body)[k] for k in plan.carried]
        self.yields = [loops.yields(loop)[k] for k in plan.carried]
        self.layouts = [starts[k].layout for k in plan.carried]
        self.bases = {
            load: self.e.memory.take(s.size * plan.stages) for load, s in plan.loads.items()
        }
        self.counter, self.state = self.low, [starts[k] for k in plan.carried]
        self.read, self.write = self.e.const(0), self.e.const(plan.stages - 1)
        for stage in range(plan.stages - 1):
            self.copy(self.e.const(stage))

    # --- what the loop carries for it

    def values(self) -> list[Tile]:
        one = self.x.layout(self.body.params[0])
        return [uniform(v, one) for v in (self.counter, self.read, self.write)] + self.state

    def set(self, values: Sequence[Tile]) -> None:
        self.counter, self.read, self.write = (v.lane for v in values[:3])
        self.state = list(values[3:])

    # --- one turn

    def copy(self, stage: Lane) -> None:
        """Ask for the next turn's tiles, none past the end, and step on."""
        x, e = self.x, self.e
        on = e.b.lt(self.counter, self.high)
        x.bind([self.body.params[0]], [uniform(self.counter, x.layout(self.body.params[0]))])
        x.bind(self.params, self.state)
        x.converted.append({})
        for inst in self.plan.steps:
            x.inst(inst)
        with e.w.when(on.text):
            for load, shared in self.plan.loads.items():
                self.copy_tile(load, shared, self.place(load, stage))
        e.w.declare(f"declare void @{COPY}.commit.group()")
        e.w.write(f"call void @{COPY}.commit.group()")
        self.counter = e.b.add(self.counter, self.step)
        made = [x.tiles[v] for v in self.yields]
        self.state = [x.in_layout(m, layout) for m, layout in zip(made, self.layouts, strict=True)]
        x.converted.pop()

    def turn(self) -> None:
        """At the start of the body: wait for this turn's tiles, ask for those of a later one."""
        self.wait(self.plan.stages - 2)
        self.e.barrier()
        self.copy(self.write)
        for load, shared in self.plan.loads.items():
            self.stage(load, Staged(shared, self.place(load, self.read)))
        self.read, self.write = self.following(self.read), self.following(self.write)

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

    def copy_tile(self, load: Inst, shared: Shared, base: Lane) -> None:
        """Copy what a load would load; zeros where its mask is false."""
        x, e, m = self.x, self.e, self.x.memory
        layout = x.access_layout(load)
        pointer = x.tile(load.operands[0], layout)
        mask = x.tile(load.operands[1], layout) if len(load.operands) > 1 else None
        spare = layout.free_bits()[0]
        accesses = [rs for rs in x.assigned.vectors(load) if not any(r & spare for r in rs)]
        places = m.places(load.operands[0], pointer)
        vectors = [Vector(rs, places[rs[0]]) for rs in accesses]
        targets = self.targets(layout, shared, base, [rs[0] for rs in accesses])
        owner = e.owner(layout)
        masks = [
            e.both(owner, mask.lanes[v.registers[0]] if mask is not None else None) for v in vectors
        ]
        m.hazards.before(load, layout)

        def perform(k: int, mask: Lane | None) -> list[Lane]:
            self.copy_vector(targets[k], vectors[k].place, count * shared.bytes, mask)
            return []

        count = len(accesses[0])
        if m.counters is not None:
            m.counters.access(load, layout, vectors, masks, mask)
        x.guard.guarded(load, vectors, masks, shared.bytes, perform)

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
