"""Grids of two axes whose second one runs first, where that reads neighbours in memory in turn."""

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import OutOfBoundsError


@tw.jit
def rows_and_cols_kernel(x_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)[None, :]
    at = tl.program_id(2) * rows * cols + row * cols + col
    inside = (row < rows) & (col < cols)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=inside) + tl.program_id(1), mask=inside)


@tw.jit
def copy_kernel(x_ptr, out_ptr, cols, COLS: tl.constexpr):
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)
    at = tl.program_id(0) * cols + col
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=col < cols), mask=col < cols)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", [(1, 4, 16), (3, 9, 50), (2, 33, 7)])
def test_every_program_runs_once(shape, threads):
    x = np.random.default_rng(0).integers(0, 99, shape).astype(np.float32)
    out = np.zeros_like(x)
    count, rows, cols = shape
    grid = tw.cdiv(rows, 4), tw.cdiv(cols, 16), count
    with tw.options(threads=threads):
        rows_and_cols_kernel[grid](x, out, rows, cols, ROWS=4, COLS=16)
    np.testing.assert_array_equal(out, x + np.arange(cols) // 16)


def test_the_program_of_a_fault_is_named():
    x, out = np.zeros(5 * 32, np.float32), np.zeros(6 * 32, np.float32)
    with pytest.raises(OutOfBoundsError, match=r"program \(5, 0, 0\)"):
        copy_kernel[(6, 2)](x, out, 32, COLS=16)
