"""Layouts: which elements of a tile each register of each thread holds, as a linear map of bits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from tilewright.targets.cuda import f2

LANE_BITS = 5


def log2(n: int) -> int:
    """The logarithm of a power of two."""
    return n.bit_length() - 1


@dataclass(frozen=True)
class Layout:
    """Register r of lane l in warp w holds the element whose row-major index is the XOR of the
    columns of the bits set in r, l and w.

    A column is a pattern of index bits, the bits of the last dimension lowest. A column of zero
    means that the bit makes no difference: the same element is held several times.
    """

    shape: tuple[int, ...]
    register: tuple[int, ...]
    lane: tuple[int, ...]
    warp: tuple[int, ...]

    # --- sizes

    @property
    def bits(self) -> int:
        """How many bits an index into the tile has."""
        return log2(prod(self.shape))

    @property
    def registers(self) -> int:
        """Elements per thread."""
        return 1 << len(self.register)

    @property
    def num_warps(self) -> int:
        return 1 << len(self.warp)

    @property
    def columns(self) -> tuple[int, ...]:
        """Of all bits of a slot: registers lowest, then lanes, then warps."""
        return self.register + self.lane + self.warp

    @property
    def thread(self) -> tuple[int, ...]:
        """The columns of lanes and warps: a map of the thread's number in its program."""
        return self.lane + self.warp

    # --- where elements are

    def index(self, register: int, lane: int = 0, warp: int = 0) -> int:
        """The row-major index of the element held there."""
        return (
            f2.apply(self.register, register)
            ^ f2.apply(self.lane, lane)
            ^ f2.apply(self.warp, warp)
        )

    def split(self) -> tuple[list[int], tuple[int, ...], tuple[int, ...]]:
        """Index = XOR of a constant of the register and of maps of lane and warp.

        Gives (constant of each register, lane columns, warp columns). Where `is_additive`, the
        XOR with the constants is an addition.
        """
        return [f2.apply(self.register, r) for r in range(self.registers)], self.lane, self.warp

    @property
    def is_additive(self) -> bool:
        """Whether no index bit depends on both registers and threads."""
        return union(self.register) & union(self.thread) == 0

    def coords(self, index: int) -> tuple[int, ...]:
        """The position along each dimension of an element."""
        out = []
        for n in reversed(self.shape):
            out.append(index % n)
            index //= n
        return tuple(reversed(out))

    def along(self, dim: int) -> Layout:
        """Of the positions along one dimension only, slot by slot."""
        first, count = self.span(dim)
        return self.mapped((self.shape[dim],), lambda c: c >> first & (1 << count) - 1)

    def constants_along(self, dim: int) -> list[int]:
        """Of each register, its constant (see `split`) along one dimension."""
        return self.along(dim).split()[0]

    def span(self, dim: int) -> tuple[int, int]:
        """The first index bit of a dimension, and how many there are."""
        return log2(prod(self.shape[dim + 1 :])), log2(self.shape[dim])

    @property
    def is_surjective(self) -> bool:
        """Whether every element is held somewhere."""
        return f2.rank(self.columns) == self.bits

    def registers_holding(self, constants: Iterable[int]) -> list[int]:
        """The registers whose constants (see `split`) these are."""
        return [f2.solve(self.register, c) for c in constants]

    # --- copies

    def free_bits(self) -> tuple[int, int, int]:
        """Masks of the register, lane and warp bits that only tell copies of elements apart.

        Each element has exactly one slot in which all these bits are 0: its owner.
        """
        lane = free(self.lane, ())
        warp = free(self.warp, self.lane)
        return free(self.register, self.thread), lane, warp

    @property
    def has_copies(self) -> bool:
        return f2.rank(self.columns) < len(self.columns)

    def compact(self) -> Layout:
        """Without the registers whose elements other registers of the thread hold."""
        return replace(self, register=tuple(f2.independent(self.register)))

    # --- the same elements under other names

    def mapped(self, shape: Sequence[int], change) -> Layout:
        """Each column changed by a function."""
        parts = (self.register, self.lane, self.warp)
        return Layout(tuple(shape), *[tuple(map(change, part)) for part in parts])

    def reshape(self, shape: Sequence[int]) -> Layout:
        """Row-major order stays, so an index stays what it is."""
        return replace(self, shape=tuple(shape))

    def moved(self, shape: Sequence[int], dims: Iterable[tuple[int, int]]) -> Layout:
        """The bits of each dimension moved: pairs of an old dimension and where it goes in `shape`.

        Dimensions that stand in no pair are dropped.
        """
        spans = Layout(tuple(shape), (), (), ()).spans()
        moves = [(*self.span(old), spans[new][0]) for old, new in dims]

        def change(column: int) -> int:
            return sum((column >> first & (1 << n) - 1) << to for first, n, to in moves)

        return self.mapped(shape, change)

    def permute(self, order: Sequence[int]) -> Layout:
        """Dimension d of the result is dimension order[d]; as `permute` the op."""
        shape = [self.shape[d] for d in order]
        return self.moved(shape, [(old, new) for new, old in enumerate(order)])

    def spans(self) -> list[tuple[int, int]]:
        return [self.span(d) for d in range(len(self.shape))]

    def project(self, shape: Sequence[int]) -> Layout:
        """Of a tile that was broadcast to this one from a shape that is 1 where it was repeated.

        Register r holds the element that it is repeated from; `compact` drops the copies.
        """
        return self.moved(shape, [(d, d) for d, n in enumerate(shape) if n > 1])

    def reduced(self, axis: int) -> Layout:
        """Without a dimension: what is left of each slot's position, every copy kept."""
        shape = self.shape[:axis] + self.shape[axis + 1 :]
        left = [d for d in range(len(self.shape)) if d != axis]
        return self.moved(shape, [(d, k) for k, d in enumerate(left)])

    def broadcast(self, shape: Sequence[int]) -> Layout:
        """Of the tile repeated along its dimensions of size 1, without any exchange.

        Copies held by lanes and warps become the repeated elements; the rest are new registers.
        """
        base = self.moved(shape, [(d, d) for d in range(len(shape))])
        spans = Layout(tuple(shape), (), (), ()).spans()
        fresh = [
            1 << first + k
            for (first, count), n in reversed(list(zip(spans, self.shape, strict=True)))
            if n == 1
            for k in range(count)
        ]
        parts = [list(base.lane), list(base.warp), list(base.register)]
        for part in parts:
            for k, column in enumerate(part):
                if column == 0 and fresh:
                    part[k] = fresh.pop(0)
        lane, warp, register = parts
        return Layout(tuple(shape), (*register, *fresh), tuple(lane), tuple(warp))

    def expand_dims(self, axis: int) -> Layout:
        return self.reshape((*self.shape[:axis], 1, *self.shape[axis:]))

    def join(self) -> Layout:
        """Of two such tiles along a new last dimension: register bit 0 tells them apart."""
        wide = self.mapped((*self.shape, 2), lambda c: c << 1)
        return replace(wide, register=(1, *wide.register))

    def halves_bit(self) -> int | None:
        """The register bit that alone tells the halves along the last dimension apart, if any."""
        mixed = [c for c in self.columns if c & 1]
        return self.register.index(1) if mixed == [1] and 1 in self.register else None

    def half(self) -> Layout:
        """Of each half along the last dimension, where `halves_bit` is a register."""
        bit = self.halves_bit()
        rest = replace(self, register=self.register[:bit] + self.register[bit + 1 :])
        return rest.mapped(self.shape[:-1], lambda c: c >> 1)

    def cat(self) -> Layout:
        """Of two such tiles one after the other: the last register bit tells them apart."""
        shape = (2 * self.shape[0], *self.shape[1:])
        return replace(self, shape=shape, register=(*self.register, 1 << self.bits))


