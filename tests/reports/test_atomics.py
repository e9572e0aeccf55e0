"""Atomic operations, locks and counters that programs share."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright
import tilewright.language as tl


@tilewright.jit
def lock_sum(x, locks, out, width, ADD: tl.constexpr):
    row = tl.program_id(0)
    for w in range(width):
        v = tl.load(x + row * width + w)
        if ADD:
            tl.atomic_add(out + row // 2, v)
        else:
            while tl.atomic_cas(locks + row // 2, 0, 1) == 1:
                pass
            tl.store(out + row // 2, tl.load(out + row // 2) + v)
            tl.debug_barrier()
            tl.atomic_xchg(locks + row // 2, 0)


@pytest.mark.parametrize("add", [True, False])
def test_a_lock_around_a_sum(target, add):
    x = np.random.default_rng(0).integers(-9, 9, (6, 20)).astype(np.float32)
    locks, out = np.zeros(3, np.int32), np.zeros(3, np.float32)
    lock_sum[(6,)](x, locks, out, 20, add)
    assert out.tolist() == x.reshape(3, -1).sum(1).tolist()
    assert not locks.any()


@tilewright.jit
def steal(counter, out, n):
    i = tl.atomic_add(counter, 1)
    while i < n:
        tl.store(out + i, i + 1)
        i = tl.atomic_add(counter, 1)


@pytest.mark.parametrize("programs", [1, 3, 50])
def test_work_taken_from_a_counter(target, programs):
    counter, out = np.zeros(1, np.int32), np.zeros(30, np.int32)
    steal[(programs,)](counter, out, 30)
    assert out.tolist() == list(range(1, 31))
    assert counter[0] == 30 + programs


@tilewright.jit
def meeting(counter, part, out, N: tl.constexpr, ROUNDS: tl.constexpr):
    for r in range(ROUNDS):
        tl.atomic_add(part + tl.program_id(0), 1.0)
        tl.atomic_add(counter + r, 1, sem="release")
        while tl.atomic_add(counter + r, 0, sem="acquire") < N:
            pass
    tl.store(out + tl.program_id(0), tl.load(part + (tl.program_id(0) + 1) % N, volatile=True))


def test_programs_meet_in_every_round(native_target):
    counter, part, out = np.zeros(5, np.int32), np.zeros(4, np.float32), np.zeros(4, np.float32)
    meeting[(4,)](counter, part, out, 4, 5)
    assert counter.tolist() == [4] * 5
    assert out.tolist() == [5.0] * 4


@tilewright.jit
def last_one_sums(x, parts, count, out, n, B: tl.constexpr):
    pid, programs = tl.program_id(0), tl.num_programs(0)
    i = pid * B + tl.arange(0, B)
    tl.store(parts + pid, tl.sum(tl.load(x + i, i < n, 0.0), 0))
    tl.debug_barrier()
    done = tl.atomic_add(count, 1, sem="acq_rel", scope="gpu")
    if done == programs - 1:
        total = 0.0
        for k in range(programs):
            total += tl.load(parts + k, volatile=True)
        tl.store(out, total)


def test_the_last_program_sums_what_the_others_stored(target):
    x = np.random.default_rng(0).integers(-9, 9, 200).astype(np.float32)
    parts, count, out = np.zeros(7, np.float32), np.zeros(1, np.int32), np.zeros(1, np.float32)
    last_one_sums[(7,)](x, parts, count, out, 200, 32)
    assert (out[0], count[0]) == (x.sum(), 7)


@tilewright.jit
def all_kinds(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v, on = tl.load(x + i, i < n, 0), i < n
    p = out + tl.zeros([B], tl.int32)
    tl.atomic_add(p, v, on)
    tl.atomic_max(p + 1, v, on)
    tl.atomic_min(p + 2, v, on)
    tl.atomic_and(p + 3, v | 16, on)
    tl.atomic_or(p + 4, v & 7, on)
    tl.atomic_xor(p + 5, v, on)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
def test_every_kind_of_whole_number(target, dtype):
    x = np.random.default_rng(0).integers(0, 1000, 100).astype(dtype)
    if np.dtype(dtype).kind == "i":
        x -= 500
    info = np.iinfo(dtype)
    out = np.array([0, info.min, info.max, -1 if info.min else info.max, 0, 0], dtype)
    all_kinds[(4,)](x, out, 100, 32)
    kinds = (np.add, np.maximum, np.minimum)
    assert out[:3].tolist() == [k.reduce(x, dtype=dtype) for k in kinds]
    assert out[3] == np.bitwise_and.reduce(x | dtype(16))
    assert out[4] == np.bitwise_or.reduce(x & dtype(7))
    assert out[5] == np.bitwise_xor.reduce(x)


@tilewright.jit
def float_extremes(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, i < n, 0.0)
    p = out + i * 0
    tl.atomic_max(p, v, mask=i < n)
    tl.atomic_min(p + 1, v, mask=i < n)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sign", [1, -1, 0])
def test_extremes_of_floats(target, dtype, sign):
    x = np.random.default_rng(0).standard_normal(70).astype(dtype)
    x = np.abs(x) * sign if sign else x
    out = np.array([-np.inf, np.inf], dtype)
    float_extremes[(3,)](x, out, 70, 32)
    assert out.tolist() == [x.max(), x.min()]


@tilewright.jit
def scatter_add(x, places, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(out + tl.load(places + i, i < n, 0), tl.load(x + i, i < n), mask=i < n)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_sums_at_the_same_place(target, dtype):
    rng = np.random.default_rng(0)
    x, places = rng.integers(-3, 4, 100).astype(dtype), rng.integers(0, 7, 100).astype(np.int64)
    out = np.zeros(7, dtype)
    scatter_add[(4,)](x, places, out, 100, 32)
    assert out.astype(float).tolist() == np.bincount(places, x.astype(float), 7).tolist()


@tilewright.jit
def returned(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    old = tl.atomic_xchg(x + i, i * 10, mask=i < n)
    tl.store(out + i, old, i < n)
    seen = tl.atomic_cas(x + i, tl.full((B,), 20, tl.int32), tl.full((B,), -1, tl.int32))
    tl.store(out + B + i, seen)
    before = tl.atomic_max(x + i, 35)
    tl.store(out + 2 * B + i, before)


def test_what_was_there_before(target):
    x, out = np.arange(8, dtype=np.int32) + 100, np.zeros((3, 8), np.int32)
    returned[(1,)](x, out, 6, 8)
    first = np.array([0, 10, 20, 30, 40, 50, 106, 107])
    second = np.where(first == 20, -1, first)
    assert out[0, :6].tolist() == [100, 101, 102, 103, 104, 105]
    np.testing.assert_array_equal(out[1:], [first, second])
    np.testing.assert_array_equal(x, np.maximum(second, 35))


@tilewright.jit
def same_lane_places(out, places, B: tl.constexpr):
    i = tl.arange(0, B)
    slot = tl.atomic_add(out + i // 4, 1)
    tl.store(places + i, slot)


def test_lanes_of_a_tile_get_different_numbers(target):
    out, places = np.zeros(4, np.int32), np.full(16, -1, np.int32)
    same_lane_places[(1,)](out, places, 16)
    assert out.tolist() == [4] * 4
    assert np.sort(places.reshape(4, 4), 1).tolist() == [[0, 1, 2, 3]] * 4


@tilewright.jit
def cas_maximum(x, out):
    v = tl.load(x + tl.program_id(0))
    old = tl.load(out)
    done = old >= v
    while not done:
        seen = tl.atomic_cas(out, old, v)
        done = (seen == old) | (seen >= v)
        old = seen


def test_a_maximum_by_comparing_and_exchanging(target):
    x = np.random.default_rng(0).integers(-50, 50, 20).astype(np.int32)
    out = np.full(1, -100, np.int32)
    cas_maximum[(20,)](x, out)
    assert out[0] == x.max()


@tilewright.jit
def scalar_and_tile(out, hits, B: tl.constexpr):
    pid = tl.program_id(0)
    tl.atomic_add(out, 1.5)
    tl.atomic_add(out + 1 + tl.arange(0, B), 1.0)
    tl.atomic_add(hits, pid, mask=pid > 1)
    tl.atomic_max(hits + 1, pid.to(tl.int64) << 33)


def test_scalars_among_tiles(target):
    out, hits = np.zeros(9, np.float32), np.zeros(2, np.int64)
    scalar_and_tile[(5,)](out, hits, 8)
    assert out.tolist() == [7.5] + [5.0] * 8
    assert hits.tolist() == [9, 4 << 33]


@tilewright.jit
def histogram_2d(x, y, out, n, W: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    on = i < n
    place = tl.load(x + i, on, 0) * W + tl.load(y + i, on, 0)
    tl.atomic_add(out + place, tl.where(on, 1, 0))


def test_a_table_of_counts(target):
    x, y = np.random.default_rng(0).integers(0, 8, (2, 150)).astype(np.int32)
    out = np.zeros((8, 8), np.int32)
    histogram_2d[(3,)](x, y, out, 150, 8, 64)
    np.testing.assert_array_equal(out.ravel(), np.bincount(x * 8 + y, minlength=64))
