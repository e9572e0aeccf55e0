"""Cases of layers, losses, optimizers, codes, gathers and moves, against Triton's results."""

from __future__ import annotations

from functools import partial

import torch
from cases import BANDWIDTH, BF16, F16, F32, Case, Inputs, cdiv, empty, normal, numbers
from forms import FP8, INT8, INT32, form, positive, small

R, C = 16384, 4096
N = R * C
bytes_of = partial(form, unit=BANDWIDTH)


def starts(count: int, high: int) -> torch.Tensor:
    """Where bags begin that have up to twice the mean of numbers."""
    if Inputs.device != "cuda":
        return torch.empty(count + 1, dtype=INT32)
    cuts = torch.randint(high, (count - 1,), device="cuda").sort().values
    ends = torch.tensor([0], device="cuda"), torch.tensor([high], device="cuda")
    return torch.cat([ends[0], cuts, ends[1]]).to(INT32)


def layer_forms() -> list[Case]:
    return [
        bytes_of("batch norm 64x256x56x56 fp32", "batch_norm_kernel", 12 * 64 * 256 * 3136,
                 lambda: [normal(64, 256, 3136), normal(256), normal(256), empty(64, 256, 3136),
                          64, 256, 3136, 1e-5], (256,), [3], BLOCK=1024),
        bytes_of("batch norm, inference 64x256x56x56 fp32", "batch_norm_inference_kernel",
                 8 * 64 * 256 * 3136,
                 lambda: [normal(64, 256, 3136), normal(256), positive(256), normal(256),
                          normal(256), empty(64, 256, 3136), 64 * 256 * 3136, 256, 3136, 1e-5],
                 (64 * 256 * 3136 // 1024,), [5], BLOCK=1024),
        bytes_of("instance norm 4096 of 128x128 fp32", "instance_norm_kernel", 8 * N,
                 lambda: [normal(N), empty(N), 16384, 1e-5], (4096,), [1], BLOCK=2048,
                 num_warps=8),
        bytes_of("group norm backward 32x256x64x64 fp16", "group_norm_backward_kernel",
                 6 * 32 * 256 * 4096,
                 lambda: [normal(32, 256, 4096, dtype=F16), normal(32, 256, 4096, dtype=F16),
                          normal(256), empty(32, 256, 4096, dtype=F16), small(32, 32),
                          positive(32, 32), 256, 4096], (32, 32), [3], PER=8, BLOCK=2048,
                 num_warps=8),
        bytes_of("rms norm backward 16384x4096 bf16", "rms_backward_kernel", 6 * N,
                 lambda: [normal(R, C, dtype=BF16), normal(R, C, dtype=BF16),
                          normal(C, dtype=BF16), positive(R), empty(R, C, dtype=BF16),
                          empty(132, C), R, C, cdiv(R, 132)], (132,), [4], tolerance=5e-2,
                 BLOCK=4096, num_warps=8),
        bytes_of("layer norm, persistent 65536x1024 bf16", "norm_persistent_kernel", 4 * N,
                 lambda: [empty(65536, 1024, dtype=BF16), normal(65536, 1024, dtype=BF16),
                          normal(1024, dtype=BF16), 65536, 1024, 1e-5], (132 * 8,), [0],
                 tolerance=5e-2, BLOCK=1024),
        bytes_of("log softmax 4096x50257 bf16", "log_softmax_kernel", 4 * 4096 * 50257,
                 lambda: [normal(4096, 50257, dtype=BF16), empty(4096, 50257, dtype=BF16), 50257],
                 (4096,), [1], tolerance=5e-2, BLOCK=4096, num_warps=8),
        bytes_of("causal softmax 32x2048x2048 fp16", "causal_softmax_kernel", 4 * 2 * N,
                 lambda: [normal(32, 2048, 2048, dtype=F16), empty(32, 2048, 2048, dtype=F16),
                          2048, 0.1], (2048, 32), [1], BLOCK=2048, num_warps=4),
        bytes_of("softmax of short rows 2^20x64 fp32", "small_softmax_kernel", 8 * N,
                 lambda: [normal(1 << 20, 64), empty(1 << 20, 64), 1 << 20, 64], (1 << 15,), [1],
                 ROWS=32, COLS=64),
        bytes_of("softmax of short rows 2^18x200 fp32", "small_softmax_kernel", 8 * 200 << 18,
                 lambda: [normal(1 << 18, 200), empty(1 << 18, 200), 1 << 18, 200], (1 << 15,),
                 [1], ROWS=8, COLS=256),
        bytes_of("KL divergence 8192x16384 fp32", "kl_kernel", 8 * 2 * N,
                 lambda: [normal(8192, 16384), positive(8192, 16384), empty(8192), 16384, 1e-10],
                 (8192,), [2], BLOCK=2048),
        bytes_of("focal loss 2^26 fp32", "focal_loss_kernel", 12 * N,
                 lambda: [normal(N), positive(N, by=0.2), empty(N), N, 0.25, 2.0], (N // 1024,),
                 [2], BLOCK=1024),
        bytes_of("geglu backward 16384x4096 bf16", "geglu_backward_kernel", 10 * N,
                 lambda: [*(normal(R, C, dtype=BF16) for _ in range(3)),
                          *(empty(R, C, dtype=BF16) for _ in range(2)), C], (R,), [3, 4],
                 tolerance=5e-2, BLOCK=4096, num_warps=8),
        bytes_of("AdamW step 2^26 bf16", "adamw_kernel", 22 * N,
                 lambda: [normal(N, dtype=BF16), normal(N, dtype=BF16), normal(N), positive(N), N,
                          1e-3, 0.9, 0.999, 1e-8, 0.01, 0.1, 0.1], (N // 1024,), [0, 2, 3],
                 kept=[0, 2, 3], BLOCK=1024),
        bytes_of("Lion step 2^26 fp32", "lion_kernel", 20 * N,
                 lambda: [normal(N), normal(N), normal(N), N, 1e-3, 0.9, 0.99, 0.01],
                 (N // 1024,), [0, 2], kept=[0, 2], BLOCK=1024),
        bytes_of("squared norm 2^28 bf16", "squared_norm_kernel", 8 * N,
                 lambda: [normal(4 * N, dtype=BF16), empty(1), 4 * N], (132 * 8,), [1],
                 zeroed=True, BLOCK=2048),
        bytes_of("recurrence 16x2048x2048 fp32", "recurrence_kernel", 12 * N,
                 lambda: [small(16, 2048, 2048, by=0.3), normal(16, 2048, 2048),
                          empty(16, 2048, 2048), 2048, 2048], (32, 16), [2], BLOCK=64,
                 num_warps=2),
        bytes_of("column sums by atomics 16384x4096 bf16", "column_sums_kernel", 2 * N,
                 lambda: [normal(R, C, dtype=BF16), empty(C), R, C, 128], (4, 128), [1],
                 zeroed=True, tolerance=1e-1, BLOCK=1024),
    ]  # fmt: skip


def list_forms() -> list[Case]:
    return [
        bytes_of("quantize rows to int8 16384x4096 bf16", "row_quantize_kernel", 3 * N,
                 lambda: [normal(R, C, dtype=BF16), empty(R, C, dtype=INT8), empty(R), C], (R,),
                 [1, 2], tolerance=1.0, BLOCK=2048),
        bytes_of("dequantize rows of int8 16384x4096 fp16", "row_dequantize_kernel", 3 * N,
                 lambda: [numbers(100, R, C, dtype=INT8), small(R), empty(R, C, dtype=F16), C],
                 (R, 2), [2], BLOCK=2048),
        bytes_of("quantize blocks of 128x128 to fp8", "block_quantize_kernel", 3 * N,
                 lambda: [normal(R, C, dtype=BF16), empty(R, C, dtype=FP8), empty(128, 32), R, C],
                 (128, 32), [2], BLOCK=128, num_warps=8),
        bytes_of("pack to int4 16384x4096 fp16", "pack_int4_kernel", 2.5 * N,
                 lambda: [normal(R, C, dtype=F16), empty(R, C // 8, dtype=INT32),
                          empty(R, C // 128), C], (R,), [2], GROUP=128, ROWS=32),
        bytes_of("cumsum of long rows 512x131072 fp32", "long_cumsum_kernel", 8 * N,
                 lambda: [normal(512, 131072), empty(512, 131072), 131072], (512,), [1],
                 tolerance=1e-1, BLOCK=4096, num_warps=8),
        bytes_of("gating, 8 of 64 131072 tokens", "topk_gating_kernel", 131072 * 320,
                 lambda: [normal(131072, 64), empty(131072, 8), empty(131072, 8, dtype=INT32),
                          131072], (4096,), [1, 2], E=64, K=8, ROWS=32),
        bytes_of("compaction 2^26 fp32", "compact_kernel", 6 * N,
                 lambda: [normal(N), empty(4 * N), empty(1, dtype=INT32), N], (N // 2048,), [2],
                 zeroed=True, BLOCK=2048),
        bytes_of("average pool 3x3 32x64x224x224 fp32", "average_pool_kernel",
                 5 * 2048 * 224 * 224,
                 lambda: [normal(2048, 224, 224), empty(2048, 112, 112), 224, 224, 112, 112],
                 (2048, 25), [1], SIZE=3, BLOCK=512),
        bytes_of("upsample 2x 32x64x112x112 fp32", "upsample_kernel", 20 * 2048 * 112 * 112,
                 lambda: [normal(2048, 112, 112), empty(2048, 224, 224), 112, 112],
                 (49, 2048), [1], BLOCK=1024),
        bytes_of("embedding backward 16384 to 32000x1024 fp32", "embedding_backward_kernel",
                 12 * 16384 * 1024,
                 lambda: [normal(16384, 1024), numbers(32000, 16384), empty(32000, 1024), 1024],
                 (16384,), [2], zeroed=True, BLOCK=1024),
        bytes_of("embedding bags 16384 of 2^19x256 fp32", "bag_kernel", 4 * 256 << 19,
                 lambda: [normal(100000, 256), numbers(100000, 1 << 19), starts(16384, 1 << 19),
                          empty(16384, 256), 256], (16384,), [3], BLOCK=256, num_warps=2),
        bytes_of("unpermute 8192 of 8x4096 bf16", "unpermute_kernel", 18 * 8192 * 4096,
                 lambda: [normal(65536, 4096, dtype=BF16), numbers(65536, 8192, 8),
                          normal(8192, 8), empty(8192, 4096, dtype=BF16), 4096], (8192, 4), [3],
                 tolerance=5e-2, K=8, BLOCK=1024),
        bytes_of("cache of 65536 keys of 1024 bf16", "cache_kernel", 4 * N,
                 lambda: [normal(65536, 1024, dtype=BF16), torch.randperm(65536,
                          device=Inputs.device), empty(65536, 1024, dtype=BF16), 1024, 1024],
                 (65536,), [2], BLOCK=1024),
        bytes_of("swap axes 8x4096x32x64 bf16", "swap_axes_kernel", 4 * N,
                 lambda: [normal(8, 4096, 32, 64, dtype=BF16), empty(8, 32, 4096, 64, dtype=BF16),
                          4096, 32], (64, 256), [1], D=64, BLOCK=64),
        bytes_of("stencil of 5 points 8192x8192 fp32", "stencil_kernel", 8 * N,
                 lambda: [normal(8192, 8192), empty(8192, 8192).zero_(), 8192, 8192], (512, 64),
                 [1], BM=16, BN=128),
        bytes_of("argmin of columns 8192x8192 fp32", "column_argmin_kernel", 4 * N,
                 lambda: [normal(8192, 8192), empty(8192), empty(8192, dtype=INT32), 8192, 8192],
                 (256,), [1, 2], BM=64, BN=32),
        bytes_of("int8 matrix times vector 32768x8192", "int8_gemv_kernel", 4 * N,
                 lambda: [numbers(100, 32768, 8192, dtype=INT8), small(32768),
                          normal(8192, dtype=F16), empty(32768, dtype=F32), 32768, 8192],
                 (2048,), [3], tolerance=1.0, BN=16, BK=256),
        bytes_of("vector times matrix 16384x4096 fp16", "left_vector_kernel", 2 * N,
                 lambda: [normal(R, C, dtype=F16), normal(R, dtype=F16), empty(C), R, C, 512],
                 (32, 32), [2], zeroed=True, tolerance=1.0, BM=64, BN=128),
        bytes_of("sum by block pointers 8192x8192 fp32", "pointer_copy_kernel", 12 * N,
                 lambda: [normal(8192, 8192), normal(8192, 8192), empty(8192, 8192), 8192, 8192],
                 (256, 64), [2], BM=32, BN=128),
        bytes_of("copy by descriptors 8192x8192 bf16", "described_copy_kernel", 4 * N,
                 lambda: [normal(8192, 8192, dtype=BF16), empty(8192, 8192, dtype=BF16), 8192,
                          8192], (128, 64), [1], BM=64, BN=128),
        bytes_of("product with hints 2^26 fp32", "streaming_kernel", 12 * N,
                 lambda: [normal(N), normal(N), empty(N), N], (N // 1024,), [2], BLOCK=1024),
        bytes_of("outer product added 8192x8192 fp32", "outer_kernel", 8 * N,
                 lambda: [normal(8192), normal(8192), normal(8192, 8192), 8192, 8192], (128, 64),
                 [2], kept=[2], BM=64, BN=128),
        bytes_of("scatter of rows 16384 to 32000x1024 bf16", "half_scatter_kernel",
                 6 * 16384 * 1024,
                 lambda: [normal(16384, 1024, dtype=BF16), numbers(32000, 16384),
                          empty(32000, 1024, dtype=BF16), 1024], (16384,), [2], zeroed=True,
                 tolerance=1e-1, BLOCK=1024),
    ]  # fmt: skip


def memory_forms() -> list[Case]:
    return [*layer_forms(), *list_forms()]
