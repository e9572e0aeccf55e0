"""Cases of the further public forms of products, attention and chunks."""

from __future__ import annotations

from typing import Any

import torch
from cases import BF16, F16, F32, Case, Inputs, cdiv, empty, name_of, normal, numbers
from forms import FP8, INT8, INT32, SMS, form, positive, small
from product_forms import strided

F64, UINT8 = torch.float64, torch.uint8
MATMUL = [  # blocks, warps and stages that autotuned matmuls try
    ((64, 256, 32), 4, 4), ((128, 128, 32), 4, 4), ((128, 64, 32), 4, 4), ((64, 128, 32), 4, 4),
    ((128, 32, 32), 4, 4), ((64, 32, 32), 2, 5), ((32, 64, 32), 2, 5), ((256, 128, 64), 8, 3),
    ((256, 64, 64), 4, 4), ((128, 256, 64), 4, 3), ((128, 128, 128), 8, 3), ((128, 128, 64), 4, 2),
    ((32, 32, 32), 1, 3), ((256, 256, 32), 8, 3),
]  # fmt: skip


def plain(title: str, kernel: str, m: int, n: int, k: int, a: Any, b: Any, block: tuple,
          warps: int, stages: int, out: torch.dtype = BF16, extra: Any = (), grid: Any = None,
          tolerance: float = 0.0, **named: Any) -> Case:  # fmt: skip
    """a, b, further tensors, the result, sizes."""
    more = [extra] if callable(extra) else list(extra)
    return form(
        f"{title} {m}x{n}x{k}", kernel, 2 * m * n * k,
        lambda: [a(), b(), *(f() for f in more), empty(m, n, dtype=out), m, n, k],
        grid or (cdiv(m, block[0]), cdiv(n, block[1])), [2 + len(more)],
        tolerance=tolerance or k / 128, BLOCK_M=block[0], BLOCK_N=block[1], BLOCK_K=block[2],
        num_warps=warps, num_stages=stages, **named,
    )  # fmt: skip


def int8_rows(m: int, n: int, k: int, block: tuple, warps: int, stages: int) -> Case:
    return plain("int8 weights by rows", "int8_rows_kernel", m, n, k,
                 lambda: normal(m, k, dtype=BF16), lambda: numbers(100, n, k, dtype=INT8), block,
                 warps, stages, extra=lambda: small(n, by=0.01))  # fmt: skip


