"""Products and sums become one instruction where nobody else reads the product."""

from __future__ import annotations

import numpy as np
import pytest
from test_ptx import kernel_ir

import tilewright as tw
from tilewright import language as tl
from tilewright.ir.inst import Kernel
from tilewright.runtime.descriptor import TensorDescriptor
from tilewright.targets.cuda.contract import contract
from tilewright.targets.cuda.target import CudaTarget

X = np.ones(256, np.float32)


@tw.jit
def joined(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    kept = a * b
    tl.store(out + i, a * a + b)
    tl.store(out + N + i, b - a * 3)
    tl.store(out + 2 * N + i, kept + b)
    tl.store(out + 3 * N + i, kept)


def ops(kernel: Kernel) -> list[str]:
    return [i.op.name for i in kernel.walk() if i.op.name in ("fma", "mul", "add", "sub", "neg")]


def test_single_products_are_joined():
    kernel = kernel_ir(joined, {"x": X, "y": X, "out": X, "N": 256}, {})
    assert ops(kernel).count("fma") == 0
    found = ops(contract(kernel))
    assert (found.count("fma"), found.count("mul")) == (2, 1)


@pytest.mark.parametrize("fused", [True, False])
def test_as_is_asked_for(fused):
    kernel = kernel_ir(joined, {"x": X, "y": X, "out": X, "N": 256}, {})
    kernel.meta["options"] = {} if fused else {"enable_fp_fusion": False}
    target = CudaTarget("sm_80")
    text = target.assembly(target.lower(kernel, bounds=False, counters=False).text)
    assert ("fma.rn.f32" in text) == fused


@tw.jit
def promised(x, out, n, N: tl.constexpr):
    at = x + tl.arange(0, N)
    total = tl.zeros((N,), tl.float32)
    for _ in range(n):
        tl.multiple_of(at, 16)
        total += tl.load(at)
        at += n
    tl.store(out + tl.arange(0, N), total)


@tw.jit
def described(x, out, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), tl.reshape(x.load([1, 0]), (N,)))


def wide_loads(kernel: Kernel) -> int:
    target = CudaTarget("sm_80")
    return target.lower(kernel, bounds=False, counters=False).text.count("ld.global.v4.b32")


def test_promises_as_statements_hold():
    arguments = {"x": X[1:], "out": X, "n": 3, "N": 256}
    assert wide_loads(kernel_ir(promised, arguments, {"num_warps": 1})) > 0


@pytest.mark.parametrize(("columns", "is_wide"), [(512, True), (513, False)])
def test_descriptors_tell_what_divides_their_strides(columns, is_wide):
    x = np.ones((3, columns), np.float32)
    desc = TensorDescriptor.from_tensor(x, [1, 512])
    kernel = kernel_ir(described, {"x": desc, "out": X, "N": 512}, {})
    assert (wide_loads(kernel) > 0) == is_wide
