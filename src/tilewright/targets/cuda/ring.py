"""Loads that run ahead of their loop: asynchronous copies into a ring of tiles in shared memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, walk
from tilewright.ops import dot, shape
from tilewright.passes import loops
from tilewright.targets.cuda import descriptors, wgmma
from tilewright.targets.cuda.ahead import Plan
from tilewright.targets.cuda.copying import Copier, Copies
from tilewright.targets.cuda.emitter import WORDS
from tilewright.targets.cuda.memory import load as load_now
from tilewright.targets.cuda.memory import value_of
from tilewright.targets.cuda.phis import fresh_phis, phi_lines, tiles_of
from tilewright.targets.cuda.tiles import Staged, Tile, tile, uniform
from tilewright.targets.cuda.turns import Turns

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering


class Ring:
    """The copies of one loop: what is read in a turn was asked for `stages` - 1 turns before.

    Of the turn that is copied next, `counter` and `state` are the loop's number and the values
    that addresses need, carried ones and those asked for, and `go` says that it comes and that
    none of its accesses lies outside. `read` and `write` are stages, by their number.
    """

    def __init__(self, x: Lowering, loop: Inst, plan: Plan, starts: Sequence[Tile]):
        self.x, self.e = x, x.e
        self.copier = Copier(x)
        self.plan = plan
        self.loop, self.body = loop, loop.blocks[0]
        self.is_read_async = any(
            inst.op is dot.dot and wgmma.instruction_for(inst, x.arch, x.e.num_warps)
            for inst in walk(self.body)
        )
        self.low, self.high, self.step = (x.scalar(v) for v in loop.operands[:3])
        self.params = [loops.carried_params(loop, self.body)[k] for k in plan.carried]
        self.yields = [loops.yields(loop)[k] for k in plan.carried]
        self.layouts = [starts[k].layout for k in plan.carried]
        size = plan.stages
        self.bases = {
            k: self.e.memory.take(size * s.size, descriptors.ALIGNMENT)
            for k, s in plan.loads.items()
        }
        self.places = {
            v: self.e.memory.take(2 * s.size, descriptors.ALIGNMENT) for v, s in plan.kept.items()
        }
        self.odd = self.e.const(0)  # which of the two places is this turn's
        self.checked = [k for k in plan.loads if x.guard.is_checked(k)]
        self.doubtful: dict[Inst, None] = {}  # of these, which no scalar code can answer for
        self.is_sure = False  # whether turns are written whose copies need no check
        self.counter, self.state = self.low, [starts[k] for k in plan.carried]
        self.read, self.write = self.e.const(0), self.e.const(plan.stages - 1)
        self.shares = self.overlap()
        self.ask_addresses()
        # Below which counter all turns are without a doubt; None: nobody can tell.
        self.end_of_sure, self.told = None, set()  # the latter: of other accesses
        if self.checked:
            turns = Turns(x, loop)
            self.end_of_sure = turns.end(self.checked, self.others())
            self.told = turns.told
        self.has_sure_turns = self.end_of_sure is not None
        self.fill()
        sure = [k for k in self.checked if k not in self.doubtful]
        if self.end_of_sure is None and self.doubtful and sure:
            self.end_of_sure = Turns(x, loop).end(sure)
        self.look()

    def others(self) -> list[Inst]:
        """What each turn accesses in its own time, and checks."""
        apart, is_checked = {*self.plan.loads, *self.plan.steps}, self.x.guard.is_checked
        insts = [inst for inst in self.body.insts if inst.op.access is not None]
        return [inst for inst in insts if inst not in apart and is_checked(inst)]

    def fill(self) -> None:
        """Before the loop: ask for the tiles of the first turns."""
        e, w = self.e, self.e.w
        one = self.x.layout(self.body.params[0])
        firsts = [uniform(e.const(0), one), uniform(self.counter, one), *self.state]
        before, head, done = w.here, w.new_label("fill"), w.new_label("filled")
        w.branch(head)
        w.label(head)
        e.memory.forget()
        place = w.reserve()
        phis = fresh_phis(e, firsts)
        stage, counter, *self.state = tiles_of(phis, firsts)
        self.counter = counter.lane
        self.look()
        self.copy(stage.lane)
        if not self.at_once:
            self.finish(stage.lane)
        following = e.plus(stage.lane, 1)
        more = e.b.lt(following, e.const(self.plan.stages - 1))
        last = w.here
        w.branch_if(more.text, head, done)
        lasts = [uniform(following, one), uniform(self.counter, one), *self.state]
        w.fill(place, phi_lines(phis, [(before, firsts), (last, lasts)]))
        w.label(done)

    # --- turns whose copies need no check

    @contextmanager
    def sure(self) -> Iterator[None]:
        """Within, turns are written that run while `comes_for_sure`."""
        self.is_sure = True
        self.x.guard.proven |= self.told
        yield
        self.x.guard.proven -= self.told
        self.is_sure = False
        self.look()

    def comes_for_sure(self) -> Lane:
        return self.e.b.lt(self.counter, self.end_of_sure)

    # --- what the loop carries for it

    def values(self) -> list[Tile]:
        one = self.x.layout(self.body.params[0])
        lanes = (self.counter, self.read, self.write, self.odd, self.go)
        return [uniform(v, one) for v in lanes] + self.state

    def set(self, values: Sequence[Tile]) -> None:
        self.counter, self.read, self.write, self.odd, self.go = (v.lane for v in values[:5])
        self.state = list(values[5:])

    # --- one turn

    def begin(self) -> None:
        """At the start of the body: wait for this turn's tiles, ask for those of a later one."""
        self.copier.wait(self.plan.stages - 2)
        if self.shares is not None:
            with self.e.w.when(self.shares.text, rarely=True):
                self.repeat()
        self.x.idle |= self.plan.idle
        if not self.plan.waits_later:
            if self.is_read_async:
                self.e.fence_async()
            self.e.barrier()
        if self.plan.first is None:
            self.ask_now()
        else:
            going = wgmma.Flight(self.plan.first, self.plan.unfinished, self.ask)
            self.x.flights.update(dict.fromkeys(going.insts, going))
        for load, shared in self.plan.loads.items():
            base = self.place(load, self.read)
            if load in self.plan.fetched:
                self.x.fetched[load] = partial(self.fetch, load, base)
            else:
                self.stage(load, Staged(shared, base))
        for value, place in self.places.items():
            shared = self.plan.kept[value]
            far = self.e.b.mul(self.odd, self.e.const(shared.size))
            self.x.places[value] = Staged(shared, self.e.b.add(place, far))

    def ask(self) -> None:
        """Ask for a later turn's tiles, which lie where those of the turn before lay."""
        self.e.barrier()
        self.ask_now()

    def ask_now(self) -> None:
        self.copy(self.write)

    @property
    def at_once(self) -> bool:
        """Whether a turn does all about a later one at its start.

        Else it checks at its end, where no branch tears products by mma.sync apart; but not where
        nothing could be copied before.
        """
        return self.plan.is_wide or bool(self.doubtful)

    def end(self) -> None:
        if not self.at_once:
            self.finish(self.write)
        self.read, self.write = self.following(self.read), self.following(self.write)
        self.odd = self.e.xor(self.odd, 1)
        self.look()

    @contextmanager
    def later(self, load: Callable[[Inst], Tile] | None = None) -> Iterator[None]:
        """Within, values are those of the turn that is copied next.

        With `load`, which makes a load that is asked for, only those that such loads need.
        """
        x, asked = self.x, self.plan.asked
        tiles, converted = dict(x.tiles), x.converted
        counter = self.body.params[0]
        changed = {counter, *self.params, *(r for inst in self.plan.steps for r in inst.results)}
        x.converted = [
            {key: made for key, made in scope.items() if key[0] not in changed}
            for scope in converted
        ]
        x.bind([counter], [uniform(self.counter, x.layout(counter))])
        x.bind(self.params, self.state[: len(self.params)])
        x.converted.append({})
        found = dict(zip(asked, self.state[len(self.params) :]))
        steps = self.plan.steps
        for inst in steps if load is None else steps[: steps.index(asked[-1]) + 1]:
            if inst in asked:
                x.bind(inst.results, [found[inst] if load is None else load(inst)])
            else:
                x.inst(inst)
        yield
        x.tiles, x.converted = tiles, converted

    def ask_addresses(self) -> None:
        """Load what the addresses of the turn that is copied next are computed from."""
        comes = self.e.b.lt(self.counter, self.high) if self.plan.asked else None
        self.state[len(self.params) :] = self.found(lambda inst: load_now(self.x, inst, comes))

    def found(self, load: Callable[[Inst], Tile]) -> list[Tile]:
        """What the loads that are asked for give."""
        if not self.plan.asked:
            return []
        with self.later(load):
            tiles = [self.x.tiles[inst.result] for inst in self.plan.asked]
        # What is the same everywhere this time need not be so the next one.
        return [
            tile(made.layout, made.lanes) if inst.result.type.shape else made
            for inst, made in zip(self.plan.asked, tiles, strict=True)
        ]

    def look(self) -> None:
        """Find out whether the next turn is without a doubt; best done among the products."""
        if self.end_of_sure is None or self.is_sure:
            self.go = self.e.b.const(1, t.int1)
            if not self.at_once and not self.is_sure:
                with self.later():
                    self.look_closely()
            return
        w, sure = self.e.w, self.e.b.lt(self.counter, self.end_of_sure)
        slow, join = w.new_label("look"), w.new_label("join")
        before = w.here
        w.branch_often(sure.text, join, slow)
        with w.apart(slow):
            with self.later():
                self.look_closely()
            last = w.here
            w.branch(join)
        w.label(join)
        arms = f"[true, %{before}], [{self.go.text}, %{last}]"
        self.go = self.e.b.value(f"phi i1 {arms}", t.int1, 1)

    def look_closely(self) -> None:
        """The same from the turn's own addresses."""
        self.go = self.e.b.lt(self.counter, self.high)
        for load in self.checked:
            fine = self.x.guard.tile_inside(load)
            self.go = self.e.both(self.go, fine)
            if fine is None:
                self.doubtful[load] = None

    def copy(self, stage: Lane) -> None:
        """Ask for the next turn's tiles, where there is no doubt; else, and if all is not done at
        once, that is left to `finish`.
        """
        with self.later():
            if self.at_once and self.end_of_sure is None:
                self.look_closely()
            for load, shared in self.plan.loads.items():
                if self.is_sure or load not in self.doubtful:
                    copies = self.copier.copies(load, shared, self.place(load, stage))
                    self.copier.perform(copies, self.go)
            made = self.rest(stage) if self.at_once else None
        if made is not None:
            self.step_on(made)

    def finish(self, stage: Lane) -> None:
        """Ask for the rest, and step on."""
        with self.later():
            made = self.rest(stage)
        self.step_on(made)

    def rest(self, stage: Lane) -> list[Tile]:
        """Ask for what needs a check of every vector, none past the end.

        Gives the carried values of the turn after.
        """
        e, b = self.e, self.e.b
        if self.checked and not self.is_sure:
            comes, unsure = b.lt(self.counter, self.high), b.bit_not(self.go)
            late = (
                self.copies_of(self.doubtful, stage),
                self.copies_of([k for k in self.plan.loads if k not in self.doubtful], stage),
            )
            some = comes if self.doubtful else e.both(comes, unsure)
            with e.w.when(some.text, rarely=not self.doubtful):
                for copies in late[0]:
                    self.copier.check(copies)
                if late[1]:
                    with e.w.when(unsure.text, rarely=True):
                        for copies in late[1]:
                            self.copier.check(copies)
        self.copier.commit()
        return [self.x.tiles[v] for v in self.yields]

    def step_on(self, made: Sequence[Tile]) -> None:
        """Go on to the turn after, given its carried values."""
        self.counter = self.e.b.add(self.counter, self.step)
        self.state = [
            self.x.in_layout(m, layout) for m, layout in zip(made, self.layouts, strict=True)
        ]
        self.ask_addresses()

    # --- arguments that share memory

    def overlap(self) -> Lane | None:
        """Whether stores of the loop may meet its loads; None: certainly not."""
        b, found = self.e.b, None
        loaded = {self.x.memory.param(k) for k in (*self.plan.loads, *self.plan.asked)}
        for p in sorted(self.plan.stored):
            for q in sorted(loaded):
                ends = [Lane(f"%{end}{k}", t.uint64) for k in (p, q) for end in ("low", "high")]
                meet = b.bit_and(b.lt(ends[0], ends[3]), b.lt(ends[2], ends[1]))
                found = meet if found is None else b.bit_or(found, meet)
        return found

    def repeat(self) -> None:
        """Copy this turn's tiles again, now that what was before has been stored."""
        x, hazards, memory = self.x, self.x.memory.hazards, self.e.memory
        read, touches = list(memory.read), set(hazards.touches)
        self.e.barrier()
        kept = self.counter, self.state
        self.counter = x.scalar(self.body.params[0])
        self.state = [x.tiles[p] for p in self.params]
        self.state += self.found(lambda inst: load_now(x, inst))
        with self.later():
            for copies in self.copies_of(self.plan.loads, self.read):
                self.copier.check(copies)
        self.counter, self.state = kept
        self.copier.commit()
        self.copier.wait(0)
        memory.read += read
        hazards.touches |= touches

    # --- what products and threads read

    def stage(self, source: Inst, staged: Staged) -> None:
        """Bind what a load or a permutation gives to the tile in shared memory."""
        self.x.staged[source.result] = staged
        for user in self.x.planner.users[source.result]:
            if user.op is shape.permute:
                turned = Staged(staged.shared.permute(user.attrs["order"]), staged.base)
                self.stage(user, turned)

    def fetch(self, load: Inst, base: Lane) -> Tile:
        """What a load gives, from where it was copied to."""
        x, e = self.x, self.e
        layout, dtype = x.access_layout(load), load.result.type.dtype
        vectors = x.assigned.vectors(load)
        shared = self.plan.loads[load]
        targets = self.copier.targets(layout, shared, base, [rs[0] for rs in vectors])
        lanes: dict[int, Lane] = {}
        for registers, target in zip(vectors, targets, strict=True):
            words = e.load_shared(target, WORDS[8 * shared.bytes], len(registers))
            lanes |= zip(registers, (value_of(e, w, dtype) for w in words), strict=True)
        held = tile(layout, [lanes[r] for r in range(layout.registers)])
        return x.in_layout(held, x.layout(load.result))

    def close(self, carried: list[Tile]) -> list[Tile]:
        """After the loop: nothing is under way any more. Gives the carried values as they are."""
        out = list(carried)
        values = self.plan.unfinished.values()
        numbers = [k for k, p in enumerate(self.body.params[1:]) if p in values]
        if numbers:
            lanes = iter(wgmma.waited(self.e, [v for k in numbers for v in carried[k].lanes]))
            for k in numbers:
                out[k] = tile(out[k].layout, list(islice(lanes, len(out[k].lanes))))
        self.copier.wait(0)
        self.e.memory.give_back(len(self.bases) + len(self.places))
        return out

    # --- stages

    def place(self, load: Inst, stage: Lane) -> Lane:
        """The address of a load's tile in a stage."""
        size = self.e.const(self.plan.loads[load].size)
        return self.e.b.add(self.bases[load], self.e.b.mul(stage, size))

    def following(self, stage: Lane) -> Lane:
        after = self.e.plus(stage, 1)
        last = self.e.b.eq(after, self.e.const(self.plan.stages))
        return self.e.b.select(last, self.e.const(0), after)

    def copies_of(self, loads: Iterable[Inst], stage: Lane) -> list[Copies]:
        return [self.copier.copies(k, self.plan.loads[k], self.place(k, stage)) for k in loads]
