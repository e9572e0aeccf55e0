"""Cases by the arguments of their kernels, mostly compared with Triton's results; rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from cases import (
    BANDWIDTH,
    BF16,
    COMPUTE,
    F16,
    F32,
    Case,
    Inputs,
    Run,
    empty,
    normal,
    numbers,
    unary,
)  # fmt: skip

FP8, INT8, INT32, INT64 = torch.float8_e4m3fn, torch.int8, torch.int32, torch.int64
SMS = 132


def small(*shape: int, dtype: torch.dtype = F32, by: float = 0.1) -> torch.Tensor:
    return (normal(*shape) * by).to(dtype)


def positive(*shape: int, by: float = 1.0) -> torch.Tensor:
    return normal(*shape).abs() * by if Inputs.device == "cuda" else normal(*shape)


def form(
    name: str, kernel: str, work: float, inputs: Callable[[], Sequence[Any]], grid: Sequence[int],
    outputs: Sequence[int], *, unit: str = COMPUTE, of: Callable | None = None,
    tolerance: float = 2e-2, zeroed: bool = False, kept: Sequence[int] = (), **named: Any,
) -> Case:  # fmt: skip
    """A kernel by its arguments; `outputs` are the places of what it writes."""

    def make() -> Run:
        args = list(inputs())
        starts = [args[k].clone() for k in kept]

        def restore() -> None:
            for k in outputs if zeroed else ():
                args[k].zero_()
            for k, start in zip(kept, starts):
                args[k].copy_(start)

        return Run(
            lambda k: getattr(k, kernel)[tuple(grid)](*args, **named),
            [args[k] for k in outputs], None if of is None else lambda: of(*args), tolerance,
            restore if zeroed or kept else None,
        )  # fmt: skip

    return Case(name, work, make, unit)


def row_forms() -> list[Case]:
    r, c = 16384, 4096
    n = r * c
    return [
        form("cumsum of chunks, down 131072x128", "chunk_cumsum_kernel", 8 * 131072 * 128,
             lambda: [normal(131072, 128), empty(131072, 128), 131072, 128], (2048, 4), [1],
             unit=BANDWIDTH, BLOCK_T=64, BLOCK_H=32),
        form("causal conv 4 8x4096x2048 bf16", "causal_conv_kernel", 4 * n,
             lambda: [normal(8, 4096, 2048, dtype=BF16), normal(2048, 4, dtype=BF16),
                      normal(2048, dtype=BF16), empty(8, 4096, 2048, dtype=BF16), 4096, 2048],
             (64, 32, 8), [3], unit=BANDWIDTH, W=4, BLOCK_T=64, BLOCK_D=64),
        form("rope of pairs 16384x32x128 bf16", "interleaved_rope_kernel", 4 * n,
             lambda: [normal(r, 32, 128, dtype=BF16), normal(r, 64), normal(r, 64),
                      empty(r, 32, 128, dtype=BF16), 32], (r,), [3], unit=BANDWIDTH,
             tolerance=5e-2, HALF=64, HEADS=32),
        form("add and rms norm 16384x4096 bf16", "added_norm_kernel", 8 * n,
             lambda: [normal(r, c, dtype=BF16), normal(r, c, dtype=BF16), normal(c, dtype=BF16),
                      empty(r, c, dtype=BF16), c, 1e-6], (r,), [1, 3], kept=[1], unit=BANDWIDTH,
             tolerance=5e-2, BLOCK=4096, num_warps=8),
        form("layer norm backward, locks 4096x8192 fp16", "norm_backward_kernel",
             6 * 4096 * 8192,
             lambda: [empty(4096, 8192, dtype=F16), small(4096, 8192, dtype=F16),
                      empty(96, 8192), empty(96, 8192), normal(4096, 8192, dtype=F16),
                      normal(8192, dtype=F16), small(4096), positive(4096),
                      empty(192, dtype=INT32).zero_(), 8192, 8192], (4096,), [0, 2, 3],
             unit=BANDWIDTH, kept=[8], tolerance=5e-2, GROUPS=96, BLOCK=8192, num_warps=8),
        form("quantize groups of 128 to fp8", "group_quantize_kernel", 3 * n,
             lambda: [normal(n, dtype=BF16), empty(n, dtype=FP8), empty(n // 128)], (n // 128,),
             [2, 1], unit=BANDWIDTH, tolerance=0.15, SIZE=128, BLOCK=128, num_warps=1),
        form("dequantize int4", "unpack_int4_kernel", 2.5 * n,
             lambda: [numbers(256, n // 2, dtype=torch.uint8), small(n // 64),
                      empty(n, dtype=BF16), n], (n // 2048,), [2], unit=BANDWIDTH, GROUP=64,
             BLOCK=2048),
        form("gather rows 65536 of 32000x1024 bf16", "gather_rows_kernel", 4 * n,
             lambda: [normal(32000, 1024, dtype=BF16), numbers(32000, 65536),
                      empty(65536, 1024, dtype=BF16), 65536, 1024], (65536 // 32, 8), [2],
             unit=BANDWIDTH, BLOCK_M=32, BLOCK_N=128),
        form("embedding, sum of 32 16384x512", "embedding_sum_kernel", 2 * 16384 * 32 * 512,
             lambda: [normal(100000, 512, dtype=F16), numbers(100000, 16384, 32),
                      empty(16384, 512, dtype=F16), 512], (16384,), [2], unit=BANDWIDTH,
             tolerance=5e-2, COUNT=32, BLOCK=512),
        form("max pool 2x2 512x512x256 fp32", "max_pool_kernel", 5 * n,
             lambda: [normal(n), empty(n // 4), 0, 512, 256, n // 4], (n // 4096,), [1],
             unit=BANDWIDTH, BLOCK=1024),
        form("gates in turn 2^26 bf16", "deinterleave_kernel", 3 * n,
             lambda: [normal(n, dtype=BF16), empty(n // 2, dtype=BF16), n // 2], (n // 2048,), [1],
             unit=BANDWIDTH, tolerance=5e-2, BLOCK=1024),
        form("batch statistics 65536x1024 fp32", "batch_stats_kernel", 4 * n,
             lambda: [normal(65536, 1024), empty(1024), empty(1024), 65536, 1024], (128,),
             [1, 2], unit=BANDWIDTH, BLOCK_M=128, BLOCK_N=8),
        form("cross entropy 16384x32000 bf16, one tile", "cross_entropy_forward_kernel",
             2 * r * 32000,
             lambda: [normal(r, 32000, dtype=BF16), numbers(32000, r, dtype=INT64), empty(r),
                      32000], (r,), [2], unit=BANDWIDTH, BLOCK=32768, num_warps=16),
        form("softmax backward 16384x4096 fp16", "softmax_backward_kernel", 6 * n,
             lambda: [normal(r, c, dtype=F16), small(r, c, dtype=F16), empty(r, c, dtype=F16), c],
             (r,), [2], unit=BANDWIDTH, BLOCK=4096, num_warps=8),
        form("swiglu backward 16384x4096 bf16", "gated_backward_kernel", 10 * n,
             lambda: [normal(r, c, dtype=BF16), normal(r, c, dtype=BF16), normal(r, c, dtype=BF16),
                      c], (r,), [1, 2], kept=[1, 2], unit=BANDWIDTH, tolerance=5e-2,
             BLOCK=4096, num_warps=8),
        form("sums of segments 65536x1024 fp32", "segments_kernel", 4 * n,
             lambda: [normal(65536, 1024), torch.arange(0, 65537, 512, device=Inputs.device),
                      empty(128, 1024), 1024], (128, 8), [2], unit=BANDWIDTH,
             BLOCK_M=32, BLOCK_N=128),
        form("normal noise 2^26 fp32", "normal_noise_kernel", 8 * n,
             lambda: [normal(n), empty(n), n, 7], (n // 1024,), [1], unit=BANDWIDTH, BLOCK=1024),
        unary("gelu by exp", "tanh_kernel", n, F16, lambda x: F.gelu(x, approximate="tanh")),
        unary("dequantize fp8", "cast_kernel", n, FP8, lambda x: x.to(BF16), to=BF16),
    ]  # fmt: skip
