"""Conversion plans, executed by simulated threads: every value right, no bank conflicts."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from simulate import Machine, held

from tilewright.targets.cuda import f2
from tilewright.targets.cuda.convert import plan
from tilewright.targets.cuda.layout import Layout, blocked, scalar
from tilewright.targets.cuda.operands import mma_a, mma_accumulator, mma_b
from tilewright.targets.cuda.swizzle import Exchange


def check(source: Layout, target: Layout, bits: int, flip: int = 0, limit: int | None = None):
    """Execute the plan; gives it, and the bank conflicts that were seen."""
    found = plan(source, target, bits, flip, limit)
    data = np.random.default_rng(0).permutation(1 << source.bits)
    machine = Machine(source.num_warps)
    out = machine.run(found, held(source, data))
    wanted = held(target, data[np.arange(len(data)) ^ flip])
    assert np.array_equal(out, wanted), (source, target, bits, flip)
    stated = [max(s.store.ways, s.load.ways) for s in found.steps if isinstance(s, Exchange)]
    assert machine.ways <= max(stated, default=1)
    return found, machine.ways


def exchange_of(found) -> Exchange:
    (step,) = [s for s in found.steps if isinstance(s, Exchange)]
    return step


NAMED = {
    "accumulator to operand A, as P of attention": (
        mma_accumulator((64, 128), 4), mma_a((64, 128), 16, 4), 16, "none"),
    "accumulator to rows, f16": (
        mma_accumulator((128, 128), 8), blocked((128, 128), 8, (1, 0), 8), 16, (2, 8)),
    "accumulator to rows, f32": (
        mma_accumulator((128, 128), 4), blocked((128, 128), 4, (1, 0), 4), 32, (4, 4)),
    "transpose, f32": (
        blocked((64, 64), 4, (1, 0), 4), blocked((64, 64), 4, (0, 1), 4), 32, (1, 4)),
    "transpose, f16": (
        blocked((64, 64), 4, (1, 0), 8), blocked((64, 64), 4, (0, 1), 8), 16, (1, 8)),
    "transpose, bytes": (
        blocked((64, 64), 4, (1, 0), 1), blocked((64, 64), 4, (0, 1), 1), 8, (1, 16)),
    "rows per thread to rows per lanes": (
        blocked((32, 8), 1, (1, 0), 8), blocked((32, 8), 1, (0, 1), 1), 32, None),
    "registers renamed": (
        Layout((8, 32), (32, 64, 128), (1, 2, 4, 8, 16), ()),
        Layout((8, 32), (128, 32 | 64, 64), (1, 2, 4, 8, 16), ()), 32, "registers"),
    "lanes exchanged": (
        Layout((32,), (), (1, 2, 4, 8, 16), (0, 0)),
        Layout((32,), (), (16, 2, 4, 8, 1), (0, 0)), 32, "shuffles"),
    "copies dropped": (
        Layout((32,), (0, 0), (1, 2, 4, 8, 16), (0, 0)),
        Layout((32,), (), (1, 2, 4, 8, 16), (0, 0)), 64, "registers"),
    "a row to everybody": (
        blocked((128,), 4), Layout((128,), (1, 2, 4, 8, 16, 32, 64), (0,) * 5, (0, 0)), 32, (1, 4)),
    "a scalar": (scalar(4), scalar(4), 32, "none"),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_named_conversions(name):
    source, target, bits, wanted = NAMED[name]
    found, ways = check(source, target, bits)
    assert ways == 1
    if isinstance(wanted, str):
        assert found.kind == wanted
    elif wanted is not None:
        step = exchange_of(found)
        assert sorted((step.store.vec, step.load.vec)) == sorted(wanted)


def random_layout(rng: random.Random, bits: int, registers: int, warps: int, zeros: int) -> Layout:
    """All of 2**bits elements over slots of which `zeros` bits are copies, some of them mixed."""
    count = registers + 5 + warps
    while True:
        columns = [rng.randrange(1, 1 << bits) for _ in range(count)]
        if rng.random() < 0.5:  # real layouts: most columns are one bit
            columns = [1 << b for b in rng.sample(range(bits), min(bits, count - zeros))]
            columns += [0] * (count - len(columns))
            rng.shuffle(columns)
        for k in rng.sample(range(count), zeros):
            columns[k] = rng.choice((0, columns[k]))
        if f2.rank(columns) == bits:
            cut = (registers, registers + 5)
            parts = columns[: cut[0]], columns[cut[0] : cut[1]], columns[cut[1] :]
            return Layout((1 << bits,), *map(tuple, parts))


def mixed_within_warps(rng: random.Random, source: Layout) -> Layout:
    """A layout whose warps hold what those of the source hold."""
    inside = source.register + source.lane
    while True:
        columns = [f2.apply(inside, rng.randrange(1 << len(inside))) for _ in range(len(inside))]
        cut = len(source.register)
        target = replace(source, register=tuple(columns[:cut]), lane=tuple(columns[cut:]))
        if target.is_surjective:
            return target


def mixed_within_lanes(rng: random.Random, source: Layout) -> Layout:
    """A layout whose lanes hold what those of the source hold, in an order of their own."""
    span = [f2.apply(source.register, x) for x in range(source.registers)]
    while True:
        target = replace(
            source,
            register=tuple(rng.choice(span) for _ in source.register),
            lane=tuple(c ^ rng.choice(span) for c in source.lane),
            warp=tuple(c ^ rng.choice(span) for c in source.warp),
        )
        if target.is_surjective:
            return target


def test_random_pairs():
    """Layouts of any kind, with copies on either side; what is used is counted."""
    rng = random.Random(1)
    kinds = Counter()
    for k in range(600):
        warps, registers = rng.randrange(3), rng.randrange(4)
        bits = registers + 5 + warps - rng.choice((0, 0, 1, 2))
        spare = registers + 5 + warps - bits
        source = random_layout(rng, bits, registers, warps, spare)
        if k % 3 == 0:
            target = rng.choice((mixed_within_warps, mixed_within_lanes))(rng, source)
        else:
            more = rng.randrange(3)
            target = random_layout(rng, bits, registers + more, warps, spare + more)
        flip = rng.randrange(1 << bits) if k % 5 == 0 else 0
        found, ways = check(source, target, rng.choice((1, 8, 16, 32, 64)), flip)
        kinds[found.kind, ways] += 1
    assert {kind for kind, _ in kinds} >= {"registers", "shuffles", "shared"}
    assert all(ways == 1 for _, ways in kinds), kinds


def test_a_large_tile_passes_through_little_memory():
    source, target = mma_accumulator((128, 256), 8), blocked((128, 256), 8, (1, 0), 4)
    whole, _ = check(source, target, 32)
    assert whole.shared == 128 * 256 * 4
    found, ways = check(source, target, 32, limit=70_000)
    assert found.shared == 128 * 256 * 2 and ways == 1
    assert len(exchange_of(found).store.passes) == 2
    assert check(source, target, 32, limit=1000)[0].shared == 128 * 256


def test_warps_that_keep_their_rows_need_no_barrier():
    source = mma_accumulator((64, 128), 4)
    rows = Layout((64, 128), (1, 2, 4, 256, 512, 1024), (8, 16, 32, 64, 128), source.warp)
    found, ways = check(source, rows, 16)
    assert exchange_of(found).in_warp and ways == 1
    other = blocked((64, 128), 4, (0, 1), 8)
    assert not exchange_of(check(source, other, 16)[0]).in_warp


def test_operand_b_from_rows():
    found, ways = check(blocked((32, 128), 4, (1, 0), 8), mma_b((32, 128), 16, 2, 2), 16)
    assert found.kind == "shared" and ways == 1


def test_a_flip_of_one_dimension():
    layout = blocked((16, 64), 4, (1, 0), 4)
    assert check(layout, layout, 32, flip=63)[0].kind == "shuffles"
    assert check(layout, layout, 32, flip=3)[0].kind == "registers"
    assert check(layout, layout, 32, flip=15 << 6)[0].kind == "shared"


def test_small_elements_travel_together():
    layout = Layout((128,), (32, 64), (1, 2, 4, 8, 16), ())
    turned = Layout((128,), (32, 64), (2, 1, 4, 8, 16), ())
    found, _ = check(layout, turned, 8)
    (step,) = found.steps
    assert step.groups == ((0, 1, 2, 3),)
