"""Reductions of numbers among which some are none, and by functions that assert."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
import tilewright.language as tl

NAN, INF = np.nan, np.inf


@tilewright.jit
def extremes(x, values, places, B: tl.constexpr, LEFT: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    top, at = tl.max(v, 0, return_indices=True, return_indices_tie_break_left=LEFT)
    low, where = tl.min(v, 0, return_indices=True, return_indices_tie_break_left=LEFT)
    tl.store(values, top)
    tl.store(values + 1, low)
    tl.store(values + 2, tl.max(v, 0))
    tl.store(values + 3, tl.min(v, 0))
    tl.store(places, at)
    tl.store(places + 1, where)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize(
    "row",
    [[NAN, 6, 8, 1], [INF, NAN, NAN, NAN], [9, NAN, 1, 2], [NAN, -INF, NAN, -INF], [5, 4, 3, NAN]],
)
def test_extremes_with_their_places_skip_nan(target, row, dtype, left):
    """A NaN won over what stood before it, so the place of the largest element was lost."""
    x = np.array(row, dtype)
    values, places = np.zeros(4, dtype), np.zeros(2, np.int32)
    extremes[(1,)](x, values, places, B=4, LEFT=left)
    assert values.tolist() == [np.nanmax(x), np.nanmin(x)] * 2
    assert x[places].tolist() == [np.nanmax(x), np.nanmin(x)]
    if left:
        first = [np.flatnonzero(x == v)[0] for v in (np.nanmax(x), np.nanmin(x))]
        assert places.tolist() == first


@pytest.mark.parametrize("left", [True, False])
def test_extremes_of_nothing_but_nan(target, left):
    values, places = np.zeros(4, np.float32), np.zeros(2, np.int32)
    extremes[(1,)](np.full(4, NAN, np.float32), values, places, B=4, LEFT=left)
    assert np.isnan(values).all()
    assert set(places.tolist()) <= {0, 1, 2, 3}


@tilewright.jit
def checked_sum(a, b):
    wide = a.to(tl.int64) + b.to(tl.int64)
    tl.device_assert((wide >= -(2**31)) & (wide < 2**31), "does not fit")
    return a + b


@tilewright.jit(debug=True)
def checked_sums(x, total, sums, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(sums + i, tl.associative_scan(v, 0, checked_sum))
    tl.store(total, tl.reduce(v, 0, checked_sum))


@pytest.mark.parametrize("n", [16, 512])
def test_combining_functions_assert(target, n):
    """Lanes that nothing comes before are not looked at."""
    x = np.zeros(n, np.int32)
    x[0], x[1 : n // 2] = 2**31 - n, 1
    total, sums = np.zeros(1, np.int32), np.zeros(n, np.int32)
    checked_sums[(1,)](x, total, sums, n)
    assert total[0] == x.sum() and sums.tolist() == x.cumsum().tolist()
    x[-1] = 2**30
    with pytest.raises(tilewright.TilewrightError, match="does not fit"):
        checked_sums[(1,)](x, total, sums, n)
