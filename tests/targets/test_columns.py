"""Reductions along a dimension that is not the one of the vector lanes."""

import numpy as np
import pytest
from guarded import guarded

import tilewright as tw
import tilewright.language as tl


@tw.jit
def down_kernel(x_ptr, sum_ptr, most_ptr, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    row, col = tl.arange(0, ROWS), tl.arange(0, COLS)
    inside = (row[:, None] < rows) & (col[None, :] < cols)
    x = tl.load(x_ptr + row[:, None] * cols + col[None, :], mask=inside, other=-1.0)
    tl.store(sum_ptr + col, tl.sum(x, axis=0))
    tl.store(most_ptr + col, tl.max(x * 2, axis=0))


@tw.jit
def where_kernel(x_ptr, value_ptr, index_ptr, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    row, col = tl.arange(0, ROWS), tl.arange(0, COLS)
    x = tl.load(x_ptr + row[:, None] * cols + col[None, :], mask=col[None, :] < cols, other=0.0)
    value, index = tl.max(x, axis=0, return_indices=True)
    tl.store(value_ptr + col, value)
    tl.store(index_ptr + col, index)


@tw.jit
def middle_kernel(x_ptr, out_ptr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    a, b, c = tl.arange(0, A), tl.arange(0, B), tl.arange(0, C)
    at = (a[:, None, None] * B + b[None, :, None]) * C + c[None, None, :]
    out = tl.sum(tl.load(x_ptr + at), axis=1)
    tl.store(out_ptr + a[:, None] * C + c[None, :], out)


@tw.jit
def slots_kernel(parts_ptr, out_ptr, cols, SLOTS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    parts = tl.arange(0, SLOTS)[:, None] * cols + at[None, :]
    x = tl.load(parts_ptr + parts, mask=(at < cols)[None, :], other=0.0)
    tl.store(out_ptr + at, tl.sum(x, axis=0), mask=at < cols)


SHAPES = [(1, 1), (4, 16), (8, 128), (8, 100), (5, 40), (16, 256), (3, 250)]


def inputs(rows, cols, dtype=np.float32):
    return np.random.default_rng(cols).integers(-50, 50, (rows, cols)).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize(("rows", "cols"), SHAPES)
def test_sums_and_extremes(rows, cols, dtype):
    x = inputs(rows, cols, dtype)
    height, width = tw.next_power_of_2(rows), tw.next_power_of_2(cols)
    total, most = np.zeros(width, dtype), np.zeros(width, dtype)
    down_kernel[(1,)](x, total, most, rows, cols, ROWS=height, COLS=width)
    tile = np.full((height, width), -1, dtype)
    tile[:rows, :cols] = x
    np.testing.assert_array_equal(total, tile.sum(0))
    np.testing.assert_array_equal(most, tile.max(0) * 2)


@pytest.mark.parametrize("cols", [1, 16, 50, 64, 128])
def test_the_first_of_the_largest(cols):
    x = inputs(8, cols) // 20
    width = tw.next_power_of_2(cols)
    value, index = np.zeros(width, np.float32), np.zeros(width, np.int32)
    where_kernel[(1,)](x, value, index, cols, ROWS=8, COLS=width)
    np.testing.assert_array_equal(value[:cols], x.max(0))
    np.testing.assert_array_equal(index[:cols], x.argmax(0))


@pytest.mark.parametrize("shape", [(2, 8, 16), (4, 4, 64), (2, 2, 2), (1, 16, 32)])
def test_the_dimension_in_the_middle(shape):
    x = inputs(shape[0], shape[1] * shape[2])
    out = np.zeros((shape[0], shape[2]), np.float32)
    middle_kernel[(1,)](x, out, *shape)
    np.testing.assert_array_equal(out, x.reshape(shape).sum(1))


@tw.jit
def masked_kernel(x_ptr, out_ptr, n, ROWS: tl.constexpr, COLS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    x = tl.load(x_ptr + at, mask=tl.arange(0, COLS)[None, :] < n, other=0)
    tl.store(out_ptr + tl.arange(0, COLS), tl.sum(x, axis=0))


@pytest.mark.parametrize("cols", [13, 16])
def test_columns_that_a_mask_leaves_out(cols):
    x, out = np.ones((16, 16), np.int64), np.zeros(16, np.int64)
    masked_kernel[(1,)](x, out, cols, ROWS=16, COLS=16)
    np.testing.assert_array_equal(out, np.where(np.arange(16) < cols, 16, 0))


@pytest.mark.parametrize("cols", [10, 64, 100, 128, 200])
def test_masks_that_are_the_same_in_all_rows(cols):
    x, out = guarded(inputs(16, cols)), guarded(np.zeros(cols, np.float32))
    slots_kernel[(tw.cdiv(cols, 64),)](x, out, cols, SLOTS=16, BLOCK=64)
    np.testing.assert_array_equal(out, x.sum(0))


@tw.jit
def weighted_kernel(x_ptr, weight_ptr, out_ptr, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    row, col = tl.arange(0, ROWS), tl.arange(0, COLS)
    at = row[:, None] * COLS + col[None, :]
    x = tl.load(x_ptr + at, mask=col[None, :] < cols, other=0.0)
    weight = tl.load(weight_ptr + row)
    tl.store(out_ptr + col, tl.sum(x * weight[:, None], 0), mask=col < cols)


@pytest.mark.parametrize("rows, width", [(8, 64), (4, 32), (8, 16)])
@pytest.mark.parametrize("cut", [0, 3])
def test_a_factor_for_each_row_is_made_before_both_versions_of_a_row(rows, width, cut):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, width)).astype(np.float32)
    weight = rng.standard_normal(rows).astype(np.float32)
    out, cols = np.zeros(width, np.float32), width - cut
    with tw.options(target="cpu"):
        weighted_kernel[(1,)](x, weight, out, cols, ROWS=rows, COLS=width)
    expected = (x.astype(np.float64) * weight[:, None]).sum(0)
    np.testing.assert_allclose(out[:cols], expected[:cols], rtol=1e-5, atol=1e-6)
    assert (out[cols:] == 0).all()


@tw.jit
def both_ways(value1, place1, value2, place2):
    take = (value1 > value2) | ((value1 == value2) & (place1 < place2))
    return tl.where(take, value1, value2), tl.where(place2 > place1, place1, place2)


@tw.jit
def summed_places(value1, place1, value2, place2):
    take = place1 >= place2
    return tl.where(take, value1, value2), place1 + place2


@tw.jit
def places_kernel(x_ptr, out_ptr, cols, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    col = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + col, mask=col < cols, other=-100.0)
    value, place = tl.reduce((x, col), 0, FUNCTION)
    tl.store(out_ptr, value)
    tl.store(out_ptr + 1, place.to(tl.float32))


@pytest.mark.parametrize("cols", [3, 64, 200, 1000])
def test_places_are_compared_where_the_function_keeps_them(cols):
    x = inputs(1, cols)[0]
    out = np.zeros(2, np.float32)
    places_kernel[(1,)](x, out, cols, FUNCTION=both_ways, BLOCK=1024)
    assert out.tolist() == [x.max(), 0]
    places_kernel[(1,)](x, out, cols, FUNCTION=summed_places, BLOCK=1024)
    assert out[1] == 1024 * 1023 / 2


@tw.jit
def best_kernel(x_ptr, out_ptr, cols, LEFT: tl.constexpr, BLOCK: tl.constexpr):
    col = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + col, mask=col < cols, other=float("nan"))
    tl.store(out_ptr, tl.argmax(x, 0, tie_break_left=LEFT))
    tl.store(out_ptr + 1, tl.argmin(x, 0, tie_break_left=LEFT))


@pytest.mark.parametrize("cols", [5, 100, 1024])
@pytest.mark.parametrize("nan", [0.0, 0.3, 0.99])
def test_first_of_equal_extremes_beside_nan(cols, nan):
    random = np.random.default_rng(cols)
    x = random.integers(-3, 4, cols).astype(np.float32)
    x[random.random(cols) < nan] = np.nan
    x[cols // 2] = 1.0
    out = np.zeros(2, np.int32)
    best_kernel[(1,)](x, out, cols, LEFT=True, BLOCK=1024)
    assert out.tolist() == [np.nanargmax(x), np.nanargmin(x)]
