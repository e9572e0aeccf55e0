"""Tiles that stick out of arrays beside which there is no memory."""

import ctypes
import mmap
import re

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl

PAGE = mmap.PAGESIZE


@tw.jit
def product_kernel(a_ptr, x_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    sums = tl.zeros([ROWS, COLS], tl.float32)
    for first in range(0, cols, COLS):
        col = first + tl.arange(0, COLS)
        inside = (row < rows)[:, None] & (col < cols)[None, :]
        a = tl.load(a_ptr + row[:, None] * cols + col[None, :], mask=inside, other=0.0)
        sums += a * tl.load(x_ptr + col, mask=col < cols, other=0.0)[None, :]
    tl.store(out_ptr + row, tl.sum(sums, axis=1), mask=row < rows)


@tw.jit
def double_kernel(x_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.arange(0, COLS)[None, :]
    inside = (row < rows) & (col < cols)
    x = tl.load(x_ptr + row * cols + col, mask=inside, other=1.0)
    total = tl.sum(x, axis=1)[:, None]
    tl.store(out_ptr + row * cols + col, x + total, mask=inside)


@pytest.fixture
def at_the_end():
    """Makes arrays that end where memory does."""
    held = []

    def make(*shape):
        size = int(np.prod(shape)) * 4
        whole = -(-size // PAGE) * PAGE
        memory = mmap.mmap(-1, whole + PAGE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        assert protect(address + whole, PAGE, 0) == 0
        held.append(memory)
        out = np.frombuffer(memory, np.float32, int(np.prod(shape)), whole - size)
        return out.reshape(shape)

    yield make


@pytest.mark.parametrize("rows", [5, 16, 17])
@pytest.mark.parametrize("cols", [64, 100])
def test_rows_beyond_an_array(at_the_end, rows, cols):
    a, x, out = at_the_end(rows, cols), at_the_end(cols), at_the_end(rows)
    a[:], x[:] = np.random.default_rng(0).standard_normal((rows, cols)), np.arange(cols) % 7
    product_kernel[(tw.cdiv(rows, 16),)](a, x, out, rows, cols, ROWS=16, COLS=64)
    np.testing.assert_allclose(out, a @ x, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("cols", [64, 100, 128])
def test_rows_of_loads_and_stores_beyond_an_array(at_the_end, cols):
    x, out = at_the_end(11, cols), at_the_end(11, cols)
    x[:] = np.arange(11 * cols).reshape(11, cols) % 5
    handle = double_kernel[(2,)](x, out, 11, cols, ROWS=8, COLS=128)
    total = x.sum(axis=1, keepdims=True) + (128 - cols)
    np.testing.assert_allclose(out, x + total)
    text = handle.asm["llvm"]
    places = re.findall(r"@llvm\.masked\.load[^(]*\(ptr align \d+ (%[\w.]+)", text)
    assert all(f"{place} = select " in text for place in places)  # another one for no lane
