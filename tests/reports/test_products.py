"""Matrix products of every kind that reports show."""

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
def twice(q, k, v, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(q + m[:, None] * K + d[None, :])
    b = tl.load(k + d[:, None] + n[None, :] * K)
    c = tl.load(v + n[:, None] * K + d[None, :])
    p = tl.dot(a, b, out_dtype=tl.float32, input_precision="ieee").to(q.type.element_ty)
    acc = tl.dot(p, c, out_dtype=tl.float32, input_precision="ieee")
    tl.store(out + m[:, None] * K + d[None, :], acc.to(out.type.element_ty))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16])
def test_a_product_of_a_product(target, dtype):
    m, n, k = 32, 32, 64
    q, a, b = (normal(x, k, dtype=dtype, seed=x) for x in (m, n, n + 1))
    b = b[:n].copy()
    out = np.zeros((m, k), dtype)
    twice[(1,)](q, a, b, out, m, n, k)
    wide = [x.astype(np.float64) for x in (q, a, b)]
    p = (wide[0] @ wide[1].T).astype(dtype).astype(np.float64)
    unit = 1e-4 if dtype is np.float32 else 0.3 if dtype is np.float16 else 2
    np.testing.assert_allclose(out.astype(float), p @ wide[2], rtol=unit / 20, atol=unit)


