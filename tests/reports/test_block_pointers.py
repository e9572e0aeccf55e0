"""Block pointers and tensor descriptors at the edges of arrays."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.runtime.descriptor import TensorDescriptor


def normal(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@tilewright.jit
def column_sums(x, out, m, n, BLOCKS: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    pid = tl.program_id(0)
    p = tl.make_block_ptr(
        base=x, shape=(m, n), strides=(n, 1), offsets=(0, pid * C), block_shape=(B, C),
        order=(1, 0),
    )  # fmt: skip
    total = tl.zeros((C,), tl.float32)
    for _ in range(BLOCKS):
        total += tl.sum(tl.load(p, boundary_check=(0, 1), padding_option="zero"), 0)
        p = tl.advance(p, (B, 0))
    q = tl.make_block_ptr(out, (n,), (1,), (pid * C,), (C,), (0,))
    tl.store(q, total, boundary_check=(0,))


@pytest.mark.parametrize(("m", "n"), [(32, 32), (30, 32), (32, 27), (5, 3), (40, 33)])
def test_sums_down_columns(target, m, n):
    x, out = normal(m, n), np.zeros(n, np.float32)
    column_sums[(-(-n // 16),)](x, out, m, n, -(-m // 8), 8, 16)
    np.testing.assert_allclose(out, x.astype(float).sum(0), rtol=1e-4, atol=1e-5)


@tilewright.jit
def shifted_block(x, out, m, n, dm, dn, PAD: tl.constexpr, B: tl.constexpr):
    p = tl.make_block_ptr(x, (m, n), (n, 1), (0, 0), (B, B), (1, 0))
    p = tl.advance(p, (dm, dn))
    v = tl.load(p, boundary_check=(0, 1), padding_option=PAD)
    at = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    tl.store(out + at, v)


@pytest.mark.parametrize("padding", ["zero", "nan"])
@pytest.mark.parametrize("by", [(0, 0), (-3, 2), (5, -4), (-8, -8), (9, 20), (-9, 0)])
def test_blocks_that_reach_over_every_edge(target, by, padding):
    x, out = normal(10, 12), np.zeros((8, 8), np.float32)
    shifted_block[(1,)](x, out, 10, 12, *by, padding, 8)
    expected = np.full((8, 8), 0 if padding == "zero" else np.nan, np.float32)
    for i in range(8):
        for j in range(8):
            if 0 <= i + by[0] < 10 and 0 <= j + by[1] < 12:
                expected[i, j] = x[i + by[0], j + by[1]]
    np.testing.assert_array_equal(out, expected)


@tilewright.jit
def checked_axes(x, out, m, n, AXES: tl.constexpr, B: tl.constexpr):
    p = tl.make_block_ptr(x, (m, n), (n, 1), (2, 2), (B, B), (1, 0))
    v = tl.load(p, boundary_check=AXES, padding_option="zero")
    q = tl.make_block_ptr(out, (B, B), (1, B), (0, 0), (B, B), (0, 1))
    tl.store(q, v.to(out.dtype.element_ty))


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), (1, 0), ()])
def test_only_some_axes_are_checked(target, axes):
    x, out = normal(16, 16), np.zeros((8, 8), np.float16)
    m, n = (7 if 0 in axes else 16), (6 if 1 in axes else 16)
    rows = x.reshape(-1)[: 16 * n].reshape(16, n)
    checked_axes[(1,)](x, out, m, n, axes, 8)
    expected = np.zeros((8, 8), np.float32)
    expected[: m - 2, : n - 2] = rows[2 : min(m, 10), 2 : min(n, 10)]
    np.testing.assert_array_equal(out, expected.astype(np.float16).T)


@tilewright.jit
def three_axes(x, out, a, b, c, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    p = tl.make_block_ptr(
        x, (a, b, c), (b * c, c, 1), (tl.program_id(0) * A, 1, 0), (A, B, C), (2, 1, 0)
    )
    q = tl.make_block_ptr(
        out, (c, b, a), (a * b, a, 1), (0, 1, tl.program_id(0) * A), (C, B, A), (2, 1, 0)
    )
    v = tl.load(p, boundary_check=(0, 1, 2))
    tl.store(q, tl.permute(v, (2, 1, 0)), boundary_check=(0, 1, 2))


def test_three_axes(target):
    x, out = normal(5, 6, 7), np.zeros((7, 6, 5), np.float32)
    three_axes[(3,)](x, out, 5, 6, 7, 2, 4, 8)
    expected = np.zeros_like(out)
    expected[:, 1:5] = x[:, 1:5].transpose(2, 1, 0)
    np.testing.assert_array_equal(out, expected)


@tilewright.jit
def wide_offsets(x, out, n, start, B: tl.constexpr):
    p = tl.make_block_ptr(x, (n,), (1,), (start,), (B,), (0,))
    q = tl.make_block_ptr(out, (B,), (1,), (0,), (B,), (0,))
    tl.store(q, tl.load(p, boundary_check=(0,), padding_option="zero"))
    r = tl.advance(p, (tl.program_id(0).to(tl.int64) + 3,))
    tl.store(tl.advance(q, (0,)), tl.load(r, boundary_check=[0]) + tl.load(q))


def test_offsets_of_64_bits(target):
    x, out = normal(20), np.zeros(8, np.float32)
    wide_offsets[(1,)](x, out, 20, np.int64(7), 8)
    np.testing.assert_array_equal(out, x[7:15] + x[10:18])


@tilewright.jit
def matmul(a, b, c, M, N, K, sam, sak, sbk, sbn, BM: tl.constexpr, BN: tl.constexpr,
           BK: tl.constexpr, GROUP: tl.constexpr):  # fmt: skip
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = pid // (GROUP * tiles_n)
    size = min(tiles_m - group * GROUP, GROUP)
    pm = group * GROUP + pid % (GROUP * tiles_n) % size
    pn = pid % (GROUP * tiles_n) // size
    pa = tl.make_block_ptr(a, (M, K), (sam, sak), (pm * BM, 0), (BM, BK), (1, 0))
    pb = tl.make_block_ptr(b, (K, N), (sbk, sbn), (0, pn * BN), (BK, BN), (0, 1))
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        x, y = tl.load(pa, boundary_check=(0, 1)), tl.load(pb, boundary_check=(0, 1))
        acc += tl.dot(x, y, input_precision="ieee")
        pa, pb = tl.advance(pa, (0, BK)), tl.advance(pb, (BK, 0))
    pc = tl.make_block_ptr(c, (M, N), (N, 1), (pm * BM, pn * BN), (BM, BN), (1, 0))
    tl.store(pc, acc.to(tl.float16), boundary_check=(0, 1))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", [(64, 64, 64), (50, 70, 33), (1, 100, 20)])
def test_a_matmul_by_blocks(target, shape, turned):
    m, n, k = shape
    a, b = normal(m, k, dtype=np.float16), normal(k, n, dtype=np.float16, seed=1)
    b = np.asfortranarray(b) if turned else b
    c = np.zeros((m, n), np.float16)
    sa, sb = [s // 2 for s in a.strides], [s // 2 for s in b.strides]
    matmul[(-(-m // 32) * -(-n // 32),)](a, b, c, m, n, k, *sa, *sb, 32, 32, 16, 2)
    np.testing.assert_allclose(c.astype(float), a.astype(float) @ b.astype(float), 2e-3, 2e-2)


@tilewright.jit
def absolute(x, out, M: tl.constexpr, N: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    a = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    b = tl.make_tensor_descriptor(out, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    b.store([m, n], tl.abs(a.load([m, n])))


@pytest.mark.parametrize("shape", [(32, 32), (20, 36), (7, 100), (33, 4)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_descriptors_made_in_the_kernel(target, shape, dtype):
    x = (normal(*shape) * 5).astype(dtype)
    out = np.zeros_like(x)
    absolute[(-(-shape[0] // 16), -(-shape[1] // 16))](x, out, *shape, 16, 16)
    np.testing.assert_array_equal(out, np.abs(x))


@tilewright.jit
def from_host(a, b, out, PAD: tl.constexpr):
    x = a.load([-2, 4])
    y = b.load([4, -2])
    m: tl.constexpr = a.block_shape[0]
    tl.static_assert(x.shape[0] == m)
    at = tl.arange(0, 8)[:, None] * 8 + tl.arange(0, 8)[None, :]
    tl.store(out + at, x + y.T)


def test_descriptors_made_by_the_host(target):
    make = TensorDescriptor
    x, y, out = normal(8, 8), normal(8, 8, seed=1), np.zeros((8, 8), np.float32)
    from_host[(1,)](make.from_tensor(x, [8, 8]), make(y, [8, 8], [8, 1], [8, 8]), out, 0)
    a, b = np.zeros((2, 8, 8), np.float32)
    a[2:, :4] = x[:6, 4:]
    b[:4, 2:] = y[4:, :6]
    np.testing.assert_array_equal(out, a + b.T)
