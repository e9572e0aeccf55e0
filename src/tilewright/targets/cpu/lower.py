"""A kernel of the tile IR as LLVM IR text for one CPU: the entry function and its blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.codegen.llvm import Machine
from tilewright.errors import UnsupportedError
from tilewright.ir import types as t
from tilewright.ir.inst import Block, Inst, Kernel, Value
from tilewright.ir.types import Type
from tilewright.later import later
from tilewright.passes.constants import is_zero
from tilewright.targets.counting import work_of
from tilewright.targets.cpu import alone, row_totals, stop, turned
from tilewright.targets.cpu.ahead import Ahead
from tilewright.targets.cpu.asked import SHARES, SHARES_IMPORT
from tilewright.targets.cpu.buffers import Buffer
from tilewright.targets.cpu.clip import fill_tail
from tilewright.targets.cpu.evaluate import Evaluator, OpLanes
from tilewright.targets.cpu.forms import Uniform
from tilewright.targets.cpu.lane_memory import load_memory
from tilewright.targets.cpu.launch import HEAD_SLOTS
from tilewright.targets.cpu.loads import load
from tilewright.targets.cpu.memory import Memory
from tilewright.targets.cpu.module import ENTRY, FLOPS_WORD, module_texts
from tilewright.targets.cpu.nest import NestWriter
from tilewright.targets.cpu.order import second_axis_first
from tilewright.targets.cpu.plan import Plan
from tilewright.targets.cpu.programs import read_clock, write_programs
from tilewright.targets.cpu.schedule import Anchor, Nest, Scheduler, segments
from tilewright.targets.cpu.scratch import Lives, Scratch
from tilewright.targets.cpu.sharing import ANYWHERE
from tilewright.targets.cpu.stores import store
from tilewright.targets.cpu.streams import Streams
from tilewright.targets.cpu.work import estimate, is_glue
from tilewright.targets.cpu.writer import Writer

if TYPE_CHECKING:
    from tilewright.targets.cpu.extents import Extents
    from tilewright.targets.cpu.routine import Function

# What many kernels do not need.
atomics = later("tilewright.targets.cpu.atomics")
checks = later("tilewright.targets.cpu.checks")
control = later("tilewright.targets.cpu.control")
counting = later("tilewright.targets.cpu.counters")
direct = later("tilewright.targets.cpu.direct")
finding = later("tilewright.targets.cpu.extents")
grouping = later("tilewright.targets.cpu.groups")
prints = later("tilewright.targets.cpu.prints")
products = later("tilewright.targets.cpu.products")
spins = later("tilewright.targets.cpu.spins")
wholes = later("tilewright.targets.cpu.wholes")

PAIRS = "@tw_pairs"
CLEARED_BYTES = 1 << 14  # from here on a call is faster than stores in loops
MOST_SCRATCH = 1 << 30  # bytes of a program, and each thread has its own


@dataclass(frozen=True, slots=True)
class Lowered:
    """LLVM IR of a kernel and what launching and reporting must know of it."""

    text: str
    parts: tuple[str, ...]  # modules to be compiled one by one: its own, then what it calls
    entry: str
    sites: list[dict]
    param_count: int
    imports: tuple[str, ...]
    waits: bool  # whether programs may wait for each other
    few: int  # so many programs are not worth a second thread
    alone_until: int  # nor are so many threads, for their locks
    level: int  # of code generation, for the first part
    checks: dict | None  # of checked code, what a launch must know


@dataclass(eq=False)
class Lowering:
    """The state while one kernel is lowered."""

    kernel: Kernel
    machine: Machine
    e: Evaluator
    memory: Memory
    nests: NestWriter
    plan: Plan
    scratch: Scratch = field(default_factory=Scratch)
    places: dict[str, int] = field(default_factory=dict)  # by buffer: its offset
    imports: dict[str, str] = field(default_factory=dict)  # functions and how they are declared
    loops: dict[Inst, int] = field(default_factory=dict)  # the scopes that loops are in
    routines: dict[str, Function] = field(default_factory=dict)  # by name: what is called
    packed: dict[Inst, products.Packed] = field(default_factory=dict)
    packed_loads: set[Inst] = field(default_factory=set)  # by routines, where a tile is all there
    copies: dict[str, str] = field(default_factory=dict)  # by buffer: memory of a turned copy
    standing: str = ""  # of `spins`: what a waiting program keeps for itself
    waits: bool = False  # whether a loop reads memory until another program has written it

    @cached_property
    def extents(self) -> Extents:
        """What is needed of the products."""
        return finding.Extents(self.plan)

    # --- buffers

    def buffer(self, value: Value) -> Buffer:
        """The scratch memory of a kept value, made on first use."""
        e = self.e
        if value not in e.buffers:
            e.buffers[value] = self.new_buffer(value.type, self.wide_sum(value))
        return e.buffers[value]

    def new_buffer(self, type: Type, memory: t.DType | None = None) -> Buffer:
        held = type.with_dtype(memory) if memory is not None else type
        name = self.new_scratch(held.size * held.dtype.bytes)
        return Buffer(name, held, type.dtype if memory is not None else None)

    def new_scratch(self, size: int, forever: bool = False) -> str:
        """The address of so many bytes of scratch memory, until the block ends."""
        name = self.e.w.fresh("buf")
        self.places[name] = self.scratch.take(size, forever)
        place = f"getelementptr i8, ptr %scratch, i64 {self.places[name]}"
        self.e.w.allocas.append(f"  {name} = {place}")
        return name

    def wide_sum(self, value: Value) -> t.DType | None:
        """Sums of 16-bit floats are kept in fp32 and rounded when they are read."""
        inst, dtype = value.inst, value.type.dtype
        if inst is None or not dtype.is_float or dtype.bits >= 32:
            return None
        sums = inst.op.name == "reduce" and inst.attrs.get("combine", "") in ("add", "mul")
        return t.float32 if sums or inst.op.name == "dot" else None

    def call(self, routine: Function, arguments: str) -> None:
        """Call a function that has object code of its own."""
        self.routines[routine.name] = routine
        self.e.w.write(f"call void @{routine.name}({arguments})")

    # --- blocks

    def before_loop(self, block: Block) -> int:
        """The scope that the innermost loop around a block is in; that of a program without."""
        parents, owners = self.extents.parents, self.extents.owners
        while block in parents:
            if owners[block] in self.loops:
                return self.loops[owners[block]]
            block = parents[block]
        return 1

    def block(self, block: Block, assigns: list[tuple[Value, Value]] = ()) -> None:
        """Everything in a block; then each value is assigned to its target's buffer."""
        parts = segments(block)
        tails = dict(self.e.tails)
        self.scratch.open()
        for part in parts[:-1]:
            if isinstance(part, Inst):
                control.RULES[part.op.name](self, part)
            else:
                self.straight(part)
        self.straight(parts[-1], assigns)
        self.scratch.close()
        self.e.tails = tails  # this block may not run, so nothing it filled in counts after it

    def straight(self, insts: list[Inst], assigns: list[tuple[Value, Value]] = ()) -> None:
        scheduler = Scheduler(self.plan)
        scheduler.run(insts)
        self.count_work(insts)
        self.assign(scheduler, assigns)
        kept = [r for inst in insts for r in inst.results if r in self.plan.kept]
        lives = Lives(self, scheduler, kept)
        self.memory.ahead.phases = sum(isinstance(item, Nest) for item in scheduler.items)
        for number, item in enumerate(scheduler.items):
            lives.begin(number)
            if isinstance(item, Nest):
                item.anchors = [a for a in item.anchors if not self.is_in_place(a)]
                for anchor in item.anchors:
                    if anchor.kind == "pack":
                        products.packing(self, anchor, item.axis)
                if all(map(self.is_cleared, item.anchors)):
                    for anchor in item.anchors:
                        self.clear(self.e.buffers[anchor.target])
                else:
                    self.nest(item, self.complete(scheduler, item.anchors))
            else:
                self.complete(scheduler, [item], everything=True)
                self.solo(item)
            lives.end(number)
        if self.memory.moves is not None and any(i.op.effect == "write" for i in insts):
            self.memory.count_move()

    def nest(self, nest: Nest, read_buffers: list[Buffer]) -> None:
        """Write a nest, and turn the matrices that it reads or writes column by column."""
        e = self.e
        kept = [e.buffers[a.value] for a in nest.anchors if turned.kept_sideways(a, nest.axis)]
        for buffer in kept:
            copy = Buffer(self.turned_scratch(buffer), turned.turned_type(buffer))
            self.nests.sideways[buffer.name] = copy
        names = turned.turn_for(self, nest)
        self.nests.write(nest, read_buffers)
        for buffer in kept:
            copy = self.nests.sideways.pop(buffer.name)
            turned.turn(self, copy, buffer.name)
        for name in names:
            del e.turned[name]

    def turned_scratch(self, buffer: Buffer) -> str:
        """Scratch memory for the transposed copy of a buffer, always the same."""
        if buffer.name not in self.copies:
            size = buffer.type.size * buffer.type.dtype.bytes
            self.copies[buffer.name] = self.new_scratch(size, forever=True)
        return self.copies[buffer.name]

    def complete(
        self, scheduler: Scheduler, anchors: list[Anchor], everything: bool = False
    ) -> list[Buffer]:
        """Fill in the kept tiles that are read at other positions; gives those read in place."""
        same: dict[Buffer, None] = {}
        for anchor in anchors:
            reads = scheduler.reads(anchor)
            whole = reads.whole | reads.same if everything else reads.whole
            for value in whole:
                if value in self.e.buffers:
                    fill_tail(self.e, self.e.buffers[value])
            same.update((self.e.buffers[v], None) for v in reads.same if v in self.e.buffers)
        return list(same)

    def assign(self, scheduler: Scheduler, assigns: list[tuple[Value, Value]]) -> None:
        """Assign all at once: what one target held is read before any is written."""
        targets = {target for target, _ in assigns}
        late: list[tuple[Value, Value]] = []
        for target, value in assigns:
            if self.same_buffer(target, value):
                continue
            anchor = Anchor("assign", None, value.type.shape, value, target)
            reads = scheduler.reads(anchor)
            others = (reads.same | reads.whole) & (targets - {target})
            if others or target in reads.whole:
                held = Value(value.type)
                self.e.buffers[held] = self.new_buffer(value.type)
                scheduler.place(Anchor("hold", None, value.type.shape, value, held))
                late.append((target, held))
            else:
                late.append((target, value))
        for target, value in late:
            scheduler.place(Anchor("assign", None, value.type.shape, value, target))

    def count_work(self, insts: list[Inst]) -> None:
        counters = self.memory.counters
        if counters is not None:
            work = work_of(insts)
            if work:
                counters.add(FLOPS_WORD, self.e.const(work))

    def is_in_place(self, anchor: Anchor) -> bool:
        """Whether something would be assigned to itself: the sums that a product goes on with."""
        return anchor.kind == "assign" and self.same_buffer(anchor.target, anchor.value)

    def is_cleared(self, anchor: Anchor) -> bool:
        """Whether all that happens is that a large tile of many rows becomes zero."""
        if anchor.kind != "assign" or not is_zero(anchor.value):
            return False
        type = self.e.buffers[anchor.target].type
        return len(type.shape) > 1 and type.size * type.dtype.bytes >= CLEARED_BYTES

    def clear(self, buffer: Buffer) -> None:
        size = buffer.type.size * buffer.type.dtype.bytes
        self.e.w.fill(f"align 64 {buffer.name}", 0, size)
        self.e.tails.pop(buffer.name, None)

    def same_buffer(self, target: Value, value: Value) -> bool:
        buffers = self.e.buffers
        return value in buffers and buffers[value] is buffers.get(target)

    def solo(self, anchor: Anchor) -> None:
        """What does not run in a loop nest."""
        inst = anchor.inst
        name = inst.op.name
        if anchor.kind == "pack":
            self.packed_loads.add(anchor.source.load)
            direct.write_pack(self, anchor, products.packing(self, anchor, anchor.nest.axis))
        elif anchor.kind == "whole":
            wholes.RULES[name](self, inst)
        elif anchor.kind == "dot":
            products.write_dot(self, inst)
        elif name == "load":
            self.e.bind(inst.result, (), load(self.memory, inst, ()))
        elif name == "store":
            store(self.memory, inst, ())
        elif name in ("atomic_rmw", "atomic_cas"):
            old = atomics.atomic(self.memory, inst, ())
            self.e.bind(inst.result, (), Uniform(old, self.e.w.at))
        elif name == "device_assert":
            self.memory.check_assert(inst, ())
        elif name == "device_print":
            prints.write_print(self, inst)
        elif name == "clock":
            self.e.bind(inst.result, (), Uniform(read_clock(self.e), self.e.w.at))
        elif name != "barrier":
            raise UnsupportedError(f"the CPU target does not do {name}", inst.loc)


