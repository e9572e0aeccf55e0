"""Products of warpgroups by wgmma: which ones, and how they are written.

Four warps multiply 64 rows at a time. The right operand lies in shared memory, in rows with the
hardware's swizzle; the left one as well, or in registers. All of a product is one piece of
assembly: its instructions run in order, after everything before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane, llvm_type
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.ir.types import DType
from tilewright.passes import constants
from tilewright.targets.cuda import convert, descriptors, mma, tiles
from tilewright.targets.cuda.arch import Arch
from tilewright.targets.cuda.descriptors import Described
from tilewright.targets.cuda.emitter import Emitter
from tilewright.targets.cuda.layout import LANE_BITS, Layout, blocked
from tilewright.targets.cuda.ldmatrix import CHUNK, rows_of, stage_for, store_tile
from tilewright.targets.cuda.mma import Instruction
from tilewright.targets.cuda.operands import Shared, mma_a, operand_tile
from tilewright.targets.cuda.tiles import Staged, Tile, tile

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering

WARPS = 4  # of a warpgroup
LANES = 1 << LANE_BITS
ROWS = 64  # of the result of one instruction
WIDEST = 256  # its most columns
NARROWEST = 16  # columns, and so the fewest bytes of a row that has a swizzle: 32
MOST_SUMS = 128  # of a thread, which has 255 registers
MOST_REGISTERS = 168  # of a thread that holds them; the assembler does not take fewer
IN_PLACE = {"none", "registers"}  # conversions that move nothing between threads

# What PTX calls the types of operands, with what they are added up in.
NAMES = {
    t.float16: ("f16", t.float32), t.bfloat16: ("bf16", t.float32), t.float32: ("tf32", t.float32),
    t.float8e4nv: ("e4m3", t.float32), t.float8e5: ("e5m2", t.float32),
    t.int8: ("s8", t.int32), t.uint8: ("u8", t.int32),
}  # fmt: skip
RESULTS = {t.float32: "f32", t.int32: "s32"}
STEP = 32  # bytes along K of one instruction


def instruction_for(inst: Inst, arch: Arch, num_warps: int) -> Instruction | None:
    """What multiplies these operands in warpgroups, if anything does."""
    found = named(inst)
    if not arch.has_wgmma or found is None or num_warps < WARPS:
        return None
    left, acc = inst.operands[0].type, inst.operands[2].type
    if len(acc.shape) != 2 or acc.shape[0] < ROWS or acc.dtype.is_integer and acc.dtype.bits != 32:
        return None
    rows, columns = acc.shape
    warps_m, warps_n = split_warps(acc.shape, num_warps)
    own = columns // warps_n  # columns of a warpgroup
    if rows // warps_m * own >> LANE_BITS > MOST_SUMS:
        return None
    # Rows across K must not be shared by warpgroups.
    whole = warps_n == 1 or left.dtype.bits != 16 or own * 2 >= descriptors.WIDEST
    fits = columns >= NARROWEST and left.shape[1] >= found.inner
    return found if whole and fits else None


def named(inst: Inst) -> Instruction | None:
    """The instruction for the types of a product."""
    left, right = (v.type.dtype for v in inst.operands[:2])
    if left not in NAMES or right not in NAMES or (left is not right and not left.is_fp8()):
        return None
    if left is t.float32 and inst.attrs.get("precision", "tf32") != "tf32":
        return None
    (first, result), (second, _) = NAMES[left], NAMES[right]
    name = f"{RESULTS[result]}.{first}.{second}"
    return Instruction(left, result, STEP // left.bytes, name)


def split_warps(shape: tuple[int, ...], num_warps: int) -> tuple[int, int]:
    """How many warps share the rows, and the columns: rows first."""
    warps_m = min(num_warps, shape[0] // mma.ROWS)
    return warps_m, num_warps // warps_m


def can_read(shared: Shared, side: int, found: Instruction) -> bool:
    """Whether an operand can lie like this; only 16-bit elements may lie across K."""
    return found.operand.bits == 16 or rows_of(shared) == 1 - side


def staging(layout: Layout, side: int, found: Instruction) -> Shared:
    """Where an operand that comes in a layout is best put."""
    bytes = found.operand.bytes
    along_inner = operand_tile(layout.shape, bytes, (1 - side, side))
    return (stage_for(layout, bytes) if found.operand.bits == 16 else None) or along_inner


def fragment(sums: Layout, shape: Sequence[int], found: Instruction) -> Layout:
    """The left operand in registers."""
    return mma_a(shape, found.operand.bits, *mma.split_of(sums))


def put(x: Lowering, held: Tile, side: int, found: Instruction) -> Staged:
    """Write an operand to shared memory, which is lent for it."""
    shared = staging(held.layout, side, found)
    # First what takes other memory for a while.
    held = prepared(x.e, held, shared)
    staged = Staged(shared, x.e.memory.take(shared.size, descriptors.ALIGNMENT))
    store_tile(x.e, held, shared, staged.base)
    return staged


def prepared(e: Emitter, held: Tile, shared: Shared) -> Tile:
    """An operand as it is stored."""
    held = along_rows(e, held, shared)
    if held.dtype is not t.float32:
        return held
    return Tile(held.layout, tuple(mma.to_tf32(e, v) for v in held.lanes))


def along_rows(e: Emitter, held: Tile, shared: Shared) -> Tile:
    """The tile with neighbours of a row in each thread: else stores would meet in banks."""
    row = rows_of(shared)
    first = held.layout.span(row)[0]
    if shared.bytes == 2 or 1 << first in held.layout.register:
        return held
    order = (row, 1 - row)
    goal = blocked(shared.shape, e.num_warps, order, CHUNK // shared.bytes)
    return tiles.convert(e, held, goal)


@dataclass(frozen=True)
class Block:
    """What one instruction makes of a thread's sums: where it begins, and its registers."""

    row: int
    column: int
    registers: range

    @property
    def columns(self) -> int:
        return len(self.registers) * LANES * WARPS // ROWS


