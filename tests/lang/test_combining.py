"""Combining functions of reductions and scans: their order is kept, and what they do is done."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.errors import DeviceAssertError

pytestmark = pytest.mark.parametrize(
    "target", ["eager", pytest.param("cpu", marks=pytest.mark.cpu)]
)


@pytest.fixture(autouse=True)
def in_target(target):
    with tilewright.options(target=target):
        yield


@tilewright.jit
def then(a1, b1, a2, b2):
    """x -> a2 * (a1 * x + b1) + b2, of two such functions; which one is first matters."""
    return a1 * a2, a2 * b1 + b2


@tilewright.jit
def later(a, b):
    return b


@tilewright.jit
def compose_row(a, b, out, N: tl.constexpr):
    i = tl.arange(0, N)
    factor, summand = tl.reduce((tl.load(a + i), tl.load(b + i)), 0, then)
    tl.store(out, factor)
    tl.store(out + 1, summand)
    tl.store(out + 2, tl.reduce(tl.load(b + i), 0, later))


def composed(a, b):
    factor, summand = 1, 0
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        factor, summand = factor * x, x * summand + y
    return factor, summand


@pytest.mark.parametrize("size", [1, 2, 8, 64, 1024])
def test_order_along_the_vector_axis(size):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-1, 2, size), rng.integers(-9, 9, size)
    a[: size // 2] = 1
    out = np.zeros(3, np.int64)
    compose_row[(1,)](a, b, out, size)
    assert out.tolist() == [*composed(a, b), b[-1]]


@tilewright.jit
def compose_tile(a, b, out, n, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    mask = tl.arange(0, N)[None, :] < n
    values = (tl.load(a + i, mask, 1), tl.load(b + i, mask, 0))
    factor, summand = tl.reduce(values, AXIS, then, keep_dims=True)
    where = tl.ravel(tl.arange(0, M)[:, None] if AXIS == 1 else tl.arange(0, N)[None, :])
    tl.store(out + where, tl.ravel(summand))


@pytest.mark.parametrize("axis", [0, 1])
def test_order_in_tiles_with_masks(axis):
    rng = np.random.default_rng(1)
    a, b = rng.integers(-1, 3, (16, 32)), rng.integers(-9, 9, (16, 32))
    out = np.zeros((32, 16)[axis], np.int64)
    compose_tile[(1,)](a, b, out, 29, 16, 32, axis)
    a[:, 29:], b[:, 29:] = 1, 0
    rows = [(a[k], b[k]) if axis else (a[:, k], b[:, k]) for k in range(len(out))]
    assert out.tolist() == [composed(x, y)[1] for x, y in rows]


@tilewright.jit
def checked_sum(a, b):
    total = a.to(tl.int64) + b.to(tl.int64)
    tl.device_assert(total <= 127, "the sum fits")
    return a + b


@tilewright.jit
def checked_below(a, b):
    if a > 100:
        tl.device_assert(b < 1, "nothing follows")
    return a + b


@tilewright.jit(debug=True)
def sum_checked(x, out, N: tl.constexpr, SCAN: tl.constexpr, COMBINE: tl.constexpr):
    i = tl.arange(0, N)
    if SCAN:
        tl.store(out + i, tl.associative_scan(tl.load(x + i), 0, COMBINE))
    else:
        tl.store(out + i, tl.reduce(tl.load(x + i), 0, COMBINE))


@pytest.mark.parametrize("scan", [False, True])
def test_assertions_are_checked(scan):
    x = np.full(32, 3, np.int8)
    out = np.zeros(32, np.int8)
    sum_checked[(1,)](x, out, 32, scan, checked_sum)
    assert out[-1] == 96
    sum_checked[(1,)](x, out, 32, scan, checked_below)
    x[0] = 120
    with pytest.raises(DeviceAssertError, match="the sum fits"):
        sum_checked[(1,)](x, out, 32, scan, checked_sum)
    with pytest.raises(DeviceAssertError, match="nothing follows"):
        sum_checked[(1,)](x, out, 32, scan, checked_below)
