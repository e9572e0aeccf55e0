"""Functions of libdevice that round in a direction, against exact fractions; Bessel functions."""

from __future__ import annotations

from fractions import Fraction
from math import isfinite, isqrt

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.errors import CompileError
from tilewright.language.extra import libdevice

pytestmark = pytest.mark.parametrize(
    "target", ["eager", pytest.param("cpu", marks=pytest.mark.cpu)]
)
SIZE = 256


@pytest.fixture(autouse=True)
def in_target(target):
    with tilewright.options(target=target):
        yield


@tilewright.jit
def apply_one(x, out, F: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, F(tl.load(x + i)))


@tilewright.jit
def apply_two(x, y, out, F: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, F(tl.load(x + i), tl.load(y + i)))


@tilewright.jit
def apply_three(x, y, z, out, F: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, F(tl.load(x + i), tl.load(y + i), tl.load(z + i)))


APPLY = {1: apply_one, 2: apply_two, 3: apply_three}
EXACT = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "rcp": lambda x: 1 / x,
    "fma": lambda x, y, z: x * y + z,
}


def numbers(count, dtype):
    rng = np.random.default_rng(count)
    spread = rng.integers(-30, 30, (count, SIZE)).astype(dtype)
    return list((rng.standard_normal((count, SIZE)) * 2.0**spread).astype(dtype))


def is_rounded(found, exact, mode):
    """Whether a float is the neighbour of an exact number on the side of the mode."""
    down = mode == "rd" or (mode == "rz" and exact > 0)
    other = np.nextafter(found, found.dtype.type(np.inf if down else -np.inf))
    inside = Fraction(float(found)) <= exact if down else Fraction(float(found)) >= exact
    beyond = not isfinite(other) or (
        Fraction(float(other)) > exact if down else Fraction(float(other)) < exact
    )
    return inside and beyond


@pytest.mark.parametrize("mode", ["rd", "ru", "rz"])
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arithmetic(name, mode, dtype):
    exact = EXACT[name]
    count = exact.__code__.co_argcount
    xs, out = numbers(count, dtype), np.zeros(SIZE, dtype)
    APPLY[count][(1,)](*xs, out, getattr(libdevice, f"{name}_{mode}"), SIZE)
    for k in range(SIZE):
        operands = [Fraction(float(x[k])) for x in xs]
        assert is_rounded(out[k], exact(*operands), mode), (operands, out[k])


@pytest.mark.parametrize("mode", ["rd", "ru", "rz"])
def test_square_roots(mode):
    x, out = np.abs(numbers(1, np.float32)[0]), np.zeros(SIZE, np.float32)
    apply_one[(1,)](x, out, getattr(libdevice, f"sqrt_{mode}"), SIZE)
    scale = 2**120
    for a, b in zip(x, out, strict=True):
        square = Fraction(float(a)) * scale * scale
        exact = Fraction(isqrt(square.numerator // square.denominator), scale)
        exact += Fraction(1, 4 * scale) if exact * exact * scale * scale != square else 0
        assert is_rounded(b, exact, mode)


@pytest.mark.parametrize("mode", ["rd", "ru", "rz"])
@pytest.mark.parametrize(
    "name, source, to",
    [
        ("int2float", np.int32, np.float32),
        ("uint2float", np.uint32, np.float32),
        ("ll2float", np.int64, np.float32),
        ("ull2float", np.uint64, np.float32),
        ("ll2double", np.int64, np.float64),
        ("ull2double", np.uint64, np.float64),
        ("double2float", np.float64, np.float32),
    ],
)
def test_conversions(name, source, to, mode):
    rng = np.random.default_rng(0)
    if source is np.float64:
        x = numbers(1, source)[0]
    else:
        low, high = np.iinfo(source).min, np.iinfo(source).max
        x = rng.integers(low, high, SIZE, source) >> rng.integers(0, 20, SIZE).astype(source)
        x[0] = high
    out = np.zeros(SIZE, to)
    apply_one[(1,)](x, out, getattr(libdevice, f"{name}_{mode}"), SIZE)
    for a, b in zip(x.tolist(), out, strict=True):
        assert is_rounded(b, Fraction(a), mode)


def test_overflow_and_underflow():
    x = np.full(SIZE, 3e38, np.float32)
    out = np.zeros(SIZE, np.float32)
    for mode, expected in (("rd", np.finfo(np.float32).max), ("ru", np.inf)):
        apply_two[(1,)](x, x, out, getattr(libdevice, f"add_{mode}"), SIZE)
        assert (out == np.float32(expected)).all()
    tiny = np.full(SIZE, 1e-40, np.float32)
    apply_two[(1,)](tiny, tiny, out, libdevice.mul_ru, SIZE)
    assert (out == np.nextafter(np.float32(0), np.float32(1))).all()


BESSEL = {
    "j0": "j0", "j1": "j1", "y0": "y0", "y1": "y1", "cyl_bessel_i0": "i0", "cyl_bessel_i1": "i1",
}  # fmt: skip


@pytest.mark.parametrize("name", BESSEL)
def test_bessel(name):
    special = pytest.importorskip("scipy.special")
    x = np.concatenate([np.linspace(1e-3, 20, SIZE // 2), np.geomspace(1e-6, 600, SIZE // 2)])
    out = np.zeros(SIZE)
    apply_one[(1,)](x, out, getattr(libdevice, name), SIZE)
    wanted = getattr(special, BESSEL[name])(x)
    assert np.allclose(out, wanted, 1e-12, 1e-14)
    x = np.array([0.0, np.inf, np.nan, -2.0] * (SIZE // 4))
    apply_one[(1,)](x, out, getattr(libdevice, name), SIZE)
    wanted = getattr(special, BESSEL[name])(x)
    wanted[1::4] = np.inf if "i" in name else 0  # where SciPy gives NaN
    assert np.allclose(out, wanted, 1e-12, 1e-14, equal_nan=True)


@tilewright.jit
def of_order(x, out, n, F: tl.constexpr, ORDER: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, F(ORDER if ORDER >= 0 else n, tl.load(x + i)))


@pytest.mark.parametrize("order", [0, 1, 2, 3, 10])
def test_bessel_of_an_order(order):
    special = pytest.importorskip("scipy.special")
    x, out = np.linspace(0.01, 30, SIZE), np.zeros(SIZE)
    for name in ("jn", "yn"):
        of_order[(1,)](x, out, 2, getattr(libdevice, name), order, SIZE)
        assert np.allclose(out, getattr(special, name)(order, x), 1e-9, 1e-15)
    with pytest.raises(CompileError, match="the order must be a number from 0"):
        of_order[(1,)](x, out, 2, libdevice.jn, -1, SIZE)
