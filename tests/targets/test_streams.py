"""Stores past the caches and prefetches change no result: forced upon arrays of any size."""

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.targets.cpu import ahead, streams
from tilewright.targets.cpu.launch import CPU


@tw.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n) + tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x, mask=at < n)


@tw.jit
def tiles_kernel(x_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    for first in range(0, cols, COLS):
        col = first + tl.arange(0, COLS)[None, :]
        inside = (row < rows) & (col < cols)
        x = tl.load(x_ptr + row * cols + col, mask=inside)
        tl.store(out_ptr + row * cols + col, x * 2, mask=inside)


@tw.jit
def centre_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    """Reads a row, then computes, then stores it."""
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * cols + at, mask=at < cols, other=0.0)
    out = x - tl.sum(x, axis=0) / cols
    tl.store(out_ptr + tl.program_id(0) * cols + at, out, mask=at < cols)


@pytest.fixture(autouse=True)
def small_caches(monkeypatch, tmp_path):
    monkeypatch.setattr(streams, "cache_bytes", lambda level=3: 256)
    monkeypatch.setattr(ahead, "FAR", 256)
    with tw.options(cache_dir=str(tmp_path)):
        yield


def aligned(n: int, shift: int = 0) -> np.ndarray:
    raw = np.zeros(4 * n + 128, np.uint8)
    start = -raw.ctypes.data % 64 + 4 * shift
    return raw[start : start + 4 * n].view(np.float32)


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("n", [16, 1000, 4096])
def test_rows(n, shift):
    x, y, out = (aligned(n, shift) for _ in range(3))
    x[:], y[:] = np.arange(n), 1
    handle = add_kernel[(tw.cdiv(n, 256),)](x, y, out, n, BLOCK=256)
    np.testing.assert_array_equal(out, np.arange(n) + 1)
    if CPU.machine().arch == "x86_64" and CPU.machine().vector_bytes >= 32:
        assert "!nontemporal" in handle.asm["llvm"]


def test_memory_that_is_read_is_not_written_past_the_caches():
    x = aligned(4096)
    x[:] = np.arange(4096)
    add_kernel[(16,)](x, x, x, 4096, BLOCK=256)
    np.testing.assert_array_equal(x, 2 * np.arange(4096))


@pytest.mark.parametrize("cols", [64, 100])
def test_tiles(cols):
    x, out = aligned(37 * cols).reshape(37, cols), aligned(37 * cols).reshape(37, cols)
    x[:] = np.arange(37 * cols).reshape(37, cols)
    handle = tiles_kernel[(5,)](x, out, 37, cols, ROWS=8, COLS=32)
    np.testing.assert_array_equal(out, 2 * x)
    assert "llvm.prefetch" in handle.asm["llvm"]


@pytest.mark.parametrize("cols", [1024, 781])
def test_long_rows_are_asked_for_while_programs_compute(cols):
    x, out = aligned(9 * cols).reshape(9, cols), aligned(9 * cols).reshape(9, cols)
    x[:] = np.arange(9 * cols).reshape(9, cols) % 64
    handle = centre_kernel[(9,)](x, out, cols, BLOCK=1024)
    np.testing.assert_allclose(out, x - x.mean(axis=1, keepdims=True), rtol=1e-5, atol=1e-4)
    assert "llvm.prefetch" in handle.asm["llvm"]
    plain = add_kernel[(3,)](x.ravel(), x.ravel(), out.ravel(), 3072, BLOCK=1024)
    assert "llvm.prefetch" not in plain.asm["llvm"]  # which streams without help
