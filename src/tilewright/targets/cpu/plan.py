"""Decide which tile values live in memory and which are recomputed where they are read.

Tile values are recomputed where they are read, inside the loops of their readers, unless they are
*kept*: written once to a buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from tilewright.ir import types as t
from tilewright.ir.inst import Block, Inst, Kernel, Value
from tilewright.ir.types import Type
from tilewright.passes.affine import Affine
from tilewright.passes.strides import Strides, strides, strides_inside
from tilewright.targets.cpu import chains
from tilewright.targets.cpu.follow import follow
from tilewright.targets.cpu.interleaved import never_meet
from tilewright.targets.cpu.kinds import (
    ALWAYS_KEPT,
    CHEAP,
    CONTROL,
    FOLDS,
    INDEXING,
    MOVES,
    READ_WHOLE,
    WHOLE,
    is_large,
    is_outer,
    is_repeat,
    is_reshuffle,
)
from tilewright.targets.cpu.sharing import Sharing

INDEX_COST = 1000  # what takes more steps is no index, but a hash or random numbers
KEEP_COST = 3  # recompute a value in a second nest only if it takes at most so many cheap steps


class Plan:
    """The kept values of a kernel and the schedule of each of its blocks."""

    def __init__(
        self,
        kernel: Kernel,
        keep_loads: bool = False,
        shared: bool = False,
        tracked: frozenset[int] = frozenset(),
    ):
        self.kernel = kernel
        self.tracked = tracked  # parameters of which every access must be seen, in checked code
        self.keep_loads = keep_loads  # so that each runs exactly once, and can be counted
        self.strides = strides(kernel)
        self.sharing = Sharing(kernel, self.strides, shared)
        self.affine = Affine()
        self.home: dict[Value, Block] = {}
        self.users: dict[Value, list[Inst]] = {}
        self.segment: dict[Inst, int] = {}
        self.order: dict[Inst, int] = {}  # of all instructions
        self.writes: dict[int, list[Inst]] = {}  # of each segment, in order
        self.symbolic: dict[Value, bool] = {}
        self.folded: dict[Value, bool] = {}  # whether elements may be equal
        self.cost: dict[Value, int] = {}
        self.kept: set[Value] = set()
        self.outer: dict[Inst, bool] = {}
        self.waves: dict[Inst, int] = {}
        self.places: dict[Value, set[tuple]] = {}
        self.last: dict[Value, int] = {}
        self.count = 0
        self.scan_block(kernel.body)
        self.staged = self.find_staged()
        self.cuts = frozenset() if keep_loads else chains.find_cuts(kernel)
        insts = list(kernel.walk())
        for inst in insts:
            self.wave(inst)
        for inst in reversed(insts):
            self.decide(inst)

    @cached_property
    def strides_inside(self) -> Callable[[Value], Strides]:
        """As `strides`, of the elements whose indices do not wrap around."""
        return strides_inside(self.kernel)

    # --- what is known of each value

    def scan_block(self, block: Block) -> None:
        for p in block.params:
            self.home[p] = block
            self.symbolic[p] = not p.type.shape
            self.cost[p] = 0
        self.count += 1
        for inst in block.insts:
            if inst.op.name in CONTROL:
                self.count += 1
            self.segment[inst] = self.count
            self.order[inst] = len(self.order)
            if inst.op.effect in ("write", "atomic") or inst.op.name == "barrier":
                self.writes.setdefault(self.count, []).append(inst)
            for x in inst.operands:
                self.users.setdefault(x, []).append(inst)
            for r in inst.results:
                self.home[r] = block
                self.describe(inst, r)
            for inner in inst.blocks:
                self.scan_block(inner)
            if inst.op.name in CONTROL:
                self.count += 1

    def describe(self, inst: Inst, result: Value) -> None:
        if not result.type.shape:
            self.symbolic[result] = True
            self.cost[result] = 0
            return
        cheap = inst.op.name in CHEAP and not is_reshuffle(inst)
        indexing = inst.op.name in INDEXING and not is_reshuffle(inst)
        is_index = indexing and all(self.symbolic.get(x, False) for x in inst.operands)
        folded = any(self.folded.get(x, False) for x in inst.operands)
        self.folded[result] = folded or inst.op.name in FOLDS
        own = 1 if cheap else 8 if inst.op.is_elementwise else 0
        if inst.op.name in MOVES or inst.op.name in ("constant", "arange"):
            own = 0
        self.cost[result] = own + sum(self.cost.get(x, 0) for x in inst.operands)
        if inst.op.name == "load" and self.is_contiguous(inst):
            self.cost[result] = 1  # the addresses of a row cost next to nothing
        self.symbolic[result] = is_index and self.cost[result] <= INDEX_COST

    def find_staged(self) -> set[Value]:
        """Loads of matrices whose rows in memory run across those of the store that reads them."""
        out: set[Value] = set()
        for store in self.kernel.walk():
            if store.op.name != "store" or len(store.operands[0].type.shape) != 2:
                continue
            axis = self.contiguous(store.operands[0])
            if axis is None:
                continue
            for value, dim in follow(store.operands[1], axis, ()):
                if value.inst is None or value.inst.op.name != "load" or not is_large(value):
                    continue
                own = self.contiguous(value.inst.operands[0])
                if own is not None and dim is not None and own != dim:
                    out.add(value)
        return out

    def contiguous(self, pointer: Value) -> int | None:
        """The dimension along which a tile of pointers steps from element to element."""
        size = pointer.type.dtype.element_ty.bytes
        steps = self.strides(pointer)
        found = [d for d, s in enumerate(steps) if s == size and pointer.type.shape[d] > 1]
        return found[0] if len(found) == 1 else None

    # --- which values are kept

    def decide(self, inst: Inst) -> None:
        for r in inst.results:
            if r.type.shape:
                if self.must_keep(inst, r):
                    self.kept.add(r)
                # Now that all readers are decided, and before those of its operands are.
                self.sites(r)
                self.last_reader(r)

    def must_keep(self, inst: Inst, value: Value) -> bool:
        name = inst.op.name
        if name in ALWAYS_KEPT:
            return True
        users = self.users.get(value, [])
        if not users:
            return name == "load" and bool(inst.attrs.get("volatile"))
        if name in ("atomic_rmw", "atomic_cas") or (name == "load" and self.keep_loads):
            return True
        if any(is_reshuffle(u) or u.op.name in READ_WHOLE for u in users):
            return True
        if value in self.staged or value in self.cuts:
            return True
        if self.symbolic[value]:
            return False
        if is_repeat(inst) and not any(u.op.name == "yield" for u in users):
            return False  # its operand is kept, if need be
        if any(u.op.name == "yield" for u in users):
            return not self.is_yield_only(value, users)
        if any(self.segment[u] != self.segment[inst] for u in users):
            return not is_outer(inst, self.symbolic, self.outer)
        if self.is_read_elsewhere(inst, users):
            return True
        return self.read_often(inst, value) or self.load_outlived(inst, value)

    def is_read_elsewhere(self, inst: Inst, users: list[Inst]) -> bool:
        """Whether another segment reads what repeats a value's elements, or is made of such."""
        for user in users:
            passes = is_repeat(user) or is_outer(user, self.symbolic, self.outer)
            if passes and user.result not in self.kept:
                readers = self.users.get(user.result, [])
                if any(self.segment[u] != self.segment[inst] for u in readers):
                    return True
                if self.is_read_elsewhere(inst, readers):
                    return True
        return False

    def is_yield_only(self, value: Value, users: list[Inst]) -> bool:
        """A value that only ends its block is assigned where it goes, not kept first."""
        return len(users) == 1 and users[0].op.name == "yield"

    def sites(self, value: Value) -> set[tuple]:
        """The (wave, shape) of the anchors in whose loops a value would be recomputed."""
        if value in self.places:
            return self.places[value]
        out: set[tuple] = set()
        for user in self.users.get(value, []):
            name = user.op.name
            if user.op.effect == "pure" and name not in ("reduce", "dot") and name not in WHOLE:
                for r in user.results:
                    if r in self.kept:
                        out.add((self.wave(user), r.type.shape))
                    else:
                        out |= self.sites(r)
            elif name == "load":
                r = user.result
                out |= {(self.wave(user), r.type.shape)} if r in self.kept else self.sites(r)
            else:
                out.add((self.wave(user), self.space(user), name == "dot" and id(user)))
        self.places[value] = out
        return out

    def space(self, user: Inst) -> tuple[int, ...]:
        return user.operands[0].type.shape if user.operands else ()

    def wave(self, inst: Inst) -> int:
        """How many whole-tile results lie before an instruction, along its operands."""
        if inst in self.waves:
            return self.waves[inst]
        best = 0
        for x in inst.operands:
            source = x.inst
            if source is None or self.segment.get(source) != self.segment.get(inst):
                continue
            completes = source.op.name in ("reduce", "dot") or source.op.name in WHOLE
            best = max(best, self.wave(source) + completes)
        self.waves[inst] = best
        return best

    def read_often(self, inst: Inst, value: Value) -> bool:
        places = self.sites(value)
        if inst.op.name == "load":
            again = len({p[0] for p in places}) > 1
            shapes = {p[1] for p in places}
            if again and shapes == {value.type.shape} and self.is_contiguous(inst):
                return False  # still in the cache: 10 % to 30 % faster than through a buffer
            return again and value.type.shape in shapes
        if self.cost[value] <= KEEP_COST:
            return len(places) > 1 and self.would_keep_loads(value)
        if len(places) > 1:
            return True
        size = value.type.size
        return any(Type(t.int1, p[1]).size > size and self.blown_up(value) for p in places)

    def would_keep_loads(self, value: Value) -> bool:
        """Whether computing a value again needs loads of memory that changes before."""
        last, stack = self.last_reader(value), [value]
        while stack:
            inst = stack.pop().inst
            if inst is None or inst not in self.segment:
                continue
            if inst.op.name != "load":
                stack.extend(inst.operands if inst.op.effect == "pure" else ())
                continue
            for write in self.writes.get(self.segment[inst], []):
                after = self.order[inst] < self.order[write] < last
                if after and not self.spares(write, inst.operands[0]):
                    return True
        return False

    def is_contiguous(self, load: Inst) -> bool:
        """Whether a load reads neighbouring elements along the last axis, at full speed."""
        pointer = load.operands[0]
        size = pointer.type.dtype.element_ty.bytes
        steps = [s for n, s in zip(pointer.type.shape, self.strides(pointer)) if n > 1]
        return size > 1 and steps[-1:] == [size] and not load.attrs.get("volatile")

    def blown_up(self, value: Value) -> bool:
        """Whether a reader repeats the value along the last axis that it varies in."""
        return any(u.op.name in ("broadcast", "reshape", "permute") for u in self.users[value])

    def load_outlived(self, inst: Inst, value: Value) -> bool:
        """Whether a load is read after something that may have changed the memory."""
        if inst.op.name != "load":
            return False
        order, last = self.order[inst], self.last_reader(value)
        for write in self.writes.get(self.segment[inst], []):
            if not order < self.order[write] <= last:
                continue
            if self.order[write] == last:
                return not self.in_place(value, write)
            if not self.spares(write, inst.operands[0]):
                return True
        return False

    def spares(self, write: Inst, pointer: Value) -> bool:
        """Whether a write changes nothing of what lies at a tile of pointers."""
        if not write.operands:
            return False
        other = write.operands[0]
        apart = never_meet(pointer, other, self.strides)
        return apart or self.sharing.apart(pointer, other, same=False)

    def last_reader(self, value: Value) -> int:
        """The number of the last instruction that reads a value, through others not kept too."""
        if value not in self.last:
            ends = [self.order[u] for u in self.users.get(value, ())]
            passed = (r for u in self.users.get(value, ()) for r in u.results if r not in self.kept)
            self.last[value] = max([*ends, *map(self.last_reader, passed)], default=-1)
        return self.last[value]

    def in_place(self, loaded: Value, write: Inst) -> bool:
        """Whether a write of what a load leads to spares all elements that it is made of later."""
        p, q = loaded.inst.operands[0], write.operands[0]
        same = self.distinct(p) and not self.is_moved(loaded)
        return self.sharing.apart(p, q, same) or (p is q and same)

    def is_moved(self, value: Value) -> bool:
        """Whether something reads a value at other positions, before it is kept."""
        readers = (u for u in self.readers(value) if u.op.name in MOVES)
        return any(r not in self.kept for u in readers for r in u.results)

    def distinct(self, pointer: Value) -> bool:
        """Whether no two elements of a tile of pointers are equal, as far as one can see."""
        steps = zip(pointer.type.shape, self.strides(pointer), strict=True)
        if self.folded.get(pointer, False) or not self.symbolic[pointer]:
            return False
        return not any(n > 1 and step == 0 for n, step in steps)

    def readers(self, value: Value) -> set[Inst]:
        """The instructions that read a value, directly or through others that are not kept."""
        out: set[Inst] = set()
        stack = [value]
        while stack:
            for user in self.users.get(stack.pop(), []):
                if user in out:
                    continue
                out.add(user)
                stack.extend(r for r in user.results if r not in self.kept)
        return out

    def only_through(self, param: Value, acc: Value, inst: Inst) -> bool:
        """Whether a carried tile is read only to make the accumulator of one product, in place."""
        if acc is param:
            return all(u is inst for u in self.users.get(param, ()))
        readers = self.readers(param)
        final = {u for u in readers if not u.results or any(r in self.kept for r in u.results)}
        path = readers - {inst}
        return final <= {inst} and all(
            u.op.is_elementwise and u.results[0] not in self.kept for u in path
        )
