"""Cases of products in other forms than the plain one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from cases import BF16, COMPUTE, F16, F32, Case, Inputs, Run, cdiv, empty, normal, numbers
from forms import FP8, INT8, INT32, SMS, form, positive, small


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
        f"matmul persistent {size} fp16, {block[0]}x{block[1]}", "persistent_matmul_kernel",
        2 * size**3, inputs,
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
    return Case(f"matmul {size} fp16, {how}, {block[0]}x{block[1]}", 2 * size**3, make, COMPUTE)


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
        f"matmul fp8, scales of blocks {m}x{n}x{k}, {block_m}x{block_n}", "fp8_blocks_kernel",
        2 * m * n * k, inputs,
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
        int4_weights(4096, 4096, 4096, (128, 128, 64), 8),
        int4_weights(16, 8192, 8192, (16, 64, 128), 4),
        int8_weights(4096, 4096, 4096, (128, 128, 64), 4, 3),
        int8_weights(16, 8192, 8192, (16, 128, 128), 4, 4),
        int8_scaled(4096), gated(4096, 4096, 4096),
        grouped([(1024, 1024, 1024), (512, 2048, 2048), (2048, 2048, 1024), (256, 4096, 4096)]),
        experts(4096, 8, 2, 4096, 4096, (128, 128, 64), 8),
        experts(64, 64, 4, 4096, 2048, (16, 64, 128), 4),
        conv(32, 56, 128, 128), conv(64, 14, 512, 512),
    ]  # fmt: skip
