"""Put the tile operations of a straight line of instructions into shared loop nests.

What must happen (stores, reductions, kept values) is an *anchor*; anchors of one shape that do not
wait for each other's whole result share a nest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.ir.inst import Block, Inst, Value
from tilewright.later import later
from tilewright.passes.constants import is_zero
from tilewright.targets.cpu.follow import follow, source_dim
from tilewright.targets.cpu.interleaved import never_meet
from tilewright.targets.cpu.kinds import CONTROL, MOVES, WHOLE
from tilewright.targets.cpu.plan import Plan

if TYPE_CHECKING:
    from tilewright.targets.cpu.gathered import Rows
    from tilewright.targets.cpu.sources import Source

gathered = later("tilewright.targets.cpu.gathered")
sources = later("tilewright.targets.cpu.sources")

# What runs at its place: readers wait for it, they do not evaluate it.
RUNS = CONTROL | WHOLE | {"reduce", "dot", "atomic_rmw", "atomic_cas", "clock"}
# Anchors that nothing that writes goes past.
IN_ORDER = frozenset({"store", "atomic", "barrier", "device_print", "clock"})


@dataclass(eq=False, slots=True)
class Anchor:
    """Something that must happen: an effect, a reduction, or a value written to a buffer."""

    kind: str  # store, atomic, reduce, keep, hold, assign, pack, whole, dot, scalar, ...
    inst: Inst | None
    shape: tuple[int, ...]
    value: Value | None = None  # what is kept, assigned or packed
    target: Value | None = None  # assign: the loop-carried parameter (or result of an `if`)
    side: int = 0  # pack: the left or the right operand of a product
    pack: Callable | None = None  # pack: how a chunk gets to its place
    source: Source | Rows | None = None  # pack: what in memory the operand is
    loads: tuple[Inst, ...] = ()  # dot: those of operands that it may read where they lie
    nest: Nest | None = None  # pack: its own nest, for a tile that is not all there
    passes: bool = False  # keep: from register to register, as only its own nest reads it

    @property
    def roots(self) -> tuple[Value, ...]:
        """The values that are evaluated for it at its own positions."""
        operands = self.inst.operands if self.inst is not None else ()
        if self.kind == "keep":
            return operands[2:] if self.inst.op.name == "load" else operands
        if self.value is not None:
            return (self.value,)
        return operands[1:] if self.kind in ("store", "atomic") else operands

    def along(self, axis: int) -> int | None:
        """The dimension of the roots that runs along an axis of the loops."""
        return source_dim(self.inst, axis) if self.kind == "keep" else axis


@dataclass(eq=False, slots=True)
class Nest:
    """Anchors that run in the same loops over `shape`, with `axis` along the vector lanes."""

    shape: tuple[int, ...]
    axis: int
    anchors: list[Anchor] = field(default_factory=list)
    rare: bool = False  # not worth two versions of its rows


@dataclass(slots=True)
class Reads:
    """What evaluating an anchor reads: results of others, buffers, memory."""

    whole: set[Value] = field(default_factory=set)  # every element must be there before
    same: set[Value] = field(default_factory=set)  # only the element at the same position
    loads: list[tuple[Inst, bool]] = field(default_factory=list)  # load, at the same position


class Scheduler:
    """Places anchors one by one: in the earliest nest that may hold them, or in a new one."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.items: list[Nest | Anchor] = []
        self.done: dict[Value, int] = {}  # the item that completes a value
        self.loads: list[tuple[int, Inst, bool]] = []  # item, load evaluated there, same position
        self.writes: list[tuple[int, Inst, bool]] = []  # item, store or atomic, in a nest
        self.readers: dict[Value, list[tuple[int, bool]]] = {}  # item, same position
        self.order: dict[Inst, int] = {}

    def run(self, insts: list[Inst]) -> list[Nest | Anchor]:
        for number, inst in enumerate(insts):
            self.order[inst] = number
        first = self.first_loads(insts)
        for inst in [*first, *(i for i in insts if i not in first)]:
            for anchor in self.anchors(inst):
                self.place(anchor)
        return self.items

    def first_loads(self, insts: list[Inst]) -> dict[Inst, None]:
        """Loads of scalars that wait for nothing: before the nests, which then can share loops."""
        out: dict[Inst, None] = {}
        late: set[Value] = set()  # what waits for a nest or a loop
        for inst in insts:
            if inst.op.effect not in ("pure", "read", "program"):
                break
            is_load = inst.op.name == "load" and not inst.result.type.shape
            waits = any(x in late for x in inst.operands)
            if is_load and not waits and not inst.attrs.get("volatile"):
                out[inst] = None
            elif is_load or waits or inst.op.name in RUNS:
                late.update(inst.results)
        return out

    # --- anchors

    def anchors(self, inst: Inst) -> list[Anchor]:
        """What an instruction asks to happen, in order."""
        name, operands = inst.op.name, inst.operands
        if name == "reduce":
            return [Anchor("reduce", inst, operands[0].type.shape)]
        if name == "dot":
            return self.dot(inst)
        if name in WHOLE:
            return [Anchor("whole", inst, ())]
        if name in ("store", "atomic_rmw", "atomic_cas", "device_assert"):
            kind = "atomic" if name.startswith("atomic") else name
            return [Anchor(kind, inst, operands[0].type.shape)]
        if name == "load" and not inst.result.type.shape:
            return [Anchor("scalar", inst, ())]
        if inst.op.effect == "debug":
            return [Anchor(name, inst, ())]
        return [Anchor("keep", inst, r.type.shape, r) for r in inst.results if r in self.plan.kept]

    def dot(self, inst: Inst) -> list[Anchor]:
        """Both operands packed, the accumulator in the buffer of the result, then the product."""
        x, y, acc = inst.operands
        packs = [
            Anchor("pack", inst, v.type.shape, v, side=i, source=self.source_of(v))
            for i, v in enumerate((x, y))
        ]
        before = [] if is_zero(acc) else [Anchor("assign", inst, acc.type.shape, acc, inst.result)]
        loads = tuple(pack.source.load for pack in packs if pack.source is not None)
        return [*packs, *before, Anchor("dot", inst, (), loads=loads)]

    def source_of(self, operand: Value) -> Source | Rows | None:
        """The memory that an operand of a product is read from by a routine."""
        found = sources.find_source(self.plan, operand)
        return found if found is not None else gathered.find_rows(self.plan, operand)

    # --- what an anchor reads

    def reads(self, anchor: Anchor) -> Reads:
        out = Reads()
        if anchor.kind == "dot":
            out.whole.add(anchor.inst.result)
            out.loads += [(load, False) for load in anchor.loads]
            return out
        if anchor.kind == "whole":
            out.whole.update(anchor.inst.operands)
            return out
        if anchor.value is None:
            roots = anchor.inst.operands
        elif anchor.kind == "keep":
            roots = anchor.inst.operands
            if anchor.inst.op.name == "load":
                out.loads.append((anchor.inst, True))
        else:
            roots = (anchor.value,)
        if anchor.kind == "scalar" and anchor.inst.op.name == "load":
            out.loads.append((anchor.inst, True))
        same = anchor.kind != "keep" or anchor.inst.op.name not in MOVES
        self.trace(roots, same, out)
        return out

    def trace(self, roots: Sequence[Value], same: bool, out: Reads) -> None:
        """Follow values to the buffers, results and memory that evaluating them reads."""
        seen: set[tuple[Value, bool]] = set()
        stack = [(x, same) for x in reversed(roots)]
        while stack:
            value, same = place = stack.pop()
            if place in seen:
                continue
            seen.add(place)
            inst = value.inst
            if value in self.plan.kept or inst is None:
                (out.same if same and value.type.shape else out.whole).add(value)
                continue
            if inst.op.name in RUNS or (inst.op.name == "load" and not value.type.shape):
                out.whole.add(value)
                continue
            if inst.op.name == "load":
                out.loads.append((inst, same))
            same = same and inst.op.name not in MOVES
            stack += [(x, same) for x in reversed(inst.operands)]

    # --- placement

    def place(self, anchor: Anchor) -> None:
        reads = self.reads(anchor)
        solo = not anchor.shape or anchor.source is not None
        first = self.earliest(anchor, reads)
        axis = self.axis(anchor)
        index = len(self.items)
        if not solo:
            for i in range(first, len(self.items)):
                item = self.items[i]
                if isinstance(item, Nest) and item.shape == anchor.shape and item.axis == axis:
                    index = i
                    break
        if anchor.source is not None:
            anchor.nest = Nest(anchor.shape, axis, [anchor], rare=True)
        if index == len(self.items):
            self.items.append(anchor if solo else Nest(anchor.shape, axis))
        if not solo:
            self.items[index].anchors.append(anchor)
        self.note(anchor, reads, index)

    def note(self, anchor: Anchor, reads: Reads, index: int) -> None:
        for inst, same in reads.loads:
            self.loads.append((index, inst, same))
        for values, same in ((reads.same, True), (reads.whole, False)):
            for value in values:
                self.readers.setdefault(value, []).append((index, same))
        if anchor.kind in IN_ORDER:
            self.writes.append((index, anchor.inst, bool(anchor.shape)))
        results = (anchor.target,) if anchor.target is not None else ()
        if anchor.kind not in ("pack", "assign", "hold") and anchor.inst is not None:
            results = (anchor.value,) if anchor.value is not None else anchor.inst.results
        for r in results:
            self.done[r] = max(index, self.done.get(r, 0))

    def earliest(self, anchor: Anchor, reads: Reads) -> int:
        """The first item in which an anchor may run."""
        first = 0
        for value in reads.whole:
            first = max(first, self.done.get(value, -1) + 1)
        for value in reads.same:
            is_cut = value in self.plan.cuts and value in self.done
            first = max(first, self.done.get(value, 0) + is_cut)
        for inst, _ in reads.loads:
            for index, write, _ in self.writes:
                if self.order[write] < self.order.get(inst, -1):
                    first = max(first, index + 1)
        if anchor.kind == "dot":
            first = len(self.items)
        if anchor.kind == "assign":
            for index, same in self.readers.get(anchor.target, ()):
                first = max(first, index if same else index + 1)
        if anchor.kind in IN_ORDER:
            first = max(first, self.after_memory(anchor))
        if anchor.kind == "device_assert" or anchor.kind == "scalar":
            first = max([first] + [index + 1 for index, _, _ in self.writes])
        return first

    def after_memory(self, anchor: Anchor) -> int:
        """The first item in which an anchor that writes may run, after what it must not change."""
        first = 0
        for index, inst, same in self.loads:
            together = bool(anchor.shape) and self.disjoint(anchor.inst, inst, same)
            first = max(first, index if together else index + 1)
        for index, inst, in_nest in self.writes:
            together = bool(anchor.shape) and in_nest and self.disjoint(anchor.inst, inst, True)
            first = max(first, index if together else index + 1)
        return first

    def disjoint(self, x: Inst, y: Inst, same: bool) -> bool:
        """Whether two accesses meet only at one position, if at all: those of other arguments, of
        one pointer, or of elements between or beyond one another. Unless `same`, the second one is
        not made at its own positions, and they may not meet."""
        if not x.operands or not y.operands:
            return False
        p, q = x.operands[0], y.operands[0]
        same = same and self.plan.distinct(p)
        if p is q:
            return same
        return self.plan.sharing.apart(p, q, same) or never_meet(p, q, self.plan.strides)

    def axis(self, anchor: Anchor) -> int:
        """The dimension along which most accesses are contiguous; the last one if in doubt."""
        rank = len(anchor.shape)
        if rank < 2:
            return 0
        votes = [self.votes(anchor, d) for d in range(rank)]
        votes[rank - 1] += 0.5
        best = max(range(rank), key=lambda d: (votes[d], d))
        widest = max(range(rank), key=lambda d: (anchor.shape[d], d))
        return best if anchor.shape[best] >= 4 or votes[best] >= 2 else widest

    def votes(self, anchor: Anchor, axis: int) -> float:
        """How much an anchor gains from lanes along an axis."""
        plan = self.plan
        if anchor.shape[axis] == 1:
            return 0.0
        votes = 0.0
        if anchor.kind in ("store", "atomic"):
            votes += 2.0 * (plan.contiguous(anchor.inst.operands[0]) == axis)
        if anchor.kind == "keep" and anchor.inst.op.name == "load":
            votes += 2.0 * (plan.contiguous(anchor.inst.operands[0]) == axis)
        for root in anchor.roots:
            for value, dim in follow(root, anchor.along(axis), plan.kept):
                last = len(value.type.shape) - 1
                if value in plan.kept or value.inst is None:
                    votes += dim == last
                elif dim is not None:
                    votes += 1.5 * (plan.contiguous(value.inst.operands[0]) == dim)
        return votes


def segments(block: Block) -> list[list[Inst] | Inst]:
    """The instructions of a block, cut at loops and branches; its `yield` is left out."""
    out: list[list[Inst] | Inst] = [[]]
    for inst in block.insts:
        if inst.op.name in CONTROL:
            out += [inst, []]
        elif inst.op.name != "yield":
            out[-1].append(inst)
    return out
