"""Kernels of programs that serve language models: caches, sampling, experts, positions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright
import tilewright.language as tl

BF16 = ml_dtypes.bfloat16


def normal(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@tilewright.jit
def fp4_to_bf16(x, out, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    low, high = v & 0x07, v & 0x70
    x0 = (low.to(tl.uint16) << 6) | ((v & 0x08).to(tl.uint16) << 12)
    x1 = (high.to(tl.uint16) << 2) | ((v & 0x80).to(tl.uint16) << 8)
    x0 = tl.where((low & 0x06) != 0, x0 + ((127 - 1) << 7), x0)
    x1 = tl.where((high & 0x60) != 0, x1 + ((127 - 1) << 7), x1)
    x0 = tl.where(low == 0x01, 16128 | (x0 & 0x8000), x0)
    x1 = tl.where(high == 0x10, 16128 | (x1 & 0x8000), x1)
    y = tl.interleave(x0, x1).to(tl.bfloat16, bitcast=True)
    tl.store(out + tl.arange(0, 2 * B), y)


def test_floats_of_4_bits_by_bits(target):
    x, out = np.arange(256).astype(np.uint8), np.zeros(512, BF16)
    fp4_to_bf16[(1,)](x, out, 256)
    codes = np.stack([x & 15, x >> 4], -1).ravel()
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])[codes & 7]
    np.testing.assert_array_equal(out.astype(float), np.where(codes > 7, -table, table))


@tilewright.jit
def sample(logits, out, seeds, pos, heat, n, B: tl.constexpr):
    row = tl.program_id(0)
    best = float("-inf")
    chosen = 0
    for start in range(0, n, B):
        i = start + tl.arange(0, B)
        v = tl.load(logits + row * n + i, i < n, float("-inf")).to(tl.float32)
        u = tl.rand(tl.load(seeds + row) + pos, i).to(tl.float64)
        noise = -tl.log(-tl.log(u + 1e-20) + 1e-20)
        v = tl.where(i < n, v / heat + noise.to(tl.float32), float("-inf"))
        top, at = tl.max(v, 0, return_indices=True)
        if top > best:
            best = top
            chosen = start + at
    tl.store(out + row, chosen)


def test_samples_by_noise(target):
    logits, out = np.full((4, 100), -50, np.float32), np.zeros(4, np.int64)
    logits[[0, 1, 2, 3], [17, 99, 0, 63]] = 60
    sample[(4,)](logits, out, np.arange(4), 5, 0.7, 100, 32)
    assert out.tolist() == [17, 99, 0, 63]


@tilewright.jit
def nucleus(probs, out, n, p, TURNS: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(probs + row * n + i, i < n, 0.0)
    low = 0.0
    high = tl.max(v, 0)
    for _ in range(TURNS):
        middle = (low + high) * 0.5
        if tl.sum(tl.where(v >= middle, v, 0.0), 0) >= p:
            low = middle
        else:
            high = middle
    keep = tl.where(v >= low, v, 0.0)
    tl.store(out + row * n + i, keep / tl.sum(keep, 0), i < n)


def test_the_likeliest_by_bisection(target):
    e = np.exp(normal(3, 50).astype(float) * 3)
    probs, out = (e / e.sum(1, keepdims=True)).astype(np.float32), np.zeros((3, 50), np.float32)
    nucleus[(3,)](probs, out, 50, 0.8, 40, 64)
    for p, got in zip(probs.astype(float), out, strict=True):
        order = np.argsort(-p)
        count = int((np.cumsum(p[order]) < 0.8).sum()) + 1
        assert set(np.flatnonzero(got)) == set(order[:count])
        np.testing.assert_allclose(
            got[order[:count]], p[order[:count]] / p[order[:count]].sum(), 1e-4
        )


@tilewright.jit
def into_cache(k, v, keys, values, slots, stride, H: tl.constexpr, D: tl.constexpr,
               SIZE: tl.constexpr, X: tl.constexpr, B: tl.constexpr):  # fmt: skip
    token = tl.program_id(0)
    slot = tl.load(slots + token).to(tl.int64)
    if slot < 0:
        return
    block, offset = slot // SIZE, slot % SIZE
    i = tl.arange(0, B)
    on = i < H * D
    h, d = i // D, i % D
    at = block * H * D * SIZE + h * D * SIZE
    place = at + (d // X) * SIZE * X + offset * X + d % X
    tl.store(keys + place, tl.load(k + token * stride + i, on), on)
    tl.store(values + at + d * SIZE + offset, tl.load(v + token * stride + i, on), on)


def test_tokens_into_blocks_of_a_cache(target):
    h, d, size, x = 3, 8, 4, 4
    k, v, slots = normal(6, h, d), normal(6, h, d, seed=1), np.array([3, 7, -1, 12, 0, 19])
    keys, values = (
        np.zeros((5, h, d // x, size, x), np.float32),
        np.zeros((5, h, d, size), np.float32),
    )
    wanted = keys.copy(), values.copy()
    into_cache[(6,)](k, v, keys, values, slots, h * d, h, d, size, x, 32)
    for token, slot in enumerate(slots):
        if slot >= 0:
            wanted[0][slot // size, :, :, slot % size] = k[token].reshape(h, d // x, x)
            wanted[1][slot // size, :, :, slot % size] = v[token]
    np.testing.assert_array_equal(keys, wanted[0])
    np.testing.assert_array_equal(values, wanted[1])


@tilewright.jit
def paged_attention(q, keys, values, blocks, lengths, out, scale, H: tl.constexpr, D: tl.constexpr,
                    SIZE: tl.constexpr, MOST: tl.constexpr):  # fmt: skip
    s, h = tl.program_id(0), tl.program_id(1)
    d, b = tl.arange(0, D), tl.arange(0, SIZE)
    row = tl.load(q + (s * H + h) * D + d) * scale
    n = tl.load(lengths + s)
    top = float("-inf")
    total = 0.0
    acc = tl.zeros([D], tl.float32)
    for j in range(tl.cdiv(n, SIZE)):
        block = tl.load(blocks + s * MOST + j).to(tl.int64)
        at = ((block * SIZE + b[:, None]) * H + h) * D + d[None, :]
        score = tl.sum(row[None, :] * tl.load(keys + at), 1)
        score = tl.where(j * SIZE + b < n, score, float("-inf"))
        new = tl.maximum(top, tl.max(score, 0))
        p, less = tl.exp(score - new), tl.exp(top - new)
        acc = acc * less + tl.sum(p[:, None] * tl.load(values + at), 0)
        total = total * less + tl.sum(p, 0)
        top = new
    tl.store(out + (s * H + h) * D + d, acc / total)


def test_attention_over_blocks_of_a_cache(target):
    h, d, size = 2, 16, 8
    q, keys, values = (
        normal(3, h, d),
        normal(12, size, h, d, seed=1),
        normal(12, size, h, d, seed=2),
    )
    blocks = np.random.default_rng(3).integers(0, 12, (3, 4)).astype(np.int32)
    lengths, out = np.array([5, 32, 17], np.int32), np.zeros((3, h, d), np.float32)
    paged_attention[(3, h)](q, keys, values, blocks, lengths, out, 0.25, h, d, size, 4)
    for s, n in enumerate(lengths):
        k = keys[blocks[s]].reshape(-1, h, d)[:n].astype(float)
        v = values[blocks[s]].reshape(-1, h, d)[:n].astype(float)
        w = np.exp(np.einsum("hd,nhd->hn", q[s], k) * 0.25)
        expected = np.einsum("hn,nhd->hd", w / w.sum(1, keepdims=True), v)
        np.testing.assert_allclose(out[s], expected, rtol=1e-3, atol=1e-5)


@tilewright.jit
def align_experts(ids, order, experts, total, n, E: tl.constexpr, M: tl.constexpr, B: tl.constexpr):
    i, e = tl.arange(0, B), tl.arange(0, E)
    hit = (tl.load(ids + i, i < n, E)[:, None] == e[None, :]).to(tl.int32)
    padded = (tl.sum(hit, 0) + M - 1) // M * M
    ends = tl.cumsum(padded, 0)
    tl.store(total, tl.max(ends, 0))
    starts = ends - padded
    rank = tl.sum((tl.cumsum(hit, 0) - 1) * hit, 1)
    tl.store(order + tl.sum(hit * starts[None, :], 1) + rank, i, i < n)
    for k in range(tl.max(padded, 0) // M):
        tl.store(experts + starts // M + k, e, k * M < padded)


def test_tokens_in_the_order_of_their_experts(target):
    n, e, m = 50, 8, 4
    ids = np.random.default_rng(0).integers(0, e, n).astype(np.int32)
    order, experts = np.full(n + e * m, n, np.int32), np.full(30, -1, np.int32)
    total = np.zeros(1, np.int32)
    align_experts[(1,)](ids, order, experts, total, n, e, m, 64)
    at = 0
    for expert in range(e):
        mine = np.flatnonzero(ids == expert).tolist()
        blocks = -(-len(mine) // m)
        assert order[at : at + len(mine)].tolist() == mine
        assert experts[at // m : at // m + blocks].tolist() == [expert] * blocks
        at += blocks * m
    assert total[0] == at


@tilewright.jit
def positions_in_place(q, cosine, sine, pos, H: tl.constexpr, D: tl.constexpr, EVERY: tl.constexpr):
    token = tl.program_id(0)
    h, d = tl.arange(0, H)[:, None], tl.arange(0, D // 2)[None, :]
    at = tl.load(pos + token) * (D // 2) + d
    c, s = tl.load(cosine + at), tl.load(sine + at)
    if EVERY:
        a = q + token * H * D + h * D + 2 * d
        b = a + 1
    else:
        a = q + token * H * D + h * D + d
        b = a + D // 2
    x, y = tl.load(a).to(tl.float32), tl.load(b).to(tl.float32)
    tl.store(a, (x * c - y * s).to(q.dtype.element_ty))
    tl.store(b, (y * c + x * s).to(q.dtype.element_ty))


@pytest.mark.parametrize("every", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_rotations_in_place(target, dtype, every):
    q, c, s = normal(5, 4, 16, dtype=dtype), normal(10, 8, seed=1), normal(10, 8, seed=2)
    pos = np.array([0, 3, 9, 2, 2])
    first, second = (
        (np.s_[..., ::2], np.s_[..., 1::2]) if every else (np.s_[..., :8], np.s_[..., 8:])
    )
    x, y = q[first].astype(float), q[second].astype(float)
    a, b = c[pos][:, None], s[pos][:, None]
    positions_in_place[(5,)](q, c, s, pos, 4, 16, every)
    unit = 1e-5 if dtype is np.float32 else 2e-2
    np.testing.assert_allclose(q[first].astype(float), x * a - y * b, rtol=unit, atol=unit)
    np.testing.assert_allclose(q[second].astype(float), y * a + x * b, rtol=unit, atol=unit)


@tilewright.jit
def ragged_conv(
    x, w, out, starts, W: tl.constexpr, BT: tl.constexpr, B: tl.constexpr, D: tl.constexpr
):
    block, s = tl.program_id(0), tl.program_id(1)
    first, last = tl.load(starts + s).to(tl.int32), tl.load(starts + s + 1).to(tl.int32)
    n = last - first
    if block * BT >= n:
        return
    d = tl.arange(0, B)
    acc = tl.zeros((BT, B), tl.float32)
    for j in tl.static_range(-W + 1, 1):
        p = tl.make_block_ptr(x + first * D, (n, D), (D, 1), (block * BT + j, 0), (BT, B), (1, 0))
        acc += tl.load(p, boundary_check=(0, 1)) * tl.load(w + d * W + j + W - 1, d < D, 0.0)
    p = tl.make_block_ptr(out + first * D, (n, D), (D, 1), (block * BT, 0), (BT, B), (1, 0))
    tl.store(p, acc.to(p.dtype.element_ty), boundary_check=(0, 1))


def test_convolutions_of_sequences_of_all_lengths(target):
    starts = np.array([0, 5, 5, 23, 40])
    x, w, out = normal(40, 12), normal(12, 4, seed=1), np.zeros((40, 12), np.float32)
    ragged_conv[(3, 4)](x, w, out, starts, 4, 8, 16, 12)
    for a, b in zip(starts, starts[1:], strict=False):
        padded = np.vstack([np.zeros((3, 12)), x[a:b]])
        expected = sum(padded[j : j + b - a] * w[:, j] for j in range(4))
        np.testing.assert_allclose(out[a:b], expected, rtol=1e-4, atol=1e-5)
