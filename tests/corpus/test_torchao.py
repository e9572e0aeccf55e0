"""Products and conversions of torchao: fp8 in blocks and rows, int8 with scales."""

from __future__ import annotations

import harness
import pytest
from harness import close, integers, tensor

pytestmark = pytest.mark.corpus

harness.need("torchao")

import torch
from torchao.kernel import blockwise_quantization as blockwise
from torchao.prototype.moe_training.kernels import float8_rowwise, jagged_float8_scales
from torchao.prototype.quantized_training.int8_mm import scaled_int8_mm_cuda

FP8 = torch.float8_e4m3fn


@pytest.fixture(autouse=True)
def gpu(pretend_cuda):
    """The operators are registered for CUDA."""


def by_blocks(scales, rows=1):
    return scales.repeat_interleave(rows, 0).repeat_interleave(128, 1)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_blockwise(target, dtype):
    x, w = tensor(64, 256).to(getattr(torch, dtype)), tensor(256, 256, seed=1).float()
    given, given_scales = blockwise.fp8_blockwise_act_quant(x, 128)
    wide = given.double() * by_blocks(given_scales)
    close(wide, x.double(), 0.04, "activations")
    weights, scales = blockwise.fp8_blockwise_weight_quant(w, 128)
    back = blockwise.fp8_blockwise_weight_dequant(weights, scales, 128)
    wide_weights = weights.double() * by_blocks(scales, 128)
    close(wide_weights, w.double(), 0.04, "weights")
    close(back.double(), wide_weights, 1e-2, "weights again")
    product = blockwise.blockwise_fp8_gemm(given, given_scales, weights, scales)
    close(product.double(), wide @ wide_weights.T, 1e-2, "product")


@pytest.mark.parametrize("shape", [(70, 96, 80), (33, 64, 128)])
def test_int8(target, shape):
    m, k, n = shape
    a, b = (
        integers(-128, 128, m, k).to(torch.int8),
        integers(-128, 128, k, n, seed=1).to(torch.int8),
    )
    rows, columns = tensor(m, seed=2).abs().float(), tensor(n, seed=3).abs().float()
    found = scaled_int8_mm_cuda(a, b, rows, columns)
    close(found, (a.double() @ b.double()) * rows[:, None] * columns, 1e-6, "product")


def power_of_two(largest):
    """The scale that brings the largest number of a row near fp8's own, rounded down."""
    return torch.exp2(torch.floor(torch.log2(torch.finfo(FP8).max / largest)))


def test_rows_of_experts(target):
    weights = tensor(3, 64, 128).float()
    found, scales = float8_rowwise.triton_fp8_rowwise_3d_transpose_rhs(
        weights, output_dtype=FP8, round_scales_to_power_of_2=True
    )
    turned = weights.transpose(1, 2)
    wanted = power_of_two(turned.abs().amax(1))
    close(scales, wanted, 0, "scales")
    close(found.float(), (turned * wanted[:, None]).to(FP8).float(), 0, "rows")


def test_columns_of_groups(target):
    x, ends = tensor(96, 64).float(), [32, 96]
    found, scales = jagged_float8_scales.triton_fp8_per_group_colwise_scales(
        x, torch.tensor(ends, dtype=torch.int32), output_dtype=FP8, round_scales_to_power_of_2=True
    )
    for i, (first, last) in enumerate(zip([0, *ends], ends)):
        part = x[first:last]
        wanted = power_of_two(part.abs().amax(0))
        close(scales[64 * i : 64 * (i + 1)], wanted, 0, "scales")
        close(found[first:last].float(), (part * wanted).to(FP8).float(), 0, "columns")
