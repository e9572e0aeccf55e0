"""Atomics of neighbouring elements, which are exchanged 16 bytes at a time where they can be."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright
import tilewright.language as tl

DTYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.int64]


@tilewright.jit
def add(out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.atomic_add(out + i, (i % 3).to(out.dtype.element_ty), i < n)


@tilewright.jit
def change(out, old, n, KIND: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    value = (7 * i % 31 - 5).to(out.dtype.element_ty)
    if KIND == 0:
        before = tl.atomic_add(out + i, value, i < n)
    elif KIND == 1:
        before = tl.atomic_max(out + i, value, i < n)
    else:
        before = tl.atomic_xchg(out + i, value, i < n)
    tl.store(old + i, before)


def array(size: int, dtype, first: int) -> np.ndarray:
    """A zeroed array that begins `first` elements after a multiple of 64 bytes."""
    raw = np.zeros((size + first) * np.dtype(dtype).itemsize + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start:][: (size + first) * np.dtype(dtype).itemsize].view(dtype)[first:]


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("dtype", DTYPES)
def test_no_addition_is_lost_between_threads(dtype, first):
    out, programs = array(64, dtype, first), 100
    with tilewright.options(target="cpu", threads=2):
        add[(programs,)](out, 61, B=64)
    want = np.arange(64) % 3 * programs * (np.arange(64) < 61)
    np.testing.assert_array_equal(out.astype(np.float64), want)


@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64])
def test_old_values_are_those_of_the_eager_machine(dtype, kind, first):
    results = []
    for target in ("eager", "cpu"):
        out, old = array(64, dtype, first), np.ones(64, dtype)
        out[:] = np.arange(64) % 17
        with tilewright.options(target=target):
            change[(1,)](out, old, 50, KIND=kind, B=64)
        results.append((out, old))
    for x, y in zip(*results):
        np.testing.assert_array_equal(x, y)