def blocks_of(sums: Layout) -> list[Block]:
    columns = sums.shape[1] // mma.split_of(sums)[1]
    count = columns * ROWS // (LANES * WARPS)
    return [
        Block(*sums.coords(sums.index(first)), range(first, first + count))
        for first in range(0, sums.registers, count)
    ]


@dataclass(frozen=True)
class Flight:
    """Products of a loop that go on until the `first` one of the next turn has begun.

    Each is told with the value that the loop carries for it. `over` is called in each turn once
    those of the turn before are over, and something else is under way.
    """

    first: Inst
    unfinished: dict[Inst, Value]
    over: Callable[[], None]

    @property
    def insts(self) -> list[Inst]:
        return [self.first, *self.unfinished]

    def over_by(self, inst: Inst) -> list[Value]:
        """What is carried for the products that are over with this one, but its own."""
        if inst is not self.first:
            return []
        return [value for other, value in self.unfinished.items() if other is not inst]

    def is_first_to_go_on(self, inst: Inst) -> bool:
        return inst is next(iter(self.unfinished))


class Product:
    """One dot by wgmma."""

    def __init__(self, x: Lowering, inst: Inst, found: Instruction):
        self.x = x
        self.e: Emitter = x.e
        self.inst = inst
        self.found = found
        self.layout = x.layout(inst.result)
        self.lent = 0
        self.stores = False

    def run(self) -> Tile:
        x, e, b = self.x, self.e, self.e.b
        acc = x.tile(self.inst.operands[2], self.layout)
        is_fresh = constants.number(self.inst.operands[2]) == 0
        sums = [] if is_fresh else [b.cast(v, self.found.result) for v in acc.lanes]
        left, right = self.left(), self.described(1)
        if self.stores:
            e.fence_async()
            e.barrier()
        flight = x.flights.get(self.inst)
        before = flight.over_by(self.inst) if flight else []
        code = Assembly(self.found, self.layout.registers, sums, x.lanes(before))
        for block in blocks_of(self.layout):
            for k in range(0, self.inst.operands[0].type.shape[1], self.found.inner):
                code.multiply(block, left, right, k)
        goes_on = flight is not None and self.inst in flight.unfinished and not self.lent
        wait = 0
        if goes_on:
            wait = 1 if self.inst is flight.first else None
        lanes, over = code.write(e, wait)
        x.replace(before, over)
        if flight and flight.is_first_to_go_on(self.inst):
            flight.over()
        e.memory.give_back(self.lent)
        return tile(self.layout, [b.cast(v, acc.dtype) for v in lanes])

    def left(self) -> Described | Held:
        """The left operand; it stays in registers where it is as it must be there."""
        x, value = self.x, self.inst.operands[0]
        lies = value in x.staged or value in x.places
        goal = None if lies else in_registers(x, self.inst, self.found)
        return Held(self, x.tile(value, goal)) if goal else self.described(0)

    def described(self, side: int) -> Described:
        x, value = self.x, self.inst.operands[side]
        staged = x.staged.get(value)
        if staged is None:
            self.stores = True
            staged = x.places.get(value)
            if staged is not None:
                store_tile(self.e, prepared(self.e, x.tile(value), staged.shared), *staged.where)
            else:
                staged = put(x, x.tile(value), side, self.found)
                self.lent += 1
        return Described(self.e, side, staged, self.layout)


