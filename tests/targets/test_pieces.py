"""Quotients and remainders of positions along a row: it is written piece by piece."""

import re

import numpy as np
import pytest
from guarded import guarded

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import OutOfBoundsError


@tw.jit
def spread_kernel(x_ptr, row_ptr, col_ptr, out_ptr, n, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    row = tl.load(row_ptr + at // cols, mask=inside)
    col = tl.load(col_ptr + at % cols, mask=inside, other=0.5)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=inside) * row + col, mask=inside)


@tw.jit
def permute_kernel(x_ptr, out_ptr, n, d1, d2, s0, s1, s2, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    place = at // (d1 * d2) * s0 + at // d2 % d1 * s1 + at % (d1 * d2) % d2 * s2
    tl.store(out_ptr + at, tl.load(x_ptr + place, mask=inside), mask=inside)


@tw.jit
def sums_kernel(x_ptr, w_ptr, out_ptr, n, size, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    most = -float("inf")
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n, other=0.0)
        x *= tl.load(w_ptr + at // size, mask=at < n, other=1.0)
        total += x
        most = tl.maximum(most, tl.max(tl.where(at < n, x, -float("inf")), axis=0))
    tl.store(out_ptr, tl.sum(total, axis=0))
    tl.store(out_ptr + 1, most)


@tw.jit
def select_rows_kernel(x_ptr, index_ptr, out_ptr, n, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(index_ptr + at // cols, mask=at < n, other=0)
    tl.store(out_ptr + at, tl.load(x_ptr + row * cols + at % cols, mask=at < n), mask=at < n)


@tw.jit
def halves_in_place_kernel(x_ptr, n, by, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    place = x_ptr + at // by
    x = tl.load(place, mask=at < n)
    tl.store(place, x + 1, mask=at < n)


@tw.jit
def offset_kernel(out_ptr, first, by, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    number = at * 3 + first
    tl.store(out_ptr + at, number // by * 1000 + number % by)


@tw.jit
def hash_kernel(out_ptr, seed, by, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, (at * FACTOR + seed) % by)


@tw.jit
def tile_kernel(x_ptr, out_ptr, n, group, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    row, col = tl.arange(0, ROWS)[:, None], tl.arange(0, COLS)[None, :]
    x = tl.load(x_ptr + row * cols + col, mask=col < cols, other=0)
    scale = tl.load(x_ptr + row + col // group)
    total = tl.sum(x * scale, axis=1)
    tl.store(out_ptr + tl.arange(0, ROWS), total + tl.max(x, axis=1) * n)


def numbers(*shape):
    return np.random.default_rng(len(shape)).integers(-9, 9, shape).astype(np.float32)


SIZES = [(1, 7), (5, 7), (9, 16), (3, 100), (4, 64), (2, 500), (6, 49), (70, 3), (1, 1), (40, 1)]


@pytest.mark.parametrize(("rows", "cols"), SIZES)
def test_one_number_a_row_and_one_a_column(rows, cols):
    x, row, col = guarded(numbers(rows, cols)), guarded(numbers(rows)), guarded(numbers(cols))
    out = guarded(np.zeros_like(x))
    spread_kernel[(tw.cdiv(x.size, 256),)](x, row, col, out, x.size, cols, BLOCK=256)
    np.testing.assert_array_equal(out, x * row[:, None] + col)


@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 16, 32), (4, 1, 50), (1, 30, 9), (6, 50, 1)])
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (0, 2, 1), (2, 1, 0)])
def test_strides_of_three_dimensions(shape, order):
    x = guarded(numbers(*shape))
    view = x.transpose(order)
    out = guarded(np.zeros(view.shape, np.float32))
    strides = [s // 4 for s in view.strides]
    sizes = view.shape[1:]
    permute_kernel[(tw.cdiv(x.size, 128),)](x, out, x.size, *sizes, *strides, BLOCK=128)
    np.testing.assert_array_equal(out, view)


@pytest.mark.parametrize("size", [1, 6, 49, 64, 1000])
@pytest.mark.parametrize("n", [5, 64, 300, 512])
def test_reductions_and_carried_tiles(n, size):
    x, w, out = guarded(numbers(n)), guarded(numbers(-(-n // size))), np.zeros(2, np.float32)
    sums_kernel[(1,)](x, w, out, n, size, BLOCK=128)
    product = x * np.repeat(w, size)[:n]
    np.testing.assert_array_equal(out, [product.sum(), product.max()])


@pytest.mark.parametrize("cols", [3, 20, 64, 130])
def test_rows_by_index(cols):
    x, index = guarded(numbers(11, cols)), guarded(np.array([3, 0, 10, 10, 7], np.int64))
    out = guarded(np.zeros((5, cols), np.float32))
    select_rows_kernel[(tw.cdiv(out.size, 128),)](x, index, out, out.size, cols, BLOCK=128)
    np.testing.assert_array_equal(out, x[index])


@pytest.mark.parametrize("by", [2, 7, 40])
def test_lanes_that_meet_read_before_one_writes(by):
    x = np.zeros(64, np.float32)
    halves_in_place_kernel[(1,)](x, 64, by, BLOCK=64)
    np.testing.assert_array_equal(x[: -(-64 // by)], 1)


@pytest.mark.parametrize("first", [-300, -60, -1, 0, 5])
@pytest.mark.parametrize("by", [-50, -1, 1, 7, 100, 1000])
def test_negative_numbers_round_towards_zero(first, by):
    out = np.zeros(64, np.int32)
    offset_kernel[(1,)](out, first, by, BLOCK=64)
    number = np.arange(64) * 3 + first
    quotient = np.trunc(number / by).astype(int)
    np.testing.assert_array_equal(out, quotient * 1000 + number - quotient * by)


@pytest.mark.parametrize("seed", [0, 2**31 - 20, 2**30])
@pytest.mark.parametrize("by", [50, 2**30, 2**31 - 1])
@pytest.mark.parametrize("factor", [1, 7, 1000003, 1103515245])
def test_numbers_that_wrap_around(factor, by, seed):
    out = np.zeros(64, np.int32)
    hash_kernel[(1,)](out, seed, by, FACTOR=factor, BLOCK=64)
    number = (np.arange(64) * factor + seed).astype(np.int32)
    np.testing.assert_array_equal(out, np.fmod(number.astype(np.int64), by))


@pytest.mark.parametrize("cols", [33, 64])
@pytest.mark.parametrize("group", [1, 10, 32])
def test_tiles_with_rows(cols, group):
    x, out = numbers(8, cols), np.zeros(8, np.float32)
    tile_kernel[(1,)](x, out, 2, group, cols, ROWS=8, COLS=64)
    scale = x.ravel()[np.arange(8)[:, None] + np.arange(64)[None, :cols] // group]
    np.testing.assert_array_equal(out, (x * scale).sum(1) + x.max(1) * 2)


def test_an_access_out_of_bounds_is_named():
    x, out = np.zeros(64, np.float32), np.zeros(64, np.float32)
    with pytest.raises(OutOfBoundsError, match="outside row_ptr"):
        spread_kernel[(1,)](x, np.zeros(2, np.float32), x[:10], out, 64, 30, BLOCK=128)


def test_gathers_are_left_only_where_lanes_lie_apart():
    x, row, out = numbers(4, 64), numbers(4), np.zeros((4, 64), np.float32)
    handle = spread_kernel[(1,)](x, row, x[0], out, 256, 64, BLOCK=256)
    near, far = re.split(r"^far\d+:$", handle.asm["llvm"], maxsplit=1, flags=re.M)
    assert not re.search("call .*masked.gather", near)
    assert re.search("call .*masked.gather", far)
