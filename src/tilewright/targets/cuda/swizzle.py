"""Exchanges through shared memory: where elements lie so that no access has bank conflicts."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.targets.cuda import f2
from tilewright.targets.cuda.layout import Layout, log2, union

BANK_BITS = 5  # 32 banks of 4 bytes
WORD = 4
WIDEST = 16  # bytes of one access of a lane
PHASE = 128  # bytes that shared memory serves at once


@dataclass(frozen=True)
class Move:
    """One access of a thread: these registers, one after the other from an offset on.

    The offset, in elements, is (the thread's own ^ xor) + add.
    """

    registers: tuple[int, ...]
    xor: int
    add: int


@dataclass(frozen=True)
class Access:
    """All accesses of one side: the thread's own offset as columns, and the moves of each pass.

    Threads whose lane or warp has a bit of `idle_lane` or `idle_warp` hold copies: they need not
    store, and if they do they store what is there.
    """

    lane: tuple[int, ...]
    warp: tuple[int, ...]
    passes: tuple[tuple[Move, ...], ...]
    idle_lane: int
    idle_warp: int
    ways: int  # words of one bank that a phase asks for; 1: no conflicts

    @property
    def vec(self) -> int:
        """Elements of one access."""
        return len(self.passes[0][0].registers)

    def lane_bytes(self, bytes: int) -> tuple[int, ...]:
        """What each bit of a lane's number adds to the address; `bytes` are those of an element."""
        return tuple(c * bytes for c in self.lane)

    @property
    def registers(self) -> int:
        """How many registers it touches."""
        return sum(len(m.registers) for moves in self.passes for m in moves)


@dataclass(frozen=True)
class Exchange:
    """In each pass: store, synchronize, load, and synchronize before the next one stores."""

    store: Access
    load: Access
    size: int  # bytes of shared memory, aligned to 16
    in_warp: bool  # whether each warp loads only what it stored, into memory of its own


@dataclass(frozen=True)
class Side:
    """One layout, and the directions that one access of it moves, innermost first."""

    layout: Layout
    vector: tuple[int, ...]

    def phase(self, bytes: int) -> tuple[int, ...]:
        """The columns of the lanes that are served at once."""
        wide = bytes << len(self.vector)
        return self.layout.lane[: min(BANK_BITS, log2(PHASE // wide))]


def exchange(source: Layout, target: Layout, bytes: int, flip: int, limit: int | None) -> Exchange:
    """The exchange with the fewest and widest accesses that the limit allows.

    Both layouts are compact.
    """
    found = []
    for store, load in candidates(source, target, bytes):
        narrow, wide = sorted((store, load), key=lambda side: len(side.vector))
        offsets = arrange(narrow, wide, bytes)
        if offsets is None:
            continue
        ways = bank_ways(offsets, store, bytes), bank_ways(offsets, load, bytes)
        count = pass_bits(offsets, store, load, bytes, limit)
        excess = 0 if limit is None else max(limit, bytes << len(offsets) - count)
        price = excess, effort(store, ways[0], bytes) + effort(load, ways[1], bytes)
        found.append((price, store, load, offsets, count, ways))
    _, store, load, offsets, count, ways = min(found, key=lambda one: one[0])
    own = stays_in_warps(offsets, source, target) and not flip
    return Exchange(
        access(store, offsets, 0, count, ways[0], not own),
        access(load, offsets, f2.apply(offsets, flip), count, ways[1], not own),
        bytes << len(offsets) - count,
        own,
    )


def candidates(source: Layout, target: Layout, bytes: int) -> list[tuple[Side, Side]]:
    """Pairs of store and load sides whose vectors begin alike."""
    most = log2(max(1, WIDEST // bytes))

    def grow(have: tuple[int, ...], more, over) -> tuple[int, ...]:
        return (*have, *f2.independent(more, (*over, *have)))[:most]

    common = f2.intersection(source.register, target.register)
    common = grow((), common, source.thread + target.thread)
    pairs = []
    for n in range(len(common), -1, -1):
        start = common[:n]
        for first, second in ((source, target), (target, source)):
            wide = grow(start, first.register, first.thread)
            for m in range(n, len(wide) + 1):
                pair = Side(first, wide[:m]), Side(second, start)
                pairs.append(pair if first is source else pair[::-1])
    return pairs


def arrange(narrow: Side, wide: Side, bytes: int) -> tuple[int, ...] | None:
    """Offsets as columns of the index bits: both sides' vectors contiguous, phases over all banks.

    Offset bits are, from the lowest: the common vector, what else is within a word, the rest of
    the wide vector and the lanes of a phase of the wide side (these are the banks), all else.
    A phase of the narrow side is free of conflicts as well if it has nothing in common with "all
    else". Two subspaces have a common complement: directions of which each phase has one are
    paired, and their sums put there. These sums are the XOR of a swizzle.
    """
    within = max(0, log2(WORD) - log2(bytes) - len(narrow.vector))
    rest = wide.vector[len(narrow.vector) :]
    inner, outer = list(rest[:within]), list(rest[within:])
    base = [*narrow.vector, *inner]
    lanes = f2.independent(wide.phase(bytes), base + outer)
    others = f2.independent(narrow.phase(bytes), base)
    # Lanes pair with lanes first: a sum with `outer` would misalign the wide vectors.
    own = f2.intersection(others, wide.layout.thread)
    others = f2.independent(own + others, base)
    both = f2.independent(f2.intersection(lanes + outer + base, others + base), base)
    ones = f2.independent(lanes + outer, base + both)
    twos = f2.independent(others, base + both)
    sums = [x ^ y for x, y in zip(ones, twos, strict=False)]
    banks = outer + lanes + f2.independent(others, base + outer + lanes + sums)
    units = [1 << k for k in range(wide.layout.bits)]
    shared = f2.intersection(wide.layout.register, narrow.layout.register)
    threads = [*wide.layout.thread, *narrow.layout.thread]
    far = sums + f2.independent([*threads, *shared, *units], base + banks + sums)
    missing = within - len(inner)
    if missing > 0:
        far, inner = far[:-missing], inner + far[-missing:]
    offsets = f2.inverse([*narrow.vector, *inner, *banks, *far])
    return offsets if all(is_aligned(offsets, side) for side in (narrow, wide)) else None


def is_aligned(offsets: tuple[int, ...], side: Side) -> bool:
    """Whether the threads' own offsets are multiples of the vector."""
    low = (1 << len(side.vector)) - 1
    return not any(f2.apply(offsets, c) & low for c in side.layout.thread)


def bank_ways(offsets: tuple[int, ...], side: Side, bytes: int) -> int:
    """How many words of one bank a phase asks for at most."""
    unit = len(side.vector)
    skip = max(unit, log2(WORD) - log2(bytes))  # offset bits that lie within a lane's access
    banks = BANK_BITS + log2(WORD) - log2(bytes) - skip
    words = [f2.apply(offsets, c) >> skip for c in side.phase(bytes)]
    return 1 << f2.rank(words) - f2.rank(w & (1 << banks) - 1 for w in words)


def effort(side: Side, ways: int, bytes: int) -> float:
    """Instructions and cycles of all accesses of a thread."""
    wide = bytes << len(side.vector)
    return (side.layout.registers >> len(side.vector)) * (1 + max(1, wide / WORD) * ways)


def pass_bits(
    offsets: tuple[int, ...], store: Side, load: Side, bytes: int, limit: int | None
) -> int:
    """How many of the highest offset bits to go through one after the other, to fit the limit.

    Only bits that registers alone decide on both sides can be split off.
    """
    threads = (*store.layout.thread, *load.layout.thread)
    used = union(f2.apply(offsets, c) for c in threads)
    least = max(used.bit_length(), len(store.vector), len(load.vector))
    count = 0
    while limit is not None and bytes << len(offsets) - count > limit:
        if len(offsets) - count == least:
            break
        count += 1
    return count


def stays_in_warps(offsets: tuple[int, ...], source: Layout, target: Layout) -> bool:
    """Whether warps hold the same elements on both sides, in memory of their own."""
    if source.warp != target.warp or f2.rank(source.warp) < len(source.warp):
        return False
    inside = source.register + source.lane
    size = f2.rank(inside)
    apart = f2.rank(inside + source.warp) == size + len(source.warp)
    return apart and f2.rank(target.register + target.lane + inside) == size


def access(
    side: Side, offsets: tuple[int, ...], shift: int, count: int, ways: int, skips: bool
) -> Access:
    """The moves of one side, `shift` added (XOR) to all offsets, over 2**count passes."""
    layout = side.layout.mapped((1 << len(offsets),), lambda c: f2.apply(offsets, c))
    low = (1 << len(side.vector)) - 1
    top = len(offsets) - count
    threads = union(layout.thread)
    vectors: dict[int, list[int]] = {}
    for register, constant in enumerate(layout.split()[0]):
        constant ^= shift
        vectors.setdefault(constant & ~low, [0] * (low + 1))[constant & low] = register
    passes: list[list[Move]] = [[] for _ in range(1 << count)]
    for constant, registers in sorted(vectors.items()):
        offset = constant & (1 << top) - 1
        move = Move(tuple(registers), offset & threads, offset & ~threads)
        passes[constant >> top].append(move)
    _, lane, warp = layout.free_bits()
    return Access(
        layout.lane,
        layout.warp,
        tuple(map(tuple, passes)),
        lane if skips else 0,
        warp if skips else 0,
        ways,
    )
