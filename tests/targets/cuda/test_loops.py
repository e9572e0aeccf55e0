"""Loops whose loads do not wait for checks, and whose stores do not wait for each other."""

import numpy as np
import pytest
from simulator import SimulatedTarget
from test_atomics import text_of

import tilewright as tw
from tilewright import language as tl
from tilewright.errors import OutOfBoundsError
from tilewright.targets import base


@pytest.fixture
def simulated(monkeypatch):
    target = SimulatedTarget("sm_90a", 2)
    monkeypatch.setitem(base.TARGETS, "simulated", lambda: target)
    with tw.options(target="simulated", cache=False):
        yield


@tw.jit
def bags_kernel(table, index, out, dim, COUNT: tl.constexpr, B: tl.constexpr):
    """Sums of rows that an index tells."""
    bag = tl.program_id(0)
    i = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for k in range(COUNT):
        row = tl.load(index + bag * COUNT + k).to(tl.int64)
        total += tl.load(table + row * dim + i, mask=i < dim, other=0.0)
    tl.store(out + bag * dim + i, total, mask=i < dim)


@pytest.mark.parametrize("count", [3, 64])
def test_gathered_rows(count, simulated):
    rng = np.random.default_rng(0)
    table = rng.integers(-9, 9, (20, 100)).astype(np.float32)
    index = rng.integers(0, 20, (4, count)).astype(np.int32)
    out = np.zeros((4, 100), np.float32)
    bags_kernel[(4,)](table, index, out, 100, COUNT=count, B=128)
    np.testing.assert_array_equal(out, table[index].sum(1))


@pytest.mark.parametrize("wrong", [20, -1, 1 << 29])
def test_a_row_outside_is_told_after_the_loop(wrong, simulated):
    table, index = np.ones((20, 100), np.float32), np.zeros((4, 64), np.int32)
    index[2, 40] = wrong
    out = np.zeros((4, 100), np.float32)
    first = (wrong * 100) & ((1 << 64) - 1) if wrong > 0 else -100
    with pytest.raises(OutOfBoundsError, match="load outside table") as caught:
        bags_kernel[(4,)](table, index, out, 100, COUNT=64, B=128)
    assert "program (2, 0, 0)" in str(caught.value)
    assert f"element {first}" in str(caught.value)
    np.testing.assert_array_equal(out, np.repeat([[64], [64], [63], [64]], 100, 1))


@tw.jit
def steps_kernel(a, x, out, L, D, B: tl.constexpr):
    """h = a h + x down the rows, by pointers that the loop moves."""
    at = tl.program_id(0) * B + tl.arange(0, B)
    h = tl.zeros((B,), tl.float32)
    for _ in range(L):
        h = tl.load(a + at) * h + tl.load(x + at)
        tl.store(out + at, h)
        at += D


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_moved_pointers(rows, simulated):
    rng = np.random.default_rng(0)
    a, x = (rng.integers(-2, 3, (7, 256)).astype(np.float32) for _ in range(2))
    out, want, h = np.zeros_like(x), np.zeros_like(x), 0
    for k in range(rows):
        want[k] = h = a[k] * h + x[k]
    steps_kernel[(2,)](a, x, out, rows, 256, B=128)
    np.testing.assert_array_equal(out, want)


def test_a_moved_pointer_outside(simulated):
    x = np.zeros((7, 256), np.float32)
    with pytest.raises(OutOfBoundsError, match="load outside x"):
        steps_kernel[(2,)](np.zeros((8, 256), np.float32), x, np.zeros_like(x), 8, 256, B=128)


@tw.jit
def pieces_kernel(x, out, n, STEP: tl.constexpr, B: tl.constexpr):
    """Pieces that each turn stores, one after the other or over one another."""
    i = tl.arange(0, B)
    for k in range(0, n, STEP):
        tl.store(out + k + i, tl.load(x + k + i) + k)


def loops_wait(ptx):
    return "bar.sync" in ptx or "barrier" in ptx


@pytest.mark.parametrize(("step", "waits"), [(256, False), (512, False), (128, True), (255, True)])
def test_only_pieces_that_overlap_wait(step, waits):
    x = np.zeros(4096, np.float32)
    assert loops_wait(text_of(pieces_kernel, x, x.copy(), 1024, STEP=step, B=256)) == waits


def test_order_of_pieces_that_overlap(simulated):
    x, out = np.arange(1152, dtype=np.float32), np.zeros(1152, np.float32)
    pieces_kernel[(1,)](x, out, 1024, STEP=96, B=128)
    want = np.zeros_like(x)
    for k in range(0, 1024, 96):
        want[k : k + 128] = x[k : k + 128] + k
    np.testing.assert_array_equal(out, want)


def test_stores_to_one_place_wait():
    x = np.zeros(4096, np.float32)

    @tw.jit
    def last_kernel(x, out, n, B: tl.constexpr):
        i = tl.arange(0, B)
        for k in range(0, n, B):
            tl.store(out + i % 64, tl.load(x + k + i))

    assert loops_wait(text_of(last_kernel, x, x.copy(), 1024, B=256))


@tw.jit
def picked_kernel(x, index, out, n, rows, B: tl.constexpr):
    """Elements of a row by their numbers."""
    i = tl.arange(0, B)
    row = x + tl.program_id(0) * rows
    tl.store(out + tl.program_id(0) * B + i, tl.load(row + tl.load(index + i), mask=i < n))


@pytest.mark.parametrize(("wrong", "first"), [(None, 0), (1000, 1000), (-1, -1), (-1000, 0)])
def test_elements_by_index(wrong, first, simulated):
    x = np.arange(1000, dtype=np.float32)
    index = np.arange(256, dtype=np.int32)[::-1].copy()
    index[70] = 0 if wrong is None else wrong
    index[200:] = -99999  # masked off
    out = np.zeros((2, 256), np.float32)
    view = x[500:] if wrong == -1000 else x
    if wrong in (1000, -1):
        with pytest.raises(OutOfBoundsError, match=f"touches element {first} "):
            picked_kernel[(1,)](view, index, out, 200, 0, B=256)
        return
    if wrong == -1000:
        index[70] = -500  # before the view, in the memory of its array
    picked_kernel[(1,)](view, index, out, 200, 0, B=256)
    np.testing.assert_array_equal(out[0, :200], x[index[:200] + (500 if wrong == -1000 else 0)])