def nibbles(m: int, n: int, k: int, block: tuple, warps: int, stages: int) -> Case:
    return plain("nibbles", "nibbles_kernel", m, n, k, lambda: normal(m, k, dtype=BF16),
                 lambda: numbers(256, n, k // 2, dtype=UINT8), block, warps, stages,
                 extra=lambda: small(n, k // 128, dtype=BF16), GROUP_K=128)  # fmt: skip


def awq(m: int, n: int, k: int, block: tuple, warps: int, split: int) -> Case:
    return form(
        f"awq {m}x{n}x{k}", "awq_kernel", 2 * m * n * k,
        lambda: [normal(m, k, dtype=F16), numbers(1 << 31, k, n // 8),
                 small(k // 128, n, dtype=F16), numbers(1 << 31, k // 128, n // 8),
                 empty(split, m, n, dtype=F16), m, n, k],
        (cdiv(m, block[0]), cdiv(n, block[1]), split), [4], tolerance=k / 128, GROUP_K=128,
        BLOCK_M=block[0], BLOCK_N=block[1], BLOCK_K=block[2], SPLIT=split, num_warps=warps,
        num_stages=3,
    )  # fmt: skip


def scaled(size: int, half: bool, block: tuple, warps: int) -> Case:
    pack = 2 if half else 1

    def scales() -> Any:
        return (numbers(8, size, size // 32) + 122).to(UINT8)

    def inputs() -> list[Any]:
        b = numbers(256, size, size // 2, dtype=UINT8) if half else normal(size, size).to(FP8)
        return [normal(size, size).to(FP8), scales(), b, scales(), empty(size, size, dtype=BF16),
                size, size, size]  # fmt: skip

    return form(
        f"microscaled {'e2m1' if pack == 2 else 'e4m3'} {size}", "scaled_blocks_kernel",
        2 * size**3, inputs, (size // block[0], size // block[1]), [4], tolerance=size / 32,
        B_HALF=half, BLOCK_M=block[0], BLOCK_N=block[1], BLOCK_K=block[2], num_warps=warps,
        num_stages=3,
    )  # fmt: skip


def exact(size: int, dtype: torch.dtype, precision: str, block: tuple, warps: int) -> Case:
    name = f"matmul {size} {name_of(dtype)}, {precision}, {'x'.join(map(str, block))}"
    return form(
        name, "exact_matmul_kernel", 2 * size**3,
        lambda: [normal(size, size).to(dtype), normal(size, size).to(dtype),
                 empty(size, size, dtype=dtype), size, size, size],
        (size // block[0], size // block[1]), [2], of=lambda a, b, *_: a.double() @ b.double(),
        tolerance=2e-2, PRECISION=precision, BLOCK_M=block[0], BLOCK_N=block[1],
        BLOCK_K=block[2], num_warps=warps, num_stages=3,
    )  # fmt: skip


def product_cases() -> list[Case]:
    f = lambda *s, dtype=BF16: lambda: normal(*s, dtype=dtype)  # noqa: E731
    sized = (2048, 2048, 2048)
    out = [
        strided(
            f"matmul 2048 fp16, {'x'.join(map(str, block))}, {warps} warps, {stages} stages",
            sized, block, warps, stages,
        )
        for block, warps, stages in MATMUL
    ]  # fmt: skip
    out += [
        strided(f"matmul 2048x2048x1001 {name_of(dtype)}", (2048, 2048, 1001), (128, 128, 64), 8, 3,
                dtype=dtype)
        for dtype in (F16, BF16)
    ]  # fmt: skip
    out += [
        strided("matmul 8192x8192x64 fp16", (8192, 8192, 64), (128, 128, 64), 8, 3),
        strided("matmul 8192x8192x16 fp16", (8192, 8192, 16), (128, 128, 16), 4, 3),
        strided("matmul 4096x4096x32 tf32", (4096, 4096, 32), (128, 128, 32), 4, 3, dtype=F32),
        strided("matmul 2048 tf32, 64x64x32", sized, (64, 64, 32), 4, 3, dtype=F32),
        strided("matmul 2048 tf32, 128x64x32", sized, (128, 64, 32), 4, 3, dtype=F32),
        strided("matmul 2048 tf32, right one turned, 64x64x32", sized, (64, 64, 32), 4, 3,
                dtype=F32, b_turned=True),
        plain("matmul fp8", "matmul_rows_kernel", *sized, lambda: normal(2048, 2048).to(FP8),
              lambda: normal(2048, 2048).to(FP8), (128, 128, 128), 4, 3,
              grid=(256,), BAND=8, INTEGER=False),
        plain("matmul fp8, 64x64x64,", "matmul_rows_kernel", *sized,
              lambda: normal(2048, 2048).to(FP8), lambda: normal(2048, 2048).to(FP8),
              (64, 64, 64), 4, 3, grid=(1024,), BAND=8, INTEGER=False),
        plain("matmul fp8, few rows", "matmul_rows_kernel", 16, 8192, 8192,
              lambda: normal(16, 8192).to(FP8), lambda: normal(8192, 8192).to(FP8),
              (16, 128, 128), 4, 3, grid=(64,), BAND=8, INTEGER=False),
        form("stream k 1536x1536x4096", "stream_k_kernel", 2 * 1536 * 1536 * 4096,
             lambda: [normal(1536, 4096, dtype=F16), normal(4096, 1536, dtype=F16),
                      empty(1536, 1536), 1536, 1536, 4096, cdiv(144 * 64, SMS)],
             (SMS,), [2], zeroed=True, tolerance=16.0, PROGRAMS=SMS, BLOCK_M=128, BLOCK_N=128,
             BLOCK_K=64, num_warps=8, num_stages=3),
        form("lora 4096x4096x4096", "lora_kernel", 2 * 4096**3,
             lambda: [normal(4096, 4096, dtype=BF16), normal(4096, 4096, dtype=BF16),
                      normal(4096, 16, dtype=BF16), small(16, 4096, dtype=BF16),
                      empty(4096, 4096, dtype=BF16), 4096, 4096, 4096, 0.5],
             (32, 32), [4], tolerance=32.0, R=16, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64,
             num_warps=8, num_stages=3),
        int8_rows(2048, 4096, 4096, (128, 128, 64), 8, 3),
        int8_rows(16, 8192, 8192, (16, 64, 128), 4, 4),
        int8_rows(64, 8192, 8192, (64, 128, 64), 4, 4),
        nibbles(2048, 4096, 4096, (128, 128, 64), 8, 3),
        nibbles(16, 8192, 8192, (16, 64, 128), 4, 3),
        awq(16, 8192, 8192, (16, 64, 32), 4, 8), awq(1024, 4096, 4096, (128, 128, 32), 8, 1),
        scaled(2048, False, (128, 128, 128), 8), scaled(2048, True, (128, 128, 128), 8),
        form("subtiled descriptors 4096", "subtiled_descriptor_kernel", 2 * 4096**3,
             lambda: [normal(4096, 4096, dtype=F16), normal(4096, 4096, dtype=F16),
                      empty(4096, 4096, dtype=F16), 4096, 4096, 4096],
             (SMS,), [2], tolerance=32.0, SMS=SMS, GROUP=8, BLOCK_M=128, BLOCK_N=256,
             BLOCK_K=64, SUBTILE=True, num_warps=8, num_stages=3),
        form("batch of tiles 64x512x512x256", "batch_of_tiles_kernel", 2 * 64 * 512 * 512 * 256,
             lambda: [normal(64, 512, 256, dtype=F16), normal(64, 256, 512, dtype=F16),
                      empty(64, 512, 512, dtype=F16), 512, 512, 256],
             (8, 8, 32), [2], tolerance=2.0, BATCH=2, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32,
             num_warps=4, num_stages=3),
        form("norm and matmul 2048x4096x4096", "norm_matmul_kernel", 2 * 2048 * 4096 * 4096,
             lambda: [normal(2048, 4096, dtype=BF16), normal(4096), normal(4096, 4096, dtype=BF16),
                      empty(2048, 4096, dtype=BF16), 2048, 4096, 4096, 1e-6],
             (16, 32), [3], tolerance=16.0, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=8,
             num_stages=3),
        form("matmul and softmax 16384x256x1024", "matmul_softmax_kernel", 2 * 16384 * 256 * 1024,
             lambda: [small(16384, 1024, dtype=F16), small(1024, 256, dtype=F16),
                      empty(16384, 256), 16384, 1024],
             (256,), [2], N=256, BLOCK_M=64, BLOCK_K=64, num_warps=4, num_stages=3),
        exact(1024, F32, "ieee", (64, 64, 32), 4), exact(1024, F32, "tf32x3", (128, 64, 32), 4),
        exact(1024, F64, "ieee", (64, 64, 16), 4), exact(1024, F64, "ieee", (32, 32, 32), 4),
        form("conv nchw 3x3 32x28x28x128 to 128", "nchw_conv_kernel",
             2 * 32 * 28 * 28 * 128 * 128 * 9,
             lambda: [normal(32, 128, 28, 28, dtype=F16), small(128, 128, 3, 3, dtype=F16),
                      empty(32, 128, 28, 28, dtype=F16), 32, 128, 28, 28, 128, 28, 28],
             (cdiv(32 * 28 * 28, 128), 2), [2], tolerance=0.1, R=3, S=3, PAD=1, BLOCK_M=128,
             BLOCK_N=64, BLOCK_K=32, num_warps=4, num_stages=3),
        plain("matmul fp16, sums in fp16", "half_sums_kernel", *sized, f(2048, 2048, dtype=F16),
              f(2048, 2048, dtype=F16), (128, 128, 64), 8, 3, out=F16, tolerance=40.0),
        form("sparse blocks of 64, 4096x4096, 1 in 4", "sparse_blocks_kernel",
             2 * 4096 * 4096 * 1024,
             lambda: [torch.arange(0, 65 * 16, 16, dtype=INT32, device=Inputs.device),
                      numbers(64, 64 * 16), small(64 * 16, 64, 64, dtype=F16),
                      normal(4096, 4096, dtype=F16), empty(4096, 4096, dtype=F16), 4096],
             (64, 32), [4], tolerance=2.0, BLOCK=64, BLOCK_N=128, num_warps=4, num_stages=3),
        form("products of chunks 16x4096", "chunk_products_kernel", 2 * 16 * 4096 * 256 * 128,
             lambda: [normal(16, 4096, 128, dtype=BF16), normal(16, 4096, 128, dtype=BF16),
                      empty(16, 16, 256, 256, dtype=BF16), 4096],
             (16, 16, 16), [2], tolerance=2.0, CHUNK=256, K=128, BLOCK_M=64, BLOCK_N=64,
             BLOCK_K=32, num_warps=4, num_stages=3),
    ]  # fmt: skip
    return out


def staged(heads: int, length: int, d: int, n: int, warps: int, causal: bool,
           dtype: torch.dtype = F16) -> Case:  # fmt: skip
    kind = f"{'causal ' if causal else ''}{str(dtype).rpartition('.')[2]}"
    return form(
        f"staged attention {heads}x{length}x{d} 128x{n} {warps} warps {kind}",
        "staged_attention_kernel", 4 * heads * length**2 * d // (2 if causal else 1),
        lambda: [*(normal(heads * length, d).to(dtype) for _ in range(3)),
                 empty(heads * length, d, dtype=F16), empty(heads, length), d**-0.5, heads,
                 length],
        (length // 128, heads), [3, 4], tolerance=0.3 if dtype is FP8 else 2e-2,
        D=d, BLOCK_M=128, BLOCK_N=n, CAUSAL=causal, num_warps=warps, num_stages=3,
    )  # fmt: skip


def backward(heads: int, length: int, d: int, stages: int) -> Case:
    def inputs() -> list[Any]:
        q, k, v, do = (small(heads, length, d, dtype=F16) for _ in range(4))
        lse, delta = normal(heads, length), small(heads, length)
        grads = [empty(heads, length, d, dtype=F16) for _ in range(3)]
        return [q, k, v, do, lse, delta, *grads, d**-0.5, length]

    return form(
        f"causal backward {heads}x{length}x{d}", "causal_backward_kernel",
        5 * heads * length**2 * d, inputs, (length // 128, 1, heads), [6, 7, 8],
        D=d, M1=32, N1=128, M2=128, N2=32, SLICE=2, num_warps=4, num_stages=stages,
    )  # fmt: skip


def biased(title: str, d: int, block: tuple[int, int], warps: int, **named: Any) -> Case:
    heads, length = 64, 2048
    facts = {"BIAS": False, "CAUSAL": False, "WINDOW": 0, "CAP": 0, **named}
    share = 4 if facts["WINDOW"] else 2 if facts["CAUSAL"] else 1
    return form(
        f"attention, {title} {d} {block[0]}x{block[1]}", "bias_attention_kernel",
        4 * heads * length**2 * d // share,
        lambda: [*(normal(heads, length, d, dtype=F16) for _ in range(3)),
                 normal(length, length, dtype=F16), empty(heads, length, d, dtype=F16),
                 empty(heads, length), d**-0.5, length],
        (length // block[0], heads), [4, 5], D=d, BLOCK_M=block[0], BLOCK_N=block[1],
        num_warps=warps, num_stages=2, **facts,
    )  # fmt: skip


def context(seqs: int, length: int, heads: int, groups: int, d: int) -> Case:
    def inputs() -> list[Any]:
        q = normal(seqs, length, heads, d, dtype=F16)
        k, v = (normal(seqs * length, heads // groups, d, dtype=F16) for _ in range(2))
        places = torch.randperm(seqs * length, device=Inputs.device).to(INT32)
        return [q, k, v, places, empty(seqs, length, heads, d, dtype=F16), d**-0.5, length]

    return form(
        f"attention by a table {seqs}x{length}, {heads} heads of {d}",
        "context_attention_kernel", 2 * seqs * heads * length**2 * d, inputs,
        (length // 128, seqs, heads), [4], H=heads, GROUPS=groups, D=d, BLOCK_M=128, BLOCK_N=64,
        num_warps=4 if d == 64 else 8, num_stages=2,
    )  # fmt: skip


def latent(seqs: int, length: int, splits: int) -> Case:
    pages = length // 64

    def inputs() -> list[Any]:
        table = torch.randperm(seqs * pages, device=Inputs.device).to(INT32)
        return [
            small(seqs, 128, 576, dtype=BF16),
            normal(seqs * length, 576, dtype=BF16),
            empty(seqs, 128, splits, 512),
            table,
            torch.full((seqs,), length, dtype=INT32, device=Inputs.device),
            576**-0.5,
            pages,
        ]

    return form(
        f"latent decode {seqs}x{length}", "latent_decode_kernel",
        2 * seqs * 128 * length * (576 + 512), inputs, (seqs, 8, splits), [2], HEADS=128,
        BLOCK_H=16, C=512, R=64, PAGE=64, BLOCK_N=32, SPLITS=splits, num_warps=4, num_stages=2,
    )  # fmt: skip


def chunk_cases() -> list[Case]:
    h, length, d = 64, 4096, 128
    x = lambda by=0.1: small(h, length, d, dtype=BF16, by=by)  # noqa: E731
    states = lambda: empty(h, length // 64, d, d, dtype=BF16)  # noqa: E731
    gates = lambda: -positive(h, length, d, by=0.01)  # noqa: E731
    return [
        form("gated states 64x4096x128", "gated_states_kernel", 2 * h * length * d * d,
             lambda: [x(), x(), gates(), states(), length], (2, 2, h), [3], tolerance=5e-2,
             D=d, DV=d, BLOCK=64, BLOCK_K=64, BLOCK_V=64, num_warps=4, num_stages=3),
        form("gated outputs 64x4096x128", "gated_outputs_kernel",
             2 * h * length * d * (d + 64),
             lambda: [x(), x(), gates(), small(h, length // 64, d, d, dtype=BF16),
                      small(h, length, 64, dtype=BF16), empty(h, length, d, dtype=BF16), length,
                      d**-0.5], (2, length // 64, h), [5], tolerance=5e-2,
             D=d, DV=d, BLOCK=64, BLOCK_K=64, BLOCK_V=64, num_warps=4, num_stages=3),
        form("delta states 64x4096x128", "delta_states_kernel", 4 * h * length * d * d,
             lambda: [x(0.02), x(0.02), x(), empty(h, length, d, dtype=BF16), states(), length],
             (4, h), [3, 4], tolerance=5e-2, D=d, DV=d, BLOCK=64, BLOCK_V=32, num_warps=4,
             num_stages=2),
        form("within chunks 64x4096x128", "within_chunk_kernel", 2 * h * length * 64 * d,
             lambda: [x(), x(), -positive(h, length, by=0.01), empty(h, length, 64, dtype=BF16),
                      length, d**-0.5], (length // 64, h), [3], tolerance=5e-2,
             D=d, BLOCK=64, BLOCK_K=64, num_warps=4, num_stages=3),
    ]  # fmt: skip


def public_forms() -> list[Case]:
    return [
        *product_cases(),
        staged(64, 4096, 64, 64, 4, False), staged(64, 4096, 64, 128, 8, True),
        staged(32, 4096, 128, 64, 8, True), staged(32, 4096, 128, 128, 8, False),
        staged(32, 4096, 128, 64, 4, False), staged(64, 4096, 64, 64, 4, True),
        staged(64, 4096, 64, 128, 4, False, FP8), staged(32, 4096, 128, 128, 8, False, FP8),
        backward(64, 2048, 64, 5), backward(32, 2048, 128, 5),
        biased("plain", 64, (128, 128), 4), biased("plain", 128, (128, 128), 8),
        biased("causal", 64, (128, 128), 8, CAUSAL=True),
        biased("causal", 64, (64, 64), 4, CAUSAL=True),
        biased("biased", 64, (128, 64), 4, BIAS=True),
        biased("window", 64, (128, 64), 4, CAUSAL=True, WINDOW=512),
        biased("capped", 128, (128, 64), 8, CAUSAL=True, CAP=50),
        context(8, 2048, 32, 4, 128), context(8, 2048, 32, 1, 64),
        latent(32, 2048, 4), *chunk_cases(),
    ]  # fmt: skip