def union(columns: Iterable[int]) -> int:
    """All bits that any of the columns has."""
    out = 0
    for column in columns:
        out |= column
    return out


def free(columns: Sequence[int], over: Sequence[int]) -> int:
    """A mask of the columns that the ones before them, and those of `over`, already span."""
    pivots = f2.pivots_of(over)
    mask = 0
    for k, column in enumerate(columns):
        rest, _ = f2.reduce(column, pivots)
        if rest:
            pivots.append((rest.bit_length() - 1, rest, 0))
        else:
            mask |= 1 << k
    return mask


class Supply:
    """Index bits of a tile, handed out once each; where they run out, zeros."""

    def __init__(self, bits: Iterable[int]):
        self.columns = [1 << b for b in bits]

    def take(self, count: int) -> tuple[int, ...]:
        """The next ones, as many as asked for."""
        out = self.columns[:count]
        del self.columns[:count]
        return (*out, *(0,) * (count - len(out)))

    def take_most(self, count: int) -> tuple[int, ...]:
        """The next ones, as many as there are."""
        return self.take(min(count, len(self.columns)))


def scalar(num_warps: int) -> Layout:
    """Every thread holds the one element."""
    return Layout((), (), (0,) * LANE_BITS, (0,) * log2(num_warps))


def blocked(
    shape: Sequence[int], num_warps: int, order: Sequence[int] = (), vec: int = 1
) -> Layout:
    """`vec` neighbours a thread, then neighbouring lanes, then warps, then further registers.

    Neighbours are taken along order[0] first, then order[1], ...; by default along the last
    dimension first. A thread takes fewer than `vec` when there would be none for others.
    """
    shape = tuple(shape)
    empty = Layout(shape, (), (), ())
    order = tuple(order) or tuple(reversed(range(len(shape))))
    spans = [empty.span(d) for d in order]
    supply = Supply(first + k for first, count in spans for k in range(count))
    warp_bits = log2(num_warps)
    spare = max(0, empty.bits - LANE_BITS - warp_bits)
    register = supply.take_most(min(log2(vec), spare))
    lane = supply.take(LANE_BITS)
    warp = supply.take(warp_bits)
    return Layout(shape, (*register, *supply.columns), lane, warp)
