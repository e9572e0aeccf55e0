"""How much of a product is needed: rows and columns that somebody reads, steps that are not zero.

A row or column of a result is *wanted* if a store (or something else that cannot be seen through)
reads it. What is not wanted may hold anything. A step of k is *dead* where both operands are zeros
(one is enough for integers): it adds exact zeros. Operands are zeros where their loads are masked
off with `other` zero. Infinities and NaNs are never multiplied away, as a dead step needs zeros on
both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Block, Inst, Value
from tilewright.passes.affine import only_units
from tilewright.passes.constants import number
from tilewright.targets.cpu.evaluate import Evaluator, Row
from tilewright.targets.cpu.forms import Index, Prefix, Uniform

if TYPE_CHECKING:
    from tilewright.targets.cpu.plan import Plan


@dataclass(frozen=True, slots=True)
class Bound:
    """A mask that varies along one dimension only: `index < limit`, as its evaluation tells."""

    mask: Value
    dim: int


Term = frozenset[Bound]  # the least of some bounds
Extent = frozenset[Term] | None  # the most of some terms; None: as large as the tile

COMPARISONS = frozenset({"lt", "le", "gt", "ge"})
ZERO_KEEPING = frozenset({"cast", "hint"})


class Extents:
    """Asks of the dots of one kernel."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.owners: dict[Block, Inst] = {}
        self.parents: dict[Block, Block] = {}
        self.note_blocks(plan.kernel.body)

    def note_blocks(self, block: Block) -> None:
        for inst in block.insts:
            for inner in inst.blocks:
                self.owners[inner], self.parents[inner] = inst, block
                self.note_blocks(inner)

    def of(self, inst: Inst) -> tuple[Extent, Extent, Extent]:
        """The extents of a dot: rows, columns, steps of k."""
        x, y, _ = inst.operands
        rank = len(inst.result.type.shape)
        rows, columns = (Wanted(self, inst).along(d) for d in (rank - 2, rank - 1))
        left, right = self.alive(x, rank - 1), self.alive(y, rank - 2)
        if x.type.dtype.is_float:
            depth = None if left is None or right is None else left | right
        else:
            depth = left if right is None else right if left is None else left
        return rows, columns, depth

    # --- zeros

    def alive(self, value: Value, dim: int) -> Extent:
        """Beyond this, every element of a value along a dimension is zero."""
        inst = value.inst
        if inst is None or value.type.shape[dim] == 1:
            return None
        operands = inst.operands
        if inst.op.name == "load" and len(operands) > 1:
            is_zero = len(operands) < 3 or number(operands[2]) == 0
            bounds = self.bounds(operands[1], dim)
            return frozenset([bounds]) if is_zero and bounds else None
        if inst.op.name in ZERO_KEEPING:
            return self.alive(operands[0], dim)
        if inst.op.name == "select" and number(operands[2]) == 0:
            bounds = self.bounds(operands[0], dim)
            return frozenset([bounds]) if bounds else self.alive(operands[1], dim)
        moved = source_dim(inst, dim)
        return None if moved is None else self.alive(operands[0], moved)

    # --- masks

    def bounds(self, mask: Value, dim: int) -> Term:
        """The bounds along a dimension that hold wherever a mask is on."""
        inst = mask.inst
        if inst is None or not mask.type.shape:
            return frozenset()
        name = inst.op.name
        if name == "bit_and":
            return self.bounds(inst.operands[0], dim) | self.bounds(inst.operands[1], dim)
        moved = source_dim(inst, dim)
        if moved is not None:
            return self.bounds(inst.operands[0], moved)
        if name in COMPARISONS and varying(mask) == {dim} and self.plan.symbolic.get(mask):
            return frozenset([Bound(mask, dim)])
        return frozenset()

    def is_told(self, bound: Bound, at: Block, outside: frozenset[Block]) -> bool:
        """Whether a bound is made of what a block may know, and of nothing that others change."""
        around = set(self.around(at))
        for leaf in leaves(bound.mask):
            home = self.plan.home[leaf]
            if home not in around or not outside.isdisjoint(self.around(home)):
                return False
        return True

    def around(self, block: Block) -> list[Block]:
        """A block and those that it is in."""
        out = [block]
        while block in self.parents:
            block = self.parents[block]
            out.append(block)
        return out


