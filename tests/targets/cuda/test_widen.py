"""Bytes become floats by arithmetic on bits, exactly."""

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


@tw.jit
def widen(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i).to(out.dtype.element_ty))


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
@pytest.mark.parametrize("to", [np.float16, ml_dtypes.bfloat16, np.float32], ids=str)
@pytest.mark.parametrize("source", [np.int8, np.uint8], ids=str)
def test_every_byte(source, to, arch, monkeypatch):
    monkeypatch.setitem(base.TARGETS, "simulated", lambda: SimulatedTarget(arch, 1))
    x = np.random.default_rng(0).permutation(256).astype(np.uint8).view(source)
    out = np.zeros(256, to)
    with tw.options(target="simulated", cache=False):
        widen[(1,)](x, out, N=256)
    widen.forget()
    np.testing.assert_array_equal(out.astype(np.float64), x.astype(np.float64))


def test_without_conversions():
    kernel = kernel_ir(widen, {"x": np.zeros(256, np.int8), "out": np.zeros(256, np.float16),
                               "N": 256}, {})  # fmt: skip
    for arch in ("sm_75", "sm_80", "sm_90a"):
        text = ptx_for(kernel, arch, num_warps=1)
        assert "sub" in text and "cvt.rn.f16.s" not in text
