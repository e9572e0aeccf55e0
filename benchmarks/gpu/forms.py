"""Cases of the kernels of linear, attention and scans: mostly compared with Triton's results."""

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
    cdiv,
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


# --- products


def strided(
    title: str, sizes: tuple[int, int, int], block: tuple[int, int, int], warps: int, stages: int,
    *, a_turned: bool = False, b_turned: bool = False, act: str = "", split: int = 1,
    dtype: torch.dtype = F16,
) -> Case:  # fmt: skip
    m, n, k = sizes

    def inputs() -> list[Any]:
        a = normal(k, m, dtype=dtype).T if a_turned else normal(m, k, dtype=dtype)
        b = normal(n, k, dtype=dtype).T if b_turned else normal(k, n, dtype=dtype)
        c = empty(m, n, dtype=dtype if split == 1 else F32)
        return [a, b, normal(n, dtype=dtype), c, m, n, k, *a.stride(), *b.stride(), *c.stride()]

    return form(
        title, "strided_matmul_kernel", 2 * m * n * k, inputs,
        (cdiv(m, block[0]) * cdiv(n, block[1]), split), [3], tolerance=k / 256,
        zeroed=split > 1, BLOCK_M=block[0], BLOCK_N=block[1], BLOCK_K=block[2], GROUP=8,
        ACT=act, SPLIT=split, num_warps=warps, num_stages=stages,
    )  # fmt: skip


