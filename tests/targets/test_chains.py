"""Chains of elementary functions are cut where a core does not see past them."""

import numpy as np
import pytest
from guarded import guarded

import tilewright as tw
import tilewright.language as tl
from tilewright.language.extra import libdevice
from tilewright.targets.cpu import chains

CUTS = {}


@pytest.fixture(autouse=True, scope="module")
def noted():
    """Note how often each kernel is cut."""
    find = chains.find_cuts

    def note(kernel):
        cuts = find(kernel)
        CUTS[kernel.name] = len(cuts)
        return cuts

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chains, "find_cuts", note)
        patch.setenv("TILEWRIGHT_CACHE", "0")
        yield


@tw.jit
def mish_kernel(x_ptr, n, BLOCK: tl.constexpr):
    """In place, so that what is loaded twice must be as it was."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(x_ptr + at, x * libdevice.tanh(tl.log(1.0 + tl.exp(x))), mask=at < n)


@tw.jit
def sums_kernel(x_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    row, col = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLS)
    inside = (row[:, None] < rows) & (col[None, :] < cols)
    x = tl.load(x_ptr + row[:, None] * cols + col[None, :], mask=inside, other=0.0)
    y = tl.sin(tl.exp(tl.cos(x)))
    tl.store(out_ptr + row, tl.sum(tl.where(inside, y, 0.0), axis=1), mask=row < rows)


@tw.jit
def shifted_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """What is kept between is read in another order."""
    at = tl.arange(0, BLOCK)
    y = tl.exp(tl.exp(tl.load(x_ptr + at, mask=at < n, other=0.0)))
    tl.store(out_ptr + at, tl.flip(y) + tl.log(y + 1.0))


@tw.jit
def short_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.exp(tl.load(x_ptr + at)) * 2.0)


def on_both(kernel, grid, *args, **constants):
    found = []
    for target in ("eager", "cpu"):
        mine = [guarded(a) if isinstance(a, np.ndarray) else a for a in args]
        with tw.options(target=target):
            kernel[grid](*mine, **constants)
        found.append([a for a in mine if isinstance(a, np.ndarray)])
    for x, y in zip(*found, strict=True):
        np.testing.assert_allclose(x, y, rtol=3e-6, atol=1e-6)


def inputs(*shape, dtype=np.float32):
    return np.random.default_rng(shape[-1]).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("n", [1, 511, 512, 3000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_in_place(n, dtype):
    on_both(mish_kernel, (-(-n // 512),), inputs(n, dtype=dtype), n, BLOCK=512)
    assert CUTS[mish_kernel.__name__] == 2


@pytest.mark.parametrize(("rows", "cols"), [(8, 128), (5, 100), (1, 3)])
def test_before_sums(rows, cols):
    on_both(sums_kernel, (2,), inputs(rows, cols), inputs(rows), rows, cols, ROWS=4, COLS=128)
    assert CUTS[sums_kernel.__name__]


@pytest.mark.parametrize("n", [256, 100])
def test_other_readers(n):
    on_both(shifted_kernel, (1,), inputs(256) / 4, inputs(256), n, BLOCK=256)
    assert CUTS[shifted_kernel.__name__]


def test_one_function_is_no_chain():
    on_both(short_kernel, (1,), inputs(1024), inputs(1024), BLOCK=1024)
    assert not CUTS[short_kernel.__name__]
