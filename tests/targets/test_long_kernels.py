"""Kernels of a thousand steps: each step reads the one before, which must not nest in Python."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
import tilewright.language as tl


@tilewright.jit
def tiles(x, out, n, B: tl.constexpr, STEPS: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    b = a + 1
    for j in tl.static_range(STEPS):
        a, b = tl.where(i == j, b * 3, a + j), a ^ b
    tl.store(out + i, a + b)


@tilewright.jit
def scalars(x, out, n, B: tl.constexpr, STEPS: tl.constexpr):
    a = tl.load(x)
    b = tl.load(x + 1)
    for j in tl.static_range(STEPS):
        a, b = a * 3 + b, a ^ (b + j)
    tl.store(out + tl.arange(0, B), a + b)


@tilewright.jit
def loads(x, out, n, B: tl.constexpr, STEPS: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    for j in tl.static_range(STEPS):
        a = a * 3 + tl.load(x + i + j % 3)
    tl.store(out + i, a)


@tilewright.jit
def masks(x, out, n, B: tl.constexpr, STEPS: tl.constexpr):
    i = tl.arange(0, B)
    on = i < n
    p = x + i
    for j in tl.static_range(STEPS):
        on = on & (i != j * 7)
        p = p + n - n
    tl.store(out + i, tl.load(p, mask=on, other=-1))


def run_tiles(x, n, steps):
    i, a = np.arange(32, dtype=np.int32), x[:32]
    b = a + 1
    for j in range(steps):
        a, b = np.where(i == j, b * 3, a + j).astype(np.int32), a ^ b
    return a + b


def run_scalars(x, n, steps):
    a, b = x[:1], x[1:2]
    for j in range(steps):
        a, b = a * 3 + b, a ^ (b + j)
    return np.repeat(a + b, 32)


def run_loads(x, n, steps):
    a = x[:32]
    for j in range(steps):
        a = a * 3 + x[j % 3 : j % 3 + 32]
    return a


def run_masks(x, n, steps):
    i = np.arange(32)
    off = (i >= n) | ((i % 7 == 0) & (i // 7 < steps))
    return np.where(off, -1, x[:32])


@pytest.mark.parametrize(
    ("kernel", "wanted"),
    [(tiles, run_tiles), (scalars, run_scalars), (loads, run_loads), (masks, run_masks)],
    ids=["tiles", "scalars", "loads", "masks"],
)
@pytest.mark.parametrize("steps", [3, 1100])
def test_many_steps(kernel, wanted, steps):
    x = np.random.default_rng(1).integers(-100, 100, 40).astype(np.int32)
    out = np.zeros(32, np.int32)
    with tilewright.options(target="cpu"), np.errstate(over="ignore"):
        kernel[(1,)](x, out, 25, B=32, STEPS=steps)
        np.testing.assert_array_equal(out, wanted(x, 25, steps))
