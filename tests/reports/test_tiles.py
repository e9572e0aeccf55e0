"""Tiles whose axes are cut, joined, turned and broadcast."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
import tilewright.language as tl


def normal(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@tilewright.jit
def window_sums(x, out, sx, h, w, H: tl.constexpr, W: tl.constexpr, K: tl.constexpr):
    i, j, k = tl.arange(0, H), tl.arange(0, W), tl.arange(0, K)
    row = i[:, None, None, None] + k[None, None, :, None]
    col = j[None, :, None, None] + k[None, None, None, :]
    on = (row >= 0) & (row < h) & (col < w)
    v = tl.load(x + row * sx + col, mask=on, other=0.0)
    total = tl.sum(tl.sum(v, 2), 2)
    tl.store(out + i[:, None] * w + j[None, :], total, (i[:, None] < h) & (j[None, :] < w))


@pytest.mark.parametrize("k", [1, 2, 4])
def test_sums_of_windows_in_four_axes(target, k):
    x, out = normal(10, 13), np.zeros((10, 13), np.float32)
    window_sums[(1,)](x, out, 13, 10, 13, 16, 16, k)
    padded = np.pad(x.astype(float), ((0, k), (0, k)))
    expected = sum(padded[a : a + 10, b : b + 13] for a in range(k) for b in range(k))
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


@tilewright.jit
def joined(x, y, out, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.load(x + i), tl.load(y + i)
    pair = tl.join(a, b)
    j = tl.arange(0, 2 * B)
    tl.store(out + j, pair.reshape(2 * B))
    tl.store(out + 2 * B + j, tl.trans(pair).reshape(2 * B))
    tl.store(out + 4 * B + j, tl.interleave(b, a))
    tl.store(out + 6 * B + j, tl.ravel(tl.join(pair, pair))[:, None].reshape(4 * B).reshape(
        2 * B, 2).sum(1))  # fmt: skip
    left, right = tl.split(pair)
    tl.store(out + 8 * B + i, left - right)


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.float64])
def test_join_and_split(target, dtype):
    x, y = normal(16, dtype=np.float32).astype(dtype), (normal(16, seed=1) * 9).astype(dtype)
    out = np.zeros(9 * 16, dtype)
    joined[(1,)](x, y, out, 16)
    pair = np.stack([x, y], -1)
    both = np.stack([pair, pair], -1).reshape(32, 2).sum(1, dtype=dtype)
    parts = [pair.ravel(), pair.T.ravel(), np.stack([y, x], -1).ravel(), both, x - y]
    np.testing.assert_array_equal(out, np.concatenate(parts))


@tilewright.jit
def scalar_pair(out):
    pair = tl.join(3.0, 4.0)
    a, b = tl.split(pair)
    tl.store(out + tl.arange(0, 2), pair * pair)
    tl.store(out + 2, a - b)


def test_a_pair_of_scalars(target):
    out = np.zeros(3, np.float32)
    scalar_pair[(1,)](out)
    assert out.tolist() == [9, 16, -1]


@tilewright.jit
def turned(x, out, P: tl.constexpr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    a, b, c = tl.arange(0, A), tl.arange(0, B), tl.arange(0, C)
    v = tl.load(x + a[:, None, None] * (B * C) + b[None, :, None] * C + c[None, None, :])
    turned = tl.permute(v, P)
    flat = tl.reshape(turned, (A * B * C,))
    tl.store(out + tl.arange(0, A * B * C), flat)


@pytest.mark.parametrize(
    "order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
)
def test_every_order_of_axes(target, order):
    x, out = normal(4, 8, 2), np.zeros(64, np.float32)
    turned[(1,)](x, out, order, 4, 8, 2)
    np.testing.assert_array_equal(out, x.transpose(order).ravel())


@tilewright.jit
def catenated(x, y, out, B: tl.constexpr):
    i = tl.arange(0, B)
    both = tl.cat(tl.load(x + i), tl.load(y + i), can_reorder=True)
    tl.store(out, tl.sum(both, 0))
    tl.store(out + 1, tl.max(both, 0))


def test_cat(target):
    x, y, out = normal(16), normal(16, seed=1), np.zeros(2, np.float32)
    catenated[(1,)](x, y, out, 16)
    both = np.concatenate([x, y]).astype(float)
    np.testing.assert_allclose(out, [both.sum(), both.max()], rtol=1e-4, atol=1e-5)


@tilewright.jit
def broadcasts(x, out, n, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    at = r[:, None] * C + c[None, :]
    row = tl.load(x + c)
    a, b = tl.broadcast(row[None, :], r.to(tl.float32)[:, None])
    tl.store(out + at, a + b)
    tl.store(out + n + at, tl.broadcast_to(tl.expand_dims(row, 0), (R, C)))
    tl.store(out + 2 * n + at, tl.broadcast_to(tl.sum(row, 0), R, C))
    tl.store(out + 3 * n + at, row.expand_dims(0).broadcast_to(R, C) * tl.full((R, 1), 2, tl.int32))
    tl.store(out + 4 * n + at, tl.zeros_like(a) + row[None, :] + tl.zeros((1, 1), tl.float32))


def test_broadcasts(target):
    x, out = np.arange(8, dtype=np.float32), np.zeros((5, 4, 8), np.float32)
    broadcasts[(1,)](x, out, 32, 4, 8)
    wide = np.broadcast_to(x, (4, 8))
    parts = [wide + np.arange(4)[:, None], wide, np.full((4, 8), x.sum()), wide * 2, wide]
    np.testing.assert_array_equal(out, parts)


@tilewright.jit
def rotate_halves(x, cosine, sine, out, n, D: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, D)
    v = tl.load(x + row * D + i).reshape(2, D // 2)
    a, b = tl.split(tl.trans(v))
    c, s = (
        tl.load(cosine + row * (D // 2) + tl.arange(0, D // 2)),
        tl.load(sine + row * (D // 2) + tl.arange(0, D // 2)),
    )
    turned = tl.join(a * c - b * s, b * c + a * s)
    tl.store(out + row * D + i, tl.trans(turned).reshape(D))


@pytest.mark.parametrize("d", [4, 32, 128])
def test_halves_rotated_by_split_and_join(target, d):
    x, c, s = normal(5, d), normal(5, d // 2, seed=1), normal(5, d // 2, seed=2)
    out = np.zeros_like(x)
    rotate_halves[(5,)](x, c, s, out, 5, d)
    a, b = x[:, : d // 2].astype(float), x[:, d // 2 :].astype(float)
    np.testing.assert_allclose(out, np.hstack([a * c - b * s, b * c + a * s]), rtol=1e-4, atol=1e-5)


@tilewright.jit
def butterfly(x, out, LOG: tl.constexpr):
    N: tl.constexpr = 1 << LOG
    i = tl.arange(0, N)
    v = tl.load(x + i)
    for k in tl.static_range(LOG):
        v = v.reshape(N // (2 << k), 2, 1 << k)
        a, b = tl.split(tl.permute(v, (0, 2, 1)))
        v = tl.permute(tl.join(a + b, a - b), (0, 2, 1)).reshape(N)
    tl.store(out + i, v)


@pytest.mark.parametrize("log", [1, 3, 6])
def test_a_hadamard_transform(target, log):
    x = normal(1 << log)
    out = np.zeros_like(x)
    butterfly[(1,)](x, out, log)
    h = np.ones((1, 1))
    for _ in range(log):
        h = np.block([[h, h], [h, -h]])
    np.testing.assert_allclose(out, h @ x, rtol=1e-3, atol=1e-4)


@tilewright.jit
def grouped(x, scale, out, G: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i).reshape(B // G, G)
    top = tl.max(tl.abs(v), axis=1, keep_dims=True)
    tl.store(scale + tl.arange(0, B // G), (top / 127).reshape(B // G))
    q = (v / (top / 127)).reshape(B)
    tl.store(out + i, (q + tl.where(q >= 0, 0.5, -0.5)).to(tl.int8))


@pytest.mark.parametrize("group", [4, 16, 64])
def test_quantized_groups(target, group):
    x = normal(128)
    scale, out = np.zeros(128 // group, np.float32), np.zeros(128, np.int8)
    grouped[(1,)](x, scale, out, group, 128)
    top = np.abs(x.reshape(-1, group)).max(1)
    np.testing.assert_allclose(scale, top / 127, rtol=1e-6)
    exact = x.reshape(-1, group) / (top[:, None].astype(float) / 127)
    assert np.abs(out.reshape(-1, group) - exact).max() <= 0.5001


@tilewright.jit
def reduced(x, out, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    a, b, c = tl.arange(0, A), tl.arange(0, B), tl.arange(0, C)
    v = tl.load(x + a[:, None, None] * (B * C) + b[None, :, None] * C + c[None, None, :])
    tl.store(out, tl.sum(v))
    tl.store(out + 1, tl.max(tl.max(tl.max(v, 2), 1), 0))
    tl.store(out + 2, tl.sum(v.to(tl.float64), axis=None))
    tl.store(out + 3 + tl.arange(0, B), tl.sum(tl.sum(v, axis=2), axis=0))
    kept = tl.sum(v, axis=1, keep_dims=True)
    tl.static_assert(kept.shape[1] == 1)
    tl.store(out + 3 + B + a[:, None, None] * C + c[None, None, :], kept)


def test_reductions_of_three_axes(target):
    x, out = normal(4, 8, 2), np.zeros(3 + 8 + 8)
    reduced[(1,)](x, out, 4, 8, 2)
    wide = x.astype(float)
    parts = [wide.sum(), wide.max(), wide.sum(), *wide.sum((0, 2)), *wide.sum(1).ravel()]
    np.testing.assert_allclose(out, parts, rtol=1e-4, atol=1e-4)


@tilewright.jit
def down_the_first_axis(x, out, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, A * B)[:, None] * C + tl.arange(0, C)[None, :]
    v = tl.load(x + at).reshape(A, B, C)
    at = tl.arange(0, B)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(out + at, tl.sum(v, 0))
    tl.store(out + B * C + at, tl.argmin(v, 0).to(tl.float32))


def test_a_matrix_from_reduced_rows_of_groups(target):
    """Native code took the axes of what is reduced for those of the result."""
    x, out = normal(6, 4, 8)[:4].copy(), np.zeros((2, 4, 8), np.float32)
    down_the_first_axis[(1,)](x, out, 4, 4, 8)
    np.testing.assert_allclose(out, [x.astype(float).sum(0), x.argmin(0)], rtol=1e-5, atol=1e-6)


@tilewright.jit
def maxima_with_places(x, out, places, AXIS: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v, p = tl.max(tl.load(x + at), AXIS, return_indices=True, keep_dims=True)
    at = tl.arange(0, M)[:, None] if AXIS == 1 else tl.arange(0, N)[None, :]
    tl.store(out + at, v)
    tl.store(places + at, p)


@pytest.mark.parametrize("axis", [0, 1])
def test_places_of_maxima_with_ties(target, axis):
    x = np.random.default_rng(0).integers(0, 3, (8, 16)).astype(np.float32)
    size = x.shape[1 - axis]
    out, places = np.zeros(size, np.float32), np.zeros(size, np.int32)
    maxima_with_places[(1,)](x, out, places, axis, 8, 16)
    assert out.tolist() == x.max(axis).tolist()
    assert places.tolist() == x.argmax(axis).tolist()


@tilewright.jit
def one_element(x, out):
    i = tl.arange(0, 1)
    v = tl.load(x + i)
    tl.store(out + i, v * 2)
    tl.store(out + 1, tl.sum(v, 0))
    tl.store(out + 2 + i, tl.sort(v))
    tl.store(out + 3 + i[:, None], v[None, :].reshape(1, 1) + tl.flip(v)[:, None])
    tl.store(out + 4, v.sum() + tl.max(v, axis=0) + tl.argmax(v, 0))
    tl.store(out + 5 + i, tl.cumsum(v, 0))


def test_tiles_of_one_element(target):
    out = np.zeros(6, np.float32)
    one_element[(1,)](np.array([3], np.float32), out)
    assert out.tolist() == [6, 3, 3, 6, 6, 3]


@tilewright.jit
def map_pairs(a, b):
    return tl.where(a > b, a * 2, b * 3), a + b


@tilewright.jit
def mapped(x, y, out, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.map_elementwise(map_pairs, tl.load(x + i), tl.load(y + i))
    tl.store(out + i, a)
    tl.store(out + B + i, b)


def test_a_function_of_elements(target):
    x, y, out = normal(16), normal(16, seed=1), np.zeros((2, 16), np.float32)
    mapped[(1,)](x, y, out, 16)
    np.testing.assert_allclose(out, [np.where(x > y, x * 2, y * 3), x + y], rtol=1e-6)
