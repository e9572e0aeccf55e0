"""Bytes and 16-bit floats are computed several at a time, as one by one."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from simulator import SimulatedTarget
from test_ptx import kernel_ir

import tilewright as tw
from tilewright import language as tl
from tilewright.targets import base
from tilewright.targets.cuda.target import ptx_for

N = 256 * 256


@tw.jit
def of_bytes(x, y, out, N: tl.constexpr, COUNT: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    at = out + i
    tl.store(at, a + b)
    tl.store(at + COUNT, a - b)
    tl.store(at + 2 * COUNT, (a & b) | (a ^ 0x5A))
    tl.store(at + 3 * COUNT, (a >> 3) - 7)
    tl.store(at + 4 * COUNT, (a << 5) ^ (b >> 7))


@tw.jit
def of_halves(x, y, out, N: tl.constexpr, COUNT: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, a + b)
    tl.store(out + COUNT + i, a - b)
    tl.store(out + 2 * COUNT + i, a * b)


@pytest.fixture(params=["sm_80", "sm_90a"])
def simulated(request, monkeypatch):
    monkeypatch.setitem(base.TARGETS, "simulated", lambda: SimulatedTarget(request.param, 1))


def both(kernel, x, y, count) -> list[np.ndarray]:
    out = []
    for target in ("eager", "simulated"):
        out.append(np.zeros((count, x.size), x.dtype))
        with tw.options(target=target, cache=False):
            kernel[(x.size // 1024,)](x, y, out[-1], N=1024, COUNT=x.size)
        kernel.forget()
    return out


@pytest.mark.parametrize("dtype", [np.int8, np.uint8], ids=str)
def test_all_pairs_of_bytes(dtype, simulated):
    x = np.repeat(np.arange(256), 256).astype(np.uint8).view(dtype)
    y = np.tile(np.arange(256), 256).astype(np.uint8).view(dtype)
    want, got = both(of_bytes, x, y, 5)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=str)
def test_halves(dtype, simulated):
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 1 << 16, 8192).astype(np.uint16).view(dtype) for _ in range(2))
    with np.errstate(all="ignore"):
        want, got = both(of_halves, x, y, 3)
    np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


def test_fewer_instructions():
    x = np.zeros(1024, np.int8)
    kernel = kernel_ir(of_bytes, {"x": x, "y": x, "out": x, "N": 1024, "COUNT": 1024}, {})
    assert ptx_for(kernel, "sm_80", num_warps=1, bounds=False).count("xor.b32") == 6 * 8
    x = np.zeros(1024, np.float16)
    kernel = kernel_ir(of_halves, {"x": x, "y": x, "out": x, "N": 1024, "COUNT": 1024}, {})
    assert ptx_for(kernel, "sm_80", num_warps=1, bounds=False).count("mul.rn.f16x2") == 16
