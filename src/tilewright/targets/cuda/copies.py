"""What is cheap to compute is computed once for each layout it is wanted in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from tilewright.ir.inst import Block, Inst, Kernel, Value
from tilewright.ops import math, shape
from tilewright.targets.cuda.layout import Layout
from tilewright.targets.cuda.relations import operand_layout

MOST = 32  # operations that may be made again instead of a conversion
DIVISION = 8  # as many operations as one costs

SOURCES = {shape.constant, shape.arange, shape.splat}
RESHAPING = {shape.broadcast, shape.reshape, shape.permute}

Request = tuple[Value, Layout]


class Portable:
    """Whether a tile can be had in any layout without moving as much as its own elements.

    Index arithmetic, constants and masks are made again; of what is broadcast only the smaller
    tile moves.
    """

    def __init__(self) -> None:
        self.costs: dict[Value, int | None] = {}

    def __call__(self, value: Value) -> bool:
        if not value.type.shape:
            return True
        inst = value.inst
        if inst is not None and inst.op in RESHAPING:
            x = inst.operands[0]
            return x.type.size < value.type.size or self(x)
        return self.cost(value) is not None

    def cost(self, value: Value) -> int | None:
        """Operations for one element; None: it is not to be made again."""
        if not value.type.shape:
            return 0
        if value not in self.costs:
            self.costs[value] = self.find_cost(value.inst)
        return self.costs[value]

    def find_cost(self, inst: Inst | None) -> int | None:
        if inst is None or len(inst.results) != 1:
            return None
        if inst.op in SOURCES:
            return 1
        if inst.op not in RESHAPING:
            values = (*inst.operands, inst.result)
            if not inst.op.is_elementwise or any(v.type.dtype.is_float for v in values):
                return None
        total = DIVISION if inst.op in (math.idiv, math.irem) else 1
        for x in inst.operands:
            cost = self.cost(x)
            if cost is None:
                return None
            total += cost
        return total if total <= MOST else None


class Layouts(Protocol):
    """As `assign.Assignment`."""

    def layout(self, value: Value) -> Layout: ...

    def wanted(self, inst: Inst, position: int) -> Layout: ...


def requests(
    kernel: Kernel, found: Layouts, portable: Callable[[Value], bool]
) -> dict[Value, list[Layout]]:
    """The further layouts that portable values are wanted in."""
    out: dict[Value, list[Layout]] = {}

    def ask(value: Value, layout: Layout | None) -> None:
        if layout is None or not value.type.shape or not portable(value):
            return
        if layout == found.layout(value) or layout in out.setdefault(value, []):
            return
        out[value].append(layout)
        for k, x in enumerate(value.inst.operands):
            ask(x, operand_layout(value.inst, k, layout))

    for inst in kernel.walk():
        for k, x in enumerate(inst.operands):
            ask(x, found.wanted(inst, k))
    return {value: layouts for value, layouts in out.items() if layouts}


@dataclass
class Copies:
    """A kernel with copies, and what is known of it that was known of the one before."""

    kernel: Kernel
    layouts: dict[Value, Layout] = field(default_factory=dict)
    wants: dict[tuple[Inst, int], Layout] = field(default_factory=dict)  # of copies only
    insts: dict[Inst, Inst] = field(default_factory=dict)


def copy_portable(kernel: Kernel, found: Layouts, wanted: dict[Value, list[Layout]]) -> Copies:
    """The kernel with each portable value once for each of its layouts, at one place."""
    copier = Copier(found, wanted)
    body = copier.block(kernel.body)
    copier.out.kernel = Kernel(kernel.name, list(kernel.params), body, kernel.loc, kernel.meta)
    return copier.out


class Copier:
    def __init__(self, found: Layouts, wanted: dict[Value, list[Layout]]):
        self.found = found
        self.wanted = wanted
        self.names: dict[Value, Value] = {}
        self.copies: dict[Request, Value] = {}
        self.out = Copies(None)

    def block(self, old: Block) -> Block:
        new = Block()
        for p in old.params:
            self.names[p] = new.add_param(p.type)
            self.keep(self.names[p], p)
        for inst in old.insts:
            self.inst(inst, new)
        return new

    def keep(self, new: Value, old: Value) -> None:
        if old.type.shape:
            self.out.layouts[new] = self.found.layout(old)

    def inst(self, inst: Inst, block: Block) -> None:
        operands = [self.name(x, self.found.wanted(inst, k)) for k, x in enumerate(inst.operands)]
        made = self.append(inst, operands, block)
        made.blocks = tuple(self.block(b) for b in inst.blocks)
        self.out.insts[inst] = made
        for new, old in zip(made.results, inst.results, strict=True):
            self.names[old] = new
            self.keep(new, old)
            for layout in self.wanted.get(old, ()):
                self.copy(old, layout, block)

    def copy(self, value: Value, layout: Layout, block: Block) -> None:
        inst = value.inst
        wishes = [operand_layout(inst, k, layout) for k in range(len(inst.operands))]
        operands = [self.name(x, w) for x, w in zip(inst.operands, wishes, strict=True)]
        made = self.append(inst, operands, block)
        self.copies[value, layout] = made.result
        self.out.layouts[made.result] = layout
        for k, (x, wish) in enumerate(zip(inst.operands, wishes, strict=True)):
            if x.type.shape and wish is not None:
                self.out.wants[made, k] = wish

    def append(self, inst: Inst, operands: list[Value], block: Block) -> Inst:
        made = Inst(inst.op, tuple(operands), inst.attrs, (), loc=inst.loc)
        made.results = tuple(Value(r.type, inst=made) for r in inst.results)
        block.insts.append(made)
        return made

    def name(self, value: Value, layout: Layout | None) -> Value:
        """The new value for an old one, the copy in that layout where there is one."""
        return self.copies.get((value, layout), self.names[value])
