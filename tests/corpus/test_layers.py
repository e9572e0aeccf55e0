"""Layers of smaller packages: the mLSTM of mlstm-kernels, and triformer's."""

from __future__ import annotations

import inspect

import harness
import pytest
from harness import check, integers, tensor

pytestmark = pytest.mark.corpus

harness.need("mlstm_kernels", "triformer")

import torch
import torch.nn.functional as F
from mlstm_kernels.torch import get_mlstm_kernel
from triformer import TritonCrossEntropyLoss, TritonLayerNorm, TritonSoftmax
from triformer.rms_norm import TritonRMSNorm

every_dtype = pytest.mark.parametrize("dtype", harness.DTYPES)


@pytest.fixture(autouse=True)
def gpu(pretend_cuda):
    """The packages ask for CUDA."""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "name",
    ["chunkwise--triton_limit_chunk", "chunkwise--triton_xl_chunk",
     "chunkwise--triton_xl_chunk_siging", "parallel--triton_limit_headdim"],
)  # fmt: skip
def test_mlstm(target, name, dtype):
    kernel = get_mlstm_kernel(name)
    gates = "siging_" if "siging" in name else ""
    plain = get_mlstm_kernel(f"parallel--native_{gates}custbw")
    options = {"chunk_size": 64} if "chunkwise" in name else {}
    if "autocast_kernel_dtype" in inspect.signature(kernel).parameters:
        options["autocast_kernel_dtype"] = getattr(torch, dtype)
    check(
        lambda *x: kernel(*x, **options),
        lambda *x: plain(*x),
        [*(tensor(1, 2, 128, 64, seed=i) for i in range(3)), tensor(1, 2, 128),
         tensor(1, 2, 128, seed=1) + 3],
        dtype,
        error=3e-2 if dtype == "float32" else 8e-2,  # the package's products take tf32
    )  # fmt: skip


@every_dtype
@pytest.mark.parametrize("cols", [64, 100, 1000])
def test_triformer_norms(target, cols, dtype):
    kind, x = getattr(torch, dtype), [tensor(3, 5, cols)]
    layer = TritonLayerNorm(cols).to(kind)
    if cols & (cols - 1) == 0:  # the package centres what it reads beyond the row
        check(layer, lambda x: F.layer_norm(x, (cols,), eps=layer.eps), x, dtype)
    check(
        TritonRMSNorm(cols).to(kind),
        lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6),
        x, dtype, error=harness.ERROR[dtype] * 2,
    )  # fmt: skip


@pytest.mark.parametrize("cols", [64, 100])
@pytest.mark.parametrize("causal", [False, True])
def test_triformer_softmax(target, cols, causal):
    after = torch.ones(cols, cols).triu(1).bool()
    check(
        TritonSoftmax(causal),
        lambda x: torch.softmax(x.masked_fill(after, -1e300) if causal else x, -1),
        [tensor(2, cols, cols)],
        "float32",
    )


@every_dtype
def test_triformer_cross_entropy(target, dtype):
    labels = integers(0, 100, 12)
    check(
        lambda x: TritonCrossEntropyLoss(-100, "mean", 2)(x, labels),
        lambda x: F.cross_entropy(x, labels),
        [tensor(12, 100)],
        dtype,
        error=harness.ERROR[dtype] * 2,
    )
