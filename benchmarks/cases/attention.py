"""Cases of attention, forward and backward."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import triton
from case import OURS, Case, Run, empty, example, normal
from peers import present, tensor, torch
from sources import attention_delta_kernel, attention_keys_kernel, attention_queries_kernel

attention = example("attention")
TOLERANCE = {"float32": 1e-4, "float16": 4e-3, "bfloat16": 2e-2}
HEADS = 4


def forward_case(length: int, dim: int, causal: bool, dtype: type = np.float32) -> Case:
    shape = (1, HEADS, length, dim)
    kind = np.dtype(dtype).name

    def make() -> Run:
        q, k, v = (normal(*shape, dtype=dtype, seed=s) for s in range(3))
        out = empty(*shape, dtype=dtype)
        tq, tk, tv = map(tensor, (q, k, v))
        scale = attention.LOG2_E / math.sqrt(dim)
        grid = (triton.cdiv(length, 64), HEADS)

        def ours():
            attention.attention_kernel[grid](
                q, k, v, out, length, scale, DIM=dim, BLOCK_M=64, BLOCK_N=64, CAUSAL=causal
            )
            return out

        def with_torch():
            return torch.nn.functional.scaled_dot_product_attention(tq, tk, tv, is_causal=causal)

        reference = attention.attention_naive
        calls = {OURS: ours, **present(torch=with_torch)}
        return Run(calls, lambda: reference(q, k, v, causal), TOLERANCE[kind])

    name = f"attention {kind}" + (" causal" if causal else "")
    elements = 4 * HEADS * length * dim
    work = 4 * HEADS * length * length * dim // (2 if causal else 1)
    return Case(name, label(length, dim), make, elements * np.dtype(dtype).itemsize, work)


def label(length: int, dim: int) -> str:
    return f"{HEADS}x{length}x{dim}"


def backward_case(length: int, dim: int, causal: bool) -> Case:
    shape = (1, HEADS, length, dim)

    def make() -> Run:
        q, k, v, do = (normal(*shape, seed=s) for s in range(4))
        dq, dk, dv = (empty(*shape) for _ in range(3))
        out, lse, expected = backward_naive(q, k, v, do, causal)
        delta = empty(HEADS * length)
        scale, rows = 1 / math.sqrt(dim), HEADS * length
        tq, tk, tv, t_do, t_out, t_lse = map(tensor, (q, k, v, do, out, lse))
        options = {"DIM": dim, "BLOCK_M": 64, "BLOCK_N": 64, "CAUSAL": causal}
        grid = (triton.cdiv(length, 64), HEADS)

        def ours():
            attention_delta_kernel[(triton.cdiv(rows, 64),)](out, do, delta, rows, DIM=dim, ROWS=64)
            given = (q, k, v, do, lse, delta)
            attention_keys_kernel[grid](*given, dk, dv, length, scale, **options)
            attention_queries_kernel[grid](*given, dq, length, scale, **options)
            return dq, dk, dv

        def with_torch():
            return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
                t_do, tq, tk, tv, t_out, t_lse, 0.0, causal
            )

        return Run({OURS: ours, **present(torch=with_torch)}, lambda: expected, 5e-4)

    name = "attention backward" + (" causal" if causal else "")
    work = 10 * HEADS * length * length * dim // (2 if causal else 1)
    return Case(name, label(length, dim), make, 8 * 4 * HEADS * length * dim, work)


def backward_naive(q, k, v, do, causal):
    """Output and log-sum-exp in float32, and the gradients of q, k and v in float64."""
    wide_q, wide_k, wide_v, wide_do = (x.astype(np.float64) for x in (q, k, v, do))
    scale = 1 / math.sqrt(q.shape[-1])
    score = wide_q @ wide_k.swapaxes(-1, -2) * scale
    if causal:
        score = np.where(np.tri(q.shape[2], dtype=bool), score, -np.inf)
    highest = score.max(axis=-1, keepdims=True)
    lse = highest + np.log(np.exp(score - highest).sum(axis=-1, keepdims=True))
    weight = np.exp(score - lse)
    out = weight @ wide_v
    pull = wide_do @ wide_v.swapaxes(-1, -2) - (out * wide_do).sum(axis=-1, keepdims=True)
    slope = weight * pull * scale
    gradients = (slope @ wide_k, slope.swapaxes(-1, -2) @ wide_q, weight.swapaxes(-1, -2) @ wide_do)
    return out.astype(np.float32), lse[..., 0].astype(np.float32), gradients


CASES = [
    *(forward_case(n, 64, causal) for n in (512, 2048) for causal in (False, True)),
    *(forward_case(1024, 128, causal) for causal in (False, True)),
    forward_case(1024, 64, True, ml_dtypes.bfloat16),
    forward_case(1024, 64, True, np.float16),
    backward_case(1024, 64, False),
    backward_case(1024, 64, True),
]