def in_registers(x: Lowering, inst: Inst, found: Instruction) -> Layout | None:
    """The layout of a left operand that each thread has what it needs of; None: it lacks some."""
    held = x.tiles[inst.operands[0]]
    if held.uniform or comes_in_place(x, inst, held.layout, found):
        return fragment(x.layout(inst.result), held.layout.shape, found)
    return None


def comes_in_place(x: Lowering, inst: Inst, layout: Layout, found: Instruction) -> bool:
    """Whether a left operand in a layout is in the threads that take it."""
    goal = fragment(x.layout(inst.result), layout.shape, found)
    return convert.plan(layout, goal, found.operand.bits).kind in IN_PLACE


class Held:
    """A left operand in registers."""

    turned = None  # there is no other way

    def __init__(self, product: Product, held: Tile):
        self.words = mma.FromRegisters(product, 0, held)

    def read(self, row: int, k: int) -> list[Lane]:
        return self.words.read(0, row, k)


class Assembly:
    """The text of a product, and what it is given: first the sums, where there are any.

    `riders` are sums of products before that are over when it goes on.
    """

    def __init__(
        self, found: Instruction, registers: int, sums: Sequence[Lane], riders: Sequence[Lane]
    ):
        self.found = found
        self.registers = registers
        self.outputs = registers + len(riders)
        self.given = [*sums, *riders]
        self.is_begun = bool(sums)
        self.lines: list[str] = []
        self.numbers: dict[str, int] = {}  # of operands, by their text

    def multiply(self, block: Block, left: Described | Held, right: Described, k: int) -> None:
        """One instruction."""
        found = self.found
        sums = self.listed(block.registers)
        words = [self.operand(v) for v in left.read(block.row, k)]
        first = self.listed(words) if left.turned is None else f"${words[0]}"
        (place,) = [self.operand(v) for v in right.read(block.column, k)]
        adds = "p" if self.is_begun or k else "q"
        ends = [adds]
        if found.result.is_float:
            ends += ["1", "1"]  # signs
        if found.operand.bits == 16:
            ends += [str(int(o.turned)) for o in (left, right) if o.turned is not None]
        self.lines.append(
            f"wgmma.mma_async.sync.aligned.m{ROWS}n{block.columns}k{found.inner}.{found.name} "
            f"{sums}, {first}, ${place}, {', '.join(ends)};"
        )

    def listed(self, numbers: Sequence[int]) -> str:
        return "{" + ", ".join(f"${n}" for n in numbers) + "}"

    def operand(self, lane: Lane) -> int:
        if lane.text not in self.numbers:
            self.numbers[lane.text] = self.outputs + len(self.given)
            self.given.append(lane)
        return self.numbers[lane.text]

    def write(self, e: Emitter, wait: int | None) -> tuple[list[Lane], list[Lane]]:
        """Sums and riders, once at most `wait` products are under way; None does not wait."""
        result = self.found.result
        letter = "f" if result.is_float else "r"
        text = [
            "{ .reg .pred p, q;",
            "setp.ne.b32 p, 1, 0; setp.ne.b32 q, 0, 0;",
            "wgmma.fence.sync.aligned;",
            *self.lines,
            "wgmma.commit_group.sync.aligned;",
        ]
        if wait is not None:
            text.append(f"wgmma.wait_group.sync.aligned {wait};")
        first = 0 if self.is_begun else self.registers
        tied = [str(n) for n in range(first, self.outputs)]
        kinds = ["l" if v.dtype.bits == 64 else "r" for v in self.given[len(tied) :]]
        constraints = [f"={letter}"] * self.outputs + tied + kinds + ["~{memory}"]
        lanes = assembly(e, " ".join([*text, "}"]), constraints, self.given, result)
        return lanes[: self.registers], lanes[self.registers :]


def assembly(
    e: Emitter, text: str, constraints: list[str], given: Sequence[Lane], result: DType
) -> list[Lane]:
    """A piece of assembly for all threads of a warpgroup; gives its outputs, all of one dtype."""
    count = sum(c.startswith("=") for c in constraints)
    kind = "{" + ", ".join([llvm_type(result)] * count) + "}"
    operands = ", ".join(v.typed for v in given)
    name = e.w.value(
        f'call {kind} asm sideeffect "{text}", "{",".join(constraints)}"({operands}) convergent',
        "wgmma",
    )
    return [e.b.value(f"extractvalue {kind} {name}, {k}", result, 1) for k in range(count)]


def waited(e: Emitter, sums: Sequence[Lane]) -> list[Lane]:
    """Sums of products that were under way, once all are over."""
    dtype, count = sums[0].dtype, len(sums)
    letter = "f" if dtype.is_float else "r"
    constraints = [f"={letter}"] * count + [str(n) for n in range(count)] + ["~{memory}"]
    return assembly(e, "wgmma.wait_group.sync.aligned 0;", constraints, sums, dtype)
