"""Reductions and scans again, without the lanes that a load masked off."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tilewright.ops.reduce import accumulate, combiner, widen

Arrays = tuple[np.ndarray, ...]
# How far results may be apart that are rounded in another order: of their size, and how many times
# as far as they are apart if only the order is another.
CLOSE = {2: 3e-2, 4: 1e-4, 8: 1e-10}
NOISE = 64


def folded(
    xs: Arrays, outs: Arrays, empty: np.ndarray, axis: int, combine: str, region: Callable | None
) -> np.ndarray:
    """Where a reduction comes out another way without the empty lanes."""
    function = combiner(combine, region)
    changed = np.zeros((1, outs[0].size), bool)
    for rows, kept in groups(xs, empty, axis):
        again, other = tree(function, widen(kept, combine)), kept
        if len(kept[0]) > 2:
            rest = tree(function, widen(tuple(x[1:] for x in kept), combine))
            other = function(widen(tuple(x[:1] for x in kept), combine), rest)
        for one, two, out in zip(again, other, outs, strict=True):
            changed[0, rows] |= differs(one[0], two[0], out.reshape(-1)[rows])
    return changed.reshape(outs[0].shape)


def tree(function: Callable, xs: Arrays) -> Arrays:
    """Neighbours combined until one is left; the last one of an odd number waits."""
    while (size := len(xs[0])) > 1:
        even = size // 2 * 2
        out = function(tuple(x[0:even:2] for x in xs), tuple(x[1:even:2] for x in xs))
        xs = tuple(np.concatenate([y, x[even:].astype(y.dtype)]) for x, y in zip(xs, out))
    return xs


def scanned(
    xs: Arrays,
    outs: Arrays,
    empty: np.ndarray,
    axis: int,
    combine: str,
    reverse: bool,
    region: Callable | None,
) -> np.ndarray:
    """Where a scan comes out another way without the empty lanes, in lanes that are not empty."""
    flat = [lines(out, axis) for out in outs]
    changed = np.zeros(flat[0].shape, bool)
    full = ~lines(empty, axis)
    order = np.argsort(~full, axis=0, kind="stable")
    for rows, kept in groups(xs, empty, axis):
        again = accumulate(*kept, axis=0, combine=combine, reverse=reverse, region=region)
        again = again if isinstance(again, tuple) else (again,)
        at = (order[: len(kept[0]), rows], np.flatnonzero(rows)[None, :])
        for one, out in zip(again, flat, strict=True):
            changed[at] |= differs(one, one, out[at])
    moved = np.moveaxis(empty, axis, 0)
    return np.moveaxis(changed.reshape(moved.shape), 0, axis)


def lines(x: np.ndarray, axis: int) -> np.ndarray:
    """The axis first, all others as one."""
    return np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)


def groups(
    xs: Sequence[np.ndarray], empty: np.ndarray, axis: int
) -> Iterator[tuple[np.ndarray, Arrays]]:
    """Rows with as many lanes that are not empty, and these, for each such number but 0."""
    full = ~lines(empty, axis)
    order, counts = np.argsort(~full, axis=0, kind="stable"), full.sum(axis=0)
    sorted_ = [np.take_along_axis(lines(x, axis), order, 0) for x in xs]
    for count in np.unique(counts[counts > 0]).tolist():
        rows = counts == count
        yield rows, tuple(x[:count, rows] for x in sorted_)


def differs(a: np.ndarray, noisy: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Which results differ by more than rounding; `noisy` are the first ones in another order."""
    if b.dtype.kind in "iub":
        return a != b
    close = CLOSE.get(b.dtype.itemsize, CLOSE[2])
    a, noisy, b = (x.astype(np.float64) for x in (a, noisy, b))
    room = close * np.abs(a) + NOISE * np.abs(a - noisy)
    return ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= room))
