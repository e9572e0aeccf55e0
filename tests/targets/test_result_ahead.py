"""Products of loops ask for the memory of their results where that is known."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilewright
import tilewright.language as tl


@tilewright.jit
def sums(x, y, out, n, stride, LATE: tl.constexpr, B: tl.constexpr):
    lanes = tl.arange(0, B)
    at = lanes[:, None] * B + lanes[None, :]
    total = tl.zeros((B, B), tl.float32)
    for i in range(n):
        total += tl.dot(tl.load(x + i * B * B + at), tl.load(y + i * B * B + at))
    if LATE:  # the distance of rows is loaded after the loop
        apart = tl.load(stride)
    else:
        apart = B + 3
    to = out + lanes[:, None] * apart + lanes[None, :]
    tl.store(to, total.to(tl.float16), lanes[:, None] < 20)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("turns", [0, 1, 3])
def test_results_are_asked_for(late, turns):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((3, 32, 32)).astype(np.float32) for _ in range(2))
    out, stride = np.zeros((20, 35), np.float16), np.array([35], np.int32)
    with tilewright.options(target="cpu"):
        kernel = sums[(1,)](x, y, out, turns, stride, LATE=late, B=32)
    calls = re.findall(r"call void @tw_gemm\w+\(.*\)", kernel.asm["llir"])
    assert len(calls) == 1
    assert ("ptr null, i64 0" in calls[0]) is (late or turns == 1)  # one turn is no loop
    want = sum((x[i].astype(np.float64) @ y[i] for i in range(turns)), np.zeros((32, 32)))
    np.testing.assert_allclose(out[:, :32], want[:20], rtol=2e-3, atol=2e-3)
    assert not out[:, 32:].any()
