"""Products of tiles: tensor cores where operands lie as they want them, else multiply-adds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst
from tilewright.ir.types import DType
from tilewright.targets.cuda import mma, wgmma
from tilewright.targets.cuda.ldmatrix import store_tile
from tilewright.targets.cuda.operands import row_major
from tilewright.targets.cuda.tiles import Tile, tile

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering

WIDEST = 16  # bytes of one access to shared memory
UNROLL = 8  # steps along the inner dimension between two tests of the loop


def dot(x: Lowering, inst: Inst) -> Tile:
    """x @ y + acc."""
    wide = wgmma.instruction_for(inst, x.arch, x.e.num_warps)
    if wide is not None:
        return wgmma.Product(x, inst, wide).run()
    found = mma.instruction_for(inst, x.arch)
    if found is not None:
        return mma.Product(x, inst, found).run()
    return FmaProduct(x, inst).run()


class FmaProduct:
    """A product whose operands lie in shared memory and whose sums are kept in registers."""

    def __init__(self, x: Lowering, inst: Inst):
        self.x = x
        self.e = x.e
        self.inst = inst
        left, right = inst.operands[:2]
        self.dtype = working_dtype(left.type.dtype)
        self.layout = x.layout(inst.result)
        self.inner, self.columns = right.type.shape[-2:]
        self.rows = left.type.shape[-2]

    def run(self) -> Tile:
        x, e = self.x, self.e
        *operands, start = self.inst.operands
        acc = x.tile(start, self.layout)
        sums = [e.b.cast(v, self.dtype) for v in acc.lanes]
        stored = [o for o in operands if o not in x.staged]
        bases = [self.put(x.tile(o)) if o in stored else x.staged[o].base for o in operands]
        if stored:
            e.barrier()
        dtypes = [o.type.dtype for o in operands]
        sums = self.loop(sums, self.places(bases, dtypes), *dtypes)
        e.memory.give_back(len(stored))
        return tile(self.layout, [e.b.cast(v, acc.dtype) for v in sums])

    def put(self, held: Tile) -> Lane:
        """Write an operand to shared memory, row-major; gives its address."""
        shared = row_major(held.layout.shape, word_bytes(held.dtype))
        base = self.e.memory.take(shared.size)
        store_tile(self.e, Tile(held.layout, held.lanes), shared, base)
        return base

    def places(self, bases: list[Lane], dtypes: list[DType]) -> tuple[list[Lane], list[Lane]]:
        """Addresses of the first inner element of each register's row, and column."""
        e, rank = self.e, len(self.layout.shape)
        coords = [e.coordinates(self.layout, d) for d in range(rank)]
        batch = coords[0] if rank == 3 else None
        sizes = [word_bytes(d) for d in dtypes]

        def address(base: Lane, parts: list[tuple[Lane, int]]) -> Lane:
            for index, step in parts:
                base = e.b.add(base, e.b.mul(index, e.const(step)))
            return base

        rows, columns = [], []
        memo: dict[tuple, Lane] = {}
        for r in range(self.layout.registers):
            i, j = coords[-2][r], coords[-1][r]
            k = batch[r] if batch else None
            left = [(i, self.inner * sizes[0])]
            right = [(j, sizes[1])]
            if k is not None:
                left.append((k, self.rows * self.inner * sizes[0]))
                right.append((k, self.inner * self.columns * sizes[1]))
            for key, base, parts, out in (
                ("left", bases[0], left, rows),
                ("right", bases[1], right, columns),
            ):
                name = (key, *(p.text for p, _ in parts))
                if name not in memo:
                    memo[name] = address(base, parts)
                out.append(memo[name])
        return rows, columns

    def loop(
        self, sums: list[Lane], places: tuple[list[Lane], list[Lane]], left: DType, right: DType
    ) -> list[Lane]:
        """Along the inner dimension, a few steps a turn."""
        e, w = self.e, self.e.w
        unroll = min(UNROLL, self.inner)
        steps = (word_bytes(left), self.columns * word_bytes(right))
        if self.inner == unroll:
            return self.turn(sums, places, left, right, e.const(0), steps, unroll)
        before, head, done = w.here, w.new_label("head"), w.new_label("done")
        w.branch(head)
        w.label(head)
        place = w.reserve()
        k = Lane(w.fresh("k"), t.int32)
        phis = [Lane(w.fresh("sum"), s.dtype) for s in sums]
        after = self.turn(phis, places, left, right, k, steps, unroll)
        following = e.plus(k, unroll)
        more = e.b.lt(following, e.const(self.inner))
        last = w.here
        w.branch_if(more.text, head, done)
        lines = [f"{k.text} = phi i32 [0, %{before}], [{following.text}, %{last}]"]
        lines += [
            f"{p.text} = phi {p.type} [{s.text}, %{before}], [{a.text}, %{last}]"
            for p, s, a in zip(phis, sums, after, strict=True)
        ]
        w.fill(place, lines)
        w.label(done)
        return after

    def turn(
        self,
        sums: list[Lane],
        places: tuple[list[Lane], list[Lane]],
        left: DType,
        right: DType,
        k: Lane,
        steps: tuple[int, int],
        unroll: int,
    ) -> list[Lane]:
        b, e, dtypes = self.e.b, self.e, (left, right)
        moves = [b.mul(k, e.const(step)) for step in steps]
        moved: dict[tuple[int, str], Lane] = {}
        loaded: dict[tuple[int, str, int], list[Lane]] = {}

        def run(side: int, place: Lane, offset: int, count: int) -> list[Lane]:
            """Neighbours in shared memory, some bytes from a place of this turn on."""
            key = side, place.text, offset
            if key not in loaded:
                at = side, place.text
                if at not in moved:
                    moved[at] = b.add(place, moves[side])
                word = word_dtype(dtypes[side])
                words = e.load_shared(e.plus(moved[at], offset), word, count)
                loaded[key] = [self.prepared(e.from_word(w, dtypes[side])) for w in words]
            return loaded[key]

        along, across = (self.neighbours(side, dtype, unroll) for side, dtype in enumerate(dtypes))
        rows, columns = places
        for number in range(unroll):
            rest = number % along
            lefts = [run(0, row, (number - rest) * steps[0], along)[rest] for row in rows]
            rights = [
                run(1, columns[r - r % across], number * steps[1], across)[r % across]
                for r in range(len(columns))
            ]
            sums = [self.multiply_add(*each) for each in zip(lefts, rights, sums, strict=True)]
        self.note_loads([side for side, _, _ in loaded], (along, across), dtypes)
        return sums

    def neighbours(self, side: int, dtype: DType, unroll: int) -> int:
        """How many elements of an operand are loaded at once: along K, or of columns."""
        most = max(1, WIDEST // dtype.bytes)
        if side == 0:
            return min(most, unroll)
        count = 1
        for column in self.layout.register:
            if column != count or 2 * count > most:
                break
            count *= 2
        return count

    def note_loads(
        self, sides: Sequence[int], counts: tuple[int, int], dtypes: tuple[DType, DType]
    ) -> None:
        """Say which elements of the operands have been loaded in a turn, so many at once."""
        rank = len(self.layout.shape)
        for side, dtype in enumerate(dtypes):
            size = word_bytes(dtype)
            steps = {rank - 2: self.inner, 0: self.rows * self.inner}
            if side == 1:
                steps = {rank - 1: 1, 0: self.inner * self.columns}
            if rank == 2:
                steps = {d: step for d, step in steps.items() if d == rank - 2 + side}
            parts = [self.layout.along(d).lane for d in steps]
            columns = [
                sum(c * step for c, step in zip(bits, steps.values(), strict=True)) * size
                for bits in zip(*parts, strict=True)
            ]
            self.e.note_shared("load", columns, size * counts[side], sides.count(side))

    def prepared(self, value: Lane) -> Lane:
        """An operand as it is multiplied."""
        b = self.e.b
        wide = b.cast(value, self.dtype)
        if self.inst.attrs.get("precision") == "tf32" and value.dtype is t.float32:
            return round_tf32(b, wide)
        return wide

    def multiply_add(self, p: Lane, q: Lane, total: Lane) -> Lane:
        b = self.e.b
        if not self.dtype.is_float:
            return b.add(b.mul(p, q), total)
        return b.fma(p, q, total)


def round_tf32(b, x: Lane) -> Lane:
    """fp32 with 10 bits after the point, ties away, as the tensor cores are given it."""
    bits = b.bitcast(x, t.int32)
    rounded = b.bit_and(b.add(bits, b.like(bits, 0x1000)), b.like(bits, ~0x1FFF))
    finite = b.lt(b.abs(x), b.like(x, float("inf")))
    return b.select(finite, b.bitcast(rounded, t.float32), x)


def working_dtype(dtype: DType) -> DType:
    """What products are summed in."""
    if dtype.is_integer:
        return t.int32
    return t.float64 if dtype.bits == 64 else t.float32


def word_dtype(dtype: DType) -> DType:
    return {8: t.uint8, 16: t.uint16, 32: t.uint32, 64: t.uint64}[dtype.bits]


def word_bytes(dtype: DType) -> int:
    return dtype.bytes