@tilewright.jit
def chained(a1, b1, a2, b2, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        on_a, on_b = (m[:, None] < M) & (k[None, :] < K), (k[:, None] < K) & (n[None, :] < N)
        at_a, at_b = m[:, None] * K + k[None, :], k[:, None] * N + n[None, :]
        acc = tl.dot(tl.load(a1 + at_a, on_a, 0.0), tl.load(b1 + at_b, on_b, 0.0), acc)
        acc = tl.dot(tl.load(a2 + at_a, on_a, 0.0), tl.load(b2 + at_b, on_b, 0.0), acc)
    at, on = m[:, None] * N + n[None, :], (m[:, None] < M) & (n[None, :] < N)
    tl.store(out + at, acc, on)


@pytest.mark.parametrize("block", [16, 32])
@pytest.mark.parametrize("dtype", [np.float16, BF16])
def test_two_products_into_one_sum(target, dtype, block):
    m, n, k = 50, 37, 41
    a1, a2 = normal(m, k, dtype=dtype, seed=1), normal(m, k, dtype=dtype, seed=2)
    b1, b2 = normal(k, n, dtype=dtype, seed=3), normal(k, n, dtype=dtype, seed=4)
    out = np.zeros((m, n), np.float32)
    grid = (-(-m // block), -(-n // block))
    chained[grid](a1, b1, a2, b2, out, m, n, k, block, block, 16)
    a, b = np.hstack([a1, a2]).astype(float), np.vstack([b1, b2]).astype(float)
    np.testing.assert_allclose(out, a @ b, rtol=1e-3, atol=1e-3)


@tilewright.jit
def accumulate(x, y, out, DTYPE: tl.constexpr, B: tl.constexpr):
    at = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    c = tl.full((B, B), 1, DTYPE)
    c = tl.dot(tl.load(x + at), tl.load(y + at), c, out_dtype=DTYPE)
    tl.store(out + at, c)


KINDS = [(np.float16, "float16"), (np.float16, "float32"), (BF16, "float32"), (np.int8, "int32")]
KINDS += [(np.float32, "float32"), (ml_dtypes.float8_e5m2, "float32"), (np.float64, "float64")]


@pytest.mark.parametrize(("dtype", "kind"), KINDS)
def test_sums_of_every_kind(target, dtype, kind):
    rng = np.random.default_rng(0)
    x, y = rng.integers(-3, 4, (2, 16, 16)).astype(np.float32).astype(dtype)
    out = np.zeros((16, 16), kind)
    accumulate[(1,)](x, y, out, getattr(tl, kind), 16)
    np.testing.assert_array_equal(out, x.astype(float) @ y.astype(float) + 1)


@tilewright.jit
def batched(x, y, out, G: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    g, m, n, k = tl.arange(0, G), tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + g[:, None, None] * (M * K) + m[None, :, None] * K + k[None, None, :])
    b = tl.load(y + g[:, None, None] * (K * N) + n[None, :, None] * K + k[None, None, :])
    c = tl.dot(a, tl.trans(b, 0, 2, 1), input_precision="ieee")
    c = tl.dot(a, b.permute((0, 2, 1)), c, input_precision="ieee")
    tl.store(out + g[:, None, None] * (M * N) + m[None, :, None] * N + n[None, None, :], c)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("shape", [(1, 16, 16, 16), (4, 16, 32, 64), (2, 64, 16, 32)])
def test_products_side_by_side(target, shape, dtype):
    g, m, n, k = shape
    x, y = normal(g, m, k, dtype=dtype), normal(g, n, k, dtype=dtype, seed=1)
    out = np.zeros((g, m, n), np.float32)
    batched[(1,)](x, y, out, *shape)
    expected = 2 * x.astype(float) @ y.astype(float).transpose(0, 2, 1)
    np.testing.assert_allclose(out, expected, rtol=1e-3, atol=1e-3)


@tilewright.jit
def through_sums(x, y, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + m[:, None] * K + k[None, :])
    b = tl.load(y + k[:, None] * N + n[None, :])
    tl.store(out + m[:, None] * N + n[None, :], tl.sum(a[:, :, None] * b[None, :, :], axis=1))


@pytest.mark.parametrize("shape", [(1, 64, 32), (8, 8, 8), (16, 1, 64), (2, 4, 128)])
def test_small_products_as_sums(target, shape):
    m, n, k = shape
    x, y, out = normal(m, k), normal(k, n, seed=1), np.zeros((m, n), np.float32)
    through_sums[(1,)](x, y, out, m, n, k)
    np.testing.assert_allclose(out, x.astype(float) @ y, rtol=1e-3, atol=1e-4)


@tilewright.jit
def upper_triangle(x, out, n, B: tl.constexpr):
    r, c = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    a = tl.load(x + r * n + c, (r < n) & (c < n), 0.0)
    upper = tl.where(r <= c, 1.0, 0.0).to(tl.float32)
    tl.store(out + r * n + c, tl.dot(a, upper, allow_tf32=False), (r < n) & (c < n))


def test_a_running_sum_as_a_product(target):
    x, out = normal(30, 30), np.zeros((30, 30), np.float32)
    upper_triangle[(1,)](x, out, 30, 32)
    np.testing.assert_allclose(out, np.cumsum(x.astype(float), 1), rtol=1e-3, atol=1e-4)


@tilewright.jit
def int8_scaled(x, y, sx, sy, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = (tl.program_id(0) * BM + tl.arange(0, BM)) % M
    n = (tl.program_id(1) * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    a, b = x + m[:, None] * K + k[None, :], y + k[:, None] * N + n[None, :]
    acc = tl.zeros((BM, BN), tl.int32)
    for step in range(tl.cdiv(K, BK)):
        left = K - step * BK
        acc += tl.dot(tl.load(a, k[None, :] < left, 0), tl.load(b, k[:, None] < left, 0))
        a += BK
        b += BK * N
    c = acc.to(tl.float32) * tl.load(sx + m)[:, None] * tl.load(sy + n)[None, :]
    om, on = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    at = om[:, None] * N + on[None, :]
    tl.store(out + at, c.to(tl.float16), (om[:, None] < M) & (on[None, :] < N))


def test_scaled_products_of_bytes(target):
    rng = np.random.default_rng(0)
    m, n, k = 40, 48, 72
    x, y = rng.integers(-128, 128, (m, k)), rng.integers(-128, 128, (k, n))
    sx, sy = rng.random(m).astype(np.float32) / 1e3, rng.random(n).astype(np.float32)
    out = np.zeros((m, n), np.float16)
    x, y = x.astype(np.int8), y.astype(np.int8)
    int8_scaled[(2, 2)](x, y, sx, sy, out, m, n, k, 32, 32, 32)
    expected = (x.astype(float) @ y.astype(float)) * sx[:, None] * sy
    np.testing.assert_allclose(out.astype(float), expected, rtol=2e-3, atol=1e-3)


@tilewright.jit
def split_k(x, y, out, M, N, K, B: tl.constexpr, BK: tl.constexpr, SPLITS: tl.constexpr):
    m, n = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for start in range(tl.program_id(2) * BK, K, BK * SPLITS):
        k = start + tl.arange(0, BK)
        a = tl.load(x + m[:, None] * K + k[None, :], (m[:, None] < M) & (k[None, :] < K), 0.0)
        b = tl.load(y + k[:, None] * N + n[None, :], (k[:, None] < K) & (n[None, :] < N), 0.0)
        acc += tl.dot(a, b, input_precision="ieee")
    on = (m[:, None] < M) & (n[None, :] < N)
    tl.atomic_add(out + m[:, None] * N + n[None, :], acc, mask=on)


@pytest.mark.parametrize("splits", [1, 3, 4])
def test_split_sums_meet_in_memory(target, splits):
    x, y, out = normal(20, 100), normal(100, 33, seed=1), np.zeros((20, 33), np.float32)
    split_k[(1, 2, splits)](x, y, out, 20, 33, 100, 32, 16, splits)
    np.testing.assert_allclose(out, x.astype(float) @ y, rtol=1e-3, atol=1e-4)


@tilewright.jit
def swiglu(x, w, v, out, K: tl.constexpr, B: tl.constexpr):
    at = tl.arange(0, B)[:, None] * K + tl.arange(0, K)[None, :]
    turned = tl.arange(0, K)[:, None] + tl.arange(0, B)[None, :] * K
    a = tl.load(x + at)
    gate = tl.dot(a, tl.load(w + turned))
    up = tl.dot(a, tl.load(v + turned))
    silu = gate * tl.sigmoid(gate)
    tl.store(out + tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :], silu * up)


def test_a_gated_pair_of_products(target):
    x, w, v = (normal(32, 64, dtype=np.float16, seed=s) for s in range(3))
    out = np.zeros((32, 32), np.float32)
    swiglu[(1,)](x, w, v, out, 64, 32)
    gate, up = (x.astype(float) @ m.astype(float).T for m in (w, v))
    np.testing.assert_allclose(out, gate / (1 + np.exp(-gate)) * up, rtol=1e-3, atol=1e-2)


@tilewright.jit
def scaled(x, y, sx, sy, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    k, s = tl.arange(0, K), tl.arange(0, K // 32)
    a = tl.load(x + m[:, None] * K + k[None, :])
    b = tl.load(y + k[:, None] * N + n[None, :])
    left = tl.load(sx + m[:, None] * (K // 32) + s[None, :])
    right = tl.load(sy + n[:, None] * (K // 32) + s[None, :])
    c = tl.dot_scaled(a, left, "e4m3", b, right, "e5m2")
    tl.store(out + m[:, None] * N + n[None, :], c)


def test_scaled_products_of_floats_of_8_bits(target):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((32, 64)).astype(ml_dtypes.float8_e4m3fn)
    y = rng.standard_normal((64, 32)).astype(ml_dtypes.float8_e5m2)
    sx, sy = rng.integers(124, 131, (2, 32, 2)).astype(np.uint8)
    out = np.zeros((32, 32), np.float32)
    scaled[(1,)](x, y, sx, sy, out, 32, 32, 64)
    a = x.astype(float) * np.repeat(np.exp2(sx.astype(float) - 127), 32, 1)
    b = y.astype(float) * np.repeat(np.exp2(sy.astype(float) - 127), 32, 1).T
    np.testing.assert_allclose(out, a @ b, rtol=1e-3, atol=1e-2)


@tilewright.jit
def rows_of_experts(x, w, ids, out, N: tl.constexpr, K: tl.constexpr, B: tl.constexpr):
    block = tl.program_id(0)
    expert = tl.load(ids + block)
    if expert == -1:
        return
    m, n, k = block * B + tl.arange(0, B), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + m[:, None] * K + k[None, :])
    b = tl.load(w + expert.to(tl.int64) * (K * N) + k[:, None] * N + n[None, :])
    tl.store(out + m[:, None] * N + n[None, :], tl.dot(a, b).to(tl.float16))


def test_blocks_choose_their_matrix(target):
    x, w = normal(64, 32, dtype=np.float16), normal(3, 32, 16, dtype=np.float16, seed=1)
    ids, out = np.array([2, -1, 0, 2], np.int32), np.zeros((64, 16), np.float16)
    rows_of_experts[(4,)](x, w, ids, out, 16, 32, 16)
    expected = np.zeros((4, 16, 16))
    for k, e in enumerate(ids):
        if e >= 0:
            expected[k] = x[16 * k : 16 * k + 16].astype(float) @ w[e].astype(float)
    np.testing.assert_allclose(out, expected.reshape(64, 16), rtol=2e-3, atol=5e-3)


@tilewright.jit
def tiles_in_one_loop(a, b, c, M, N, K, programs, BM: tl.constexpr, BN: tl.constexpr,
                      BK: tl.constexpr, G: tl.constexpr):  # fmt: skip
    start = tl.program_id(0)
    down, across, steps = tl.cdiv(M, BM), tl.cdiv(N, BN), tl.cdiv(K, BK)
    mine = (down * across) // programs
    if start < (down * across) % programs:
        mine += 1
    tile, step, pm, pn = start - programs, -1, 0, 0
    rm, rn, rk = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(steps * mine):
        step = tl.where(step == steps - 1, 0, step + 1)
        if step == 0:
            tile += programs
            group = tile // (G * across)
            size = min(down - group * G, G)
            pm, pn = group * G + tile % size, tile % (G * across) // size
            rm, rn = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)
            rm, rn = tl.where(rm < M, rm, 0), tl.where(rn < N, rn, 0)
        k = step * BK + rk
        x = tl.load(a + rm[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)
        y = tl.load(b + k[:, None] * N + rn[None, :], mask=k[:, None] < K, other=0.0)
        acc = tl.dot(x, y, acc)
        if step == steps - 1:
            m, n = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)
            on = (m[:, None] < M) & (n[None, :] < N)
            tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16), on)
            acc = tl.zeros((BM, BN), tl.float32)


@pytest.mark.parametrize("shape", [(70, 50, 40), (64, 64, 64), (33, 17, 100)])
def test_rows_are_chosen_anew_in_the_loop_over_all_tiles(target, shape):
    m, n, k = shape
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((m, k), (k, n)))
    c = np.zeros((m, n), np.float16)
    tiles_in_one_loop[(3,)](a, b, c, m, n, k, 3, 32, 16, 32, 2)
    np.testing.assert_allclose(c, a.astype(float) @ b.astype(float), 2e-2, 5e-2)


@tilewright.jit
def rows_by_two_ways(a, b, c, flag, M, N, B: tl.constexpr):
    i = tl.arange(0, B)
    if tl.load(flag) > 0:
        rows, columns = tl.minimum(i, M - 1), i % N
    else:
        rows, columns = (M - 1 - i + B) % M, (i * 3) % N
    x = tl.load(a + rows[:, None] * B + i[None, :])
    y = tl.load(b + i[:, None] * N + columns[None, :])
    tl.store(c + i[:, None] * B + i[None, :], tl.dot(x, y, input_precision="ieee"))


@pytest.mark.parametrize("flag", [0, 1])
def test_a_branch_chooses_rows_and_columns(target, flag):
    m, n, size = 11, 13, 16
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((m, size), (size, n)))
    c, i = np.zeros((size, size), np.float32), np.arange(size)
    rows_by_two_ways[(1,)](a, b, c, np.array([flag], np.int32), m, n, size)
    rows = np.minimum(i, m - 1) if flag else (m - 1 - i + size) % m
    expected = a[rows].astype(float) @ b[:, i % n if flag else i * 3 % n].astype(float)
    np.testing.assert_allclose(c, expected, 1e-4, 1e-4)
