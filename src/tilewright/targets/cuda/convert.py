"""Plans that bring a tile from one layout to another: registers, shuffles, or shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tilewright.targets.cuda import f2
from tilewright.targets.cuda.layout import LANE_BITS, Layout
from tilewright.targets.cuda.swizzle import Exchange, exchange

LANES = (1 << LANE_BITS) - 1

# In cycles of one SM and words of 4 bytes a lane: a shuffle moves a word a cycle, as does each of
# a store and a load of shared memory; selecting costs half. Untimed; only ratios matter.
SELECT_COST = 0.5
EXCHANGE_COST = 16  # two barriers and the latency


@dataclass(frozen=True)
class Select:
    """The values from now on are these of the values before."""

    registers: tuple[int, ...]


@dataclass(frozen=True)
class Swap:
    """Where parity(lane & .lane) ^ parity(warp & .warp) is 1: value r is value r ^ 2**bit."""

    bit: int
    lane: int
    warp: int


@dataclass(frozen=True)
class Shuffle:
    """Value r is value r of another lane of the warp.

    Values of a group come from one lane, constant ^ columns applied to lane and warp, and may
    be packed into one word, or take two.
    """

    groups: tuple[tuple[int, ...], ...]
    constants: tuple[int, ...]  # of each group
    lane: tuple[int, ...]
    warp: tuple[int, ...]


Step = Select | Swap | Shuffle | Exchange


@dataclass(frozen=True)
class Plan:
    """Steps that lead from the registers of a source layout to those of a target layout."""

    steps: tuple[Step, ...]
    bytes: int  # of one element as it is moved; booleans are bytes

    @property
    def kind(self) -> str:
        """What the plan needs: "none", "registers", "shuffles" or "shared"."""
        kinds = {type(s) for s in self.steps}
        if Exchange in kinds:
            return "shared"
        if Shuffle in kinds:
            return "shuffles"
        return "registers" if kinds else "none"

    @property
    def shared(self) -> int:
        """Bytes of shared memory."""
        return sum(s.size for s in self.steps if isinstance(s, Exchange))


@lru_cache(maxsize=1024)
def plan(
    source: Layout, target: Layout, bits: int, flip: int = 0, limit: int | None = None
) -> Plan:
    """How a tile of elements of `bits` bits comes from one layout to another.

    `flip` is added (XOR) to every index: target element i is source element i ^ flip. `limit` is
    the shared memory that should do; more is used where the layouts leave no other way.
    """
    bytes = max(1, bits // 8)
    if source == target and not flip:
        return Plan((), bytes)
    small, goal = source.compact(), target.compact()
    first = Select(tuple(source.registers_holding(small.split()[0])))
    last = Select(tuple(goal.registers_holding(target.split()[0])))
    within = inside_warps(small, goal, bytes, flip)
    words = max(1, bytes // 4) * max(goal.registers * min(bytes, 4) / 4, 1)
    if within is not None and within[1] <= EXCHANGE_COST + 2 * words:
        steps = within[0]
    else:
        steps = (exchange(small, goal, bytes, flip, limit),)
    return Plan(merged((first, *steps, last), source.registers), bytes)


def merged(steps: Sequence[Step], registers: int) -> tuple[Step, ...]:
    """The steps without selections after one another, or of everything as it is."""
    out: list[Step] = []
    for step in steps:
        if isinstance(step, Select) and out and isinstance(out[-1], Select):
            before = out.pop().registers
            step = Select(tuple(before[r] for r in step.registers))
        out.append(step)
    kept = []
    for step in out:
        if isinstance(step, Select):
            if step.registers == tuple(range(registers)):
                continue
            registers = len(step.registers)
        elif isinstance(step, Exchange):
            registers = step.load.registers
        kept.append(step)
    return tuple(kept)


# --- where each element comes from


@dataclass(frozen=True)
class Origin:
    """The source slot of each target slot: a sum of maps of its register, lane and warp."""

    register: tuple[int, ...]  # columns are source slots: registers lowest, lanes, warps
    lane: tuple[int, ...]
    warp: tuple[int, ...]
    constant: int
    first_lane: int  # how many bits of a slot are of the register

    def register_of(self, slot: int) -> int:
        return slot & (1 << self.first_lane) - 1

    def lane_of(self, slot: int) -> int:
        return slot >> self.first_lane & LANES

    def warp_of(self, slot: int) -> int:
        return slot >> self.first_lane + LANE_BITS

    @property
    def stays_in_warp(self) -> bool:
        others = (*self.register, *self.lane, self.constant)
        return not any(map(self.warp_of, others)) and all(
            self.warp_of(slot) == 1 << k for k, slot in enumerate(self.warp)
        )


def find_origin(source: Layout, target: Layout, flip: int) -> Origin:
    """An origin that changes as few lanes and warps as it can."""
    first = len(source.register)

    def near(column: int, own: int, own_slot: int, others: tuple[int, ...]) -> int:
        """A source slot of an index: with the thread's own bit, or else as near as may be."""
        rest = f2.solve(others, column ^ own)
        return f2.solve(source.columns, column) if rest is None else rest | own_slot

    return Origin(
        tuple(f2.solve(source.columns, c) for c in target.register),
        tuple(
            near(c, own, 1 << first + k, source.register)
            for k, (c, own) in enumerate(zip(target.lane, source.lane, strict=True))
        ),
        tuple(
            near(c, own, 1 << first + LANE_BITS + k, source.register + source.lane)
            for k, (c, own) in enumerate(zip(target.warp, source.warp, strict=True))
        ),
        f2.solve(source.columns, flip),
        first,
    )


