"""Elements a few places apart, or in reverse: whole vectors are read and picked from."""

import re

import numpy as np
import pytest
from guarded import guarded

import tilewright as tw
import tilewright.language as tl


@tw.jit
def every_kernel(x_ptr, out_ptr, n, APART: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at * APART, mask=at < n)
    tl.store(out_ptr + at, x, mask=at < n)


@tw.jit
def spread_kernel(x_ptr, out_ptr, n, APART: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at * APART, x, mask=at < n)


@tw.jit
def reverse_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + n - 1 - at, mask=at < n)
    tl.store(out_ptr + at, x, mask=at < n)


@tw.jit
def reverse_store_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + (n - 1 - at), tl.load(x_ptr + at, mask=at < n), mask=at < n)


@tw.jit
def reverse_pointers_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + n - 1 - at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


DTYPES = ["int8", "float16", "float32", "float64", "bool"]


def numbers(n, dtype):
    return guarded(np.random.default_rng(n).integers(0, 99, n).astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 16, 64, 100, 128])
@pytest.mark.parametrize("apart", [2, 3, 4, 5])
def test_every_nth_element(apart, n, dtype):
    x, out = numbers((n - 1) * apart + 1, dtype), guarded(np.zeros(n, dtype))
    every_kernel[(1,)](x, out, n, APART=apart, BLOCK=128)
    np.testing.assert_array_equal(out, x[::apart])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 16, 64, 100, 128])
@pytest.mark.parametrize("apart", [2, 3, 4, 5])
def test_elements_between_stay(apart, n, dtype):
    x, before = numbers(n, dtype), numbers((n - 1) * apart + 1, dtype)
    out = guarded(before)
    spread_kernel[(1,)](x, out, n, APART=apart, BLOCK=128)
    want = before.copy()
    want[::apart] = x
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("at_start", [False, True])
@pytest.mark.parametrize("n", [1, 16, 64, 100, 128])
@pytest.mark.parametrize("kernel", [reverse_kernel, reverse_store_kernel, reverse_pointers_kernel])
def test_in_reverse(kernel, n, at_start, dtype):
    x, out = guarded(numbers(n, dtype), at_start), guarded(np.zeros(n, dtype), at_start)
    kernel[(1,)](x, out, n, BLOCK=128)
    np.testing.assert_array_equal(out, x[::-1])


def test_the_main_part_does_not_gather():
    x, out = np.zeros(256, np.float32), np.zeros(128, np.float32)
    handle = every_kernel[(1,)](x, out, 128, APART=2, BLOCK=128)
    assert len(re.findall("call .*masked.gather", handle.asm["llvm"])) == 1


@tw.jit
def stride_kernel(x_ptr, out_ptr, rows, n, step_row, step, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row, at = tl.arange(0, ROWS)[:, None], tl.arange(0, BLOCK)[None, :]
    on = (row < rows) & (at < n)
    x = tl.load(x_ptr + row * step_row + at * step, mask=on)
    tl.store(out_ptr + row * n + at, x, mask=on)


@tw.jit
def loaded_stride_kernel(x_ptr, step_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at * tl.load(step_ptr)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [3, 8])
@pytest.mark.parametrize("n", [1, 40, 64])
@pytest.mark.parametrize("step", [1, 2, 3, 0, 70])
def test_strides_known_at_run_time(step, n, rows, dtype):
    width = (n - 1) * step + 1
    x, out = numbers(rows * width, dtype), guarded(np.zeros((rows, n), dtype))
    stride_kernel[(1,)](x, out, rows, n, width, step, ROWS=8, BLOCK=64)
    want = np.lib.stride_tricks.as_strided(x, (rows, n), (width * x.itemsize, step * x.itemsize))
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("step", [1, 2, -1, 5])
def test_strides_that_are_loaded(step):
    x, out = numbers(64 * 5, np.float32), guarded(np.zeros(64, np.float32))
    first = x[63:] if step < 0 else x
    loaded_stride_kernel[(1,)](first, np.array([step], np.int32), out, BLOCK=64)
    np.testing.assert_array_equal(out, x[63::-1] if step < 0 else x[: 64 * step : step])
