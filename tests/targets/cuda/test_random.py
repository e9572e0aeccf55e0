"""Random kernels compiled for GPUs, run on the simulator, do what the eager runner does."""

from __future__ import annotations

import kernels as plain
import native
import numpy as np
import pytest
import tiles
from hypothesis import HealthCheck, given, settings
from simulator import Simulated

from tilewright.ir.rewrite import rebuild
from tilewright.ir.verify import verify
from tilewright.passes import pipeline

some = settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def check(case, grid, num_warps, arch="sm_80"):
    verify(case.kernel)
    wanted, found = case.fresh(), case.fresh()
    native.run_eager(case.kernel, grid, wanted)
    kernel = pipeline.run(rebuild(case.kernel), pipeline.STANDARD)
    Simulated(kernel, arch, num_warps).run(grid, found)
    for param, x, y in zip(case.kernel.params, wanted, found, strict=True):
        if isinstance(x, np.ndarray):
            np.testing.assert_array_equal(comparable(y), comparable(x), err_msg=param.name)


def comparable(x):
    """Narrow floats as fp32, in which NumPy finds NaN equal to itself."""
    return x.astype(np.float32) if x.dtype.kind in "Vf" and x.dtype.itemsize < 4 else x


@pytest.mark.parametrize("num_warps", (1, 4))
@some
@given(case=tiles.kernels())
def test_tiles(num_warps, case):
    check(case, tiles.GRID, num_warps)


@some
@given(case=plain.kernels())
def test_plain_kernels(case):
    check(case, plain.GRID, 2)
