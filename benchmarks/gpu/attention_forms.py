"""Cases of attention in other forms than the plain one, and of sequences with states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from cases import BANDWIDTH, BF16, COMPUTE, F16, Case, Inputs, Run, cdiv, empty, normal
from forms import INT32, form, positive, small


def blocks_attention(
    heads: int, length: int, d: int, warps: int, causal: bool, n: int = 64
) -> Case:
    title = (
        f"attention {heads}x{length}x{d} fp16{' causal' if causal else ''}, block pointers, 128x{n}"
    )
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
