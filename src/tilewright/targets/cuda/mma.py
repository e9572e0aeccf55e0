"""Products on tensor cores by mma.sync: which ones, in which layouts, and how they are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst
from tilewright.ir.types import DType
from tilewright.targets.cuda import convert, f2
from tilewright.targets.cuda.arch import Arch
from tilewright.targets.cuda.emitter import Emitter
from tilewright.targets.cuda.layout import Layout, log2
from tilewright.targets.cuda.ldmatrix import FromShared, can_load, stage_for, store_tile
from tilewright.targets.cuda.operands import mma_a, mma_accumulator, mma_b
from tilewright.targets.cuda.tiles import Staged, Tile, tile

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering

ROWS, COLUMNS = 16, 8  # of the result of one instruction
HALF = 8  # rows of those that are written twice
LETTERS = {t.float32: "f", t.float64: "d", t.int32: "r", t.uint32: "r"}  # of registers
CHEAP = {"none", "registers", "shuffles"}  # conversions that need no shared memory


@dataclass(frozen=True)
class Instruction:
    """One mma.sync: what operands are turned into, its K, and how PTX spells it."""

    operand: DType
    result: DType
    inner: int
    name: str

    @property
    def takes_matrices(self) -> bool:
        """Whether ldmatrix, of 8 rows of 16 bytes, gives what it takes."""
        return self.inner * self.operand.bits == 256 and self.operand.bits <= 32

    @property
    def bits(self) -> int:
        """Of an operand, as far as that says how many share a register."""
        return min(self.operand.bits, 32)

    @property
    def registers(self) -> tuple[int, int]:
        """Registers of the left and of the right operand."""
        words = self.inner * self.bits // 128
        return 2 * words, words

    @property
    def rows(self) -> int:
        return HALF if self.name.startswith("m8") else ROWS


F16 = Instruction(t.float16, t.float32, 16, "m16n8k16.row.col.f32.f16.f16.f32")
F16_OLD = Instruction(t.float16, t.float32, 8, "m16n8k8.row.col.f32.f16.f16.f32")
BF16 = Instruction(t.bfloat16, t.float32, 16, "m16n8k16.row.col.f32.bf16.bf16.f32")
TF32 = Instruction(t.float32, t.float32, 8, "m16n8k8.row.col.f32.tf32.tf32.f32")
S8 = Instruction(t.int8, t.int32, 32, "m16n8k32.row.col.s32.s8.s8.s32")
U8 = Instruction(t.uint8, t.int32, 32, "m16n8k32.row.col.s32.u8.u8.s32")
E4M3 = Instruction(t.float8e4nv, t.float32, 32, "m16n8k32.row.col.f32.e4m3.e4m3.f32")
E5M2 = Instruction(t.float8e5, t.float32, 32, "m16n8k32.row.col.f32.e5m2.e5m2.f32")
BYTES = {t.float8e4nv: E4M3, t.float8e5: E5M2}
F64 = Instruction(t.float64, t.float64, 8, "m16n8k8.row.col.f64.f64.f64.f64")
F64_OLD = Instruction(t.float64, t.float64, 4, "m8n8k4.row.col.f64.f64.f64.f64")


def instruction_for(inst: Inst, arch: Arch) -> Instruction | None:
    """What multiplies these operands exactly, if anything does."""
    left, right, acc = (v.type for v in inst.operands)
    dtype = left.dtype
    by_bytes = BYTES.get(dtype) if arch.has_fp8 and dtype is right.dtype else None
    if by_bytes is not None and left.shape[-1] >= by_bytes.inner:
        found = by_bytes
    elif dtype.is_fp8() or (dtype is right.dtype is t.float16):
        # Every fp8 number is one of fp16.
        found = F16 if arch.capability >= 80 else F16_OLD
    elif (
        arch.capability < 80 or dtype is t.float32 and inst.attrs.get("precision", "tf32") != "tf32"
    ):
        return None
    else:
        wide = F64 if arch.capability >= 90 else F64_OLD
        found = {
            t.bfloat16: BF16, t.float32: TF32, t.int8: S8, t.uint8: U8, t.float64: wide
        }.get(dtype)  # fmt: skip
    if found is None or (acc.dtype.is_integer and acc.dtype.bits != 32):
        return None
    rows, columns = acc.shape[-2:]
    least = max(found.inner, 16) if found.operand.bits == 16 else found.inner
    fits = rows >= ROWS and columns >= COLUMNS and left.shape[-1] >= least
    return found if fits else None


def split_warps(shape: tuple[int, ...], num_warps: int, along_rows: bool) -> tuple[int, int]:
    """How many warps share the rows, and the columns, so that they read the least."""
    rows, columns = shape[-2:]

    def price(warps_m: int) -> tuple[float, float]:
        warps_n = num_warps // warps_m
        idle = max(1, ROWS * warps_m / rows) * max(1, COLUMNS * warps_n / columns)
        return idle, (rows / warps_m + columns / warps_n)

    # To exchange what goes from one product to the next takes less than all of it done 4 times.
    if along_rows and ROWS * num_warps <= 2 * rows:
        return num_warps, 1
    choices = [1 << k for k in range(log2(num_warps) + 1)]
    best = min(choices, key=price)
    return best, num_warps // best


def fragments(inst: Inst, found: Instruction, split: tuple[int, int]) -> tuple[Layout, Layout]:
    """What the instruction takes of each operand in registers."""
    bits = found.bits
    return (
        mma_a(inst.operands[0].type.shape, bits, *split),
        mma_b(inst.operands[1].type.shape, bits, *split),
    )


class Product:
    """One dot on tensor cores."""

    def __init__(self, x: Lowering, inst: Inst, found: Instruction):
        self.x = x
        self.e: Emitter = x.e
        self.inst = inst
        self.found = found
        self.layout = x.layout(inst.result)
        self.split = split_of(self.layout)
        self.fragments = fragments(inst, found, self.split)

    def run(self) -> Tile:
        x, e = self.x, self.e
        acc = x.tile(self.inst.operands[2], self.layout)
        sums = [e.b.cast(v, self.found.result) for v in acc.lanes]
        readers = [self.reader(side) for side in (0, 1)]
        stored = sum(
            not self.is_staged(side) and isinstance(readers[side], FromShared) for side in (0, 1)
        )
        if stored:
            e.barrier()
        shape = self.layout.shape
        inner = self.inst.operands[0].type.shape[-1]
        counts = registers_of(self.layout)
        for batch in range(shape[0] if len(shape) == 3 else 1):
            for k in range(0, inner, self.found.inner):
                lefts = [readers[0].read(batch, i, k) for i in counts.rows]
                rights = [readers[1].read(batch, j, k) for j in counts.columns]
                self.multiply(sums, lefts, rights, counts, batch)
        e.memory.give_back(stored)
        return tile(self.layout, [e.b.cast(v, acc.dtype) for v in sums])

    def multiply(self, sums, lefts, rights, counts, batch: int) -> None:
        """All blocks of the result, for one step along K; to and fro, to reuse operands."""
        for i, left in enumerate(lefts):
            order = range(len(rights)) if i % 2 == 0 else reversed(range(len(rights)))
            for j in order:
                where = counts.register(batch, counts.rows[i], counts.columns[j])
                parts = ROWS // self.found.rows  # of a block, one below the other
                for part in range(parts):
                    first, last = where + 4 * part // parts, where + 4 * (part + 1) // parts
                    held = sums[first:last]
                    sums[first:last] = self.mma(left[part::parts], rights[j], held)

    def mma(self, left: list[Lane], right: list[Lane], held: list[Lane]) -> list[Lane]:
        e, found, size = self.e, self.found, len(held)
        letter, kind = LETTERS[found.result], held[0].type
        count = len(left) + len(right)
        names = [f"${k}" for k in range(2 * size + count)]
        a, b = names[2 * size : 2 * size + len(left)], names[2 * size + len(left) :]
        text = (
            f"mma.sync.aligned.{found.name} {{{', '.join(names[:size])}}}, {{{', '.join(a)}}}, "
            f"{{{', '.join(b)}}}, {{{', '.join(names[size : 2 * size])}}};"
        )
        tied = [str(k) for k in range(size)]
        constraints = [f"={letter}"] * size + tied + [LETTERS[left[0].dtype]] * count
        result = "{" + ", ".join([kind] * size) + "}"
        operands = ", ".join(v.typed for v in [*held, *left, *right])
        name = e.w.value(
            f'call {result} asm "{text}", "{",".join(constraints)}"({operands}) convergent', "mma"
        )
        return [
            e.b.value(f"extractvalue {result} {name}, {k}", found.result, 1) for k in range(size)
        ]

    # --- operands

    def reader(self, side: int):
        """How an operand's registers come: from those it is in, or from shared memory."""
        value = self.inst.operands[side]
        if self.is_staged(side):
            return FromShared(self, side, self.x.staged[value])
        goal = self.fragments[side]
        held = self.x.tile(value)
        if not held.uniform and not self.x.is_at_hand(value, goal):
            kind = convert.plan(held.layout, goal, held.dtype.bits).kind
            if kind not in CHEAP and held.dtype is self.found.operand:
                shared = stage_for(held.layout, held.dtype.bytes)
                if shared is not None and can_load(shared, side, self.found):
                    base = self.e.memory.take(shared.size)
                    store_tile(self.e, held, shared, base)
                    return FromShared(self, side, Staged(shared, base))
        return FromRegisters(self, side, self.x.tile(value, goal))

    def is_staged(self, side: int) -> bool:
        """Whether an operand was copied to shared memory before."""
        return self.inst.operands[side] in self.x.staged