def persistent(size: int, block: tuple[int, int, int], warps: int, stages: int) -> Case:
    def inputs() -> list[Any]:
        a, b, c = (f(size, size, dtype=F16) for f in (normal, normal, empty))
        return [a, b, c, size, size, size, size, 1, size, 1, size, 1]

    return form(
        f"matmul persistent {size} fp16", "persistent_matmul_kernel", 2 * size**3, inputs,
        (min(SMS, cdiv(size, block[0]) * cdiv(size, block[1])),), [2], tolerance=size / 256,
        BLOCK_M=block[0], BLOCK_N=block[1], BLOCK_K=block[2], GROUP=8, SMS=SMS,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip


def descriptors(
    size: int, block: tuple[int, int, int], warps: int, stages: int, host: bool
) -> Case:
    def make() -> Run:
        a, b, c = (f(size, size, dtype=F16) for f in (normal, normal, empty))
        tiles = cdiv(size, block[0]) * cdiv(size, block[1])
        more = {"BLOCK_M": block[0], "BLOCK_N": block[1], "BLOCK_K": block[2], "GROUP": 8}
        more |= {"num_warps": warps, "num_stages": stages}

        def launch(k: Any) -> Any:
            if not host:
                return k.descriptor_matmul_kernel[(tiles,)](a, b, c, size, size, size, **more)
            made = [
                k.TensorDescriptor.from_tensor(x, [p, q])
                for x, p, q in ((a, block[0], block[2]), (b, block[1], block[2]), (c, *block[:2]))
            ]
            return k.host_descriptor_persistent_kernel[(min(SMS, tiles),)](
                *made, size, size, size, SMS=SMS, **more
            )

        return Run(launch, [c], lambda: a @ b.T, size / 256)

    how = "host descriptors, persistent" if host else "descriptors"
    return Case(f"matmul {size} fp16, {how}", 2 * size**3, make, COMPUTE)


def descriptor_attention(
    heads: int, length: int, d: int, block: tuple[int, int], warps: int
) -> Case:
    def make() -> Run:
        q, k, v, out = (f(heads * length, d, dtype=F16) for f in (normal, normal, normal, empty))

        def launch(kernels: Any) -> Any:
            made = [
                kernels.TensorDescriptor.from_tensor(x, [rows, d])
                for x, rows in ((q, block[0]), (k, block[1]), (v, block[1]), (out, block[0]))
            ]
            return kernels.descriptor_attention_kernel[(length // block[0], heads)](
                *made, d**-0.5, heads, length, D=d, BLOCK_M=block[0], BLOCK_N=block[1],
                num_warps=warps, num_stages=3,
            )  # fmt: skip

        return Run(launch, [out], None, 1e-2)

    name = f"attention {heads}x{length}x{d} fp16, descriptors"
    return Case(name, 4 * heads * length**2 * d, make, COMPUTE)


def batched(count: int, m: int, n: int, k: int, dtype: torch.dtype) -> Case:
    return form(
        f"batched matmul {count}x{m}x{n}x{k}", "batched_matmul_kernel", 2 * count * m * n * k,
        lambda: [normal(count, m, k, dtype=dtype), normal(count, k, n, dtype=dtype),
                 empty(count, m, n, dtype=dtype), m, n, k],
        (cdiv(m, 128), cdiv(n, 128), count), [2],
        of=lambda a, b, *_: a @ b, tolerance=k / 256,
        BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, num_warps=4, num_stages=4,
    )  # fmt: skip


def fp8_blocks(m: int, n: int, k: int, block_m: int = 64, block_n: int = 128) -> Case:
    def inputs() -> list[Any]:
        a, b = normal(m, k).to(FP8), normal(n, k).to(FP8)
        return [a, b, empty(m, n, dtype=BF16), positive(m, k // 128), positive(n // 128, k // 128),
                m]  # fmt: skip

    return form(
        f"matmul fp8, scales of blocks {m}x{n}x{k}", "fp8_blocks_kernel", 2 * m * n * k, inputs,
        (cdiv(m, block_m), cdiv(n, block_n)), [2], tolerance=k / 64, N=n, K=k,
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=128, num_warps=4, num_stages=3,
    )  # fmt: skip


def int4_weights(m: int, n: int, k: int, block: tuple[int, int, int], warps: int) -> Case:
    def inputs() -> list[Any]:
        return [normal(m, k, dtype=F16), numbers(1 << 31, k // 8, n), small(k // 128, n, dtype=F16),
                numbers(1 << 31, k // 128, n // 8), empty(m, n, dtype=F16), m, n, k]  # fmt: skip

    return form(
        f"matmul fp16 by int4 weights {m}x{n}x{k}", "int4_weights_kernel", 2 * m * n * k, inputs,
        (cdiv(m, block[0]), cdiv(n, block[1])), [4], tolerance=k / 128, BLOCK_M=block[0],
        BLOCK_N=block[1], BLOCK_K=block[2], GROUP_K=128, num_warps=warps, num_stages=3,
    )  # fmt: skip


def int8_weights(
    m: int, n: int, k: int, block: tuple[int, int, int], warps: int, stages: int
) -> Case:
    def inputs() -> list[Any]:
        return [normal(m, k, dtype=BF16), numbers(100, k, n, dtype=INT8), small(n, by=0.01),
                empty(m, n, dtype=BF16), m, n, k]  # fmt: skip

    return form(
        f"matmul bf16 by int8 weights {m}x{n}x{k}, {block[0]}x{block[1]}",
        "matmul_int8_weights_kernel", 2 * m * n * k, inputs,
        (cdiv(m, block[0]), cdiv(n, block[1])), [3], tolerance=k / 128,
        BLOCK_M=block[0], BLOCK_N=block[1], BLOCK_K=block[2], num_warps=warps, num_stages=stages,
    )  # fmt: skip


def int8_scaled(size: int) -> Case:
    def inputs() -> list[Any]:
        a, b = (numbers(100, size, size, dtype=INT8) for _ in range(2))
        return [a, b, small(size), small(size), empty(size, size, dtype=BF16), size, size, size]

    return form(
        f"matmul {size} int8, scaled", "int8_scaled_kernel", 2 * size**3, inputs,
        (size // 128, size // 128), [4], tolerance=size / 64,
        BLOCK_M=128, BLOCK_N=128, BLOCK_K=128, num_warps=8, num_stages=3,
    )  # fmt: skip


def gated(m: int, n: int, k: int) -> Case:
    return form(
        f"gated products {m}x{n}x{k} bf16", "gated_matmul_kernel", 4 * m * n * k,
        lambda: [normal(m, k, dtype=BF16), small(n, k, dtype=BF16), small(n, k, dtype=BF16),
                 empty(m, n, dtype=BF16), m, n, k],
        (m // 128, n // 128), [3], tolerance=k / 256,
        BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=8, num_stages=3,
    )  # fmt: skip


def grouped(sizes: Sequence[tuple[int, int, int]]) -> Case:
    def inputs() -> list[Any]:
        groups = [
            [f(*s, dtype=F16) for f, s in ((normal, (m, k)), (normal, (k, n)), (empty, (m, n)))]
            for m, n, k in sizes
        ]
        device = Inputs.device
        at = [torch.tensor([g[i].data_ptr() for g in groups], device=device) for i in range(3)]
        told = torch.tensor([x for s in sizes for x in s], dtype=INT32, device=device)
        return [*at, told, len(sizes), groups]

    def make() -> Run:
        *args, groups = inputs()  # which hold what the addresses point to
        outs = [group[2] for group in groups]

        def launch(k: Any, kept: Any = groups) -> Any:
            return k.grouped_gemm_kernel[(SMS,)](
                *args, SMS=SMS, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=8, num_stages=3
            )

        return Run(launch, outs, None, 8.0)

    work = sum(2 * m * n * k for m, n, k in sizes)
    return Case(f"grouped products of {len(sizes)} sizes", work, make, COMPUTE)


def experts(tokens: int, count: int, top: int, n: int, k: int, block: tuple, warps: int) -> Case:
    def inputs() -> list[Any]:
        a, b = normal(tokens, k, dtype=BF16), small(count, n, k, dtype=BF16)
        if Inputs.device == "cuda":
            chosen = torch.randint(count, (tokens, top), device="cuda").flatten()
        else:
            chosen = torch.arange(tokens * top) % count
        order = chosen.argsort(stable=True)
        counts = torch.bincount(chosen, minlength=count)
        ids, of = [], []
        start = 0
        for e, c in enumerate(counts.tolist()):
            blocks = cdiv(c, block[0])
            pad = torch.full((blocks * block[0] - c,), tokens * top, device=order.device)
            ids += [order[start : start + c], pad]
            of += [e] * blocks
            start += c
        ids = torch.cat(ids).to(INT32)
        return [a, b, empty(tokens * top, n, dtype=BF16), positive(tokens * top), ids,
                torch.tensor(of, dtype=INT32, device=a.device), n, k, tokens * top]  # fmt: skip

    def make() -> Run:
        args = inputs()
        blocks = len(args[5])
        return Run(
            lambda kernels: kernels.experts_kernel[(blocks * cdiv(n, block[1]),)](
                *args, TOP=top, BLOCK_M=block[0], BLOCK_N=block[1], BLOCK_K=block[2], GROUP=8,
                padded=blocks * block[0], WEIGHTED=True, num_warps=warps, num_stages=3,
            ),
            [args[2]], None, k / 256,
        )  # fmt: skip

    work = 2 * tokens * top * n * k
    return Case(f"experts, {tokens} tokens, {count} of {n}x{k} bf16", work, make, COMPUTE)


def conv(n: int, side: int, c: int, out: int) -> Case:
    return form(
        f"conv 3x3 {n}x{side}x{side}x{c} to {out} fp16", "conv_kernel",
        2 * n * side * side * c * out * 9,
        lambda: [normal(n, side, side, c, dtype=F16), small(3, 3, c, out, dtype=F16),
                 empty(n, side, side, out, dtype=F16), n, side, side, c, out, side, side, 1],
        (cdiv(n * side * side, 128), cdiv(out, 128)), [2], tolerance=0.1,
        R=3, S=3, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=8, num_stages=3,
    )  # fmt: skip


# --- attention


def blocks_attention(
    heads: int, length: int, d: int, warps: int, causal: bool, n: int = 64
) -> Case:
    title = f"attention {heads}x{length}x{d} fp16{' causal' if causal else ''}, block pointers"
    return form(
        title, "blocks_attention_kernel", 4 * heads * length**2 * d // (2 if causal else 1),
        lambda: [*(normal(heads, length, d, dtype=F16) for _ in range(3)),
                 empty(heads, length, d, dtype=F16), empty(heads, length), d**-0.5, heads, length],
        (length // 128, heads), [3, 4], D=d, BLOCK_M=128, BLOCK_N=n, CAUSAL=causal,
        num_warps=warps, num_stages=3,
    )  # fmt: skip


def varlen_attention(lengths: Sequence[int], heads: int, groups: int, d: int) -> Case:
    total = sum(lengths)

    def inputs() -> list[Any]:
        starts = torch.tensor([0, *lengths]).cumsum(0).to(INT32).to(Inputs.device)
        q, k, v = (normal(total, h, d, dtype=BF16) for h in (heads, *[heads // groups] * 2))
        out = empty(total, heads, d, dtype=BF16)
        return [q, k, v, out, starts, d**-0.5, heads * d, heads // groups * d]

    return form(
        f"attention varlen {heads} heads of {d} bf16 causal", "varlen_attention_kernel",
        sum(2 * n * n for n in lengths) * heads * d, inputs,
        (len(lengths), heads, cdiv(max(lengths), 128)), [3], GROUPS=groups,
        D=d, BLOCK_M=128, BLOCK_N=64, num_warps=4 if d == 64 else 8, num_stages=3,
    )  # fmt: skip


def decode(seqs: int, length: int, heads: int, groups: int, d: int, page: int, splits: int) -> Case:
    pages = cdiv(length, page)

    def inputs() -> list[Any]:
        q = normal(seqs, heads * groups, d, dtype=F16)
        k, v = (normal(seqs * pages * page, heads, d, dtype=F16) for _ in range(2))
        mid = empty(seqs, heads * groups, splits, d + 1)
        device = Inputs.device
        table = torch.randperm(seqs * pages, device=device).to(INT32).reshape(seqs, pages)
        return [q, k, v, mid, table, torch.full((seqs,), length, dtype=INT32, device=device),
                d**-0.5, pages]  # fmt: skip

    return form(
        f"decode, paged {seqs}x{length}, {heads}x{groups} heads of {d}", "decode_kernel",
        seqs * length * heads * d * 4, inputs, (seqs, heads, splits), [3], unit=BANDWIDTH,
        KV_HEADS=heads, GROUPS=groups, BLOCK_H=16, D=d, PAGE=page, BLOCK_N=64, SPLITS=splits,
        num_warps=4, num_stages=2,
    )  # fmt: skip


def single_decode(seqs: int, length: int, heads: int, d: int) -> Case:
    return form(
        f"decode {seqs}x{length}, {heads} heads of {d}", "single_decode_kernel",
        seqs * length * heads * d * 4,
        lambda: [normal(seqs, heads, d, dtype=F16), normal(seqs, length, heads, d, dtype=F16),
                 normal(seqs, length, heads, d, dtype=F16), empty(seqs, heads, d), length,
                 d**-0.5],
        (seqs, heads), [3], unit=BANDWIDTH, HEADS=heads, D=d, BLOCK_N=64, num_warps=4,
        num_stages=2,
    )  # fmt: skip


def backward_inputs(heads: int, length: int, d: int, grads: int) -> list[Any]:
    q, k, v, do = (small(heads, length, d, dtype=F16) for _ in range(4))
    lse, delta = normal(heads, length), small(heads, length)
    return [q, k, v, do, lse, delta, *(empty(heads, length, d, dtype=F16) for _ in range(grads)),
            d**-0.5, length]  # fmt: skip


def backward_keys(heads: int, length: int, d: int, causal: bool, warps: int = 4) -> Case:
    return form(
        f"attention backward, keys {heads}x{length}x{d}{' causal' if causal else ''}",
        "backward_keys_kernel", 8 * heads * length**2 * d // (2 if causal else 1),
        lambda: backward_inputs(heads, length, d, 2), (length // 128, heads), [6, 7],
        D=d, BLOCK_M=32, BLOCK_N=128, CAUSAL=causal, num_warps=warps, num_stages=3,
    )  # fmt: skip


def backward_queries(heads: int, length: int, d: int) -> Case:
    return form(
        f"attention backward, queries {heads}x{length}x{d}", "backward_queries_kernel",
        6 * heads * length**2 * d, lambda: backward_inputs(heads, length, d, 1),
        (length // 128, heads), [6], D=d, BLOCK_M=128, BLOCK_N=32, num_warps=4, num_stages=3,
    )  # fmt: skip


# --- sequences


def chunk_state(batch: int, length: int, heads: int) -> Case:
    def inputs() -> list[Any]:
        da = -positive(batch, length, heads).cumsum(1) * 0.01
        return [small(batch, length, heads, 64, dtype=BF16), small(batch, length, 128, dtype=BF16),
                positive(batch, length, heads), da, empty(batch, length // 256, heads, 64, 128),
                length, heads]  # fmt: skip

    return form(
        f"chunk state {batch}x{length}x{heads}", "chunk_state_kernel",
        2 * batch * length * heads * 64 * 128, inputs, (length // 256, heads, batch), [4],
        CHUNK=256, P=64, N=128, BLOCK_K=64, num_warps=4, num_stages=3,
    )  # fmt: skip


def chunk_scan(batch: int, length: int, heads: int) -> Case:
    def inputs() -> list[Any]:
        chunks = length // 256
        da = -positive(batch, length, heads).cumsum(1) * 0.01
        return [small(batch, length, 128, dtype=BF16), small(batch, chunks, 256, 256, dtype=BF16),
                small(batch, length, heads, 64, dtype=BF16), positive(batch, length, heads), da,
                small(batch, chunks, heads, 64, 128), empty(batch, length, heads, 64, dtype=BF16),
                length, heads]  # fmt: skip

    return form(
        f"chunk scan {batch}x{length}x{heads}", "chunk_scan_kernel",
        2 * batch * length * heads * 64 * (128 + 160), inputs,
        (4, length // 256, heads * batch), [6],
        CHUNK=256, P=64, N=128, BLOCK_M=64, BLOCK_K=64, num_warps=4, num_stages=3,
    )  # fmt: skip


def selective_scan(batch: int, length: int, dim: int) -> Case:
    def inputs() -> list[Any]:
        return [normal(batch, length, dim, dtype=BF16), positive(batch, length, dim, by=0.1),
                -positive(dim, 16), normal(batch, length, 16), normal(batch, length, 16),
                empty(batch, length, dim), length, dim]  # fmt: skip

    return form(
        f"selective scan {batch}x{length}x{dim}", "selective_scan_kernel",
        10 * batch * length * dim, inputs, (batch, dim // 32), [5], unit=BANDWIDTH,
        BLOCK_D=32, N=16, num_warps=1,
    )  # fmt: skip


def linear_attention(heads: int, length: int) -> Case:
    return form(
        f"linear attention {heads}x{length}x128 bf16", "linear_attention_kernel",
        2 * heads * length * (64 * 128 + 64 * 128 + 2 * 128 * 128),
        lambda: [*(small(heads, length, 128, dtype=BF16) for _ in range(3)),
                 empty(heads, length, 128, dtype=BF16), length, 128**-0.5],
        (2, heads), [3], D=128, DV=128, BLOCK=64, BLOCK_V=64, num_warps=4, num_stages=2,
    )  # fmt: skip


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


def product_forms() -> list[Case]:
    big, tile = (4096, 4096, 4096), (128, 256, 64)
    return [
        strided("matmul 4096 fp16, bias and gelu", big, tile, 8, 3, act="gelu"),
        strided("matmul 4096 fp16, leaky relu, 4 warps", big, (128, 128, 64), 4, 4, act="leaky"),
        strided("matmul 4096 fp16, right one turned", big, tile, 8, 3, b_turned=True),
        strided("matmul 4096 fp16, left one turned", big, tile, 8, 3, a_turned=True),
        strided("matmul 4096 fp16, both turned", big, (128, 128, 64), 8, 3, a_turned=True,
                b_turned=True),
        strided("matmul 4096 fp16, 64x64x32, 4 warps", big, (64, 64, 32), 4, 4),
        strided("matmul 4096 fp16, 128x64x32, 4 warps", big, (128, 64, 32), 4, 4),
        strided("matmul 4096 fp16, 64x256x32, 4 warps", big, (64, 256, 32), 4, 4),
        strided("matmul 4000x4000x4000 fp16", (4000, 4000, 4000), (128, 128, 64), 8, 3),
        strided("matmul 4096 fp32 as tf32, right one turned", big, (128, 128, 32), 8, 3,
                b_turned=True, dtype=F32),
        strided("matmul split in K 512x512x32768", (512, 512, 32768), (128, 128, 64), 8, 3,
                split=8),
        strided("matmul 16x8192x8192 fp16", (16, 8192, 8192), (16, 64, 128), 4, 4, b_turned=True),
        strided("matmul 64x8192x8192 fp16", (64, 8192, 8192), (64, 64, 128), 4, 4, b_turned=True),
        strided("matmul 8192x16x8192 fp16", (8192, 16, 8192), (64, 16, 128), 4, 4),
        persistent(4096, (128, 256, 64), 8, 3),
        persistent(4096, (128, 128, 64), 4, 4),
        descriptors(4096, (128, 256, 64), 8, 3, False),
        descriptors(4096, (128, 256, 64), 8, 3, True),
        descriptors(4096, (128, 128, 64), 4, 4, True),
        batched(64, 1024, 1024, 512, F16),
        fp8_blocks(4096, 4096, 4096), fp8_blocks(4096, 4096, 4096, 128, 128),
        int4_weights(4096, 4096, 4096, (128, 128, 64), 8), int4_weights(16, 8192, 8192, (16, 64, 128), 4),
        int8_weights(4096, 4096, 4096, (128, 128, 64), 4, 3), int8_weights(16, 8192, 8192, (16, 128, 128), 4, 4),
        int8_scaled(4096), gated(4096, 4096, 4096),
        grouped([(1024, 1024, 1024), (512, 2048, 2048), (2048, 2048, 1024), (256, 4096, 4096)]),
        experts(4096, 8, 2, 4096, 4096, (128, 128, 64), 8),
        experts(64, 64, 4, 4096, 2048, (16, 64, 128), 4),
        conv(32, 56, 128, 128), conv(64, 14, 512, 512),
    ]  # fmt: skip


def attention_forms() -> list[Case]:
    return [
        blocks_attention(64, 4096, 64, 4, False), blocks_attention(64, 4096, 64, 4, True),
        blocks_attention(64, 4096, 128, 8, False), blocks_attention(64, 4096, 128, 8, True),
        blocks_attention(64, 4096, 128, 8, False, 128),
        descriptor_attention(64, 4096, 64, (128, 64), 4),
        descriptor_attention(64, 4096, 128, (128, 64), 8),
        varlen_attention([4096, 1000, 2500, 3333, 512, 2048, 4001, 777], 32, 4, 128),
        varlen_attention([4096, 1000, 2500, 3333, 512, 2048, 4001, 777], 32, 4, 64),
        decode(64, 4096, 8, 4, 128, 16, 4), single_decode(32, 4096, 16, 128),
        backward_keys(64, 4096, 64, False), backward_keys(64, 4096, 64, True),
        backward_keys(64, 4096, 128, False, 8), backward_queries(64, 4096, 64),
        chunk_state(8, 4096, 64), chunk_scan(8, 4096, 64), selective_scan(8, 1024, 4096),
        linear_attention(128, 4096),
    ]  # fmt: skip


def form_cases() -> list[Case]:
    return [*row_forms(), *product_forms(), *attention_forms()]
