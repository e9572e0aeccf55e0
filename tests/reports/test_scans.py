"""Running results, forwards and in reverse, of one tile and of several."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
import tilewright.language as tl


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@tilewright.jit
def recurrence(fl, xl, fr, xr):
    return fr * fl, fr * xl + xr


@tilewright.jit
def linear(f, x, out_f, out_x, T: tl.constexpr, D: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, T)[:, None] * D + tl.arange(0, D)[None, :]
    a, b = tl.load(f + at), tl.load(x + at)
    a, b = tl.associative_scan((a, b), 0, recurrence, reverse=REVERSE)
    tl.store(out_f + at, a)
    tl.store(out_x + at, b)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(8, 1), (64, 4), (16, 16), (128, 2)])
def test_a_linear_recurrence(target, shape, reverse):
    f, x = normal(*shape, seed=1) * 0.5 + 0.5, normal(*shape)
    out_f, out_x = np.zeros_like(f), np.zeros_like(x)
    linear[(1,)](f, x, out_f, out_x, *shape, reverse)
    h, g = np.zeros(shape[1]), np.ones(shape[1])
    for t in reversed(range(shape[0])) if reverse else range(shape[0]):
        h, g = f[t] * h + x[t].astype(np.float64), g * f[t]
        np.testing.assert_allclose(out_x[t], h, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(out_f[t], g, rtol=1e-3, atol=1e-5)


@tilewright.jit
def keep_right(a, b):
    return b


@tilewright.jit
def keep_left(a, b):
    return a


@tilewright.jit
def last_valid(av, ai, bv, bi):
    return tl.where(bi > 0, bv, av), tl.maximum(ai, bi)


@tilewright.jit
def fill_forward(x, on, out, B: tl.constexpr, REVERSE: tl.constexpr):
    i = tl.arange(0, B)
    v, flag = tl.load(x + i), tl.load(on + i)
    filled, _ = tl.associative_scan((v, flag), axis=-1, combine_fn=last_valid, reverse=REVERSE)
    tl.store(out + i, filled)
    tl.store(out + B + i, tl.associative_scan(v, 0, keep_left, reverse=REVERSE))
    tl.store(out + 2 * B + i, tl.associative_scan(v, 0, keep_right, reverse=REVERSE))


@pytest.mark.parametrize("reverse", [False, True])
def test_the_last_valid_value(target, reverse):
    x, on = normal(64), (np.random.default_rng(2).random(64) < 0.3).astype(np.int32)
    out = np.zeros((3, 64), np.float32)
    fill_forward[(1,)](x, on, out, 64, reverse)
    order = range(63, -1, -1) if reverse else range(64)
    held, expected = x[order[0]], np.zeros(64, np.float32)
    for k in order:
        held = x[k] if on[k] else held
        expected[k] = held
    np.testing.assert_array_equal(out, [expected, np.full(64, x[order[0]]), x])


@tilewright.jit
def running(x, out, n, AXIS: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    v = tl.load(x + at)
    tl.store(out + at, tl.cumsum(v, AXIS))
    tl.store(out + n + at, tl.cumprod(v, AXIS, reverse=True))
    tl.store(out + 2 * n + at, tl.cumsum(v, axis=AXIS, reverse=True))


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.uint8])
def test_sums_and_products(target, dtype, axis):
    x = np.random.default_rng(0).integers(1, 3, (8, 16)).astype(dtype)
    out = np.zeros((3, 8, 16), np.int64 if dtype is not np.float32 else np.float32)
    running[(1,)](x, out, 128, axis, 8, 16)
    kind = np.uint32 if dtype is np.uint8 else dtype
    wide, back = x.astype(kind), np.flip(x.astype(kind), axis)
    expected = [np.cumsum(wide, axis), np.flip(np.cumprod(back, axis), axis)]
    expected += [np.flip(np.cumsum(back, axis), axis)]
    np.testing.assert_array_equal(out[[0, 2]], [expected[0], expected[2]])
    if dtype is not np.uint8:
        np.testing.assert_array_equal(out[1], expected[1])


@tilewright.jit
def counted(out, n, B: tl.constexpr):
    lanes = tl.arange(0, B)[None, :]
    for start in range(0, n, B):
        i = start + lanes
        on = i < n
        tl.store(out + i, tl.cumsum(tl.where(on, 1, 0), 1), on)


def test_a_scan_inside_a_loop(target):
    out = np.zeros(30, np.int64)
    counted[(1,)](out, 30, 8)
    assert out.tolist() == [k % 8 + 1 for k in range(30)]


@tilewright.jit
def carried(x, out, n, B: tl.constexpr):
    before = 0.0
    for start in range(0, n, B):
        i = start + tl.arange(0, B)
        v = tl.load(x + i, i < n, 0.0)
        tl.store(out + i, tl.cumsum(v, 0) + before, i < n)
        before += tl.sum(v, 0)


def test_a_long_running_sum_by_blocks(target):
    x, out = normal(300), np.zeros(300, np.float32)
    carried[(1,)](x, out, 300, 64)
    np.testing.assert_allclose(out, np.cumsum(x.astype(np.float64)), rtol=1e-3, atol=1e-4)


@tilewright.jit
def compacted(x, out, count, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, i < n, 0)
    chosen = (v > 0) & (i < n)
    place = tl.cumsum(chosen.to(tl.int32), 0) - 1
    start = tl.atomic_add(count, tl.sum(chosen.to(tl.int32), 0))
    tl.store(out + start + place, v, chosen)


def test_chosen_elements_are_moved_together(target):
    x = np.random.default_rng(0).integers(-5, 6, 100).astype(np.int32)
    out, count = np.zeros(128, np.int32), np.zeros(1, np.int32)
    compacted[(4,)](x, out, count, 100, 32)
    assert count[0] == (x > 0).sum()
    assert sorted(out[: count[0]].tolist()) == sorted(x[x > 0].tolist())
    assert not out[count[0] :].any()


@tilewright.jit
def log_add(a, b):
    top = tl.maximum(a, b)
    return top + tl.log(tl.exp(a - top) + tl.exp(b - top))


@tilewright.jit
def log_sums(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.associative_scan(tl.load(x + i), 0, log_add))
    tl.store(out + B, tl.reduce(tl.load(x + i), 0, log_add))


def test_logarithms_of_sums(target):
    x, out = normal(64) * 20, np.zeros(65, np.float32)
    log_sums[(1,)](x, out, 64)
    expected = np.logaddexp.accumulate(x.astype(np.float64))
    np.testing.assert_allclose(out[:64], expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(out[64], expected[-1], rtol=1e-4)


@tilewright.jit
def seg_sum(av, af, bv, bf):
    return tl.where(bf, bv, av + bv), af | bf


@tilewright.jit
def segments(x, ids, out, B: tl.constexpr):
    i = tl.arange(0, B)
    v, key = tl.load(x + i), tl.load(ids + i)
    before = tl.load(ids + i - 1, i > 0, -1)
    starts = (key != before).to(tl.int32)
    sums, _ = tl.associative_scan((v, starts), 0, seg_sum)
    after = tl.load(ids + i + 1, i < B - 1, -1)
    tl.store(out + key, sums, key != after)


def test_sums_of_segments(target):
    ids = np.sort(np.random.default_rng(0).integers(0, 9, 64)).astype(np.int32)
    x, out = normal(64), np.zeros(9, np.float32)
    segments[(1,)](x, ids, out, 64)
    np.testing.assert_allclose(out, np.bincount(ids, x, 9), rtol=1e-4, atol=1e-5)


@tilewright.jit
def exclusive(x, out, R: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    v = tl.load(x + at)
    tl.store(out + at, tl.cumsum(v, 1) - v)
    tl.store(out + R * C + at, v.cumsum(axis=0, reverse=True) - v)


def test_sums_of_what_comes_before(target):
    x = np.arange(32, dtype=np.int32).reshape(4, 8)
    out = np.zeros((2, 4, 8), np.int32)
    exclusive[(1,)](x, out, 4, 8)
    expected = [np.cumsum(x, 1) - x, np.cumsum(x[::-1], 0)[::-1] - x]
    np.testing.assert_array_equal(out, expected)


@tilewright.jit
def third_axis(x, out, AXIS: tl.constexpr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    i = tl.arange(0, A)[:, None, None] * (B * C)
    at = i + tl.arange(0, B)[None, :, None] * C + tl.arange(0, C)[None, None, :]
    tl.store(out + at, tl.associative_scan(tl.load(x + at), AXIS, largest))


@tilewright.jit
def largest(a, b):
    return tl.maximum(a, b)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_a_scan_of_three_axes(target, axis):
    x = normal(4, 8, 2)
    out = np.zeros_like(x)
    third_axis[(1,)](x, out, axis, 4, 8, 2)
    np.testing.assert_array_equal(out, np.maximum.accumulate(x, axis))
