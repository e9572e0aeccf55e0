"""Conversions that the chip does by itself give what eager mode gives."""

import numpy as np
import pytest
from simulator import SimulatedTarget
from test_atomics import text_of

import tilewright as tw
from tilewright import language as tl
from tilewright.targets import base


@pytest.fixture
def both(monkeypatch):
    """The results of a launch by eager mode and by the simulator."""
    target = SimulatedTarget("sm_90a", 1)
    monkeypatch.setitem(base.TARGETS, "simulated", lambda: target)

    def run(kernel, x, out, **named):
        found = []
        for chosen in ("eager", "simulated"):
            one = out.copy()
            with tw.options(target=chosen, cache=False):
                kernel.forget()
                kernel[(x.size // 256,)](x, one, **named)
                kernel.forget()
            found.append(one)
        return found

    return run


@tw.jit
def cast_kernel(x_ptr, out_ptr, TO: tl.constexpr, BACK: tl.constexpr):
    i = tl.program_id(0) * 256 + tl.arange(0, 256)
    x = tl.load(x_ptr + i).to(TO)
    tl.store(out_ptr + i, x.to(BACK))


def edges(count=1024):
    rng = np.random.default_rng(0)
    exponents = rng.uniform(-20, 40, count - 12)
    x = rng.choice([-1, 1], count - 12) * np.exp2(exponents) * rng.uniform(1, 2, count - 12)
    some = [0.0, -0.0, 448, 464, 465, -57344, 61439, 61440, 61441, np.inf, -np.inf, np.nan]
    return np.concatenate([some, x]).astype(np.float32)


@pytest.mark.parametrize("kind", [tl.float8e4nv, tl.float8e5], ids=str)
@pytest.mark.parametrize("back", [tl.float32, tl.float16, tl.bfloat16], ids=str)
def test_floats_of_8_bits_and_back(kind, back, both):
    import ml_dtypes

    dtype = {tl.float16: np.float16, tl.bfloat16: ml_dtypes.bfloat16}.get(back, np.float32)
    x = edges()
    want, got = both(cast_kernel, x, np.zeros(x.size, dtype), TO=kind, BACK=back)
    np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


@pytest.mark.parametrize("kind", [tl.int8, tl.uint8, tl.int16, tl.uint16, tl.int32, tl.uint32])
def test_integers_saturate(kind, both):
    x = edges()
    want, got = both(cast_kernel, x, np.zeros(x.size, np.int64), TO=kind, BACK=tl.int64)
    np.testing.assert_array_equal(got, want)


@tw.jit
def signs_kernel(x_ptr, out_ptr):
    i = tl.program_id(0) * 256 + tl.arange(0, 256)
    x = tl.load(x_ptr + i).to(tl.bfloat16)
    y = tl.maximum(tl.abs(x), -x * 0.5)
    tl.store(out_ptr + i, tl.minimum(y, -tl.abs(-x)).to(tl.float32) + y.to(tl.float32))


def test_signs_of_16_bits(both):
    x = edges()
    with np.errstate(all="ignore"):
        want, got = both(signs_kernel, x, np.zeros(x.size, np.float32))
    np.testing.assert_array_equal(got, want)


@tw.jit
def near_kernel(x_ptr, out_ptr):
    """Sines of angles whose size arithmetic tells."""
    i = tl.program_id(0) * 256 + tl.arange(0, 256)
    x = tl.load(x_ptr + i)
    angle = x.to(tl.float32) * 4.656612873077392578125e-10 * 6.283185307179586
    tl.store(out_ptr + i, tl.sin(angle) + 2 * tl.cos(angle))


def test_angles_that_are_known_to_be_small(both):
    x = np.random.default_rng(0).integers(-(1 << 31), 1 << 31, 2048).astype(np.int32)
    want, got = both(near_kernel, x, np.zeros(x.size, np.float32))
    np.testing.assert_allclose(got, want, rtol=0, atol=4e-7)


@tw.jit
def halves_kernel(x_ptr, out_ptr, KIND: tl.constexpr):
    i = tl.program_id(0) * 256 + tl.arange(0, 256)
    x = tl.load(x_ptr + i).to(KIND)
    y = tl.load(x_ptr + (i ^ 5)).to(KIND)
    tl.store(out_ptr + i, ((x * y + x) - y * 3).to(tl.float32))


@tw.jit
def far_kernel(x_ptr, out_ptr):
    i = tl.program_id(0) * 256 + tl.arange(0, 256)
    tl.store(out_ptr + i, tl.sin(tl.load(x_ptr + i).to(tl.float32) * 1e3))


def test_other_angles_may_be_huge():
    x, out = np.zeros(256, np.int32), np.zeros(256, np.float32)
    assert "f64" not in text_of(near_kernel, x, out)
    assert "f64" in text_of(far_kernel, x, out)


@pytest.mark.parametrize("kind", [tl.float16, tl.bfloat16], ids=str)
def test_arithmetic_of_16_bits(kind, both):
    x = edges() / 64
    with np.errstate(all="ignore"):
        want, got = both(halves_kernel, x, np.zeros(x.size, np.float32), KIND=kind)
    np.testing.assert_array_equal(got, want)
