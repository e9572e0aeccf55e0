"""Reductions and scans over any combining function."""

from __future__ import annotations

import numpy as np

from tilewright.errors import want
from tilewright.ir import types as t
from tilewright.ir.op import OPS, op
from tilewright.ops.rules import NUMPY
from tilewright.ops.shape import check_axis, check_shape

NARROW_FLOATS = (NUMPY[t.float16], NUMPY[t.bfloat16])


def combiner(combine, region):
    """The combining function on tuples of arrays: an op's NumPy meaning, or a region's."""
    if region is not None:
        return region
    function = OPS[combine].eager
    return lambda xs, ys: (function(xs[0], ys[0]),)


def widen(xs, combine):
    """Sums and products of 16-bit floats are accumulated in fp32 and rounded once."""
    if combine in ("add", "mul") and xs[0].dtype in NARROW_FLOATS:
        return tuple(x.astype(np.float32) for x in xs)
    return xs


def fold(*xs, axis, combine="", any_order=False, region=None):
    """Combine neighbours along the axis until one is left, so that order is kept."""
    dtypes = [x.dtype for x in xs]
    function = combiner(combine, region)
    xs = widen(tuple(np.moveaxis(x, axis, 0) for x in xs), combine)
    while xs[0].shape[0] > 1:
        xs = function(tuple(x[0::2] for x in xs), tuple(x[1::2] for x in xs))
    out = tuple(x[0].astype(d) for x, d in zip(xs, dtypes, strict=True))
    return out if len(out) > 1 else out[0]


def accumulate(*xs, axis, combine="", reverse=False, region=None):
    """Running combination along the axis, one element after the other."""
    dtypes = [x.dtype for x in xs]
    function = combiner(combine, region)
    xs = widen(tuple(np.moveaxis(x, axis, 0) for x in xs), combine)
    if reverse:
        xs = tuple(x[::-1] for x in xs)
    ufunc = RUNNING.get(combine) if region is None else None
    if ufunc is not None and xs[0].dtype.isbuiltin == 1 and xs[0].dtype.kind != "b":
        out = (ufunc.accumulate(xs[0], axis=0, dtype=xs[0].dtype),)
    else:
        out = one_by_one(function, xs)
    if reverse:
        out = tuple(x[::-1] for x in out)
    out = tuple(np.moveaxis(x, 0, axis).astype(d) for x, d in zip(out, dtypes, strict=True))
    return out if len(out) > 1 else out[0]


# NumPy's own loops do the same in the same order.
RUNNING = {
    "add": np.add,
    "mul": np.multiply,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
}


def one_by_one(function, xs):
    """Running combination along the first axis."""
    running = tuple(x[0] for x in xs)
    rows = [running]
    for i in range(1, xs[0].shape[0]):
        running = function(running, tuple(x[i] for x in xs))
        rows.append(running)
    return tuple(np.stack([r[k] for r in rows]) for k in range(len(xs)))


def check_tiles(xs, axis: int, combine: str) -> None:
    want(bool(xs), "needs at least one tile")
    check_axis(xs[0], axis)
    for x in xs[1:]:
        want(x.shape == xs[0].shape, f"shapes differ: {xs[0]} and {x}")
    if combine:
        want(combine in OPS and len(xs) == 1, f"{combine} cannot combine {len(xs)} tiles")


@op(eager=fold)
def reduce(*xs, axis, combine="", any_order=False):
    """One value along the axis: every element combined, by the op named or by the region.

    With `any_order` the operands of the region may change places.
    """
    check_tiles(xs, axis, combine)
    types = tuple(x.with_shape(x.shape[:axis] + x.shape[axis + 1 :]) for x in xs)
    return types if len(types) > 1 else types[0]


@op(eager=accumulate)
def scan(*xs, axis, combine="", reverse=False):
    """Along the axis, at each place all elements up to it combined (from the end, if reverse)."""
    check_tiles(xs, axis, combine)
    return xs if len(xs) > 1 else xs[0]


@op(eager=lambda x, axis, descending: sort_array(x, axis, descending))
def sort(x, axis, descending=False):
    """The elements in order along one dimension."""
    check_axis(x, axis)
    want(not x.dtype.is_pointer, f"needs numbers, got {x}")
    return x


def sort_array(x, axis, descending):
    # NumPy puts the NaNs of its own dtypes last, and leaves those of others where they are.
    held = x if x.dtype.isbuiltin == 1 else x.astype(np.float32)
    out = np.sort(held, axis).astype(x.dtype)
    return np.flip(out, axis) if descending else out


def count(x, mask=None, bins=1):
    chosen = x if mask is None else x[mask]
    counted = chosen[(chosen >= 0) & (chosen < bins)].astype(np.int64)
    return np.bincount(counted, minlength=bins).astype(np.int32)


@op(eager=count)
def histogram(x, mask=None, bins=1):
    """How often each of the numbers 0 to bins - 1 occurs; others are not counted."""
    want(len(x.shape) == 1 and x.dtype.is_integer, f"needs a 1-D tile of integers, got {x}")
    want(mask is None or (mask.dtype is t.int1 and mask.shape == x.shape), f"mask {mask} for {x}")
    return t.Type(t.int32, check_shape((bins,)))