def lower(
    kernel: Kernel, machine: Machine, *, bounds: bool = True, counters: bool = False
) -> Lowered:
    """The LLVM IR of a kernel for a machine.

    Args:
        bounds: compile in the check of every access against its argument.
        counters: compile in the counters of elements and bytes by site.
    """
    w = Writer()
    features = frozenset(f[1:] for f in machine.features.split(",") if f.startswith("+"))
    target = {"x86_64": "x86"}.get(machine.arch, machine.arch)
    e = Evaluator(w, OpLanes(w, target, features))
    options = kernel.meta.get("options", {})
    numbers = options.get("checked")  # of the arguments of a checked launch: which share memory
    # Counting code, which need not be fast, always allows it: its sites are those of the report.
    shared = counters or options.get("shared", False)
    shared = shared or (numbers is not None and len(set(numbers)) < len(numbers))
    if numbers is None:
        kernel = row_totals.carry_row_totals(kernel, machine.vector_bytes)
    groups = {} if numbers is None else grouping.find_groups(kernel, numbers)
    tracked = frozenset(param for param, group in groups.items() if group.is_tracked)
    plan = Plan(kernel, keep_loads=counters, shared=shared, tracked=tracked)
    swapped = numbers is None and second_axis_first(kernel)
    streams, ahead = Streams(kernel), Ahead(kernel, axis=int(swapped))
    memory = Memory(e, kernel, plan.sharing.roots, plan.affine, bounds, streams, ahead)
    loops = any(inst.op.name == "while" for inst in kernel.walk())
    memory.may_be_alone = not loops or not (numbers or spins.waits_for_others(kernel))
    if counters:
        memory.counters = counting.Counters(e, memory)
    if numbers is not None:
        memory.checks = checks.Checks(memory, plan, groups)
    e.load, e.stop_unless = partial(load, memory), memory.stop_unless
    nests = NestWriter(e, memory, machine.vector_bytes)
    if any(inst.op.name == "dot" for inst in kernel.walk()):
        nests.foreseen = plan.symbolic
    lowering = Lowering(kernel, machine, e, memory, nests, plan)
    bind_params(lowering)
    write_programs(lowering, swapped, finish=lambda: check_shared(lowering))
    if lowering.scratch.size > MOST_SCRATCH:
        raise UnsupportedError(
            f"{kernel.name}: a program keeps {lowering.scratch.size >> 20} MB of tiles at once, at "
            f"most {MOST_SCRATCH >> 20} MB; take smaller blocks",
            kernel.loc,
        )
    if memory.checks is not None:
        memory.checks.refuse_waits(lowering.waits)
    if memory.is_asking:
        lowering.imports.update(alone.IMPORTS)
    if memory.may_fault:
        lowering.imports.update(stop.IMPORTS)
    lowering.imports.update(memory.imports)
    work = estimate(kernel.body, plan.strides)
    is_plain = target == "x86" and not counters and numbers is None
    glue = is_plain and is_glue(kernel.body, plan.strides, lowering.packed_loads)
    text, own = module_texts(lowering)
    parts = (own, *(routine.module for routine in lowering.routines.values()))
    return Lowered(
        text, parts, ENTRY, memory.sites, len(kernel.params), tuple(lowering.imports),
        lowering.waits, 1 if lowering.waits else work.few,
        work.alone_until if memory.is_asking else 1, 0 if glue else 1,
        None if memory.checks is None else memory.checks.facts(),
    )  # fmt: skip