def split_of(layout: Layout) -> tuple[int, int]:
    """How an accumulator's warps share rows and columns."""
    bits = len(layout.warp)
    splits = [(1 << k, 1 << bits - k) for k in range(bits + 1)]
    return next(s for s in splits if mma_accumulator(layout.shape, *s) == layout)


@dataclass(frozen=True)
class Counts:
    """The blocks of a thread's accumulator: where they begin, and their registers."""

    layout: Layout
    rows: list[int]
    columns: list[int]

    def register(self, batch: int, row: int, column: int) -> int:
        """The first of the four registers of a block."""
        layout, rank = self.layout, len(self.layout.shape)
        index = row << layout.span(rank - 2)[0] | column
        if rank == 3:
            index |= batch << layout.span(0)[0]
        return f2.solve(layout.register, index)


def registers_of(layout: Layout) -> Counts:
    """The rows and columns, relative to the thread's own, at which its blocks begin."""
    rank = len(layout.shape)
    rows = sorted({r for r in layout.constants_along(rank - 2) if r % ROWS == 0})
    columns = sorted({c for c in layout.constants_along(rank - 1) if c % COLUMNS == 0})
    return Counts(layout, rows, columns)


class FromRegisters:
    """An operand in the registers that the instruction takes."""

    def __init__(self, product: Product, side: int, held: Tile):
        self.product = product
        self.side = side
        self.held = held
        self.packed: dict[int, Lane] = {}

    def read(self, batch: int, start: int, k: int) -> list[Lane]:
        """The words of the block that begins at a row (or column) and a place along K."""
        product, layout = self.product, self.held.layout
        rank = len(layout.shape)
        dims = (rank - 2, rank - 1) if self.side == 0 else (rank - 1, rank - 2)
        index = start << layout.span(dims[0])[0] | k << layout.span(dims[1])[0]
        if rank == 3:
            index |= batch << layout.span(0)[0]
        first = f2.solve(layout.register, index)
        pack = 32 // product.found.bits
        count = product.found.registers[self.side]
        return [self.word(first | n * pack, pack) for n in range(count)]

    def word(self, first: int, pack: int) -> Lane:
        if first not in self.packed:
            e = self.product.e
            lanes = [self.product_operand(v) for v in self.held.lanes[first : first + pack]]
            is_wide = lanes[0].dtype is t.float64
            self.packed[first] = lanes[0] if is_wide else e.pack([e.to_word(v) for v in lanes])
        return self.packed[first]

    def product_operand(self, value: Lane) -> Lane:
        """A value as the instruction takes it."""
        product = self.product
        if product.found.operand is t.float32:
            return to_tf32(product.e, value)
        return product.e.b.cast(value, product.found.operand)


def to_tf32(e: Emitter, value: Lane) -> Lane:
    """fp32 rounded to the 10 bits after the point that the tensor cores look at."""
    text = f'call i32 asm "cvt.rna.tf32.f32 $0, $1;", "=r,f"({value.typed})'
    return e.b.bitcast(e.b.value(text, t.uint32, 1), t.float32)
