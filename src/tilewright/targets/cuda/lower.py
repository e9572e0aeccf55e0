"""A kernel of the tile IR as LLVM IR text for one NVIDIA architecture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from tilewright.codegen.literals import Lane
from tilewright.errors import UnsupportedError
from tilewright.ir import types as t
from tilewright.ir.inst import Block, Inst, Kernel, Value, walk
from tilewright.ir.rewrite import count_uses
from tilewright.ops import dot
from tilewright.passes.sizes import Sizes
from tilewright.targets.counting import SITE_WORDS, work_of
from tilewright.targets.cuda import ahead, assign, control, dot_table, numbers, rules, wgmma
from tilewright.targets.cuda.arch import ENTRY, Arch
from tilewright.targets.cuda.axes import axes
from tilewright.targets.cuda.counters import FLOPS_WORD, Counters
from tilewright.targets.cuda.emitter import Emitter
from tilewright.targets.cuda.guard import Guard
from tilewright.targets.cuda.layout import Layout
from tilewright.targets.cuda.lending import SHARED, SharedMemoryError
from tilewright.targets.cuda.memory import Memory
from tilewright.targets.cuda.orders import Orders
from tilewright.targets.cuda.site_facts import describe_sites
from tilewright.targets.cuda.tiles import Staged, Tile, convert, uniform

MOST_LINES = 4000  # of a kernel that is written in two versions
# The kernel's own parameters, before the user's.
OWN = ("i64 %record", "i32 %launch", "i64 %counters")


@dataclass(frozen=True, slots=True)
class Lowered:
    """LLVM IR of a kernel and what launching and reporting must know of it."""

    text: str
    entry: str
    sites: list[dict]
    num_warps: int
    shared: int  # bytes of a program


class Lowering:
    """The state while one kernel is lowered."""

    def __init__(
        self,
        kernel: Kernel,
        arch: Arch,
        num_warps: int,
        bounds: bool,
        stages: int,
        counters: bool = False,
    ):
        self.arch = arch
        self.e = Emitter(arch, num_warps)
        self.assigned = assign.assign(kernel, arch, num_warps, dot_table.table(kernel))
        self.kernel = kernel = self.assigned.kernel
        self.memory = Memory(self.e, kernel)
        self.guard = Guard(self, bounds)
        self.counters = Counters(self.e, self.memory) if counters else None
        if self.counters is not None:
            self.memory.counters = self.counters
            self.e.on_use = self.counters.shared
        self.axes = axes(kernel)
        self.sizes = Sizes()
        self.uses = count_uses(kernel)
        self.orders = Orders(kernel, self.memory.roots, self.is_used)
        self.tiles: dict[Value, Tile] = {}
        self.staged: dict[Value, Staged] = {}  # what was copied to shared memory ahead
        self.places: dict[Value, Staged] = {}  # where operands are to be put
        self.fetched: dict[Inst, Callable[[], Tile]] = {}  # loads that were made ahead
        self.idle: set[Inst] = set()  # what loads that were made ahead have needed
        self.flights: dict[Inst, wgmma.Flight] = {}
        # What is computed twice, to run ahead, would be counted twice.
        self.planner = ahead.Planner(self, kernel, 1 if counters else stages)
        self.converted: list[dict[tuple[Value, Layout], Tile]] = [{}]  # by open block

    # --- values

    def layout(self, value: Value) -> Layout:
        return self.assigned.layout(value)

    def tile(self, value: Value, layout: Layout | None = None) -> Tile:
        """A value, in a layout if one is asked for; each is converted once."""
        found = self.tiles[value]
        if layout is None or found.layout == layout or found.uniform:
            return found if layout is None else convert(self.e, found, layout)
        for scope in self.converted:
            if (value, layout) in scope:
                return scope[value, layout]
        made = self.converted[-1][value, layout] = convert(self.e, found, layout)
        return made

    def is_at_hand(self, value: Value, layout: Layout) -> bool:
        """Whether a value has already been converted to a layout."""
        return any((value, layout) in scope for scope in self.converted)

    def convert_ahead(self, blocks: Sequence[Block]) -> None:
        """Before a loop, bring what it reads from outside to the layouts it is wanted in."""
        for block in blocks:
            for inst in walk(block):
                for k, value in enumerate(inst.operands):
                    if value.type.shape and value in self.tiles:
                        self.tile(value, self.assigned.wanted(inst, k))

    def in_layout(self, x: Tile, layout: Layout, flip: int = 0) -> Tile:
        return convert(self.e, x, layout, flip)

    def scalar(self, value: Value) -> Lane:
        return self.tiles[value].lane

    def access_layout(self, inst: Inst) -> Layout:
        """The layout in which an instruction goes to memory."""
        return self.assigned.site_layout(inst)

    def is_used(self, value: Value) -> bool:
        return self.uses[value] > 0

    def bind(self, values: Sequence[Value], tiles: Sequence[Tile]) -> None:
        self.tiles.update(zip(values, tiles, strict=True))

    def lanes(self, values: Sequence[Value]) -> list[Lane]:
        """The registers of some values, one after the other."""
        return [lane for value in values for lane in self.tiles[value].lanes]

    def replace(self, values: Sequence[Value], lanes: Sequence[Lane]) -> None:
        """Other registers for them."""
        rest = iter(lanes)
        for value in values:
            held = self.tiles[value]
            self.tiles[value] = Tile(held.layout, tuple(islice(rest, len(held.lanes))))

    def restart(self) -> None:
        """Begin to write the kernel's code again."""
        params = self.kernel.body.params
        self.tiles = {value: self.tiles[value] for value in params}
        self.converted, self.staged, self.fetched = [{}], {}, {}
        self.memory.hazards.waited()
        self.e.memory.read.clear()

    # --- blocks

    def block(self, block: Block) -> list[Tile]:
        """Everything in a block; gives what it yields."""
        self.converted.append({})
        ends: list[Tile] = []
        if self.counters is not None:
            self.counters.work(work_of(block.insts))
        for inst in block.insts:
            if inst.op.name == "yield":
                ends = [self.tiles[v] for v in inst.operands]
            elif not inst.results or inst.results[0] not in self.staged and inst not in self.idle:
                self.inst(inst)
        self.converted.pop()
        return ends

    def inst(self, inst: Inst) -> None:
        rule = control.RULES.get(inst.op.name) or rules.RULES.get(inst.op.name)
        if rule is None and inst.op.is_elementwise:
            rule = rules.elementwise
        if rule is None:
            raise UnsupportedError(f"the CUDA target does not do {inst.op.name}", inst.loc)
        around, self.e.here = self.e.here, inst
        try:
            found = self.fetched[inst]() if inst in self.fetched else rule(self, inst)
        except UnsupportedError as error:
            error.loc = error.loc or inst.loc
            raise
        results = [] if found is None else [found] if isinstance(found, Tile) else found
        self.bind(inst.results, results)
        if self.counters is not None:
            self.e.here = None  # what watching takes of shared memory is not the kernel's
            numbers.watch(self, inst)
        self.e.here = around


