"""Cut cross entropy: a product with the classes and its loss in one kernel, against torch."""

from __future__ import annotations

import harness
import pytest
from harness import check, integers, tensor

pytestmark = pytest.mark.corpus

harness.need("cut_cross_entropy")

import torch
import torch.nn.functional as F
from cut_cross_entropy import linear_cross_entropy


@pytest.fixture(autouse=True)
def uncompiled(pretend_cuda):
    """The package compiles small functions with torch, which is not what is tested."""
    torch._dynamo.reset()  # it would compile a function for 8 kinds of arguments and no more


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("shape", [(64, 300, 64), (33, 517, 48)])
@pytest.mark.parametrize("cap", [None, 5.0])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_linear_cross_entropy(target, shape, dtype, cap, reduction):
    rows, classes, width = shape
    labels = integers(0, classes, rows)
    labels[::7] = -100

    def reference(x, w):
        z = x @ w.T
        return F.cross_entropy(
            z if cap is None else cap * torch.tanh(z / cap), labels, reduction=reduction
        )

    check(
        lambda x, w: linear_cross_entropy(
            x, w, labels, softcap=cap, reduction=reduction, filter_eps=None
        ),
        reference,
        [tensor(rows, width), tensor(classes, width, scale=width**-0.5)],
        dtype,
        error=harness.ERROR[dtype] * 1.5,
    )
