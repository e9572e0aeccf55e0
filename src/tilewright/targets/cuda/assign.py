"""Give every value of a kernel a layout: memory and dots decide, everything else follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tilewright.ir.inst import Block, Inst, Kernel, Value
from tilewright.ir.rewrite import drop_dead
from tilewright.ops import control, dot, reduce, shape
from tilewright.passes import facts, loops
from tilewright.targets.cuda.arch import Arch
from tilewright.targets.cuda.axes import axes
from tilewright.targets.cuda.copies import Portable, copy_portable, requests
from tilewright.targets.cuda.layout import Layout, blocked, scalar
from tilewright.targets.cuda.operands import DotLayouts, fma_accumulator
from tilewright.targets.cuda.relations import RESULTS, operand_layout, ordered
from tilewright.targets.cuda.sites import Site, find_site, keeping_warps
from tilewright.targets.cuda.widths import common_widths

# Which layouts a dot wants on an architecture; None: it has no instruction for it.
DotTable = Callable[[Inst, Arch, int], "DotLayouts | None"]

ROUNDS = 6  # until the layouts of carried values stand still; nested loops need one a level
FEW = 16  # registers of copies that a small load may fill instead of an exchange


@dataclass
class Assignment:
    """The layouts of a kernel's values.

    `kernel` is the kernel to emit: as the one given, but what is cheap to compute is there once
    for each layout it is wanted in. Values of both kernels have layouts.
    """

    kernel: Kernel
    num_warps: int
    layouts: dict[Value, Layout]
    wants: dict[tuple[Inst, int], Layout] = field(default_factory=dict)
    sites: dict[Inst, Site] = field(default_factory=dict)
    dots: dict[Inst, DotLayouts] = field(default_factory=dict)

    def layout(self, value: Value) -> Layout:
        """What the value is computed in."""
        if not value.type.shape:
            return scalar(self.num_warps)
        return self.layouts[value]

    def wanted(self, inst: Inst, position: int) -> Layout:
        """What an operand is wanted in: to be converted to, where it is in another one."""
        return self.wants.get((inst, position)) or self.layout(inst.operands[position])

    def site_layout(self, inst: Inst) -> Layout:
        """What a load, store or atomic accesses memory in."""
        return self.wanted(inst, inst.op.access.pointer)

    def width(self, inst: Inst) -> int:
        """How many elements one access of a load or store moves."""
        return 1 << len(self.sites[inst].vector_bits(self.site_layout(inst)))

    def vectors(self, inst: Inst) -> list[tuple[int, ...]]:
        """The registers of each access of a load or store."""
        return self.sites[inst].vectors(self.site_layout(inst))

    def conversions(self) -> list[tuple[Inst, int]]:
        """The operands that come in another layout than wanted."""
        return [
            (inst, k)
            for inst in self.kernel.walk()
            for k, x in enumerate(inst.operands)
            if x.type.shape and self.wanted(inst, k) != self.layout(x)
        ]

    def report(self) -> list[dict]:
        """Of each load, store and atomic: width, and sectors that the first access touches."""
        out = []
        for inst in self.kernel.walk():
            if inst.op.access is not None:
                touched, least = self.sites[inst].sectors(self.site_layout(inst))
                row = {"inst": inst, "vec": self.width(inst), "bytes": self.sites[inst].bytes}
                out.append({**row, "sectors": touched, "least": least})
        return out


def no_dots(inst: Inst, arch: Arch, num_warps: int) -> DotLayouts | None:
    return None


def assign(kernel: Kernel, arch: Arch, num_warps: int, dots: DotTable = no_dots) -> Assignment:
    """A layout for every value; what is cheap is copied rather than converted."""
    search = Search(kernel, arch, num_warps, dots)
    search.run()
    wants = {}
    for inst in kernel.walk():
        for k, x in enumerate(inst.operands):
            wish = search.wish(inst, k) if x.type.shape else None
            if wish is not None:
                wants[inst, k] = wish
    found = Assignment(kernel, num_warps, search.fixed, wants, search.sites, search.dots)
    copies = copy_portable(kernel, found, requests(kernel, found, search.portable))
    drop_dead(copies.kernel)
    return Assignment(
        copies.kernel,
        num_warps,
        {**search.fixed, **copies.layouts},
        {(copies.insts[inst], k): wish for (inst, k), wish in wants.items()} | copies.wants,
        {copies.insts[inst]: site for inst, site in search.sites.items()},
        {copies.insts[inst]: found for inst, found in search.dots.items()},
    )


class Search:
    """The layouts found so far. What is `fixed` is known; what users `demand` is only wished."""

    def __init__(self, kernel: Kernel, arch: Arch, num_warps: int, dots: DotTable):
        self.kernel = kernel
        self.num_warps = num_warps
        self.portable = Portable()
        self.fixed: dict[Value, Layout] = {}
        self.demand: dict[Value, Layout] = {}
        self.settling = False
        self.ends = {
            block.terminator: (block, inst)
            for inst in kernel.walk()
            for block in inst.blocks
            if block.terminator
        }
        axes_of, strides_of = axes(kernel), facts.strides(kernel)
        insts = list(kernel.walk())
        self.sites = {
            inst: find_site(inst, axes_of, strides_of, arch) for inst in insts if inst.op.access
        }
        self.dots = {
            inst: dots(inst, arch, num_warps)
            or DotLayouts(None, None, fma_accumulator(inst.result.type.shape, num_warps))
            for inst in insts
            if inst.op is dot.dot
        }
        self.widths = common_widths(kernel, self.sites, self.portable)
        self.stored: dict[Inst, Layout] = {}
        self.deciding: set[Inst] = set()

    def run(self) -> None:
        self.backward(self.kernel.body)  # what anchors wish: breaks ties
        self.stand_still()
        while self.let_decide():
            self.stand_still()
        self.settling = True
        self.forward(self.kernel.body)

    def stand_still(self) -> None:
        for _ in range(ROUNDS):
            before = dict(self.fixed)
            kept = {v: x for v, x in self.fixed.items() if v.inst is None}
            self.fixed = kept
            self.forward(self.kernel.body)
            if self.fixed == before:
                break

    def let_decide(self) -> bool:
        """Find out what users demand; of small loads that nobody asks anything of, the largest
        ones decide for what is computed from them.
        """
        self.demand = {}
        self.backward(self.kernel.body)
        free = [
            inst
            for inst, site in self.sites.items()
            if inst.op.access.kind == "load" and site.has_preference
            and inst.result not in self.fixed and inst.result not in self.demand
        ]  # fmt: skip
        most = max((inst.result.type.size for inst in free), default=0)
        self.deciding.update(inst for inst in free if inst.result.type.size == most)
        return bool(free)

    # --- forward: results from operands

    def forward(self, block: Block) -> None:
        for inst in block.insts:
            if inst.op in loops.LOOPS:
                self.loop(inst)
            elif inst.op is control.if_:
                for inner in inst.blocks:
                    self.forward(inner)
                for k, result in enumerate(inst.results):
                    ends = [b.terminator.operands[k] for b in inst.blocks]
                    self.fix([result], self.known(ends))
            else:
                if self.settling and inst.op.access is not None:
                    self.stored[inst] = self.access_layout(inst)
                self.fix(inst.results, self.natural(inst))

    def loop(self, loop: Inst) -> None:
        """Carried values keep one layout, if possible the one that the body gives them."""
        inits, ends = loop.operands[loops.bounds(loop) :], loops.yields(loop)
        groups = [
            [result, *(loops.carried_params(loop, block)[k] for block in loop.blocks)]
            for k, result in enumerate(loop.results)
        ]
        if self.settling:
            self.fix_all(groups, inits)
        for block in loop.blocks:
            self.forward(block)
        if not self.settling:
            for group, init, end in zip(groups, inits, ends, strict=True):
                self.fix(group, self.known(group[1:]) or self.known([end]) or self.known([init]))

    def fix_all(self, groups: Sequence[list[Value]], inits: Sequence[Value]) -> None:
        for group, init in zip(groups, inits, strict=True):
            wished = next((self.demand[v] for v in group if v in self.demand), None)
            self.fix(group, self.known(group[1:]) or wished or self.known([init]))

    def fix(self, values: Sequence[Value], layout: Layout | None) -> None:
        """Set what is not known; when settling, by what is demanded, or else by default."""
        for value in values:
            if not value.type.shape or value in self.fixed and value.inst is None:
                continue
            found = layout
            if self.settling and (found is None or self.portable(value)):
                found = self.demand.get(value) or found
            if found is None and self.settling:
                found = blocked(value.type.shape, self.num_warps)
            if found is not None:
                self.fixed[value] = found

    def known(self, values: Sequence[Value]) -> Layout | None:
        """The layout of the first value that has one of its own."""
        for v in values:
            if v in self.fixed and not self.portable(v):
                return self.fixed[v]
        return None

    def natural(self, inst: Inst) -> Layout | None:
        """What the results come in, given the operands."""
        if not inst.results:
            return None
        if inst.op.access is not None:
            return self.natural_access(inst)
        if inst.op is dot.dot:
            return self.dots[inst].result
        if inst.op in (reduce.scan, reduce.sort):
            return self.in_order(inst)
        if inst.op is reduce.histogram:
            return blocked(inst.result.type.shape, self.num_warps)
        if inst.op.is_elementwise:
            return self.best_of(inst)
        if inst.op not in RESULTS or self.portable(inst.results[0]) and not self.settling:
            return None
        layouts = [self.known([x]) for x in inst.operands]
        if self.settling and not any(layouts):
            layouts = [self.fixed.get(x) for x in inst.operands]
        found = RESULTS[inst.op](inst, layouts)
        if found is None and inst.op is shape.split and self.settling:
            return blocked(inst.results[0].type.shape, self.num_warps)
        return found

    def in_order(self, inst: Inst) -> Layout:
        return ordered(inst.operands[0].type.shape, self.num_warps, inst.attrs["axis"])

    def best_of(self, inst: Inst) -> Layout | None:
        """The operands' layout that asks for the fewest bytes to be converted."""
        own = [x for x in inst.operands if x in self.fixed and not self.portable(x)]
        result = inst.result
        wished = self.demand.get(result)

        def price(layout: Layout) -> int:
            moved = sum(size_of(x) for x in own if self.fixed[x] != layout)
            return moved + (size_of(result) if wished not in (None, layout) else 0)

        return min([self.fixed[x] for x in own], key=price, default=None)

    # --- memory

    def natural_access(self, inst: Inst) -> Layout | None:
        if self.settling:
            return self.stored[inst]
        site = self.sites[inst]
        decides = inst in self.deciding or not self.is_small(inst)
        if inst.op.access.kind == "load" and site.has_preference and decides:
            return self.preferred(inst)
        return self.known(inst.operands)

    def preferred(self, inst: Inst) -> Layout:
        site = self.sites[inst]
        return site.preferred(self.num_warps, self.widths.get(inst, site.vec))

    def is_small(self, inst: Inst) -> bool:
        """Whether a load is cheaper made again by many threads than exchanged."""
        return inst.result.type.size <= 64 * self.num_warps

    def access_layout(self, inst: Inst) -> Layout:
        """What an access happens in, once it is known where its operands are."""
        site = self.sites[inst]
        if not site.shape:
            return scalar(self.num_warps)
        best = self.preferred(inst)
        if inst.op.access.kind == "load":
            wished = self.demand.get(inst.result)
            if not site.has_preference:
                return self.known(inst.operands) or wished or best
            if self.is_small(inst) and wished is not None and wished.registers <= FEW:
                return wished
            return best
        own = self.known([inst.operands[inst.op.access.value], *inst.operands])
        if own is None or not site.has_preference:
            return own or best
        for layout in (own, keeping_warps(own, site, self.widths.get(inst, site.vec))):
            if layout is not None and site.traffic(layout) <= site.traffic(best):
                return layout
        return best

    # --- backward: operands from users

    def backward(self, block: Block) -> None:
        for inst in reversed(block.insts):
            for _ in range(2 if inst.op in loops.LOOPS else 1):  # yields learn from parameters
                for inner in reversed(inst.blocks):
                    self.backward(inner)
            for k, x in enumerate(inst.operands):
                if x.type.shape and x not in self.demand:
                    wish = self.wish(inst, k)
                    if wish is not None:
                        self.demand[x] = wish

    def target(self, value: Value) -> Layout | None:
        if value in self.fixed and (self.settling or not self.portable(value)):
            return self.fixed[value]
        return self.demand.get(value)

    def wish(self, inst: Inst, k: int) -> Layout | None:
        """What an instruction would like an operand in; None: it does not matter."""
        if inst.op is control.yield_:
            return self.wish_of_yield(inst, k)
        if inst.op in loops.LOOPS:
            position = k - loops.bounds(inst)
            if position < 0:
                return None
            return self.target(loops.carried_params(inst, inst.blocks[0])[position])
        if inst.op.access is not None:
            if inst in self.stored:
                return self.stored[inst]
            return self.preferred(inst) if self.sites[inst].has_preference else None
        if inst.op is dot.dot:
            layouts = self.dots[inst]
            return (layouts.x, layouts.y, layouts.result)[k]
        if inst.op in (reduce.scan, reduce.sort):
            return self.in_order(inst)
        if inst.op is reduce.reduce:
            settled = self.fixed.get(inst.operands[0]) if self.settling else None
            return self.known(inst.operands) or settled
        if not inst.results:
            return None
        result = self.target(inst.results[0])
        return None if result is None else operand_layout(inst, k, result)

    def wish_of_yield(self, end: Inst, k: int) -> Layout | None:
        block, inst = self.ends[end]
        if inst.op not in (*loops.LOOPS, control.if_):
            return None
        if inst.op is control.if_:
            return self.target(inst.results[k])
        if block is loops.body(inst):
            return self.target(inst.results[k]) or self.target(loops.carried_params(inst, block)[k])
        return self.target(loops.carried_params(inst, loops.body(inst))[k - 1]) if k else None


def size_of(value: Value) -> int:
    return value.type.size * value.type.dtype.bytes