@dataclass(frozen=True, slots=True)
class Place:
    """A dimension of a value on the way to its readers."""

    value: Value
    dim: int
    bounds: Term  # elements beyond them are not read
    crossed: frozenset[Block]  # bodies of loops whose next turn reads it


class Wanted:
    """Follows the result of a dot to everything that reads it."""

    def __init__(self, extents: Extents, inst: Inst):
        self.extents, self.inst = extents, inst
        self.plan = extents.plan
        self.home = self.plan.home[inst.result]

    def along(self, dim: int) -> Extent:
        if self.inst.result.type.shape[dim] == 1:
            return None
        terms: set[Term] = set()
        start = Place(self.inst.result, dim, frozenset(), frozenset())
        seen, stack = {start}, [start]
        while stack:
            place = stack.pop()
            for user in self.plan.users.get(place.value, ()):
                found = self.through(place, user)
                if found is None:
                    return None
                if isinstance(found, frozenset):
                    terms.add(found)
                    continue
                stack += [p for p in found if p not in seen]
                seen.update(found)
        return frozenset(terms)

    def through(self, place: Place, user: Inst) -> list[Place] | Term | None:
        """Where a reader hands the elements on, or how many it wants; None: all of them."""
        name, operands = user.op.name, user.operands
        if name in ("store", "atomic_rmw"):
            where = user.op.access.mask
            if place.value is not operands[1] or place.value in (operands[0], *operands[2:]):
                return None
            mask = operands[where] if 0 <= where < len(operands) else None
            bounds = place.bounds | (self.usable(place, mask) if mask is not None else frozenset())
            return bounds or None
        if name == "select" and place.value not in (operands[0], operands[2]):
            return [self.step(place, user.result, self.usable(place, operands[0]))]
        if user.op.is_elementwise:
            return [self.step(place, user.result)]
        if name == "yield":
            return self.leave(place, user)
        if name == "for":
            return self.enter(place, user)
        if name == "dot":
            return self.multiply(place, user)
        if name == "reduce" and user.attrs["axis"] != place.dim:
            dim = place.dim - (user.attrs["axis"] < place.dim)
            return [self.step(place, r, dim=dim) for r in user.results]
        moved = target_dim(user, place.dim)
        return None if moved is None else [self.step(place, user.result, dim=moved)]

    def usable(self, place: Place, mask: Value) -> Term:
        bounds = self.extents.bounds(mask, place.dim)
        return frozenset(b for b in bounds if self.extents.is_told(b, self.home, place.crossed))

    def step(
        self, place: Place, value: Value, bounds: Term = frozenset(), dim: int | None = None
    ) -> Place:
        return Place(value, place.dim if dim is None else dim, place.bounds | bounds, place.crossed)

    def leave(self, place: Place, user: Inst) -> list[Place] | None:
        """From the end of a block to what it gives, and to the next turn of a loop."""
        block = next((b for b in self.extents.owners if b.terminator is user), None)
        owner = self.extents.owners.get(block)
        if owner is None or owner.op.name not in ("for", "if"):
            return None
        out = []
        for k, value in enumerate(user.operands):
            if value is not place.value:
                continue
            out.append(self.step(place, owner.results[k]))
            if owner.op.name == "for":
                again = Place(block.params[k + 1], place.dim, place.bounds, place.crossed | {block})
                out.append(again)
        return out

    def enter(self, place: Place, user: Inst) -> list[Place] | None:
        body, out = user.blocks[0], []
        if place.value in user.operands[:3]:
            return None
        for k, value in enumerate(user.operands[3:]):
            if value is place.value:
                out += [self.step(place, user.results[k]), self.step(place, body.params[k + 1])]
        return out

    def multiply(self, place: Place, user: Inst) -> list[Place] | None:
        """Rows of the left operand are rows of the product, columns of the right its columns."""
        x, y, acc = user.operands
        rank = len(place.value.type.shape)
        if place.value is x and (place.value is y or place.dim == rank - 1):
            return None
        if place.value is y and place.dim == rank - 2:
            return None
        return [self.step(place, user.result)]


