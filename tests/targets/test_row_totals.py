"""Loops that carry totals of long rows in place of the rows."""

import numpy as np
import pytest
from guarded import guarded

import tilewright as tw
import tilewright.language as tl
from tilewright.targets.cpu import row_totals

RNG = np.random.default_rng(11)


def numbers(*shape, dtype=np.float32):
    """Small integers, whose sums and products are exact in any order."""
    return RNG.integers(-4, 5, shape).astype(dtype)


@pytest.fixture(scope="module")
def carried():
    """By kernel: how many of its totals are carried, in each version of it."""
    out = {}
    find = row_totals.find_totals

    def noted(kernel, row_bytes):
        totals = find(kernel, row_bytes)
        out.setdefault(kernel.name, set()).add(len(totals))
        return totals

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_totals, "find_totals", noted)
        patch.setenv("TILEWRIGHT_CACHE", "0")
        yield out


def assert_same(kernel, grid, out, *args, **meta):
    """Natively a kernel writes what it does in eager."""
    eager = out.copy()
    kernel[grid](*args, out, **meta)
    with tw.options(target="eager"):
        kernel[grid](*args, eager, **meta)
    np.testing.assert_array_equal(out, eager)


@tw.jit
def moments_kernel(x_ptr, cols, turns, out_ptr, B: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((B,), tl.float32)
    squares = tl.zeros((B,), tl.float32)
    for start in range(0, turns * B, B):
        at = start + tl.arange(0, B)
        x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0).to(tl.float32)
        total += x
        squares = x * x + squares
    tl.store(out_ptr + 2 * row, tl.sum(total))
    tl.store(out_ptr + 2 * row + 1, tl.sum(squares))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("cols", "turns"), [(512, 2), (700, 3), (49, 1), (300, 0), (1, 2)])
def test_rows_of_one_program(cols, turns, dtype, carried):
    x = guarded(numbers(5, cols, dtype=dtype))
    assert_same(moments_kernel, (5,), numbers(5, 2), x, cols, turns, B=256)
    assert 2 in carried["moments_kernel"]


@tw.jit
def product_kernel(a_ptr, x_ptr, rows, cols, out_ptr, M: tl.constexpr, N: tl.constexpr):
    m = tl.program_id(0) * M + tl.arange(0, M)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, cols, N):
        n = start + tl.arange(0, N)
        inside = (m[:, None] < rows) & (n[None, :] < cols)
        a = tl.load(a_ptr + m[:, None] * cols + n[None, :], mask=inside, other=0.0)
        total += a * tl.load(x_ptr + n, mask=n < cols, other=0.0)[None, :]
    tl.store(out_ptr + m, tl.sum(total, axis=1), mask=m < rows)


@pytest.mark.parametrize(("rows", "cols"), [(8, 512), (7, 777), (3, 30)])
def test_rows_of_a_tile(rows, cols, carried):
    a, x = guarded(numbers(rows, cols)), guarded(numbers(cols))
    grid = (-(-rows // 4),)
    assert_same(product_kernel, grid, numbers(rows), a, x, rows, cols, M=4, N=256)
    assert carried["product_kernel"] == {1}


@tw.jit
def nested_kernel(x_ptr, cols, out_ptr, B: tl.constexpr):
    for row in range(3):
        total = tl.zeros((B,), tl.float32)
        other = tl.zeros((B,), tl.float32)
        for start in range(0, cols, B):
            x = tl.load(x_ptr + row * cols + start + tl.arange(0, B))
            total += x
            other = other * 0.5 + x
        tl.store(out_ptr + row, tl.sum(total) + tl.sum(other))


def test_beside_tiles_that_stay(carried):
    assert_same(nested_kernel, (1,), numbers(3), numbers(3, 1024), 1024, B=512)
    assert carried["nested_kernel"] == {1}


@tw.jit
def extremes_kernel(x_ptr, cols, out_ptr, B: tl.constexpr):
    row = tl.program_id(0)
    high = tl.full((B,), -float("inf"), tl.float32)
    low = tl.full((B,), 3.0, tl.float32)
    for start in range(0, cols, B):
        at = start + tl.arange(0, B)
        x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
        high = tl.maximum(high, x - 1)
        low = tl.minimum(x + 1, low)
    tl.store(out_ptr + 2 * row, tl.max(high, axis=0))
    tl.store(out_ptr + 2 * row + 1, tl.min(low, axis=0))


@pytest.mark.parametrize("hole", [None, 0.0, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("cols", [512, 700, 49])
def test_extremes(cols, hole, carried):
    x = numbers(5, cols) + np.arange(-10, 15, 5, dtype=np.float32)[:, None]
    if hole is not None:
        x[1, cols // 2], x[2], x[3, -1] = hole, hole, hole
    assert_same(extremes_kernel, (5,), numbers(5, 2), guarded(x), cols, B=256)
    assert carried["extremes_kernel"] == {2}


@tw.jit
def kept_kernel(x_ptr, cols, out_ptr, KIND: tl.constexpr, B: tl.constexpr):
    total = tl.full((B,), 1.0 if KIND == "start" else 0.0, tl.float32)
    for start in range(0, cols, B):
        x = tl.load(x_ptr + start + tl.arange(0, B))
        if KIND == "inside":
            x += total
        total += x
    if KIND == "after":
        tl.store(out_ptr + 1 + tl.arange(0, B), total)
    tl.store(out_ptr, tl.sum(total))


@pytest.mark.parametrize("kind", ["start", "inside", "after"])
def test_tiles_that_are_read_otherwise_stay(kind, carried):
    assert_same(kept_kernel, (1,), numbers(257), numbers(1024), 1024, KIND=kind, B=256)
    assert carried["kept_kernel"] == {0}
