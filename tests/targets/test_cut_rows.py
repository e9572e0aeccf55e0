"""Rows whose masks begin, change or end inside of them, and chosen lanes; small gathers."""

import numpy as np
import pytest
from guarded import guarded

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import OutOfBoundsError


@tw.jit
def cat_kernel(a_ptr, b_ptr, out_ptr, na, nb, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(a_ptr + at, mask=at < na, other=0)
    b = tl.load(b_ptr + at - na, mask=(at >= na) & (at < na + nb), other=0)
    tl.store(out_ptr + at, tl.where(at < na, a, b), mask=at < na + nb)


@tw.jit
def window_kernel(x_ptr, out_ptr, first, last, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    on = (at > first) & (last >= at) & (at < n)
    x = tl.load(x_ptr + at, mask=on, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + at, e / tl.sum(e, axis=0), mask=at < n)


@tw.jit
def variance_kernel(x_ptr, out_ptr, mean_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    mean = tl.sum(x, axis=0) / n
    tl.store(mean_ptr, mean)
    centred = tl.where(at < n, x - mean, 0.0)
    tl.store(out_ptr, tl.sum(centred * centred, axis=0))


@tw.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    index = tl.load(index_ptr + at, mask=at < n, other=0)
    tl.store(out_ptr + at, tl.load(x_ptr + index, mask=at < n, other=1), mask=at < n)


@tw.jit
def scatter_kernel(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    index = tl.load(index_ptr + at, mask=at < n, other=0)
    tl.store(out_ptr + index, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@pytest.mark.parametrize("na", [0, 1, 15, 16, 300, 512])
@pytest.mark.parametrize("nb", [0, 1, 200])
def test_two_rows_as_one(na, nb):
    a, b = guarded(np.arange(na, dtype=np.int32)), guarded(-np.arange(nb, dtype=np.int32))
    out = np.full(na + nb + 1, 7, np.int32)
    cat_kernel[(1,)](a, b, out, na, nb, BLOCK=1024)
    assert out.tolist() == [*a.tolist(), *b.tolist(), 7]


@pytest.mark.parametrize("first", [-5, 0, 100, 498])
@pytest.mark.parametrize("last", [499, 600, 2000])
def test_a_window(first, last):
    x = np.random.default_rng(0).standard_normal(512).astype(np.float32)
    out = np.zeros(512, np.float32)
    window_kernel[(1,)](x, out, first, last, 512, BLOCK=512)
    at = np.arange(512)
    weight = np.where((at > first) & (at <= last), np.exp(x.astype(np.float64)), 0)
    np.testing.assert_allclose(out, weight / weight.sum(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("n", [1, 17, 64, 100, 128])
@pytest.mark.parametrize("block", [128, 1024])
def test_lanes_that_are_chosen(n, block):
    x = guarded(np.random.default_rng(1).standard_normal(n).astype(np.float32))
    out, mean = np.zeros(1, np.float32), np.zeros(1, np.float32)
    variance_kernel[(1,)](x, out, mean, n, BLOCK=block)
    np.testing.assert_allclose(out[0], x.astype(np.float64).var() * n, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "f2", "f4", "i8"])
@pytest.mark.parametrize("index_dtype", ["i4", "i8"])
@pytest.mark.parametrize("size", [5, 64, 1001])
def test_gathers_and_scatters(dtype, index_dtype, size):
    rng = np.random.default_rng(size)
    x = guarded(rng.integers(0, 100, size).astype(dtype))
    index = rng.permutation(size).astype(index_dtype)
    out = np.zeros(size, dtype)
    gather_kernel[(1,)](x, index, out, size, BLOCK=1024)
    np.testing.assert_array_equal(out, x[index])
    out = np.zeros(size, dtype)
    scatter_kernel[(1,)](x, index, out, size, BLOCK=1024)
    expected = np.zeros(size, dtype)
    expected[index] = x
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("kernel", [gather_kernel, scatter_kernel])
@pytest.mark.parametrize("bad", [-1, 64, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("index_dtype", ["i4", "i8"])
def test_an_index_outside(kernel, bad, index_dtype):
    x, out = np.zeros(64, np.float32), np.zeros(64, np.float32)
    index = np.arange(64).astype(index_dtype)
    index[40] = bad
    with pytest.raises(OutOfBoundsError, match=f"element {bad} of 64"):
        kernel[(1,)](x, index, out, 64, BLOCK=64)
