"""Reductions, scans, sorting, counting and products in every dtype, against plain Python."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tilewright.ir import types as t
from tilewright.ir.types import Type
from tilewright.ops import OPS
from tilewright.ops.rules import numpy_dtype

from .exact import rounded, to_float, wrap
from .inputs import edge_values

NUMBERS = [d for d in t.SCALARS if d not in (t.float8e4b15, t.int1)]
INTEGERS = [d for d in NUMBERS if d.is_integer]


def tile(dtype, shape, seed=0):
    """Edges of the dtype without NaN, in an order that depends on the seed."""
    values = edge_values(dtype)
    if dtype.is_float:
        values = values[np.isfinite(values.astype(np.float64))]
    return np.random.default_rng(seed).choice(values, shape).astype(numpy_dtype(dtype))


def run(name, *xs, dtypes, **attrs):
    op = OPS[name]
    result = op.rule(*[Type(d, x.shape) for d, x in zip(dtypes, xs, strict=True)], **attrs)
    with np.errstate(all="ignore"):
        out = op.eager(*xs, **attrs)
    assert out.shape == result.shape and out.dtype == numpy_dtype(result.dtype)
    return out


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("combine", ["max", "min"])
def test_extremes(combine, dtype):
    x = tile(dtype, (4, 16))
    out = run("reduce", x, dtypes=[dtype], axis=1, combine=combine)
    pick = {"max": max, "min": min}[combine]
    assert [float(v) for v in out] == [pick(map(float, row)) for row in x]
    running = run("scan", x, dtypes=[dtype], axis=1, combine=combine)
    for row, found in zip(x, running, strict=True):
        assert [float(v) for v in found] == [pick(map(float, row[: i + 1])) for i in range(16)]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize(
    "combine, function",
    [
        ("add", lambda a, b: a + b), ("mul", lambda a, b: a * b), ("bit_xor", lambda a, b: a ^ b),
        ("bit_or", lambda a, b: a | b), ("bit_and", lambda a, b: a & b),
    ],
)  # fmt: skip
def test_integers_wrap(combine, function, dtype):
    x = tile(dtype, (8, 4))
    columns = [[int(v) for v in column] for column in x.T]
    out = run("reduce", x, dtypes=[dtype], axis=0, combine=combine)
    assert out.tolist() == [wrap(functools.reduce(function, c), dtype) for c in columns]
    out = run("scan", x, dtypes=[dtype], axis=0, combine=combine, reverse=True)
    for column, found in zip(columns, out.T, strict=True):
        expected = [wrap(functools.reduce(function, column[i:]), dtype) for i in range(8)]
        assert found.tolist() == expected


@pytest.mark.parametrize("dtype", [t.float16, t.bfloat16], ids=str)
def test_narrow_sums_are_rounded_once(dtype):
    x = np.array([1.0] + [2.0**-12] * 15, numpy_dtype(dtype))
    out = run("reduce", x, dtypes=[dtype], axis=0, combine="add")
    assert float(out) == rounded(1 + 15 * 2.0**-12, dtype)


def test_a_region_combines_in_order():
    words = (np.arange(8), np.arange(8) * 10)

    def region(xs, ys):
        return xs[0] * 2 + ys[0], xs[1] + ys[1]

    scanned = OPS["scan"].eager(*words, axis=0, region=region)
    a = 0
    for i, found in enumerate(scanned[0]):
        a = i if i == 0 else a * 2 + i
        assert found == a
    assert scanned[1].tolist() == np.cumsum(words[1]).tolist()


@pytest.mark.parametrize("dtype", [*NUMBERS, t.int1], ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_sort(dtype, descending):
    x = tile(dtype, (4, 16))
    out = run("sort", x, dtypes=[dtype], axis=1, descending=descending)
    for row, found in zip(x, out, strict=True):
        numbers = sorted((to_float(v, dtype) for v in row), reverse=descending)
        assert [to_float(v, dtype) for v in found] == numbers


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_histogram(dtype):
    x = tile(dtype, 64)
    mask = np.arange(64) % 3 > 0
    out = run("histogram", x, mask, dtypes=[dtype, t.int1], bins=8)
    chosen = [int(v) for v, m in zip(x, mask, strict=True) if m]
    assert out.tolist() == [chosen.count(i) for i in range(8)]


@pytest.mark.parametrize("dtype", [d for d in NUMBERS if d.is_float], ids=str)
def test_products_are_rounded_once(dtype):
    rng = np.random.default_rng(0)
    x, y = ((rng.integers(-8, 8, s) / 4).astype(numpy_dtype(dtype)) for s in ((4, 8), (8, 2)))
    acc_dtype = t.float64 if dtype is t.float64 else t.float32
    acc = np.full((4, 2), 0.5, numpy_dtype(acc_dtype))
    out = run("dot", x, y, acc, dtypes=[dtype, dtype, acc_dtype])
    assert out.tolist() == (x.astype(float) @ y.astype(float) + 0.5).tolist()


def test_integer_products():
    x, y = tile(t.int8, (4, 16)), tile(t.int8, (16, 4), seed=1)
    out = run("dot", x, y, np.ones((4, 4), np.int32), dtypes=[t.int8, t.int8, t.int32])
    assert out.tolist() == (x.astype(int) @ y.astype(int) + 1).tolist()


def test_tf32_keeps_ten_bits():
    x = np.full((1, 1), 1 + 2.0**-10 + 2.0**-12, np.float32)
    attrs = {"dtypes": [t.float32] * 3, "precision": "tf32"}
    out = run("dot", x, np.ones((1, 1), np.float32), np.zeros((1, 1), np.float32), **attrs)
    assert out[0, 0] == 1 + 2.0**-10
