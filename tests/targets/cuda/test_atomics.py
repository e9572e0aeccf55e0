"""Atomics on tiles: sums of neighbours at once, and the order in which they are seen."""

import ml_dtypes
import numpy as np
import pytest
from simulator import SimulatedTarget
from test_ptx import kernel_ir

import tilewright as tw
from tilewright import language as tl
from tilewright.targets import base
from tilewright.targets.cuda.target import ptx_for

KINDS = (np.float32, np.float16, ml_dtypes.bfloat16)


@tw.jit
def rows_kernel(x, index, out, n, B: tl.constexpr):
    """Rows added to other rows."""
    i = tl.arange(0, B)
    row = tl.load(index + tl.program_id(0))
    value = tl.load(x + tl.program_id(0) * B + i, mask=i < n, other=0)
    tl.atomic_add(out + row * B + i, value, mask=i < n)


@tw.jit
def before_kernel(x, index, out, n, B: tl.constexpr):
    """The same, and what was there before goes to where the summands were."""
    i = tl.arange(0, B)
    row = tl.load(index + tl.program_id(0))
    at = x + tl.program_id(0) * B + i
    old = tl.atomic_add(out + row * B + i, tl.load(at, mask=i < n, other=0), mask=i < n)
    tl.store(at, old, mask=i < n)


@tw.jit
def apart_kernel(x, index, out, n, B: tl.constexpr):
    """Elements that lie anywhere."""
    i = tl.arange(0, B)
    tl.atomic_add(out + tl.load(index + i % n) * 3, tl.load(x + i), mask=i < n)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize("kernel", [rows_kernel, before_kernel, apart_kernel])
@pytest.mark.parametrize("n", [256, 248, 77])
def test_sums(kernel, dtype, n, monkeypatch):
    target = SimulatedTarget("sm_90a", 2)
    monkeypatch.setitem(base.TARGETS, "simulated", lambda: target)
    rng = np.random.default_rng(0)
    x = rng.integers(-8, 8, 4 * 256).astype(dtype)
    index = np.resize([2, 0, 2, 3], 256).astype(np.int32)
    found = []
    for chosen in ("eager", "simulated"):
        values, out = x.copy(), np.ones(4 * 256, dtype)
        with tw.options(target=chosen, cache=False):
            kernel.forget()
            kernel[(4,)](values, index, out, n, B=256)
            kernel.forget()
        found += [values.astype(np.float32), out.astype(np.float32)]
    np.testing.assert_array_equal(found[2], found[0])
    np.testing.assert_array_equal(found[3], found[1])


def text_of(kernel, *arrays, arch="sm_90a", **constants):
    arguments, options = kernel.parameters.bind(arrays, constants)
    return ptx_for(kernel_ir(kernel, arguments, options), arch, bounds=False)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_neighbours_are_added_at_once(dtype):
    x, index = np.zeros(1024, dtype), np.zeros(256, np.int32)
    ptx = text_of(rows_kernel, x, index, x, 256, B=256)
    # 2 elements are left for a thread of 4 warps; more of them are one access all the same
    wide = text_of(rows_kernel, x, index, x, 1024, B=1024)
    assert ptx.count("red.relaxed.gpu.global.add") == 1
    assert wide.count("red.relaxed.gpu.global.add") == (2 if dtype is np.float32 else 1)
    assert "fence" not in wide and "membar" not in wide


@tw.jit
def message_kernel(x, flags, out, SEM: tl.constexpr, B: tl.constexpr):
    """Data for another program, a tile of flags, and data of another one."""
    i = tl.arange(0, B)
    pid = tl.program_id(0)
    tl.store(x + pid * B + i, i)
    seen = tl.atomic_add(flags + i, 1, sem=SEM)
    tl.store(out + pid * B + i, tl.load(x + (1 - pid) * B + i) * seen)


@pytest.mark.parametrize(
    ("sem", "fences"), [("relaxed", 0), ("acquire", 1), ("release", 1), ("acq_rel", 2)]
)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_tiles_of_signals_are_in_order(sem, fences, arch):
    x = np.zeros(512, np.int32)
    ptx = text_of(message_kernel, x, x.copy(), x.copy(), arch=arch, SEM=sem, B=256)
    assert ptx.count("fence.") + ptx.count("membar.") == fences