def source_dim(inst: Inst, dim: int) -> int | None:
    """The dimension of the operand of an op that only moves elements; None of other ops."""
    if inst.op.name == "permute":
        return inst.attrs["order"][dim]
    if inst.op.name not in ("broadcast", "reshape"):
        return None
    before, after = inst.operands[0].type.shape, inst.result.type.shape
    if inst.op.name == "broadcast":
        return dim if before[dim] == after[dim] else None
    if after[dim] == 1 or not only_units(inst):
        return None
    number = sum(n != 1 for n in after[:dim])
    return [d for d, n in enumerate(before) if n != 1][number]


def target_dim(inst: Inst, dim: int) -> int | None:
    """The dimension of the result that a dimension of the operand becomes."""
    if inst.op.name not in ("permute", "broadcast", "reshape"):
        return None
    found = [d for d in range(len(inst.result.type.shape)) if source_dim(inst, d) == dim]
    return found[0] if len(found) == 1 else None


def varying(value: Value) -> set[int]:
    """The dimensions along which the elements of a tile may differ."""
    inst = value.inst
    everywhere = {d for d, n in enumerate(value.type.shape) if n > 1}
    if inst is None or not everywhere:
        return everywhere
    name = inst.op.name
    if name in ("splat", "constant"):
        return set()
    if name in ("permute", "broadcast", "reshape"):
        if name == "reshape" and not only_units(inst):
            return everywhere
        below = varying(inst.operands[0])
        return {d for d in everywhere if source_dim(inst, d) in below}
    if inst.op.is_elementwise:
        return set().union(*map(varying, inst.operands))
    return everywhere


def is_separable(mask: Value) -> bool:
    """Whether a mask is made of masks along one dimension each, all of which must be on."""
    inst = mask.inst
    if inst is not None and inst.op.name in ("bit_and", "permute", "broadcast", "reshape"):
        return all(map(is_separable, inst.operands))
    return len(varying(mask)) <= 1


def leaves(value: Value) -> set[Value]:
    """The scalars that a tile of index arithmetic is made of, down to what does not compute."""
    out: set[Value] = set()
    seen: set[Value] = set()
    stack = [value]
    while stack:
        x = stack.pop()
        if x in seen:
            continue
        seen.add(x)
        if x.inst is None or not (x.inst.op.is_elementwise or x.type.shape):
            if x.inst is None or x.inst.op.name not in ("constant", "program_id", "num_programs"):
                out.add(x)
            continue
        stack += x.inst.operands
    return out


def extent_of(e: Evaluator, extent: Extent, size: int) -> Uniform:
    """An extent as a number from 0 to `size`, written where everything it is made of is known."""
    whole = Uniform(e.const(size), 0)
    if extent is None:
        return whole
    most: Uniform | None = None
    for term in extent:
        limits = [limit for limit in (limit_of(e, bound) for bound in term) if limit is not None]
        if not limits:
            return whole
        least = limits[0]
        for limit in limits[1:]:
            least = pick(e, least, limit, e.b.minimum)
        most = least if most is None else pick(e, most, least, e.b.maximum)
    if most is None:
        return whole
    found = pick(e, pick(e, most, whole, e.b.minimum), Uniform(e.const(0), 0), e.b.maximum)
    if found.lane.known in (None, size):
        return found
    # A part of the whole, which routines are told as if it were known at run time only.
    return Uniform(e.at(0, lambda: e.b.value(f"add {found.lane.typed}, 0", t.int64, 1)), 0)


def pick(e: Evaluator, x: Uniform, y: Uniform, which: Callable[[Lane, Lane], Lane]) -> Uniform:
    depth = max(x.depth, y.depth)
    if x.lane.text == y.lane.text:
        return x
    return Uniform(e.at(depth, lambda: which(x.lane, y.lane)), depth)


def limit_of(e: Evaluator, bound: Bound) -> Uniform | None:
    """The number below which a mask is on, if all that it is made of is there already."""
    if not all(leaf in e.bound or e.knows(leaf, ()) for leaf in leaves(bound.mask)):
        return None
    shape = bound.mask.type.shape
    index = [e.scalar_index(0)] * len(shape)
    index[bound.dim] = Index(e.const(0), 0, vector=True, whole=True)
    before, e.row = e.row, Row(1, shape[bound.dim], e.w.at)
    form = e.eval(bound.mask, tuple(index))
    e.row = before
    return Uniform(form.limit, form.depth) if isinstance(form, Prefix) else None
