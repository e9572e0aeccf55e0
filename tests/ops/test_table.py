"""Every elementwise op in every dtype that its rule accepts, against exact arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tilewright.ir import types as t
from tilewright.ir.types import Type
from tilewright.ops.rules import numpy_dtype

from .exact import APPROXIMATE, NO_INFINITY, ONE_ZERO, REFERENCE, as_numbers, expected
from .inputs import ELEMENTWISE, operands, uses

CASES = [(op, dtypes, attrs) for op in ELEMENTWISE for dtypes, attrs in uses(op)]


def name_of(case):
    op, dtypes, attrs = case
    extra = [f"{k}={v}" for k, v in attrs.items()]
    return "-".join([op.name, *[d.short for d in dtypes[-1:]], *extra])


def run(op, dtypes, attrs, xs):
    result = op.rule(*[Type(d, x.shape) for d, x in zip(dtypes, xs, strict=True)], **attrs)
    with np.errstate(all="ignore"):
        return result, np.asarray(op.eager(*xs, **attrs))


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_result_has_the_type_of_the_rule(case):
    op, dtypes, attrs = case
    xs = operands(dtypes, 64)
    result, out = run(op, dtypes, attrs, xs)
    assert out.dtype == numpy_dtype(result.dtype)
    assert out.shape == result.shape


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_scalars_and_tiles_agree(case):
    op, dtypes, attrs = case
    xs = operands(dtypes, 40)
    _, out = run(op, dtypes, attrs, xs)
    one_by_one = [
        run(op, dtypes, attrs, [np.asarray(x[i]) for x in xs])[1] for i in range(len(out))
    ]
    assert np.array(one_by_one, out.dtype).tobytes() == out.tobytes()


@pytest.mark.parametrize("case", [c for c in CASES if c[0].name in REFERENCE], ids=name_of)
def test_against_exact_arithmetic(case):
    op, dtypes, attrs = case
    dtype = dtypes[-1]
    xs = operands(dtypes)
    result, out = run(op, dtypes, attrs, xs)
    numbers = [as_numbers(x, d) for x, d in zip(xs, dtypes, strict=True)]
    found = as_numbers(out, result.dtype)
    for given, got in zip(zip(*numbers), found, strict=True):
        want = expected(op.name, dtype, result.dtype, given, attrs)
        assert same(op.name, result.dtype, got, want), (given, got, want)


def same(name, dtype, got, want):
    if not dtype.is_float:
        return got == want
    if dtype in NO_INFINITY and math.isinf(want):
        return math.isnan(got) or abs(got) == largest(dtype)
    if math.isnan(want) or math.isnan(got):
        return math.isnan(want) and math.isnan(got)
    if name in APPROXIMATE:
        unit = 2.0**-23 if dtype is t.float32 else 1e-14
        return got == want or math.isclose(got, want, rel_tol=unit, abs_tol=5e-308)
    if want == 0 and name not in ("max", "min") and dtype not in ONE_ZERO:
        return got == 0 and math.copysign(1, got) == math.copysign(1, want)
    return got == want


def largest(dtype):
    return {t.float8e5b16: 57344.0, t.float8e4nv: 448.0, t.float8e4b8: 240.0}.get(dtype, 1.875)


def test_no_op_is_untested():
    elsewhere = {"select", "bitcast", "offset"}  # below
    assert {op.name for op in ELEMENTWISE} == set(REFERENCE) | elsewhere


@pytest.mark.parametrize("dtype", t.SCALARS, ids=str)
def test_select_picks_bits(dtype):
    op = next(op for op in ELEMENTWISE if op.name == "select")
    condition, x, y = operands((t.int1, dtype, dtype))
    _, out = run(op, (t.int1, dtype, dtype), {}, [condition, x, y])
    assert [o.tobytes() for o in out] == [
        (a if c else b).tobytes() for c, a, b in zip(condition, x, y, strict=True)
    ]


@pytest.mark.parametrize("case", [c for c in CASES if c[0].name == "bitcast"], ids=name_of)
def test_bitcast_keeps_bits(case):
    op, dtypes, attrs = case
    (x,) = operands(dtypes)
    result, out = run(op, dtypes, attrs, [x])
    assert out.tobytes() == x.tobytes()


@pytest.mark.parametrize("case", [c for c in CASES if c[0].name == "offset"], ids=name_of)
def test_offset_counts_elements(case):
    op, dtypes, attrs = case
    pointers, steps = operands(dtypes)
    _, out = run(op, dtypes, attrs, [pointers, steps])
    wanted = [int(p) + 4 * int(s) for p, s in zip(pointers, steps, strict=True)]
    assert [int(o) & 2**64 - 1 for o in out] == [w & 2**64 - 1 for w in wanted]
