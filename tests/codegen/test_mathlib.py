"""Elementary functions against wider arithmetic, and their special values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from lane_harness import NUMPY, Runner, host_levels, host_widths, loop_text

from tilewright.codegen import mathlib
from tilewright.codegen.llvm import Machine, emit_assembly
from tilewright.ir import types as ty

RNG = np.random.default_rng(11)
INF, NAN = math.inf, math.nan
GROUPS = [(1, ""), *((host_widths()[1], level) for level in host_levels())]
NUMPY_NAMES = {
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "pow": "power",
}
# Where a function is neither 0, constant nor infinite: for f32, and for f64 where it differs.
RANGES = {
    "acos": (-1, 1),
    "acosh": (1, 50),
    "asin": (-1, 1),
    "atanh": (-1, 1),
    "cosh": (-89, 89),
    "erf": (-4, 4),
    "erfc": (-4, 10),
    "exp": (-104, 89),
    "exp2": (-150, 128),
    "expm1": (-20, 89),
    "log": (0, 10),
    "log1p": (-1, 10),
    "log2": (0, 10),
    "rsqrt": (0, 10),
    "sinh": (-89, 89),
    "tanh": (-10, 10),
}
RANGES_F64 = {
    "cosh": (-710, 710),
    "erf": (-6, 6),
    "erfc": (-6, 26),
    "exp": (-745, 709.7),
    "exp2": (-1074, 1024),
    "expm1": (-40, 709),
    "sinh": (-710, 710),
    "tanh": (-20, 20),
}
EXACT_LONGDOUBLE = np.finfo(np.longdouble).nmant >= 63


def erf_series(x):
    """erf by a series of positive terms."""
    term = total = x
    for n in range(1, 150):
        term = term * 2 * x * x / (2 * n + 1)
        total = total + term
    return total * np.exp(-x * x) * 2 / np.sqrt(np.longdouble("3.14159265358979323846264338"))


def erfc_fraction(x):
    """erfc by its continued fraction, for x >= 1."""
    total = x
    for n in range(300, 0, -1):
        total = x + np.longdouble(n) / 2 / total
    return np.exp(-x * x) / total / np.sqrt(np.longdouble("3.14159265358979323846264338"))


def reference(name, *args):
    args = [np.asarray(a, np.longdouble) for a in args]
    with np.errstate(all="ignore"):
        if name == "rsqrt":
            return 1 / np.sqrt(args[0])
        if name == "erf":
            return erf_series(np.clip(args[0], -7, 7))
        if name == "erfc":
            size = np.abs(args[0])
            tail = erfc_fraction(np.maximum(size, 1))
            tail = np.where(args[0] < 0, 2 - tail, tail)
            return np.where(size < 1, 1 - erf_series(np.clip(args[0], -1, 1)), tail)
        return getattr(np, NUMPY_NAMES.get(name, name))(*args)


def arguments(name, dtype, count=20000):
    kind = NUMPY[dtype]
    low, high = RANGES.get(name, (-10, 10))
    if dtype is ty.float64:
        low, high = RANGES_F64.get(name, (low, high))
    even = RNG.uniform(low, high, count)
    small = RNG.normal(size=count) * np.exp2(RNG.uniform(-20, 3, count))
    x = np.concatenate([even, np.clip(small, low, high)]).astype(kind)
    if name in ("log", "log2", "sin", "cos", "tan", "cbrt", "atan", "asinh"):
        exponents = RNG.uniform(-140, 127, count)
        x = np.concatenate(
            [np.abs(x), np.exp2(exponents).astype(kind), (1 + small / 99).astype(kind)]
        )
    if name == "pow":
        y = RNG.normal(size=x.size) * np.exp2(RNG.uniform(-8, 9, x.size))
        return np.abs(x), y.astype(kind)
    return (x, RNG.permutation(x)) if name == "atan2" else (x,)


def ulps(found, exact):
    """Errors in units in the last place; where the result overflows, whether it is infinite."""
    with np.errstate(all="ignore"):
        nearest = exact.astype(found.dtype)
        errors = np.abs(found - exact) / np.spacing(np.abs(nearest)).astype(np.longdouble)
    same = (found == nearest) | (np.isnan(found) & np.isnan(nearest))
    return np.where(same & ~np.isfinite(errors), 0, errors)


@pytest.mark.parametrize("dtype", [ty.float32, ty.float64], ids=str)
@pytest.mark.parametrize("name", mathlib.ACCURACY)
def test_accuracy_is_as_stated(name, dtype):
    args = arguments(name, dtype)
    exact = reference(name, *args)
    # The reference itself is good to a part of a unit.
    slack = 0.02 if dtype is ty.float32 or EXACT_LONGDOUBLE else 1.5
    stated = mathlib.ACCURACY[name][dtype.name] + slack
    for width, level in GROUPS:
        run = Runner(getattr(mathlib, name), *[dtype] * len(args), width=width, level=level)
        errors = ulps(run(*args), exact)
        worst = int(np.argmax(np.where(np.isnan(errors), np.inf, errors)))
        assert errors[worst] <= stated, (width, level, [a[worst] for a in args])


SPECIAL = {
    "exp": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0.0), (1e4, INF), (-1e4, 0.0)],
    "exp2": [(0.0, 1), (3.0, 8), (-2.0, 0.25), (INF, INF), (-INF, 0.0), (1e4, INF), (-1e4, 0.0)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1), (1e4, INF), (-1e4, -1)],
    "log": [(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (-1.0, NAN), (-INF, NAN), (INF, INF)],
    "log2": [(1.0, 0.0), (8.0, 3), (0.0, -INF), (-0.0, -INF), (-1.0, NAN), (INF, INF)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (-2.0, NAN), (INF, INF)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "cos": [(0.0, 1), (-0.0, 1), (INF, NAN), (-INF, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (1e4, 1)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (1e4, INF)],
    "cosh": [(0.0, 1), (INF, INF), (-INF, INF), (-1e4, INF)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (1.0, math.pi / 2), (-1.0, -math.pi / 2), (1.5, NAN)],
    "acos": [(1.0, 0.0), (-1.0, math.pi), (0.0, math.pi / 2), (-2.0, NAN), (INF, NAN)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (INF, math.pi / 2), (-INF, -math.pi / 2)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "acosh": [(1.0, 0.0), (0.5, NAN), (-3.0, NAN), (INF, INF), (-INF, NAN)],
    "atanh": [(0.0, 0.0), (-0.0, -0.0), (1.0, INF), (-1.0, -INF), (1.5, NAN)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1)],
    "erfc": [(0.0, 1), (INF, 0.0), (-INF, 2), (100.0, 0.0)],
    "cbrt": [(0.0, 0.0), (-0.0, -0.0), (27.0, 3), (-8.0, -2), (INF, INF), (-INF, -INF)],
    "rsqrt": [(0.0, INF), (-0.0, -INF), (4.0, 0.5), (-1.0, NAN), (INF, 0.0)],
}


@pytest.mark.parametrize("dtype", [ty.float16, ty.bfloat16, ty.float32, ty.float64], ids=str)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name, dtype):
    kind = NUMPY[dtype]
    cases = [*SPECIAL[name], (NAN, NAN)]
    x = np.array([c[0] for c in cases]).astype(kind)
    want = np.array([c[1] for c in cases]).astype(kind)
    for width, level in GROUPS:
        found = Runner(getattr(mathlib, name), dtype, width=width, level=level)(x)
        nan = np.isnan(want.astype(np.float64))
        assert (np.isnan(found.astype(np.float64)) == nan).all(), found
        bits = np.dtype(f"u{kind.itemsize}")
        assert (found.view(bits) == want.view(bits))[~nan].all(), found


@pytest.mark.parametrize("dtype", [ty.float32, ty.float64], ids=str)
@pytest.mark.parametrize("name", ["pow", "atan2"])
def test_special_pairs(name, dtype):
    edges = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1e30, -1e30, INF, -INF, NAN]
    if dtype is ty.float64:
        edges += [1e-310, 1e300, -1e300, 2.0**53 + 2, 2.0**53 - 1]
    x, y = (a.ravel().astype(NUMPY[dtype]) for a in np.meshgrid(edges, edges))
    with np.errstate(all="ignore"):
        exact = reference(name, x, y)
        want = exact.astype(NUMPY[dtype])
    for width, level in GROUPS:
        found = Runner(getattr(mathlib, name), dtype, dtype, width=width, level=level)(x, y)
        assert (np.isnan(found) == np.isnan(want)).all()
        real = ~np.isnan(want)
        assert (np.signbit(found) == np.signbit(want))[real].all()
        assert (ulps(found, exact)[real] <= 2).all()


def test_results_in_the_denormal_range():
    x = np.linspace(-104, -87, 1000).astype(np.float32)
    last_place = 2.0**-149
    for width, level in GROUPS:
        found = Runner(mathlib.exp, ty.float32, width=width, level=level)(x)
        assert np.max(np.abs(found - np.exp(x.astype(np.float64)))) <= last_place
        tiny = np.array([1e-45, 1e-40, -1e-42, 1e-38], np.float32)
        for name in ("sin", "tan", "tanh", "asin", "atan", "expm1", "log1p", "asinh", "sinh"):
            run = Runner(getattr(mathlib, name), ty.float32, width=width, level=level)
            assert (run(tiny) == tiny).all(), name
        logs = Runner(mathlib.log2, ty.float32, width=width, level=level)(tiny[:2])
        np.testing.assert_allclose(logs, np.log2(tiny[:2].astype(np.float64)), rtol=1e-7)


def test_huge_angles():
    # Known hard: the f64 nearest to a multiple of pi/2.
    hard = 6381956970095103.0 * 2.0**797
    for width, level in GROUPS:
        run = Runner(mathlib.cos, ty.float64, width=width, level=level)
        assert run([hard, 1.0, hard])[[0, 2]].tolist() == [-4.687165924254628e-19] * 2
        sin = Runner(mathlib.sin, ty.float64, width=width, level=level)
        assert sin([1e22]).tolist() == [-0.8522008497671888]
        sin = Runner(mathlib.sin, ty.float32, width=width, level=level)
        x = np.float32([3e38, 0.5, 1e5, 5859.0703125])
        np.testing.assert_allclose(sin(x), np.sin(x.astype(np.float64)), rtol=1e-7)


@pytest.mark.parametrize("dtype", [ty.float16, ty.bfloat16], ids=str)
def test_narrow_floats_round_the_f32_result(dtype):
    codes = np.arange(0, 1 << 16, 7, dtype=np.uint16).view(NUMPY[dtype])
    wide = Runner(mathlib.exp, ty.float32, width=host_widths()[1])(codes.astype(np.float32))
    found = Runner(mathlib.exp, dtype, width=host_widths()[1])(codes)
    with np.errstate(all="ignore"):
        want = wide.astype(NUMPY[dtype])
    nan = np.isnan(want.astype(np.float32))
    assert (np.isnan(found.astype(np.float32)) == nan).all()
    assert (found[~nan] == want[~nan]).all()


@pytest.mark.parametrize("dtype", [ty.float32, ty.float64], ids=str)
def test_other_machines_take_the_code(dtype):
    machines = [
        (Machine("nvptx64-nvidia-cuda", "sm_75"), 1),
        (Machine("aarch64-unknown-linux-gnu", "generic", "+neon"), 16 // dtype.bytes),
    ]
    for machine, width in machines:
        for name in mathlib.ACCURACY:
            count = 2 if name in ("pow", "atan2") else 1
            text, _ = loop_text(getattr(mathlib, name), (dtype,) * count, width, machine)
            assembly = emit_assembly(text, machine)
            # Nothing may be left to a C library, which a GPU does not have.
            assert "call.uni" not in assembly and "\tbl\t" not in assembly, name
