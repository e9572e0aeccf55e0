"""Persistent programs take turns, in any division of the work, and do it all once."""

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import OutOfBoundsError


@tw.jit
def rows_kernel(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    """A row in each turn; how often each row was met is counted."""
    lane = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * cols + lane, mask=lane < cols, other=0.0)
        before = tl.load(out_ptr + row * cols + lane, mask=lane < cols)
        total = tl.sum(x, axis=0)
        tl.store(out_ptr + row * cols + lane, before + x * total, mask=lane < cols)


@tw.jit
def blocks_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    for first in range(start, n, tl.num_programs(0) * BLOCK):
        at = first + tl.arange(0, BLOCK)
        tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) + tl.program_id(0), mask=at < n)


@tw.jit
def fixed_kernel(x_ptr, out_ptr, n, STEP: tl.constexpr):
    for i in range(tl.program_id(0), n, STEP):
        tl.store(out_ptr + i, tl.load(x_ptr + i) + 1)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("programs", [1, 3, 16, 40])
def test_rows(programs, threads):
    x = np.random.default_rng(0).integers(-3, 4, (33, 50)).astype(np.float32)
    out = np.ones_like(x)
    with tw.options(threads=threads):
        rows_kernel[(programs,)](x, out, 33, 50, BLOCK=64)
    np.testing.assert_array_equal(out, 1 + x * x.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("programs", [1, 4, 100])
def test_blocks(programs):
    x, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    blocks_kernel[(programs,)](x, out, 1000, BLOCK=32)
    np.testing.assert_array_equal(out, x + np.arange(1000) // 32 % programs)


def test_a_step_that_leaves_elements_out():
    x, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    fixed_kernel[(4,)](x, out, 61, STEP=8)
    expected = np.where((np.arange(64) % 8 < 4) & (np.arange(64) < 61), x + 1, 0)
    np.testing.assert_array_equal(out, expected)


def test_neighbouring_programs_run_after_each_other():
    """Seen from where a fault stops the launch: many programs have done their first turns."""
    x, out = np.ones((130, 64), np.float32), np.zeros((130, 64), np.float32)
    with tw.options(threads=1), pytest.raises(OutOfBoundsError):
        rows_kernel[(60,)](x, out, 200, 64, BLOCK=64)
    for first in (0, 60, 120):
        assert (out[first : first + 10] == 64).all()