# --- within warps


def inside_warps(
    source: Layout, target: Layout, bytes: int, flip: int
) -> tuple[tuple[Step, ...], float] | None:
    """Steps that exchange values between lanes of each warp only, and their cost, if any.

    In round g lane l receives its register g ^ C l. It comes from lane P l ^ Q g, and there from
    a register that is a sum of maps of g and of the sending lane: so a lane first swaps its
    registers by its own number, then sends the same one as all, and swaps what it received.
    """
    origin = find_origin(source, target, flip)
    if not origin.stays_in_warp:
        return None
    rounds = find_rounds(origin)
    if rounds is None:
        return None
    after, lanes, taken = rounds
    sent = send_map(lanes, taken)
    moved = tuple(map(origin.lane_of, origin.register))
    warp_lanes = tuple(map(origin.lane_of, origin.warp))
    before_warp = tuple(
        f2.apply(sent, lane) ^ origin.register_of(slot)
        for lane, slot in zip(warp_lanes, origin.warp, strict=True)
    )
    offset = origin.lane_of(origin.constant)
    register = tuple(
        origin.register_of(slot) ^ f2.apply(sent, lane)
        for slot, lane in zip(origin.register, moved, strict=True)
    )
    constant = f2.apply(sent, offset) ^ origin.register_of(origin.constant)
    pick = Select(tuple(f2.apply(register, g) ^ constant for g in range(target.registers)))
    steps = [*swaps(sent, before_warp), pick]
    identity = tuple(1 << k for k in range(LANE_BITS))
    if lanes != identity or any(moved) or any(warp_lanes) or offset:
        groups = packed(moved, 4 // bytes)
        constants = tuple(f2.apply(moved, group[0]) ^ offset for group in groups)
        steps.append(Shuffle(groups, constants, lanes, warp_lanes))
    steps += swaps(after, ())
    return tuple(steps), cost(steps, source.registers, target.registers, bytes)


def find_rounds(origin: Origin) -> tuple[tuple[int, ...], ...] | None:
    """Columns of C, of P, and of which register is read, so that each lane sends one register.

    A lane is repaired, where it would read from the lane that another one reads another register
    of, by taking its registers in another order.
    """
    choices = [(0, 0), *((1 << r, slot) for r, slot in enumerate(origin.register))]
    rounds: list[tuple[int, int, int]] = []
    for slot in origin.lane:
        tries = [
            (c, origin.lane_of(slot ^ change), origin.register_of(slot ^ change))
            for c, change in choices
        ]
        fitting = (one for one in tries if sends_one([*rounds, one]))
        found = next(fitting, None)
        if found is None:
            return None
        rounds.append(found)
    return tuple(zip(*rounds, strict=True))


def sends_one(rounds: Sequence[tuple[int, int, int]]) -> bool:
    """Whether lanes that read from one lane read one register of it."""
    both = [lane | register << LANE_BITS for _, lane, register in rounds]
    return f2.rank(lane for _, lane, _ in rounds) == f2.rank(both)


def send_map(lanes: tuple[int, ...], taken: tuple[int, ...]) -> tuple[int, ...]:
    """Which register a lane sends, as columns of its number: what those that read it take."""
    pivots = f2.pivots_of([*lanes, *(1 << k for k in range(LANE_BITS))])
    combined = [f2.reduce(1 << k, pivots)[1] for k in range(LANE_BITS)]
    return tuple(f2.apply(taken, used & LANES) for used in combined)


def swaps(lane: Sequence[int], warp: Sequence[int]) -> list[Swap]:
    """Value r becomes value r ^ (maps of lane and warp), a bit at a time."""
    width = max([c.bit_length() for c in (*lane, *warp)], default=0)
    rows = [
        Swap(
            bit,
            sum((c >> bit & 1) << k for k, c in enumerate(lane)),
            sum((c >> bit & 1) << k for k, c in enumerate(warp)),
        )
        for bit in range(width)
    ]
    return [row for row in rows if row.lane or row.warp]


def packed(moved: tuple[int, ...], most: int) -> tuple[tuple[int, ...], ...]:
    """Rounds that read from the same lanes, `most` of them together."""
    pivots = f2.pivots_of(moved)
    kernel = [f2.reduce(c, pivots)[1] ^ 1 << k for k, c in enumerate(moved)]
    together: list[int] = f2.independent(kernel)[: max(most, 1).bit_length() - 1]
    span = [f2.apply(together, x) for x in range(1 << len(together))]
    groups, done = [], set()
    for g in range(1 << len(moved)):
        if g not in done:
            groups.append(tuple(g ^ x for x in span))
            done.update(groups[-1])
    return tuple(groups)


def cost(steps: Sequence[Step], before: int, after: int, bytes: int) -> float:
    words = max(1, bytes // 4)
    total = 0.0
    registers = before
    for step in steps:
        if isinstance(step, Swap):
            total += SELECT_COST * registers * words
        elif isinstance(step, Select):
            registers = len(step.registers)
        elif isinstance(step, Shuffle):
            packing = SELECT_COST * registers if len(step.groups[0]) > 1 else 0
            total += len(step.groups) * words + packing
    return total
