"""Packages of one attention each: lightning, sage, trifast, with forward-mode derivatives."""

from __future__ import annotations

import importlib

import harness
import pytest
from harness import check, integers, tensor

pytestmark = pytest.mark.corpus

harness.need("lightning_attn", "sageattention", "trifast", "jvp_flash_attention")

import torch
import torch.nn.functional as F
from jvp_flash_attention.jvp_attention import JVPAttn
from jvp_flash_attention.jvp_attention import attention as jvp_attention
from lightning_attn.ops.triton import lightning_attn2, lightning_attn2_no_decay
from lightning_attn.ops.triton.srmsnorm import SimpleRMSNorm
from sageattention.core import sageattn

every_dtype = pytest.mark.parametrize("dtype", harness.DTYPES)
halves = pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
causal = pytest.mark.parametrize("causal", [False, True])


@pytest.fixture(autouse=True)
def gpu(pretend_cuda):
    """The packages ask for CUDA."""


@every_dtype
@pytest.mark.parametrize("shape", [(1, 2, 128, 32, 32), (1, 2, 70, 64, 32)])
def test_lightning(target, shape, dtype):
    b, h, n, d, e = shape
    slopes = torch.linspace(0.01, 0.2, h, dtype=torch.float64)
    at = torch.arange(n)
    after = at[:, None] < at
    decay = torch.exp(-slopes.view(h, 1, 1) * (at[:, None] - at)).masked_fill(after, 0)
    inputs = [tensor(b, h, n, d, scale=0.3), tensor(b, h, n, d, seed=1, scale=0.3)]
    inputs.append(tensor(b, h, n, e))
    check(
        lambda q, k, v: lightning_attn2(q, k, v, slopes.float()),
        lambda q, k, v: (q @ k.transpose(-1, -2) * decay) @ v,
        inputs, dtype, error=harness.ERROR[dtype] * 2,
    )  # fmt: skip
    check(
        lightning_attn2_no_decay,
        lambda q, k, v: (q @ k.transpose(-1, -2)).tril() @ v,
        inputs, dtype, error=harness.ERROR[dtype] * 2,
    )  # fmt: skip


@every_dtype
def test_lightning_norm(target, dtype):
    check(
        SimpleRMSNorm(100),
        lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6),
        [tensor(7, 100)],
        dtype,
    )


@halves
@causal
@pytest.mark.parametrize("width", [64, 96])
def test_sage(target, width, causal, dtype):
    check(
        lambda q, k, v: sageattn(q, k, v, is_causal=causal),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
        [tensor(1, 2, 128, width, seed=i) for i in range(3)],
        dtype, grad=False, error=6e-2,
    )  # fmt: skip


@every_dtype
@pytest.mark.parametrize("shape", [(2, 1, 21, 16)])
def test_trifast(target, shape, dtype):
    b, h, n, d = shape
    mask = integers(0, 5, b, n, n) == 0
    trifast = importlib.import_module("trifast.torch")  # which asks for the device at once

    def reference(q, k, v, bias):
        scores = torch.einsum("bhijd,bhikd->bhijk", q, k) * d**-0.5 + bias[:, :, None]
        scores = scores.masked_fill(mask[:, None, :, None], -1e30)
        return torch.einsum("bhijk,bhikd->bhijd", scores.softmax(-1), v)

    check(
        lambda q, k, v, bias: trifast.triangle_attention(q, k, v, bias, mask),
        reference,
        [*(tensor(b, h, n, n, d, seed=i) for i in range(3)), tensor(b, h, n, n)],
        dtype,
        error=harness.ERROR[dtype] * 2,
    )


@halves
@causal
def test_jvp_attention(target, causal, dtype):
    inputs = [tensor(1, 2, 64, 32, seed=i) for i in range(3)]
    check(
        lambda q, k, v: jvp_attention(q, k, v, causal=causal),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
        inputs, dtype, error=5e-2,
    )  # fmt: skip


@halves
def test_jvp(target, dtype):
    kind = getattr(torch, dtype)
    at = [tensor(1, 2, 64, 32, seed=i) for i in range(3)]
    along = [tensor(1, 2, 64, 32, seed=i) for i in range(3, 6)]

    def plain(q, k, v):
        return (q @ k.transpose(-1, -2) * 32**-0.5).softmax(-1) @ v

    found = torch.func.jvp(
        lambda q, k, v: JVPAttn.fwd_dual(q, k, v),
        tuple(x.to(kind) for x in at), tuple(x.to(kind) for x in along),
    )  # fmt: skip
    wanted = torch.func.jvp(plain, tuple(at), tuple(along))
    for a, b in zip(found, wanted):
        harness.close(a, b, 8e-2, "value or derivative")
