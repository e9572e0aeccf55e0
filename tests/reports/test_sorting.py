"""Sorting, the largest of a row, reversal, gathering and counting."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright
import tilewright.language as tl


def numbers(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    return (rng.standard_normal(shape) * 10).astype(dtype)


@tilewright.jit
def sort_rows(x, out, M: tl.constexpr, N: tl.constexpr, DOWN: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.sort(tl.load(x + at), descending=DOWN))


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("shape", [(1, 512), (8, 64), (256, 4), (4, 1), (3 + 1, 2)])
@pytest.mark.parametrize("dtype", [np.int32, np.float16, np.float32, ml_dtypes.bfloat16, np.uint8])
def test_sort(target, dtype, shape, down):
    x = numbers(shape, dtype)
    out = np.zeros_like(x)
    sort_rows[(1,)](x, out, *shape, down)
    expected = np.sort(x, 1)
    np.testing.assert_array_equal(out, expected[:, ::-1] if down else expected)


@tilewright.jit
def largest_of_rows(x, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    top = tl.topk(tl.load(x + at), K)
    tl.store(out + tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :], top)


@pytest.mark.parametrize("k", [1, 2, 8, 32])
@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float16, np.int64])
def test_topk(target, dtype, k):
    x = numbers((4, 32), dtype)
    out = np.zeros((4, k), dtype)
    largest_of_rows[(1,)](x, out, 4, 32, k)
    np.testing.assert_array_equal(out, np.sort(x, 1)[:, ::-1][:, :k])


@tilewright.jit
def keyed_sort(x, values, places, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, i < n, -float("inf"))
    bits = v.to(tl.int32, bitcast=True)
    key = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.int64)
    packed = tl.sort((key << 32) | (B - 1 - i).to(tl.int64), descending=True)
    place = B - 1 - (packed & 0xFFFFFFFF).to(tl.int32)
    key = (packed >> 32).to(tl.int32)
    sorted_ = tl.where(key < 0, key ^ 0x7FFFFFFF, key).to(tl.float32, bitcast=True)
    tl.store(values + i, sorted_, i < n)
    tl.store(places + i, place, i < n)


def test_sorted_places_by_keys_in_the_same_word(target):
    x = np.random.default_rng(0).integers(-9, 9, 50).astype(np.float32)
    values, places = np.zeros(50, np.float32), np.zeros(50, np.int32)
    keyed_sort[(1,)](x, values, places, 50, 64)
    order = np.argsort(-x, kind="stable")
    np.testing.assert_array_equal(values, x[order])
    assert places.tolist() == order.tolist()


@tilewright.jit
def flips(x, out, n, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + at)
    tl.store(out + at, tl.flip(v, 0))
    tl.store(out + n + at, tl.flip(v))
    tl.store(out + 2 * n + at, v.reshape(M * N // 2, 2).flip(1).reshape(M, N))
    tl.store(out + 3 * n + at, tl.flip(tl.flip(v, dim=1), dim=-2))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.int64])
def test_flips_keep_infinities_and_nan(target, dtype):
    x = numbers((8, 16), dtype)
    if np.dtype(dtype).kind == "f":
        x[0, 0], x[-1, -1], x[2, 3] = np.inf, np.nan, -np.inf
    out = np.zeros((4, *x.shape), dtype)
    flips[(1,)](x, out, x.size, *x.shape)
    pairs = x.reshape(-1, 2)[:, ::-1].reshape(x.shape)
    np.testing.assert_array_equal(out, [x[::-1], x[:, ::-1], pairs, x[::-1, ::-1]])


@tilewright.jit
def gathers(x, places, out, AXIS: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.gather(tl.load(x + at), tl.load(places + at), AXIS))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint8])
def test_gather(target, axis, kind):
    x = numbers((8, 16), np.float32)
    places = np.random.default_rng(1).integers(0, x.shape[axis], (8, 16)).astype(kind)
    out = np.zeros_like(x)
    gathers[(1,)](x, places, out, axis, 8, 16)
    np.testing.assert_array_equal(out, np.take_along_axis(x, places.astype(np.int64), axis))


@tilewright.jit
def shuffle_row(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(out + i, tl.gather(v, (i + 1) % B, 0) - v)
    tl.store(out + B + i, v.gather(i ^ 1, 0))


def test_gather_neighbours(target):
    x, out = numbers(64, np.float32), np.zeros((2, 64), np.float32)
    shuffle_row[(1,)](x, out, 64)
    np.testing.assert_array_equal(out, [np.roll(x, -1) - x, x.reshape(-1, 2)[:, ::-1].ravel()])


@tilewright.jit
def counts(x, out, masked, n, BINS: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, i < n, 0)
    j = tl.arange(0, BINS)
    tl.store(out + j, tl.histogram(v, BINS))
    tl.store(masked + j, tl.histogram(v, BINS, mask=i < n))


@pytest.mark.parametrize(("n", "bins"), [(256, 16), (200, 128), (5, 2), (300, 32)])
def test_histogram(target, n, bins):
    x = np.random.default_rng(0).integers(0, bins, n).astype(np.int32)
    block = max(64, 1 << (n - 1).bit_length())
    out, masked = np.zeros(bins, np.int32), np.zeros(bins, np.int32)
    counts[(1,)](x, out, masked, n, bins, block)
    expected = np.bincount(x, minlength=bins)
    np.testing.assert_array_equal(masked, expected)
    expected[0] += block - n
    np.testing.assert_array_equal(out, expected)


@tilewright.jit
def rank_by_counting(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, i < n, float("inf"))
    row, col = v[:, None], v[None, :]
    before = (col < row) | ((col == row) & (i[None, :] < i[:, None]))
    rank = tl.sum(before.to(tl.int32), 1)
    tl.store(out + rank, v, i < n)


def test_sort_by_ranks(target):
    x = np.random.default_rng(0).integers(0, 20, 50).astype(np.float32)
    out = np.zeros(50, np.float32)
    rank_by_counting[(1,)](x, out, 50, 64)
    np.testing.assert_array_equal(out, np.sort(x))


@tilewright.jit
def exchange(v, i, stage: tl.constexpr, B: tl.constexpr):
    for step in tl.static_range(stage):
        gap: tl.constexpr = 2 ** (stage - 1 - step)
        other = tl.gather(v, i ^ gap, 0)
        down = ((i >> stage) & 1) == 1
        first = (i & gap) == 0
        low, high = tl.minimum(v, other), tl.maximum(v, other)
        v = tl.where(first ^ down, low, high)
    return v


@tilewright.jit
def bitonic(x, out, LOG: tl.constexpr):
    B: tl.constexpr = 2**LOG
    i = tl.arange(0, B)
    v = tl.load(x + i)
    for stage in tl.static_range(1, LOG + 1):
        v = exchange(v, i, stage, B)
    tl.store(out + i, v)


@pytest.mark.parametrize("log", [1, 4, 7])
def test_a_bitonic_network_by_hand(target, log):
    x = numbers(2**log, np.float32)
    out = np.zeros_like(x)
    bitonic[(1,)](x, out, log)
    np.testing.assert_array_equal(out, np.sort(x))


@tilewright.jit
def repeated_argmax(x, values, places, n, K: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    row = tl.program_id(0)
    v = tl.load(x + row * n + i, i < n, float("-inf"))
    taken = i >= n
    for k in range(K):
        at = tl.argmax(tl.where(taken, float("-inf"), v), 0)
        tl.store(places + row * K + k, at)
        tl.store(values + row * K + k, tl.sum(tl.where(i == at, v, 0.0), 0))
        taken = taken | (i == at)


def test_the_largest_by_repetition(target):
    x = np.random.default_rng(0).permutation(66).reshape(3, 22).astype(np.float32)
    values, places = np.zeros((3, 4), np.float32), np.zeros((3, 4), np.int32)
    repeated_argmax[(3,)](x, values, places, 22, 4, 32)
    order = np.argsort(-x, 1)[:, :4]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))


@tilewright.jit
def extremes_of_words(x, out, places, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(out, tl.max(v, 0))
    tl.store(out + 1, tl.min(v, 0))
    tl.store(places, tl.argmax(v, 0))
    tl.store(places + 1, tl.argmin(v, 0))
    tl.store(places + 2, tl.argmax(v, 0, tie_break_left=False) >= 0)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64])
def test_extremes_of_whole_numbers(target, dtype):
    info = np.iinfo(dtype)
    x = np.array([3, info.max, info.min, 7, info.max, info.min, 1, info.max // 2], dtype)
    out, places = np.zeros(2, dtype), np.zeros(3, np.int32)
    extremes_of_words[(1,)](x, out, places, 8)
    assert out.tolist() == [info.max, info.min]
    assert places.tolist() == [1, 2, 1]
