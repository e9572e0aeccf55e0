"""Tiles of short rows, moved without tests where all of a tile is on and inside."""

import re

import numpy as np
import pytest
from guarded import guarded

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import OutOfBoundsError


@tw.jit
def scale_kernel(
    x_ptr, w_ptr, out_ptr, rows, cols, step_x, step_out, ROWS: tl.constexpr, COLS: tl.constexpr
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)
    on = (row[:, None] < rows) & (cols > col[None, :])
    x = tl.load(x_ptr + row[:, None] * step_x + col[None, :], mask=on)
    w = tl.load(w_ptr + row, mask=row < rows)
    tl.store(out_ptr + row[:, None] * step_out + col[None, :], x * w[:, None], mask=on)


@tw.jit
def rows_kernel(x_ptr, index_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    row, col = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLS)
    from_row = tl.load(index_ptr + row, mask=row < rows, other=0)
    on = (row < rows)[:, None] & (col < cols)[None, :]
    x = tl.load(x_ptr + from_row[:, None] * cols + col[None, :], mask=on)
    tl.store(out_ptr + row[:, None] * cols + col[None, :], x, mask=on)


@tw.jit
def inner_kernel(x_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)[None, :]
    on = (row >= 1) & (row < rows - 1) & (col >= 1) & (col <= cols - 2)
    at = x_ptr + row * cols + col
    x = tl.load(at - cols, mask=on) + tl.load(at + cols, mask=on) + tl.load(at - 1, mask=on)
    tl.store(out_ptr + row * cols + col, x, mask=on)


@tw.jit
def far_rows_kernel(x_ptr, out_ptr, step, n, ROWS: tl.constexpr, COLS: tl.constexpr):
    row, col = tl.arange(0, ROWS)[:, None], tl.arange(0, COLS)[None, :]
    x = tl.load(x_ptr + col + 0 * row, mask=row * step < n)
    tl.store(out_ptr + row * COLS + col, x, mask=row * step < n)


def numbers(*shape):
    return np.random.default_rng(len(shape)).integers(-9, 9, shape).astype(np.float32)


@pytest.mark.parametrize(("rows", "cols"), [(8, 64), (9, 64), (8, 65), (3, 5), (16, 128), (1, 1)])
def test_whole_tiles_and_parts(rows, cols):
    x, w, out = guarded(numbers(rows, cols)), guarded(numbers(rows)), guarded(numbers(rows, cols))
    grid = (tw.cdiv(rows, 8), tw.cdiv(cols, 64))
    handle = scale_kernel[grid](x, w, out, rows, cols, cols, cols, ROWS=8, COLS=64)
    np.testing.assert_array_equal(out, x * w[:, None])
    assert re.search(r"^sure\d+:$", handle.asm["llvm"], flags=re.M)


def test_rows_with_gaps_keep_them():
    x, w, out = numbers(16, 100), numbers(16), np.full((16, 80), 7, np.float32)
    scale_kernel[(2, 1)](x, w, out, 16, 64, 100, 80, ROWS=8, COLS=64)
    np.testing.assert_array_equal(out[:, :64], x[:, :64] * w[:, None])
    assert (out[:, 64:] == 7).all()


def test_a_row_past_the_end_is_named():
    x, w, out = numbers(16, 64), numbers(16), numbers(15, 64)
    with pytest.raises(OutOfBoundsError, match="outside out_ptr"):
        scale_kernel[(2, 1)](x, w, out, 16, 64, 64, 64, ROWS=8, COLS=64)


@pytest.mark.parametrize("step", [-64, 0])
def test_rows_that_go_back_or_stay(step):
    x, w, out = numbers(8, 64), numbers(8), np.zeros((8, 64), np.float32)
    first = x[7:] if step else x
    scale_kernel[(1, 1)](first, w, out, 8, 64, step, 64, ROWS=8, COLS=64)
    rows = x[::-1] if step else np.broadcast_to(x[0], (8, 64))
    np.testing.assert_array_equal(out, rows * w[:, None])


@pytest.mark.parametrize("rows", [16, 13])
@pytest.mark.parametrize("cols", [64, 50])
def test_rows_by_index(rows, cols):
    x, index = guarded(numbers(5, cols)), guarded(np.arange(rows, dtype=np.int64) * 3 % 5)
    out = guarded(np.zeros((rows, cols), np.float32))
    rows_kernel[(2,)](x, index, out, rows, cols, ROWS=8, COLS=64)
    np.testing.assert_array_equal(out, x[index])


def test_an_index_out_of_bounds_is_found():
    x, out = numbers(5, 64), numbers(16, 64)
    with pytest.raises(OutOfBoundsError, match="outside x_ptr"):
        rows_kernel[(2,)](x, np.arange(16, dtype=np.int64), out, 16, 64, ROWS=8, COLS=64)


@pytest.mark.parametrize(("rows", "cols"), [(8, 32), (24, 96), (17, 70), (3, 3), (2, 40)])
def test_tiles_inside_a_border(rows, cols):
    x, out = guarded(numbers(rows, cols)), guarded(np.zeros((rows, cols), np.float32))
    inner_kernel[(tw.cdiv(rows, 8), tw.cdiv(cols, 32))](x, out, rows, cols, ROWS=8, COLS=32)
    want = np.zeros_like(x)
    want[1:-1, 1:-1] = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2]
    np.testing.assert_array_equal(out, want)


def test_masks_that_wrap_around_between_corners():
    x, out = numbers(32), np.zeros((32, 32), np.float32)
    step, n = 1 << 27, 1 << 29
    far_rows_kernel[(1,)](x, out, step, n, ROWS=32, COLS=32)
    on = (np.arange(32) * step).astype(np.int32) < n
    np.testing.assert_array_equal(out, np.where(on[:, None], x, 0))
