"""Native code does what the eager runner does: random kernels on this CPU and on lesser ones."""

from __future__ import annotations

import kernels as plain
import native
import numpy as np
import pytest
import tiles
from hypothesis import HealthCheck, given, settings

from tilewright.codegen import llvm
from tilewright.ir.rewrite import rebuild
from tilewright.passes import pipeline

LEVELS = [level for level in ("", "avx2") if llvm.host_machine().arch == "x86_64" or not level]
some = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def check(case, grid, features, passes=()):
    wanted, found = case.fresh(), case.fresh()
    native.run_eager(case.kernel, grid, wanted)
    kernel = pipeline.run(rebuild(case.kernel), passes)
    fault = native.run_native(kernel, grid, found, features)
    assert fault[0] == 0, "a fault where eager mode has none"
    for param, x, y in zip(case.kernel.params, wanted, found, strict=True):
        if isinstance(x, np.ndarray):
            np.testing.assert_array_equal(comparable(y), comparable(x), err_msg=param.name)


def comparable(x):
    """Narrow floats as fp32, in which NumPy finds NaN equal to itself."""
    return x.astype(np.float32) if x.dtype.kind in "Vf" and x.dtype.itemsize < 4 else x


@pytest.mark.parametrize("features", LEVELS)
@some
@given(case=tiles.kernels())
def test_tiles(features, case):
    check(case, tiles.GRID, features)


@some
@given(case=tiles.kernels())
def test_tiles_after_passes(case):
    check(case, tiles.GRID, "", pipeline.STANDARD)


@some
@given(case=plain.kernels())
def test_plain_kernels(case):
    check(case, plain.GRID, "")
