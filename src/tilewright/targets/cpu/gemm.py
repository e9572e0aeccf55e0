"""The matrix microkernel: C += A @ B on tiles of fixed size, blocked for the registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache, partial

from tilewright.codegen.lanes import Lane, llvm_type
from tilewright.codegen.llvm import Machine
from tilewright.ir import types as ty
from tilewright.ir.types import DType, pointer_to
from tilewright.targets.cpu.gemm_prefetch import CACHE_LINE, Prefetch
from tilewright.targets.cpu.gemm_product import Product, product_of
from tilewright.targets.cpu.routine import Function, Routine

NEAREST_BYTES = 32 << 10  # of a small nearest cache
EXTENTS = ("rows", "columns", "depth")  # of what there is of a tile


@dataclass(frozen=True)
class Panel:
    """The layout of B: panels of `width` columns, with `k_group` rows of a column side by side.

    `bias` is added to the elements, which are bytes then, modulo 256.
    """

    width: int
    k_group: int = 1
    bias: int = 0

    def offset(self, k: int, n: int, k_size: int) -> int:
        """Where B[k, n] of a matrix with `k_size` rows is, in elements."""
        group = k // self.k_group * self.k_group
        column = n % self.width * self.k_group + k % self.k_group
        return (n // self.width * k_size + group) * self.width + column


@dataclass(frozen=True)
class Live:
    """Which extents of a product are told when it runs: those of a tile that may stick out."""

    rows: bool = False
    columns: bool = False
    depth: bool = False

    @property
    def mark(self) -> str:
        marks = "m" * self.rows + "n" * self.columns + "k" * self.depth
        return f"_{marks}" if marks else ""


class Left(Enum):
    """How A lies."""

    ROWS = ""  # rows, `lda` elements apart
    TABLE = "rows"  # rows anywhere: A is an array of their addresses
    TURNED = "turned"  # as B does, in one panel as wide as there are rows


@dataclass(frozen=True)
class Gemm(Function):
    """A function that adds A @ B to C, or with `fresh` writes it there.

    Its arguments are `ptr a, i64 lda, ptr b, ptr c, i64 ldc, ptr next_a, i64 next_lda, ptr next_b,
    i64 next_ldb, ptr next_c, i64 next_ldc, i64 rows, i64 columns, i64 depth`, leading dimensions in
    elements. A lies as `left` says and is of dtype `operand`, B of the same dtype in panels,
    64-byte aligned, C row-major of dtype `acc`. While it computes, it prefetches the tiles at
    `next_a` and `next_b`, which A and B are going to be converted or packed from, and the one at
    `next_c`, which C will be converted to; any may be null. The last three are read as far as
    `Live` says: elements of A and B beyond them are not read, and those of C beyond them are of no
    meaning. The depth is a multiple of the panel's group.
    """

    m: int
    n: int
    k: int
    operand: DType
    acc: DType
    panel: Panel
    product: Product
    fresh: bool = False  # C is not added to, but written
    left: Left = Left.ROWS

    @property
    def bias(self) -> int:
        """What is added, modulo 256, to the bytes of A."""
        return self.product.bias

    @property
    def left_panel(self) -> Panel:
        """The layout of A where it is turned."""
        return Panel(self.m, self.panel.k_group, self.bias)


@dataclass(frozen=True)
class Block:
    """What part of C is kept in registers: rows, vectors of each, and lanes of a vector."""

    rows: int
    vectors: int
    lanes: int

    @property
    def width(self) -> int:
        return self.vectors * self.lanes


@cache
def gemm_function(
    m: int,
    n: int,
    k: int,
    operand: DType,
    acc: DType,
    machine: Machine,
    *,
    native_bf16: bool = False,
    b_transposed: bool = False,
    live: Live = Live(),
    fresh: bool = False,
    left: Left = Left.ROWS,
    stored: DType | None = None,
) -> Gemm:
    """The function for m x k times k x n, all powers of two, of matrices that were `operand`.

    A must be converted to the result's `operand`. `native_bf16` allows instructions that take
    denormals to zero; every other float product is an fma in ascending order of k, whatever the
    blocking. `next_a` and `next_b` are tiles of `operand`; with `b_transposed` the latter is n x k,
    and where A is turned, the former is k x m. `next_c` is a tile of `stored`, `acc` if not told.
    """
    lanes = min(n, machine.vector_bytes // acc.bytes)
    product = product_of(k, lanes, operand, acc, machine, native_bf16)
    blocks = _blocks(m, n, lanes, machine)
    r = Routine(machine)
    kernel = _Kernel(r, (m, n, k), product, blocks, acc, live, fresh, left)
    source_a = (k, m) if left is Left.TURNED else (m, k)
    source_b = (n, k) if b_transposed else (k, n)
    stored = stored or acc
    kernel.write(
        Prefetch(r, "a", source_a, operand),
        Prefetch(r, "b", source_b, operand),
        Prefetch(r, "c", (m, n), stored, writes=True),
    )
    marks = f"_to_{stored.short}" * (stored is not acc) + f"_{left.value}" * bool(left.value)
    marks += "_bt" * b_transposed + live.mark + "_new" * fresh
    name = f"tw_gemm_{m}x{n}x{k}_{operand.short}_{product.operand.short}_{acc.short}{marks}"
    made = r.finish(name, kernel.parameters)
    panel = Panel(blocks[-1].width, product.k_group)
    return Gemm(
        name, made.definition, made.needs, m, n, k, product.operand, acc, panel, product,
        fresh, left,
    )  # fmt: skip


def _blocks(m: int, n: int, lanes: int, machine: Machine) -> list[Block]:
    """The block for most of C, and before it those of fewer vectors for its last columns."""
    many = machine.vector_bytes == 64 or machine.arch == "aarch64"
    vectors = min(n // lanes, 4 if many else 2)
    # 16 accumulators of 32 registers, 12 of 16: enough to hide the latency of two fma units.
    rows = {1: 8, 2: 8, 3: 5, 4: 4} if many else {1: 8, 2: 6}
    return [Block(min(m, rows[count]), count, lanes) for count in range(1, vectors + 1)]


class _Kernel:
    """The loops over panels, blocks of rows, and k."""

    def __init__(
        self,
        r: Routine,
        shape: tuple[int, int, int],
        product: Product,
        blocks: Sequence[Block],
        acc: DType,
        live: Live,
        fresh: bool,
        left: Left,
    ):
        self.r, self.product, self.live, self.fresh = r, product, live, fresh
        self.left = left
        *self.narrow, self.block = blocks
        self.m, self.n, self.k = shape
        self.a = Lane("%a", pointer_to(product.operand))
        self.b = Lane("%b", pointer_to(product.operand))
        self.c = Lane("%c", pointer_to(acc))
        self.lda = Lane("%lda", ty.int64)
        self.ldc = Lane("%ldc", ty.int64)
        self.rows, self.columns, self.depth = (Lane(f"%{name}", ty.int64) for name in EXTENTS)

    @property
    def parameters(self) -> list[Lane]:
        ptr, i64 = self.c.dtype, ty.int64
        names = {"a": ptr, "lda": i64, "b": ptr, "c": ptr, "ldc": i64}
        names |= {"next_a": ptr, "next_lda": i64, "next_b": ptr, "next_ldb": i64}
        names |= {"next_c": ptr, "next_ldc": i64}
        names |= dict.fromkeys(EXTENTS, i64)
        return [Lane(f"%{name}", dtype) for name, dtype in names.items()]

    def write(self, *prefetches: Prefetch) -> None:
        r, block = self.r, self.block
        panels, blocks = self.n // block.width, -(-self.m // block.rows)

        def panel(j: Lane) -> None:
            column, start = r.times(j, block.width), r.times(j, self.k * block.width)
            excess = self._excess(block, start)

            def rows(i: Lane) -> None:
                def compute() -> None:
                    self._rows(block, i, column, start, excess)

                if self.live.rows:
                    r.when(r.b.lt(i, self.rows), compute)
                else:
                    compute()
                number = r.b.add(r.times(j, blocks), self._quotient(i, block.rows))
                for prefetch in prefetches:
                    prefetch.write(number, panels * blocks)

            r.loop(self.m, block.rows, rows)

        if not self.live.columns:
            r.loop(panels, 1, panel)
            return
        # A panel is whole if its last vector is there in part.
        vectors = r.b.add(self.columns, r.index(block.lanes - 1))
        vectors = self._quotient(vectors, block.lanes)
        whole = self._quotient(vectors, block.vectors)
        r.count(r.index(0), whole, 1, panel)
        left = r.b.bit_and(vectors, r.index(block.vectors - 1))
        for narrow in self.narrow:
            here = r.b.eq(left, r.index(narrow.vectors))
            r.when(here, partial(self._last_panel, narrow, whole))

    def _last_panel(self, block: Block, number: Lane) -> None:
        """The columns of a panel that is not all there: so many vectors as the block has."""
        r, width = self.r, self.block.width
        column, start = r.times(number, width), r.times(number, self.k * width)
        excess = self._excess(block, start)

        def rows(i: Lane) -> None:
            self._rows(block, i, column, start, excess)

        if self.live.rows:
            r.count(r.index(0), self.rows, block.rows, rows)
        else:
            r.loop(self.m, block.rows, rows)

    def _quotient(self, x: Lane, divisor: int) -> Lane:
        if divisor & (divisor - 1):
            return self.r.b.value(f"udiv {x.typed}, {divisor}", ty.int64, 1)
        return self.r.b.shr(x, self.r.index(divisor.bit_length() - 1))

    def _row_numbers(self, i: Lane, rows: int, is_there: bool = True) -> list[Lane]:
        """The rows of a block; beyond the last row it is repeated, with the same result."""
        r, b = self.r, self.r.b
        numbers = [b.add(i, r.index(row)) if row else i for row in range(rows)]
        if is_there and not self.live.rows and self.m % rows == 0:
            return numbers
        last = b.sub(self.rows, r.index(1)) if self.live.rows else r.index(self.m - 1)
        first = numbers[0] if is_there else b.minimum(numbers[0], last)
        return [first, *(b.minimum(number, last) for number in numbers[1:])]

    def _excess(self, block: Block, start: Lane) -> list[Lane]:
        """What the bias of A adds to the sums of each column of C."""
        r, bias, operand = self.r, self.product.bias, self.product.operand
        if not bias:
            return []
        x = r.b.const(bias, operand, block.lanes * self.product.k_group)
        zero = r.b.const(0, self.c.dtype.element_ty, block.lanes)

        def group(panel: Lane, k: Lane, acc: Sequence[Lane]) -> list[Lane]:
            pairs = zip(acc, self._vectors(block, panel), strict=True)
            return [self.product.emit(r.b, c, x, y) for c, y in pairs]

        return self._over_depth(r.at(self.b, start), group, [zero] * block.vectors)

    def _rows(
        self, block: Block, i: Lane, column: Lane, start: Lane, excess: Sequence[Lane]
    ) -> None:
        """All of k for some rows of C from `column` on; `start` is where those of B begin."""
        r, b = self.r, self.r.b
        numbers = self._row_numbers(i, block.rows)
        c = [r.at(self.c, b.mul(number, self.ldc), column) for number in numbers]
        c = [r.at(row, v * block.lanes) for row in c for v in range(block.vectors)]
        a = [self._row(number) for number in numbers]

        def group(panel: Lane, k: Lane, acc: Sequence[Lane]) -> list[Lane]:
            along = r.times(k, self.m) if self.left is Left.TURNED else k
            return self._step(block, [r.at(row, along) for row in a], panel, acc)

        zero = b.const(0, self.c.dtype.element_ty, block.lanes)
        sums = [zero if self.fresh else r.load(ptr, block.lanes) for ptr in c]
        ahead = r.times(self.ldc, block.rows)
        if self._touched() > NEAREST_BYTES:
            for ptr in c:  # The next rows of C have been pushed out since they were used last.
                r.prefetch(r.at(ptr, ahead))
        if self.left is Left.TABLE:
            self._ask_for_rows(b.add(i, r.index(block.rows)), block.rows)
        for v, extra in enumerate(excess):
            sums[v :: block.vectors] = [b.sub(x, extra) for x in sums[v :: block.vectors]]
        sums = self._over_depth(r.at(self.b, start), group, sums)
        for value, ptr in zip(sums, c, strict=True):
            r.store(value, ptr)

    def _touched(self) -> int:
        """Bytes of a product and of the tiles that it prefetches."""
        operands = (self.m + self.n) * self.k * self.product.operand.bytes
        return self.m * self.n * self.c.dtype.element_ty.bytes + 2 * operands

    def _row(self, number: Lane) -> Lane:
        """Where a row of A begins."""
        r = self.r
        if self.left is Left.TURNED:
            return r.at(self.a, r.times(number, self.product.k_group))
        if self.left is Left.ROWS:
            return r.at(self.a, r.b.mul(number, self.lda))
        place = r.at(Lane("%a", pointer_to(ty.int64)), number)
        return r.b.value(f"load ptr, ptr {place.text}", self.a.dtype, 1)

    def _ask_for_rows(self, i: Lane, rows: int) -> None:
        """Prefetch the rows of A of the next block: nobody can tell where they lie."""
        r = self.r
        for number in self._row_numbers(i, rows, is_there=False):
            row = self._row(number)
            for k in (*range(0, self.k, CACHE_LINE // self.product.operand.bytes), self.k - 1):
                r.prefetch(r.at(row, k))

    def _over_depth(
        self, panel: Lane, take: Callable[..., list[Lane]], sums: Sequence[Lane]
    ) -> Sequence[Lane]:
        """`sums` after each group of k: `take(rows of the panel, k, sums)`."""
        r, group = self.r, self.product.k_group

        def body(k: Lane, *acc: Lane) -> list[Lane]:
            return take(r.at(panel, r.times(k, self.block.width)), k, acc)

        # Unrolling this loop buys nothing, and costs a third of a kernel's compile time.
        if self.live.depth:
            return r.count(r.index(0), self.depth, group, body, sums)
        return r.loop(self.k, group, body, sums)

    def _vectors(self, block: Block, panel: Lane) -> list[Lane]:
        """A group of rows of B."""
        r, wide = self.r, block.lanes * self.product.k_group
        align = wide * self.product.operand.bytes
        return [r.load(r.at(panel, v * wide), wide, align) for v in range(block.vectors)]

    def _step(self, block: Block, a: list[Lane], panel: Lane, acc: Sequence[Lane]) -> list[Lane]:
        """Add the products of one group of k; `a` points to the elements of each row."""
        r, product = self.r, self.product
        y, out = self._vectors(block, panel), []
        for row, ptr in enumerate(a):
            x = self._broadcast(ptr)
            for v in range(block.vectors):
                out.append(product.emit(r.b, acc[row * block.vectors + v], x, y[v]))
        return out

    def _broadcast(self, ptr: Lane) -> Lane:
        """A group of elements of A, in every lane."""
        r, operand, group = self.r, self.product.operand, self.product.k_group
        lanes = self.block.lanes
        if group == 1:
            return r.b.splat(r.load(ptr), lanes)
        pair = r.b.splat(r.load(ptr, dtype=ty.int32), lanes)
        return r.b.value(
            f"bitcast {pair.typed} to {llvm_type(operand, lanes * group)}", operand, lanes * group
        )
