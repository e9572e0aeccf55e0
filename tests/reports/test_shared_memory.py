"""Arguments that share memory: one array passed twice, and views that overlap."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
import tilewright.language as tl


@tilewright.jit
def reverse(x, out, n, B: tl.constexpr):
    row = tl.program_id(0) * n
    i = tl.arange(0, B)
    tl.store(out + row + n - 1 - i, tl.load(x + row + i, i < n), i < n)


@pytest.mark.parametrize("n", [4, 33, 128])
def test_reverse_in_place(host_target, n):
    """Chunks were stored before those that they replace were loaded."""
    for _ in range(12):  # through every way of launching
        x = np.random.default_rng(n).standard_normal((9, n)).astype(np.float32)
        expected = x[:, ::-1].copy()
        out = np.zeros_like(x)
        assert reverse[(9,)](x, out, n, B=128) is not None
        assert reverse[(9,)](x, x, n, B=128) is not None
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(x, expected)


@tilewright.jit
def shift(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, i < n), i < n)


@pytest.mark.parametrize("by", [-17, -1, 1, 3, 16, 64])
def test_views_that_overlap(host_target, by):
    memory = np.random.default_rng(0).standard_normal(400).astype(np.float32)
    x, out = memory[100:300], memory[100 + by : 300 + by]
    expected = x.copy()
    shift[(1,)](x, out, 200, B=256)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("by", [-257, -256, -255, 250, 255, 256, 257])
def test_views_about_a_tile_apart(host_target, by):
    memory = np.random.default_rng(0).standard_normal(900).astype(np.float32)
    x, out = memory[300:556], memory[300 + by : 556 + by]
    expected = x.copy()
    shift[(1,)](x, out, 256, B=256)
    np.testing.assert_array_equal(out, expected)


@tilewright.jit
def rotate(x, cosine, sine, out, D: tl.constexpr):
    i = tl.arange(0, D)
    row = tl.program_id(0) * D
    other = tl.load(x + row + (i + D // 2) % D)
    other = tl.where(i < D // 2, -other, other)
    a, b = tl.load(cosine + row + i), tl.load(sine + row + i)
    tl.store(out + row + i, tl.load(x + row + i) * a + other * b)


def test_rotary_embedding_in_place(host_target):
    x, a, b = np.random.default_rng(0).standard_normal((3, 5, 64)).astype(np.float32)
    other = np.concatenate([-x[:, 32:], x[:, :32]], axis=1)
    expected = x.astype(np.float64) * a + other.astype(np.float64) * b
    rotate[(5,)](x, a, b, x, D=64)
    np.testing.assert_allclose(x, expected, rtol=1e-5, atol=1e-6)


@tilewright.jit
def doubled_then_read_again(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask) * 2, mask)
    tl.debug_barrier()
    tl.store(out + i, tl.load(x + i, mask) + 1, mask)


@pytest.mark.parametrize("by", [0, 1, 3, 16])
def test_loads_see_what_another_argument_stored(host_target, by):
    memory = np.random.default_rng(0).standard_normal(300).astype(np.float32)
    expected = memory.copy()
    x, out = expected[:200], expected[by : 200 + by]
    out[...] = x.copy() * 2
    out[...] = x.copy() + 1
    doubled_then_read_again[(1,)](memory[:200], memory[by : 200 + by], 200, B=256)
    np.testing.assert_array_equal(memory, expected)


@tilewright.jit
def move_all(xs, outs, n, B: tl.constexpr):
    i = tl.arange(0, B)
    for k in tl.static_range(len(xs)):
        tl.store(outs[k] + i, tl.load(xs[k] + i, i < n) + 1, i < n)


@pytest.mark.parametrize("by", [0, 3, 64])
def test_pairs_of_many_arguments(host_target, by):
    """More pairs than are compared one by one; only the last one shares memory."""
    n, count = 64, 7
    rows = [np.arange(200, dtype=np.float32) + 1000 * k for k in range(2 * count - 1)]
    xs = [row[:n] for row in rows[:count]]
    outs = [row[:n] for row in rows[count:]] + [rows[count - 1][by : by + n]]
    expected = [x.copy() + 1 for x in xs]
    move_all[(1,)](tuple(xs), tuple(outs), n, n)
    for out, wanted in zip(outs, expected, strict=True):
        np.testing.assert_array_equal(out, wanted)


def test_a_kernel_of_many_arguments(host_target):
    """Comparing all pairs of arguments took more lines than all the rest."""
    count = 16
    xs, outs = (tuple(np.full(10, k, np.float32) for k in range(count)) for _ in range(2))
    handle = move_all[(1,)](xs, outs, 10, 16)
    assert [out[9] for out in outs] == [k + 1 for k in range(count)]
    if host_target == "cpu":
        assert len(handle.asm["llvm"].splitlines()) < 150 * count