def lower(
    kernel: Kernel,
    arch: Arch,
    *,
    num_warps: int = 4,
    stages: int = 3,
    bounds: bool = True,
    max_registers: int = 0,
    counters: bool = False,
) -> Lowered:
    """The LLVM IR of a kernel for an architecture.

    Args:
        stages: tiles of a load that shared memory holds at once where loads run ahead; fewer
            where they do not fit.
        bounds: compile in the check of every access against its argument.
        max_registers: what a thread may use at most; 0: whatever fits.
        counters: compile in the counters of `targets.counting`.
    """
    if max_registers and max_registers < wgmma.MOST_REGISTERS:
        arch = replace(arch, warpgroups=False)
    try:
        x = Lowering(kernel, arch, num_warps, bounds, stages, counters)
        params = bind_params(x)
        write_body(x)
    except SharedMemoryError:
        if stages < 2 and not arch.has_wgmma:
            raise
        if stages < 2:  # operands then stay in registers
            arch, stages = replace(arch, warpgroups=False), 3
        return lower(
            kernel, arch, num_warps=num_warps, stages=stages - 1, bounds=bounds,
            max_registers=max_registers, counters=counters,
        )  # fmt: skip
    facts = f'"nvvm.maxntid"="{32 * num_warps}"'
    if max_registers:
        facts += f' "nvvm.maxnreg"="{max_registers}"'
    head = f"define ptx_kernel void @{ENTRY}({', '.join([*OWN, *params])}) nounwind {facts} {{"
    if x.e.memory.size:
        x.e.w.declare(f"{SHARED} = external addrspace(3) global [0 x i8], align 1024")
    describe_sites(x)
    text = x.e.w.text(head).replace(FLOPS_WORD, str(SITE_WORDS * len(x.memory.sites)))
    return Lowered(text, ENTRY, x.memory.sites, num_warps, x.e.memory.size)


def write_body(x: Lowering) -> None:
    """The kernel's code; twice, if a test at its start shows accesses to be inside.

    Where it holds, they are just made; else each is checked.
    """
    w, body = x.e.w, x.kernel.body
    start = len(w.lines), len(w.rare)
    is_plain = x.counters is None and not any(i.op is dot.dot for i in x.kernel.walk())
    fine = x.guard.prove(body) if is_plain else None
    if fine is not None:
        safe, careful = w.new_label("safe"), w.new_label("careful")
        w.branch_often(fine.text, safe, careful)
        w.label(safe)
        x.block(body)
        x.guard.doubts.tell()
        w.write("ret void")
        if len(w.lines) <= MOST_LINES:
            x.restart()
            x.guard.be_careful()
            w.label(careful)
            w.start_anew()
            x.block(body)
            return
        del w.lines[start[0] :], w.rare[start[1] :]
        x.restart()
        x.guard.proven.clear()
        w.here = "entry"
    x.block(body)
    x.guard.doubts.tell()


def bind_params(x: Lowering) -> list[str]:
    """Parameters as the launch packs them: address, low and high of each pointer, then scalars."""
    e, out = x.e, []
    for k, value in enumerate(x.kernel.body.params):
        dtype = value.type.dtype
        if dtype.is_pointer:
            out += [f"ptr %p{k}", f"i64 %low{k}", f"i64 %high{k}"]
            lane = Lane(f"%p{k}", dtype)
        else:
            passed = passed_dtype(dtype)
            lane = Lane(f"%p{k}", passed)
            out.append(lane.typed)
            if passed is not dtype:
                with e.w.once():
                    lane = e.b.cast(lane, dtype)
        x.tiles[value] = uniform(lane, x.layout(value))
    return out


def passed_dtype(dtype: t.DType) -> t.DType:
    """What a launch passes for a scalar."""
    if dtype.is_float:
        return t.float64 if dtype.bits == 64 else t.float32
    return t.uint8 if dtype is t.int1 else dtype
