"""Products of tiles that stick out, or whose indices wrap around, beside the eager machine."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from guarded import guarded

import tilewright
import tilewright.language as tl
from tilewright.codegen import llvm
from tilewright.errors import OutOfBoundsError

LEVELS = ["", *llvm.LEVELS.get(llvm.host_machine().arch, {})]
WRAP, CLAMP, CHOOSE, MASK = range(4)


@tilewright.jit
def inside(x, n, how: tl.constexpr):
    if how == 0:
        return x % n
    if how == 1:
        return tl.minimum(x, n - 1)
    if how == 2:
        return tl.where(x < n, x, 0)
    return x


@tilewright.jit
def matmul(
    a, b, c, m, n, k, a0, a1, b0, b1,
    HOW: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    i, j = inside(rows, m, HOW), inside(columns, n, HOW)
    total = tl.zeros((M, N), ACC)
    for start in range(0, k, K):
        depth = start + tl.arange(0, K)
        left, right = (depth < k)[None, :], (depth < k)[:, None]
        if HOW == 3:
            left, right = left & (rows < m)[:, None], right & (columns < n)[None, :]
        x = tl.load(a + i[:, None] * a0 + depth[None, :] * a1, left, other=0)
        y = tl.load(b + depth[:, None] * b0 + j[None, :] * b1, right, other=0)
        total = tl.dot(x, y, total, out_dtype=ACC)
    at = c + rows[:, None] * n + columns[None, :]
    tl.store(at, total, (rows < m)[:, None] & (columns < n)[None, :])


def random(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(-9, 9, shape) if dtype == np.int8 else rng.standard_normal(shape)
    return guarded(values.astype(dtype))


def both(kernel, grid, out, *arguments, tolerance=1e-5, features="", **options):
    """The kernel gives the same natively and in eager mode; gives the result."""
    results = []
    for target in ("eager", "cpu"):
        result = guarded(out)
        with tilewright.options(target=target, features=features):
            kernel[grid](*[result if x is out else x for x in arguments], **options)
        results.append(np.array(result, np.float64))
    np.testing.assert_allclose(results[1], results[0], rtol=tolerance, atol=tolerance)
    return results[1]


def compare(shape, block, dtype=np.float32, how=MASK, turned=(False, False), features=""):
    (m, n, k), (bm, bn, bk) = shape, block
    a, b = random((m, k), dtype, 1), random((k, n), dtype, 2)
    a, b = (guarded(np.ascontiguousarray(x.T)).T if t else x for x, t in zip((a, b), turned))
    a0, a1, b0, b1 = (s // x.itemsize for x in (a, b) for s in x.strides)
    kinds = {np.int8: (np.int32, tl.int32), np.float64: (np.float64, tl.float64)}
    kind, acc = kinds.get(dtype, (np.float32, tl.float32))
    out = np.zeros((m, n), kind)
    grid = (-(-m // bm), -(-n // bn))
    got = both(
        matmul, grid, out, a, b, out, m, n, k, a0, a1, b0, b1, features=features,
        HOW=how, M=bm, N=bn, K=bk, ACC=acc,
    )  # fmt: skip
    want = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("how", [WRAP, CLAMP, CHOOSE, MASK])
@pytest.mark.parametrize("turned", [(True, False), (False, True)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int8])
def test_forms_of_edges(how, turned, dtype):
    compare((37, 83, 45), (16, 64, 32), dtype, how, turned)


@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 17, 5), (16, 130, 64), (70, 100, 33)], ids=str)
@pytest.mark.parametrize("block", [(16, 16, 16), (64, 128, 32)], ids=str)
def test_shapes(shape, block):
    compare(shape, block)
    compare(shape, block, how=WRAP)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, ml_dtypes.bfloat16, np.int8])
def test_one_row(dtype):
    compare((1, 133, 37), (16, 64, 16), dtype)
    compare((17, 20, 37), (16, 32, 16), dtype, how=WRAP)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, ml_dtypes.bfloat16, np.int8])
def test_few_rows_of_a_transposed_matrix(level, dtype):
    if level == "sse" and dtype == np.float16:
        pytest.skip("halves need the F16C instructions")
    for shape, block in (((1, 133, 69), (16, 64, 32)), ((7, 29, 40), (16, 16, 64))):
        compare(shape, block, dtype, turned=(False, True), features=level)
    compare((3, 65, 96), (16, 64, 32), dtype, WRAP, (True, True), level)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("turned", [(False, False), (True, True)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_lesser_machines(level, turned, dtype):
    if level == "sse" and dtype == np.float16:
        pytest.skip("halves need the F16C instructions")
    compare((35, 50, 24), (32, 32, 16), dtype, WRAP, turned, features=level)
    compare((35, 50, 27), (32, 32, 16), dtype, MASK, turned, features=level)


@tilewright.jit
def apart(a, b, c, m, k, b0, b1, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Every step of k is a product of its own; between them, other tiles use the memory."""
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        depth = start + tl.arange(0, K)
        on = (rows < m)[:, None] & (depth < k)[None, :]
        x = tl.load(a + rows[:, None] * k + depth[None, :], on, other=0)
        y = tl.load(b + depth[:, None] * b0 + columns[None, :] * b1, (depth < k)[:, None], other=0)
        total = total * 0.5 + tl.sqrt(tl.abs(tl.dot(x, y).to(tl.float32)))
    tl.store(c + rows[:, None] * N + columns[None, :], total, (rows < m)[:, None])


