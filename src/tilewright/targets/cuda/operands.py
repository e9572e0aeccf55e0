"""What the tensor cores hold in registers, and the shared memory they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.targets.cuda import f2
from tilewright.targets.cuda.layout import LANE_BITS, Layout, log2, union


def matrix_bits(shape: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Columns of one bit each: of the rows, of the columns, of the batch, from the lowest."""
    *batch, rows, columns = [log2(n) for n in shape]
    bits = [1 << k for k in range(rows + columns + sum(batch))]
    return bits[columns : columns + rows], bits[:columns], bits[columns + rows :]


def cut(bits: list[int], first: int, count: int) -> list[int]:
    """Take bits out of a list; zeros stand for what is not there."""
    out = bits[first : first + count]
    del bits[first : first + count]
    return out + [0] * (count - len(out))


def cut_top(bits: list[int], count: int, keep: int) -> list[int]:
    """Take the highest bits out, leaving at least `keep`; zeros stand for what is not there."""
    have = max(0, min(count, len(bits) - keep))
    return cut(bits, len(bits) - have, have) + [0] * (count - have)


def mma_accumulator(shape: Sequence[int], warps_m: int, warps_n: int = 1) -> Layout:
    """The result of mma.sync m16n8 and of wgmma m64nN, tile after tile.

    Rows 16 apart go to warps (four warps are a warpgroup of wgmma), then to registers; columns
    go to registers, and in whole halves to the warps of `warps_n`. The register bits are
    column 0, row 3, further columns, further rows, batch.
    """
    rows, columns, batch = matrix_bits(shape)
    warp = cut(rows, 4, log2(warps_m)) + cut_top(columns, log2(warps_n), 3)
    lane = cut(columns, 1, 2) + cut(rows, 0, 3)
    register = cut(columns, 0, 1) + cut(rows, 0, 1) + columns + rows + batch
    return Layout(tuple(shape), tuple(register), tuple(lane), tuple(warp))


def mma_a(shape: Sequence[int], bits: int, warps_m: int, warps_n: int = 1) -> Layout:
    """The left operand [M, K] of mma.sync, and of wgmma when it comes from registers.

    Elements have `bits` bits, 32 at most. Register bits: those within a 32-bit register, row 3,
    upper half of the instruction's K, further K, further rows, batch.
    """
    rows, inner, batch = matrix_bits(shape)
    pack = log2(32 // bits)
    warp = cut(rows, 4, log2(warps_m)) + [0] * log2(warps_n)
    lane = cut(inner, pack, 2) + cut(rows, 0, 3)
    register = cut(inner, 0, pack) + cut(rows, 0, 1) + inner + rows + batch
    return Layout(tuple(shape), tuple(register), tuple(lane), tuple(warp))


def mma_b(shape: Sequence[int], bits: int, warps_m: int, warps_n: int = 1) -> Layout:
    """The right operand [K, N] of mma.sync.

    Register bits: those of K within a 32-bit register, upper half of the instruction's K,
    further K, further columns, batch.
    """
    inner, columns, batch = matrix_bits(shape)
    pack = log2(32 // bits)
    warp = [0] * log2(warps_m) + cut_top(columns, log2(warps_n), 3)
    lane = cut(inner, pack, 2) + cut(columns, 0, 3)
    register = cut(inner, 0, pack) + inner + columns + batch
    return Layout(tuple(shape), tuple(register), tuple(lane), tuple(warp))


def fma_accumulator(shape: Sequence[int], num_warps: int) -> Layout:
    """The result of a product without tensor cores: a square of 4 x 4 elements a thread first."""
    rows, columns, batch = matrix_bits(shape)
    square = columns[:2] + rows[:2]
    rest = columns[2:5] + rows[2:4]
    rest += [b for b in rows + columns + batch if b not in square + rest]
    threads = LANE_BITS + log2(num_warps)
    spare = max(0, len(square + rest) - threads)
    register, order = square[:spare], square[spare:] + rest
    lane, warp = cut(order, 0, LANE_BITS), cut(order, 0, log2(num_warps))
    return Layout(tuple(shape), (*register, *order), tuple(lane), tuple(warp))


@dataclass(frozen=True)
class DotLayouts:
    """What a dot wants its operands in (None: as they come) and gives its result in."""

    x: Layout | None
    y: Layout | None
    result: Layout


@dataclass(frozen=True)
class Shared:
    """A tile in shared memory: the element offset is a linear map of the index bits."""

    shape: tuple[int, ...]
    columns: tuple[int, ...]  # of each index bit
    bytes: int  # of one element

    @property
    def size(self) -> int:
        """Bytes it takes."""
        return self.bytes << union(self.columns).bit_length()

    def offset(self, index: int) -> int:
        """Where an element lies, in elements."""
        return f2.apply(self.columns, index)

    def permute(self, order: Sequence[int]) -> Shared:
        """The same memory, with its dimensions in another order."""
        spans = [Layout(self.shape, (), (), ()).span(d) for d in order]
        columns = [c for first, count in reversed(spans) for c in self.columns[first:][:count]]
        return Shared(tuple(self.shape[d] for d in order), tuple(columns), self.bytes)

    def under(self, layout: Layout) -> Layout:
        """Of each slot of a layout the offset, in elements, instead of the index."""
        bits = union(self.columns).bit_length()
        return layout.mapped((1 << bits,), self.offset)


def row_major(shape: Sequence[int], bytes: int) -> Shared:
    """As arrays lie."""
    bits = sum(map(log2, shape))
    return Shared(tuple(shape), tuple(1 << k for k in range(bits)), bytes)


def operand_tile(
    shape: Sequence[int], bytes: int, order: Sequence[int], width: int = 128
) -> Shared:
    """Panels of rows of `width` bytes along order[0], with the hardware's swizzle of that width.

    The rows are along order[1]. Byte offset bits 7.. are added to bits 4.., as ldmatrix without
    bank conflicts, wgmma descriptors and tensor maps have it. A tile narrower than `width` has
    rows, and a swizzle, of its own width.
    """
    empty = Layout(tuple(shape), (), (), ())
    first, *others = [empty.span(d) for d in order]
    across = min(log2(width // bytes), first[1])
    plain = [first[0] + k for k in range(across)]
    plain += [start + k for start, count in others[:1] for k in range(count)]
    plain += [first[0] + k for k in range(across, first[1])]
    plain += [start + k for start, count in others[1:] for k in range(count)]
    chunk = log2(16 // bytes)
    swizzled = max(0, across - chunk)
    columns = [0] * empty.bits
    for to, bit in enumerate(plain):
        column = 1 << to
        above = to - (chunk + 3)
        if 0 <= above < swizzled:
            column |= 1 << chunk + above
        columns[bit] = column
    return Shared(tuple(shape), tuple(columns), bytes)
