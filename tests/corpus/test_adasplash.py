"""AdaSplash: entmax and attention by it, against bisection in float64."""

from __future__ import annotations

import harness
import pytest
from harness import check, tensor

pytestmark = pytest.mark.corpus

harness.need("adasplash")

import adasplash
import torch

LOOSE = {"float32": 2e-3, "bfloat16": 5e-2}
dtypes = pytest.mark.parametrize("dtype", list(LOOSE))


@pytest.fixture(autouse=True)
def gpu(pretend_cuda):
    """The package makes tensors on CUDA."""


class Entmax(torch.autograd.Function):
    """The alpha-entmax of the last dimension, by bisection."""

    @staticmethod
    def forward(ctx, z, alpha):
        z = z * (alpha - 1)
        low = z.max(-1, keepdim=True).values - 1
        high = low + 1
        for _ in range(60):
            middle = (low + high) / 2
            total = ((z - middle).clamp_min(0) ** (1 / (alpha - 1))).sum(-1, keepdim=True)
            low, high = torch.where(total >= 1, middle, low), torch.where(total < 1, middle, high)
        p = (z - low).clamp_min(0) ** (1 / (alpha - 1))
        ctx.save_for_backward(p)
        ctx.alpha = alpha
        return p / p.sum(-1, keepdim=True)

    @staticmethod
    def backward(ctx, grad):
        (p,) = ctx.saved_tensors
        s = torch.where(p > 0, p ** (2 - ctx.alpha), 0.0)
        return s * (grad - (grad * s).sum(-1, keepdim=True) / s.sum(-1, keepdim=True)), None


def attend(q, k, v, causal):
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -1e30)
    return Entmax.apply(scores, 1.5) @ v


@dtypes
@pytest.mark.parametrize("n", [64, 100, 1000])
def test_entmax(target, n, dtype):
    x = [tensor(3, n, scale=2)]
    check(
        lambda x: adasplash.triton_entmax_v1(x, alpha=1.5),
        lambda x: Entmax.apply(x, 1.5), x, dtype, error=LOOSE[dtype],
    )  # fmt: skip
    # The gradient of the second version takes a root of 16-bit numbers, which Triton refuses.
    check(
        lambda x: adasplash.triton_entmax_v2(x, alpha=1.5, n_iter=4),
        lambda x: Entmax.apply(x, 1.5), x, dtype, grad=dtype == "float32", error=LOOSE[dtype],
    )  # fmt: skip
    check(
        lambda x: adasplash.triton_sparsemax(x, n_iter=4),
        lambda x: Entmax.apply(x, 2.0), x, dtype, error=LOOSE[dtype],
    )  # fmt: skip


@dtypes
@pytest.mark.parametrize(
    "name, causal",
    [
        ("adasplash_v1", False), ("adasplash_v1", True), ("adasplash_no_block_mask", False),
        ("adasplash_v2", True),
    ],
)  # fmt: skip
def test_attention(target, name, causal, dtype):
    options = {} if name == "adasplash_v2" else {"is_causal": causal}
    check(
        lambda *x: getattr(adasplash, name)(*x, **options),
        lambda *x: attend(*x, causal),
        [tensor(1, 1, 128, 32, seed=i) for i in range(3)],
        dtype,
        error=LOOSE[dtype] * 2,
    )