@pytest.mark.parametrize("rows", [1, 5, 16, 33, 64])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int8])
def test_products_that_start_from_zero(dtype, turned, rows):
    a, b = random((rows, 70), dtype, 0), random((32, 70) if turned else (70, 32), dtype, 1)
    steps, out = (1, 70) if turned else (32, 1), np.zeros((rows, 32), np.float32)
    both(
        apart, (3,), out, a, b, out, rows, 70, *steps,
        M=64, N=32, K=32, tolerance=2e-2 if dtype == ml_dtypes.bfloat16 else 1e-3,
    )  # fmt: skip


@tilewright.jit
def one_mask(a, b, c, m, k, fill, M: tl.constexpr):
    """Only the left operand is zero beyond k; rows beyond m are stored too."""
    i = tl.arange(0, M)
    x = tl.load(a + i[:, None] * M + i[None, :], (i < m)[:, None] & (i < k)[None, :], other=fill)
    y = tl.load(b + i[:, None] * M + i[None, :])
    tl.store(c + i[:, None] * M + i[None, :], tl.dot(x, y))


@pytest.mark.parametrize("fill", [0.0, 1.0])
def test_zeros_times_infinity_are_seen(fill):
    a, b = random((16, 16), np.float32, 1), random((16, 16), np.float32, 2)
    b[9, 3], b[2, 4] = np.inf, np.nan
    out = np.zeros((16, 16), np.float32)
    got = both(one_mask, (1,), out, a, b, out, 5, 7, fill, M=16)
    assert np.isnan(got[:, 4]).all() and not np.isfinite(got[:, 3]).any()


@tilewright.jit
def last_of_loop(a, c, m, turns, M: tl.constexpr):
    """What one turn makes is stored by the next, under another mask."""
    i = tl.arange(0, M)
    at = i[:, None] * M + i[None, :]
    x = tl.load(a + at)
    total = tl.zeros((M, M), tl.float32)
    for turn in range(turns):
        tl.store(c + turn * M * M + at, total, (i < m + 4 * turn)[:, None])
        total = tl.dot(x, x) + turn


def test_masks_of_the_next_turn():
    a, out = random((16, 16), np.float32, 3), np.zeros((3, 16, 16), np.float32)
    both(last_of_loop, (1,), out, a, out, 3, 3, M=16)


@tilewright.jit
def two_readers(a, c, d, m, n, M: tl.constexpr):
    i = tl.arange(0, M)
    at = i[:, None] * M + i[None, :]
    x = tl.load(a + at)
    y = tl.dot(x, x)
    z = tl.dot(tl.where((i < n)[None, :], y, 0.0), x)
    tl.store(c + at, y, (i < m)[:, None])
    tl.store(d + i, tl.sum(z, 1), i < n)


def test_several_readers():
    a, out = random((16, 16), np.float32, 4), np.zeros((16, 16), np.float32)
    for m, n in ((3, 7), (9, 2), (16, 16), (0, 0)):
        sums = np.zeros(16, np.float32)
        both(two_readers, (1,), out, a, out, sums.copy(), m, n, M=16)
        both(two_readers, (1,), sums, a, out.copy(), sums, m, n, M=16)


@tilewright.jit
def unmasked_rows(a, b, c, m, M: tl.constexpr):
    i = tl.arange(0, M)
    at = i[:, None] * M + i[None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)), (i < m)[:, None])


def test_loads_out_of_bounds_are_told_though_nobody_needs_them():
    a, b = random((5, 16), np.float32, 1), random((16, 16), np.float32, 2)
    with tilewright.options(target="cpu"), pytest.raises(OutOfBoundsError):
        unmasked_rows[(1,)](a, b, np.zeros((16, 16), np.float32), 5, M=16)


@tilewright.jit
def attention(q, k, v, out, n, d, N: tl.constexpr, D: tl.constexpr):
    rows, columns = tl.program_id(0) * N + tl.arange(0, N), tl.arange(0, D)
    x = tl.load(q + rows[:, None] * d + columns, (rows < n)[:, None] & (columns < d), other=0.0)
    best, total = tl.full((N,), -float("inf"), tl.float32), tl.zeros((N,), tl.float32)
    sums = tl.zeros((N, D), tl.float32)
    for start in range(0, n, N):
        i = start + tl.arange(0, N)
        mask = (i < n)[:, None] & (columns < d)
        y = tl.load(k + i[:, None] * d + columns, mask, other=0.0)
        scores = tl.where((i < n)[None, :], tl.dot(x, y.T), -float("inf"))
        above = tl.maximum(best, tl.max(scores, 1))
        weights = tl.exp(scores - above[:, None])
        old = tl.exp(best - above)
        total = total * old + tl.sum(weights, 1)
        z = tl.load(v + i[:, None] * d + columns, mask, other=0.0)
        sums = tl.dot(weights, z, sums * old[:, None])
        best = above
    mask = (rows < n)[:, None] & (columns < d)
    tl.store(out + rows[:, None] * d + columns, sums / total[:, None], mask)


@pytest.mark.parametrize("n, d", [(50, 20), (16, 32), (33, 5)])
def test_attention_over_part_of_a_head(n, d):
    q, k, v = (random((n, d), np.float32, seed) for seed in range(3))
    out = np.zeros((n, d), np.float32)
    both(attention, (-(-n // 16),), out, q, k, v, out, n, d, N=16, D=32, tolerance=1e-4)
