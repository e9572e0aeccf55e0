"""Attention that never stores the score matrix: softmax is rescaled as blocks of keys arrive."""

import math

import numpy as np
import triton
import triton.language as tl

LOG2_E = math.log2(math.e)


@triton.jit
def attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    length,
    scale_log2,
    DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    """BLOCK_M queries of one head against all keys; scores are in powers of two."""
    head = tl.program_id(1).to(tl.int64) * length * DIM
    first = tl.program_id(0) * BLOCK_M
    rows = first + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, DIM)
    q_at = head + rows[:, None] * DIM + dims[None, :]
    q = tl.load(q_ptr + q_at, mask=rows[:, None] < length, other=0.0)

    highest = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    mixed = tl.zeros([BLOCK_M, DIM], tl.float32)
    end = length
    if CAUSAL:
        end = tl.minimum(length, first + BLOCK_M)
    for start in range(0, end, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k_at = head + keys[None, :] * DIM + dims[:, None]
        k = tl.load(k_ptr + k_at, mask=keys[None, :] < length, other=0.0)
        score = tl.dot(q, k, input_precision="ieee") * scale_log2
        allowed = keys[None, :] < length
        if CAUSAL:
            allowed = allowed & (keys[None, :] <= rows[:, None])
        score = tl.where(allowed, score, -float("inf"))

        # Key 0 is allowed for every row, so `higher` is finite from the first block on.
        higher = tl.maximum(highest, tl.max(score, axis=1))
        shrink = tl.exp2(highest - higher)
        weight = tl.exp2(score - higher[:, None])
        v_at = head + keys[:, None] * DIM + dims[None, :]
        v = tl.load(v_ptr + v_at, mask=keys[:, None] < length, other=0.0)
        total = total * shrink + tl.sum(weight, axis=1)
        mixed = mixed * shrink[:, None]
        mixed = tl.dot(weight.to(v.dtype), v, mixed, input_precision="ieee")
        highest = higher
    out = mixed / total[:, None]
    tl.store(out_ptr + q_at, out.to(out_ptr.dtype.element_ty), mask=rows[:, None] < length)


def attention(q, k, v, causal, block_m=64, block_n=32):
    """Attention of `(batch, heads, length, dim)` arrays; `dim` is a power of two from 16 on."""
    batch, heads, length, dim = q.shape
    out = np.empty_like(q)
    attention_kernel[(triton.cdiv(length, block_m), batch * heads)](
        q,
        k,
        v,
        out,
        length,
        LOG2_E / math.sqrt(dim),
        DIM=dim,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        CAUSAL=causal,
    )
    return out


def attention_naive(q, k, v, causal):
    """The same with the whole score matrix, in float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    score = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        score = np.where(np.tri(q.shape[2], dtype=bool), score, -np.inf)
    weight = np.exp(score - score.max(axis=-1, keepdims=True))
    return weight / weight.sum(axis=-1, keepdims=True) @ v


TOLERANCE = {np.float32: 1e-5, np.float16: 2e-3}


def example(shape, dtype, causal, **options):
    """The kernel's output, the reference, and the tolerance between them."""
    q, k, v = np.random.default_rng(0).standard_normal((3, *shape)).astype(dtype)
    result = attention(q, k, v, causal, **options)
    return result, attention_naive(q, k, v, causal), TOLERANCE[dtype]


def cases():
    """Small runs for the tests: name, function giving result, reference and tolerance."""
    return [
        ("full", lambda: example((1, 2, 128, 32), np.float32, False)),
        ("causal", lambda: example((2, 1, 128, 32), np.float32, True)),
        ("odd", lambda: example((1, 3, 83, 16), np.float32, False)),
        ("odd causal", lambda: example((1, 3, 83, 16), np.float32, True, block_m=32)),
        ("narrow queries", lambda: example((1, 1, 50, 16), np.float32, True, block_m=16)),
        ("half", lambda: example((1, 2, 100, 64), np.float16, False)),
        ("half causal", lambda: example((1, 2, 100, 64), np.float16, True)),
        ("one token", lambda: example((2, 2, 1, 16), np.float32, True)),
    ]


def main():
    for dtype in TOLERANCE:
        for causal in (False, True):
            result, reference, tolerance = example((2, 4, 509, 64), dtype, causal)
            np.testing.assert_allclose(result, reference, rtol=tolerance, atol=tolerance)
    print("attention: 2 x 4 heads of 509 x 64, full and causal, agrees with float64 NumPy")


if __name__ == "__main__":
    main()
