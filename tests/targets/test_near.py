"""Loads at quotients and remainders that change within a chunk: one vector holds all lanes."""

import numpy as np
import pytest
from guarded import guarded

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import OutOfBoundsError


@tw.jit
def repeat_kernel(x_ptr, out_ptr, n, times, first, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + (at + first) // times, mask=at < n, other=3)
    tl.store(out_ptr + at, x, mask=at < n)


@tw.jit
def cycle_kernel(x_ptr, out_ptr, n, size, first, STEP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    on = (at < n) & (at % 3 != 1)
    x = tl.load(x_ptr + (at * STEP + first) % size, mask=on, other=3)
    tl.store(out_ptr + at, x, mask=at < n)


@tw.jit
def widths_kernel(x_ptr, w_ptr, out_ptr, n, d1, d2, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        on = at < n
        w = tl.load(w_ptr + at // d2 % d1, mask=on, other=1.0)
        total += tl.load(x_ptr + at // (d1 * d2) * d2 + at % d2, mask=on, other=0.0) * w
    tl.store(out_ptr, tl.sum(total, axis=0))


DTYPES = [np.float32, np.int32, np.float64, np.int64, np.float16, np.int8]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("times", [1, 2, 3, 7, 15, 16, 17, 31, 40])
@pytest.mark.parametrize("first", [0, 5])
def test_each_element_some_times(dtype, times, first):
    n = 203
    x = guarded(np.arange((n + first - 1) // times + 1).astype(dtype))
    out = guarded(np.zeros(n, dtype))
    repeat_kernel[(4,)](x, out, n, times, first, BLOCK=64)
    np.testing.assert_array_equal(out, x[(np.arange(n) + first) // times])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 2, 5, 8, 15, 16, 17, 50])
@pytest.mark.parametrize("step", [1, 3])
def test_some_elements_again_and_again(dtype, size, step):
    x, out = guarded(np.arange(size).astype(dtype)), guarded(np.zeros(150, dtype))
    cycle_kernel[(3,)](x, out, 150, size, 4, STEP=step, BLOCK=64)
    at = np.arange(150)
    want = np.where(at % 3 != 1, x[(at * step + 4) % size], np.array(3, dtype))
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("first", [-30, -1, 2**31 - 20])
@pytest.mark.parametrize("times", [-3, -1, 1, 4, 2**31 - 1])
def test_negative_numbers_and_those_that_wrap_around(first, times):
    at = (np.arange(32) + first).astype(np.int32).astype(np.int64)
    place = np.trunc(at / times).astype(np.int64)
    room = int(min(np.abs(place).max(), 100))
    held = np.zeros(2 * room + 1, np.float32)
    held[:] = np.arange(held.size)
    out = np.zeros(32, np.float32)
    launch = lambda: repeat_kernel[(1,)](held[room:], out, 32, times, first, BLOCK=32)  # noqa: E731
    if np.abs(place).max() > room:
        with pytest.raises(OutOfBoundsError):
            launch()
        return
    launch()
    np.testing.assert_array_equal(out, held[place + room])


@pytest.mark.parametrize("n", [100, 130])
def test_an_element_past_the_end_is_named(n):
    x, out = np.zeros(20, np.float32), np.zeros(n, np.float32)
    if n == 100:
        repeat_kernel[(2,)](x, out, n, 5, 0, BLOCK=64)
        return
    with pytest.raises(OutOfBoundsError, match="element 20 of 20"):
        repeat_kernel[(3,)](x, out, n, 5, 0, BLOCK=64)


@pytest.mark.parametrize("n", [3, 100, 500])
@pytest.mark.parametrize(("d1", "d2"), [(2, 3), (7, 7), (3, 40), (40, 3), (1, 1), (50, 16)])
def test_sums_with_masked_ends(n, d1, d2):
    at = np.arange(n)
    place = at // (d1 * d2) * d2 + at % d2
    x = guarded((np.arange(place.max() + 1) % 7).astype(np.float32))
    w = guarded(np.arange(d1, dtype=np.float32))
    out = np.zeros(1, np.float32)
    widths_kernel[(1,)](x, w, out, n, d1, d2, BLOCK=128)
    assert out[0] == (x[place] * w[at // d2 % d1]).sum()


@tw.jit
def product_kernel(p, out, n, LEFT: tl.constexpr):
    i, k = tl.arange(0, 16), tl.arange(0, 32)
    j = k * 3 % n
    x = tl.load(p + i[:, None] * 64 + (j if LEFT else k)[None, :])
    y = tl.load(p + k[:, None] * 64 + (k if LEFT else j)[None, :])
    tl.store(out + i[:, None] * 32 + k[None, :], tl.dot(x, y, input_precision="ieee"))


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("n", [7, 23, 100])
def test_what_one_way_of_a_branch_computes_is_not_known_after_it(left, n):
    p, out = np.arange(4096, dtype=np.float32) % 5, np.zeros((16, 32), np.float32)
    product_kernel[(1,)](p, out, n, left)
    k = np.arange(32)
    j = k * 3 % n
    x = p[np.arange(16)[:, None] * 64 + (j if left else k)]
    y = p[k[:, None] * 64 + (k if left else j)]
    np.testing.assert_array_equal(out, x @ y)