def bind_params(lowering: Lowering) -> None:
    """Load the arguments from their slots."""
    e = lowering.e
    for i, value in enumerate(lowering.kernel.body.params):
        dtype = value.type.dtype
        place = e.w.fresh("slot")
        e.w.write(f"{place} = getelementptr i64, ptr %args, i64 {HEAD_SLOTS + 3 * i}")
        lane = load_memory(e.b, Lane(place, t.pointer_to(dtype)), dtype, 1)
        e.bound[value] = Uniform(lane, 0)


def check_shared(lowering: Lowering) -> None:
    """Leave before the first program where arguments share memory that the plan took to be apart.

    Called last, when it is known what was relied on.
    """
    w, relied = lowering.e.w, lowering.plan.sharing.relied
    if not relied:
        return
    numbers = ", ".join(
        f"i64 {number}"
        for (i, j), (reach, same) in sorted(relied.items())
        for number in (i, j, reach, int(same and reach != ANYWHERE))
    )
    kind = f"[{4 * len(relied)} x i64]"
    w.declare(f"{PAIRS} = private constant {kind} [{numbers}]")
    lowering.imports.update(SHARES_IMPORT)
    with w.outside(0):
        bad, go = w.fresh(), w.new_label("go")
        w.write(f"{bad} = call i1 @{SHARES}(ptr %args, ptr {PAIRS}, i64 {len(relied)})")
        w.write(f"br i1 {bad}, label %{lowering.memory.fault_label}, label %{go}")
        w.label(go)
