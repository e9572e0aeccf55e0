"""32-bit numbers wrap around alike, stepped and compiled: a product of indices may be too large."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.errors import DeviceAssertError, OutOfBoundsError

pytestmark = pytest.mark.parametrize(
    "target", ["eager", pytest.param("cpu", marks=pytest.mark.cpu)]
)
END = 2**31


@pytest.fixture(autouse=True)
def in_target(target):
    with tilewright.options(target=target):
        yield


@tilewright.jit
def widened(out, start, step, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, (start + i * step).to(tl.int64))


@pytest.mark.parametrize("start, step", [(END - 100, 1), (0, 4_000_000), (-END, -1), (5, 1)])
def test_lanes_that_are_widened_later(start, step):
    out = np.zeros(1024, np.int64)
    widened[(1,)](out, start, step, 1024)
    exact = start + np.arange(1024) * step
    assert (out == exact.astype(np.int32)).all()


@tilewright.jit
def masked(x, out, start, n, N: tl.constexpr):
    i = start + tl.arange(0, N)
    tl.store(out + tl.arange(0, N), tl.load(x + i, mask=i < n, other=7))


def test_an_index_that_wrapped_passes_the_mask():
    x, out = np.zeros(1000, np.int8), np.zeros(256, np.int8)
    with pytest.raises(OutOfBoundsError):
        masked[(1,)](x, out, END - 100, END - 200, 256)


def test_a_row_at_the_very_end_does_not_wrap():
    x, out = np.zeros(1000, np.int8), np.zeros(256, np.int8)
    masked[(1,)](x, out, END - 256, END - 256, 256)
    assert (out == 7).all()


@tilewright.jit
def row_offset(out, row, stride):
    tl.store(out, row * stride + 1)


@tilewright.jit
def mixes_bits(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.randint(tl.load(x), i))
    tl.store(out, tl.mul(tl.load(out), tl.load(out), sanitize_overflow=False))


def test_debug_finds_products_that_wrap():
    out = np.zeros(1, np.int32)
    row_offset[(1,)](out, 50_000, 50_000)
    row_offset[(1,)](out, 50_000, 40_000, debug=True)
    assert out[0] == 2_000_000_001
    with pytest.raises(DeviceAssertError, match="int32 overflow detected for operation mul"):
        row_offset[(1,)](out, 50_000, 50_000, debug=True)
    row_offset[(1,)](out, 50_000, 50_000, debug=True, sanitize_overflow=False)


def test_debug_lets_functions_of_the_language_wrap():
    out = np.zeros(64, np.int32)
    mixes_bits[(1,)](np.full(1, 7, np.int32), out, 64, debug=True)
    assert len(set(out.tolist())) > 60
