"""Matrix products: operands packed by the nests that compute them, then the microkernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.passes.constants import is_zero
from tilewright.targets.cpu import gathered
from tilewright.targets.cpu.evaluate import Evaluator
from tilewright.targets.cpu.extents import Extent, extent_of
from tilewright.targets.cpu.forms import Form, Index, Uniform
from tilewright.targets.cpu.gemm import Gemm, Left, Live, gemm_function
from tilewright.targets.cpu.gemm_few import few_columns_function, row_function
from tilewright.targets.cpu.gemm_pack import pack_function
from tilewright.targets.cpu.lane_memory import write_memory
from tilewright.targets.cpu.result_ahead import find_store, place_of
from tilewright.targets.cpu.schedule import Anchor, Scheduler
from tilewright.targets.cpu.sources import is_flipped

if TYPE_CHECKING:
    from tilewright.targets.cpu.lower import Lowering
    from tilewright.targets.cpu.sources import Unpacked


def microkernel(x: Lowering, inst: Inst, live: Live, left: Left, stored: t.DType | None) -> Gemm:
    """The function that multiplies tiles of these shapes."""
    a, b, acc = (v.type for v in inst.operands)
    operand = a.dtype if a.dtype is b.dtype else t.float32
    held = accumulator(acc.dtype)
    return gemm_function(
        a.shape[-2],
        b.shape[-1],
        a.shape[-1],
        operand,
        held,
        x.machine,
        native_bf16=True,
        b_transposed=is_flipped_load(x, inst.operands[1]),
        live=live,
        fresh=is_zero(inst.operands[2]),
        left=left,
        stored=stored,
    )


def is_turned(x: Lowering, inst: Inst) -> bool:
    """Whether the left operand comes column by column."""
    operand, scheduler = inst.operands[0], Scheduler(x.plan)
    if scheduler.source_of(operand) is not None:
        return is_flipped_load(x, operand)
    shape = operand.type.shape
    return scheduler.axis(Anchor("pack", inst, shape, operand)) == len(shape) - 2


def is_flipped_load(x: Lowering, operand: Value) -> bool:
    """Whether an operand is read from memory where it is its columns that are contiguous."""
    source = Scheduler(x.plan).source_of(operand)
    if isinstance(source, gathered.Rows):
        return source.flipped
    return source is not None and is_flipped(x, source)


def accumulator(dtype: t.DType) -> t.DType:
    """The dtype in which sums of products are kept."""
    return t.float32 if dtype.is_float and dtype.bits < 32 else dtype


class Packed:
    """Where the packed operands of a product lie, and how elements get there."""

    def __init__(self, x: Lowering, inst: Inst):
        rows, columns, depth = x.extents.of(inst)
        self.found = (rows, depth), (depth, columns)  # by side
        extents = extents_of(x, inst, (rows, columns, depth))
        self.rows, self.columns, self.depth = extents
        live = Live(*(n.lane.known is None for n in extents))
        self.store = find_store(x, inst)
        stored = None if self.store is None else self.store.operands[1].type.dtype
        left = Left.TURNED if is_turned(x, inst) else Left.ROWS
        self.gemm = microkernel(x, inst, live, left, stored)
        if gathered.may_stay(x, inst.operands[0], self.gemm, self.depth):
            self.gemm = microkernel(x, inst, live, Left.TABLE, stored)
        self.batch = inst.operands[0].type.shape[:-2]
        count = self.batch[0] if self.batch else 1
        g = self.gemm
        self.a_bytes = g.m * g.k * g.operand.bytes
        self.b_bytes = g.k * max(g.n, g.panel.width) * g.operand.bytes
        self.a = x.new_scratch(count * self.a_bytes)
        self.b = x.new_scratch(count * self.b_bytes)
        self.home = x.plan.home[inst.result]
        self.a_now, self.lda = self.a, str(g.k)  # where the left operand is, and its row step
        self.b_now = self.b  # where the right one is
        self.slots, self.nexts, self.leads = (
            [x.new_scratch(8), x.new_scratch(8)] for _ in range(3)
        )
        self.guessed = [False, False]
        self.stages: list[Stage | None] = [None, None]
        self.unpacked: Unpacked | None = None

    @property
    def is_turned(self) -> bool:
        return self.gemm.left is Left.TURNED

    def side(self, number: int) -> tuple[Uniform, Uniform]:
        """How much of an operand is needed, rows and columns."""
        return (self.depth, self.columns) if number else (self.rows, self.depth)

    def take(self, x: Lowering, anchor: Anchor, axis: int) -> None:
        """Give a pack anchor its method, for lanes along `axis`."""
        side, rank = anchor.side, len(anchor.shape)
        lies_so = axis == rank - 1
        as_it_is = self.gemm.panel.k_group == 1
        if side == 0:
            lies_so = lies_so is not self.is_turned
            as_it_is = not self.gemm.bias and (as_it_is or not self.is_turned)
        if lies_so and as_it_is:
            anchor.pack = self.pack_b if side else self.pack_a
            return
        count = self.batch[0] if self.batch else 1
        size = self.b_bytes if side else self.a_bytes
        stage = Stage(x.new_scratch(count * size), anchor.shape, turned=axis == rank - 2)
        self.stages[side] = stage
        anchor.pack = lambda e, at, form: self.write(
            e, stage.name, *stage.place(e, at), self.lanes(e, form)
        )

    def pack_a(self, e: Evaluator, at: tuple[Index, ...], form: Form) -> None:
        """One chunk of the left operand, row-major or turned."""
        g = self.gemm
        rows = Stage(self.a, (*self.batch, g.m, g.k), self.is_turned)
        self.write(e, self.a, *rows.place(e, at), self.lanes(e, form))

    def lanes(self, e: Evaluator, form: Form) -> Lane:
        """A chunk in the dtype that is multiplied."""
        return e.b.splat(e.b.cast(e.lanes_of(form), self.gemm.operand), e.row.width)

    def write(self, e: Evaluator, base: str, offset: Lane, step: int, lane: Lane) -> None:
        address = Lane(base, t.pointer_to(self.gemm.operand))
        if offset.known != 0:
            address = e.b.offset(address, offset)
        write_memory(e.b, address, lane, step)

    def pack_b(self, e: Evaluator, at: tuple[Index, ...], form: Form) -> None:
        """One chunk of the right operand, in panels of columns."""
        lane, width = self.lanes(e, form), self.gemm.panel.width
        if lane.width <= width:
            self.pack_columns(e, at, lane)
            return
        for i in range(0, lane.width, width):
            n = Index(plus(e, at[-1].base, e.const(i)), at[-1].depth, vector=True)
            self.pack_columns(e, (*at[:-1], n), e.b.slice(lane, i, width))

    def pack_columns(self, e: Evaluator, at: tuple[Index, ...], lane: Lane) -> None:
        """Elements of one panel of the right operand, of one row."""
        g, width, n = self.gemm, self.gemm.panel.width, at[-1].base
        matrix = self.b_bytes // g.operand.bytes
        batch = times(e, at[0].base, matrix) if len(at) == 3 else e.const(0)
        offset = plus(e, batch, times(e, masked(e, n, -width), g.k))
        offset = plus(e, offset, masked(e, n, width - 1))
        offset = plus(e, offset, times(e, at[-2].base, width))
        self.write(e, self.b, offset, 1, lane)

    def finish(self, x: Lowering, side: int) -> None:
        """Bring a staged operand into its layout."""
        g, stage = self.gemm, self.stages[side]
        if stage is None:
            return
        routine = pack_function(g, side, g.operand, x.machine, along_rows=not stage.turned)
        target, size = (self.b, self.b_bytes) if side else (self.a, self.a_bytes)
        for i in range(self.batch[0] if self.batch else 1):
            out = part(x, target, i * size)
            source = part(x, stage.name, i * stage.matrix * g.operand.bytes)
            x.call(routine, f"ptr {out}, ptr {source}, i64 {stage.lead}")


@dataclass(frozen=True, slots=True)
class Stage:
    """Scratch memory with an operand, or its transpose, as rows of elements."""

    name: str
    shape: tuple[int, ...]
    turned: bool = False

    @property
    def lead(self) -> int:
        return self.shape[-2 if self.turned else -1]

    @property
    def matrix(self) -> int:
        return self.shape[-2] * self.shape[-1]

    def place(self, e: Evaluator, at: tuple[Index, ...]) -> tuple[Lane, int]:
        """Where a chunk goes, and how far apart its lanes are."""
        inner = (1, self.lead) if self.turned else (self.lead, 1)
        offset, step = e.const(0), 0
        for i, stride in zip(at, (self.matrix, *inner)[-len(at) :], strict=True):
            offset = plus(e, offset, times(e, i.base, stride))
            step = stride if i.vector else step
        return offset, step


def masked(e: Evaluator, x: Lane, mask: int) -> Lane:
    return e.b.bit_and(x, e.const(mask)) if x.known is None else e.const(x.known & mask)


def extents_of(x: Lowering, inst: Inst, found: tuple[Extent, Extent, Extent]) -> list[Uniform]:
    """How many rows, columns and steps of a product are needed."""
    sizes = [*inst.result.type.shape[-2:], inst.operands[0].type.shape[-1]]
    return [extent_of(x.e, extent, n) for extent, n in zip(found, sizes, strict=True)]


def times(e: Evaluator, x: Lane, factor: int) -> Lane:
    if x.known is not None:
        return e.const(x.known * factor)
    return x if factor == 1 else e.b.mul(x, e.const(factor))


def plus(e: Evaluator, x: Lane, y: Lane) -> Lane:
    if x.known == 0:
        return y
    if y.known == 0:
        return x
    return e.b.add(x, y)


def packing(x: Lowering, anchor: Anchor, axis: int) -> Packed:
    """Give a pack anchor its method; both anchors of a product share one place."""
    inst = anchor.inst
    if inst not in x.packed:
        x.packed[inst] = Packed(x, inst)
    place = x.packed[inst]
    place.take(x, anchor, axis)
    return place


def write_dot(x: Lowering, inst: Inst) -> None:
    """The product of packed operands, added to the buffer of the result."""
    w, place = x.e.w, x.packed[inst]
    g = place.gemm
    for side in range(2):
        place.finish(x, side)
    out = x.e.buffers[inst.result]
    count = place.batch[0] if place.batch else 1
    ahead = ", ".join([*(next_tile(x, place, side) for side in range(2)), result(x, place, inst)])
    group, depth = g.panel.k_group, place.depth.lane
    if depth.known is None and group > 1:  # an operand with a part of a group has zeros there
        depth = x.e.b.bit_and(x.e.b.add(depth, x.e.const(group - 1)), x.e.const(-group))
    join = write_few(x, place, out.name) if place.unpacked is not None else None
    for i in range(count):
        a = part(x, place.a_now, i * place.a_bytes)
        b = part(x, place.b_now, i * place.b_bytes)
        c = part(x, out.name, i * g.m * g.n * out.type.dtype.bytes)
        x.call(
            g,
            f"ptr {a}, i64 {place.lda}, ptr {b}, ptr {c}, i64 {g.n}, {ahead}, "
            f"{place.rows.lane.typed}, {place.columns.lane.typed}, {depth.typed}",
        )
    if join is not None:
        w.write(f"br label %{join}")
        w.label(join)


def write_few(x: Lowering, place: Packed, out: str) -> str:
    """The product if it is of few rows; gives the label after it, in the block of any other."""
    w, right = x.e.w, place.unpacked
    make = few_columns_function if right.flipped else row_function
    few, many, join = (w.new_label(stem) for stem in ("few", "many", "join"))
    w.write(f"br i1 {right.here.text}, label %{few}, label %{many}")
    w.label(few)
    ahead = x.e.b.value(f"load ptr, ptr {place.nexts[1]}", t.pointer_to(t.int8), 1)
    x.call(
        make(place.gemm, right.base.dtype.element_ty, x.machine),
        f"ptr {place.a_now}, i64 {place.lda}, {right.base.typed}, {right.lead.typed}, ptr {out}, "
        f"ptr {ahead.text}, {place.rows.lane.typed}, {place.columns.lane.typed}, "
        f"{place.depth.lane.typed}",
    )
    w.write(f"br label %{join}")
    w.label(many)
    return join


def next_tile(x: Lowering, place: Packed, side: int) -> str:
    """The arguments that say what to prefetch."""
    if not place.guessed[side]:
        return "ptr null, i64 0"
    b = x.e.b
    address = b.value(f"load ptr, ptr {place.nexts[side]}", t.pointer_to(t.int8), 1)
    lead = b.value(f"load i64, ptr {place.leads[side]}", t.int64, 1)
    return f"ptr {address.text}, {lead.typed}"


def result(x: Lowering, place: Packed, inst: Inst) -> str:
    """The arguments that say where the sums go soon."""
    if place.store is None:
        return "ptr null, i64 0"
    return ", ".join(lane.typed for lane in place_of(x, inst, place.store))


def part(x: Lowering, base: str, offset: int) -> str:
    if not offset:
        return base
    name = x.e.w.fresh()
    x.e.w.write(f"{name} = getelementptr i8, ptr {base}, i64 {offset}")
    return name
