"""Products of rows that lie anywhere in memory, or some of which are masked off."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from guarded import guarded

import tilewright
import tilewright.language as tl
from tilewright.codegen import llvm
from tilewright.errors import OutOfBoundsError
from tilewright.targets.cpu import gathered

LEVELS = ["", *llvm.LEVELS.get(llvm.host_machine().arch, {})]
BFLOAT16 = ml_dtypes.bfloat16


@tilewright.jit
def product(
    x, y, out, chosen, m, n, k, stride,
    SIDE: tl.constexpr, FLIPPED: tl.constexpr, ACC: tl.constexpr, MASKED: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """One operand is gathered: `chosen` names its rows, or with `FLIPPED` its columns."""
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    total = tl.zeros((M, N), ACC)
    for start in range(0, k, K):
        depth = start + tl.arange(0, K)
        if SIDE == 0:
            i, j, i_on, j_on = rows, depth, rows < m, depth < k
        else:
            i, j, i_on, j_on = depth, columns, depth < k, columns < n
        if FLIPPED:
            there = i[:, None] + tl.load(chosen + j, j_on, other=0)[None, :] * stride
        else:
            there = tl.load(chosen + i, i_on, other=0)[:, None] * stride + j[None, :]
        on = i_on[:, None]
        if MASKED:
            on = on & j_on[None, :]
        if SIDE == 0:
            left = tl.load(x + there, on, other=0)
            right = tl.load(y + depth[:, None] * n + columns[None, :],
                            (depth < k)[:, None] & (columns < n)[None, :], other=0)  # fmt: skip
        else:
            left = tl.load(x + rows[:, None] * k + depth[None, :],
                           (rows < m)[:, None] & (depth < k)[None, :], other=0)  # fmt: skip
            right = tl.load(y + there, on, other=0)
        total = tl.dot(left, right, total, out_dtype=ACC)
    at = out + rows[:, None] * n + columns[None, :]
    tl.store(at, total, (rows < m)[:, None] & (columns < n)[None, :])


def numbers(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(-9, 9, shape) if dtype == np.int8 else rng.standard_normal(shape)
    return values.astype(dtype)


def run(dtype, side, flipped, shape=(13, 37, 45), block=(16, 64, 32), masked=True, features=""):
    """Natively, beside NumPy; the gathered matrix has rows that nobody names, full of NaN."""
    m, n, k = shape
    a, b = numbers((m, k), dtype, 1), numbers((k, n), dtype, 2)
    held = (b if side else a).T if flipped else (b if side else a)
    count, width = held.shape
    spare = dtype(100) if dtype == np.int8 else dtype(np.nan)
    matrix = np.full((count + 20, max(width, 64)), spare, dtype)
    chosen = np.random.default_rng(3).permutation(count + 20)[:count].astype(np.int32)
    matrix[chosen, :width] = held
    if not masked:
        matrix[chosen, width:] = 0
    matrix = guarded(matrix)
    acc, kind = (tl.int32, np.int32) if dtype == np.int8 else (tl.float32, np.float32)
    out = guarded(np.zeros((m, n), kind))
    x, y = (guarded(a), matrix) if side else (matrix, guarded(b))
    with tilewright.options(target="cpu", features=features, threads=1):
        product[(1,)](
            x, y, out, guarded(chosen), m, n, k, matrix.shape[1], SIDE=side, FLIPPED=flipped,
            ACC=acc, MASKED=masked, M=block[0], N=block[1], K=block[2],
        )  # fmt: skip
    want = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(np.array(out), want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, BFLOAT16, np.int8])
@pytest.mark.parametrize("shape", [(13, 37, 45), (16, 64, 64), (1, 5, 3)], ids=str)
def test_each_side(dtype, side, flipped, shape):
    run(dtype, side, flipped, shape)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16])
def test_lesser_machines(level, dtype, side, flipped):
    run(dtype, side, flipped, features=level)


@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16, np.int8])
@pytest.mark.parametrize("side", [0, 1])
def test_rows_that_are_on_as_a_whole(dtype, side):
    run(dtype, side, False, (13, 64, 64), (16, 64, 64), masked=False)


def test_rows_are_found():
    """The routine is called, not the nest that goes by elements."""
    with tilewright.options(target="cpu"):
        kernel = product.warmup(
            *(np.zeros(1, d) for d in (np.float32, np.float32, np.float32, np.int32)),
            13, 37, 45, 64, SIDE=0, FLIPPED=False, ACC=tl.float32, MASKED=True,
            M=16, N=64, K=32, grid=(1,),
        )  # fmt: skip
    assert "_rows" in kernel.asm["llir"]
    assert gathered.FEWEST_BYTES <= 128


@tilewright.jit
def changed_after(x, y, out, chosen, CHOSEN: tl.constexpr, M: tl.constexpr):
    """What the product reads where it lies is stored to right after it."""
    lanes = tl.arange(0, M)
    rows = tl.load(chosen + lanes) if CHOSEN else lanes
    at = lanes[:, None] * M + lanes[None, :]
    right = tl.load(y + at) * 2
    total = tl.dot(tl.load(x + rows[:, None] * M + lanes[None, :]), right)
    tl.store(x + at, tl.full((M, M), 7, tl.float32))
    tl.store(out + at, total)


@pytest.mark.parametrize("is_chosen", [False, True])
def test_stores_wait_for_products_that_read_in_place(is_chosen):
    x, y = numbers((32, 32), np.float32, 1), numbers((32, 32), np.float32, 2)
    chosen = np.random.default_rng(3).permutation(32).astype(np.int32)
    out, left = np.zeros((32, 32), np.float32), x[chosen] if is_chosen else x.copy()
    with tilewright.options(target="cpu"):
        changed_after[(1,)](x, y, out, chosen, CHOSEN=is_chosen, M=32)
    np.testing.assert_allclose(out, left.astype(np.float64) @ y * 2, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("place", [0, 5, 12])
@pytest.mark.parametrize("number", [33, -1, 1 << 20])
def test_rows_out_of_bounds(place, number):
    x, y = np.zeros((33, 64), np.float32), np.zeros((45, 37), np.float32)
    chosen, out = np.arange(13, dtype=np.int32), np.zeros((13, 37), np.float32)
    chosen[place] = number
    with pytest.raises(OutOfBoundsError), tilewright.options(target="cpu", threads=1):
        product[(1,)](
            x, y, out, chosen, 13, 37, 45, 64, SIDE=0, FLIPPED=False, ACC=tl.float32,
            MASKED=True, M=16, N=64, K=32,
        )  # fmt: skip


@tilewright.jit
def one_sided(x, y, out, chosen, k, fill, M: tl.constexpr, K: tl.constexpr):
    """The right operand is not masked: what the left one has beyond its mask is multiplied."""
    rows, depth = tl.arange(0, M), tl.arange(0, K)
    there = x + tl.load(chosen + rows)[:, None] * K + depth[None, :]
    left = tl.load(there, (depth < k)[None, :] & (rows != 2)[:, None], other=fill)
    right = tl.load(y + depth[:, None] * M + rows[None, :])
    tl.store(out + rows[:, None] * M + rows[None, :], tl.dot(left, right))


@pytest.mark.parametrize("fill", [0.0, 1.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, BFLOAT16, np.int8])
def test_what_a_mask_leaves_out_is_multiplied(dtype, fill):
    x, y = numbers((16, 32), dtype, 1), numbers((32, 16), dtype, 2)
    chosen = np.random.default_rng(3).permutation(16).astype(np.int32)
    fill = int(fill) if dtype == np.int8 else fill
    out = np.zeros((16, 16), np.int32 if dtype == np.int8 else np.float32)
    with tilewright.options(target="cpu"):
        one_sided[(1,)](x, y, out, chosen, 19, fill, M=16, K=32)
    left = x[chosen].astype(np.float64)
    left[:, 19:] = left[2] = fill
    np.testing.assert_allclose(out, left @ y.astype(np.float64), rtol=1e-3, atol=1e-2)


@tilewright.jit
def in_turns(x, y, out, chosen, turns, M: tl.constexpr):
    """The gathered rows are those that the turn before stored."""
    lanes = tl.arange(0, M)
    at = lanes[:, None] * M + lanes[None, :]
    for _ in range(turns):
        left = tl.load(x + tl.load(chosen + lanes)[:, None] * M + lanes[None, :])
        total = tl.dot(left, tl.load(y + at))
        tl.store(x + at, total)
    tl.store(out + at, tl.load(x + at))


def test_rows_that_the_kernel_changes():
    y = numbers((16, 16), np.float32, 2) / 4
    chosen = np.random.default_rng(3).permutation(16).astype(np.int32)
    x, out = numbers((16, 16), np.float32, 1), np.zeros((16, 16), np.float32)
    want = x.astype(np.float64)
    for _ in range(3):
        want = want[chosen] @ y
    with tilewright.options(target="cpu"):
        in_turns[(1,)](x, y, out, chosen, 3, M=16)
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)


@tilewright.jit
def moved(x, out, chosen, n, k, stride, M: tl.constexpr, K: tl.constexpr):
    """Pointers to chosen rows, made before the loop that moves them along."""
    rows, columns = tl.arange(0, M), tl.arange(0, K)
    at = x + tl.load(chosen + rows, rows < n, other=0)[:, None] * stride + columns[None, :]
    to = out + rows[:, None] * k + columns[None, :]
    tl.store(chosen + rows, -1, rows < n)  # which no longer matters
    for start in range(0, k, K):
        on = (rows < n)[:, None] & (columns < k - start)[None, :]
        tl.store(to, tl.load(at, on, other=0) * 2, on)
        at += K
        to += K


def test_pointers_that_move_along():
    matrix = numbers((20, 50), np.float32, 1)
    chosen = np.random.default_rng(3).permutation(20)[:13].astype(np.int32)
    out, names = guarded(np.zeros((13, 50), np.float32)), chosen.copy()
    with tilewright.options(target="cpu"):
        moved[(1,)](guarded(matrix), out, names, 13, 50, 50, M=16, K=16)
    np.testing.assert_array_equal(np.array(out), matrix[chosen] * 2)
    assert (names == -1).all()


def test_pointers_that_move_along_are_no_tile_in_memory():
    with tilewright.options(target="cpu"):
        kernel = moved.warmup(
            *(np.zeros(1, d) for d in (np.float32, np.float32, np.int32)), 13, 50, 50,
            M=16, K=16, grid=(1,),
        )  # fmt: skip
    assert "masked.gather" not in kernel.asm["llir"]
