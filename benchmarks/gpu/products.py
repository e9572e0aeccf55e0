"""Kernels that multiply matrices, for whichever `triton` is imported here."""

import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, m, n, k, a_row, b_row, c_row,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, BAND: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    first = pid // (BAND * tiles_n) * BAND
    height = tl.minimum(tiles_m - first, BAND)
    tile_m = first + pid % (BAND * tiles_n) % height
    tile_n = pid % (BAND * tiles_n) // height
    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)) % m
    cols = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)) % n
    depth = tl.arange(0, BLOCK_K)
    a_at = a_ptr + rows[:, None] * a_row + depth[None, :]
    b_at = b_ptr + depth[:, None] * b_row + cols[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(tl.cdiv(k, BLOCK_K)):
        inside = k - step * BLOCK_K
        a = tl.load(a_at, mask=depth[None, :] < inside, other=0.0)
        b = tl.load(b_at, mask=depth[:, None] < inside, other=0.0)
        total = tl.dot(a, b, total)
        a_at += BLOCK_K
        b_at += BLOCK_K * b_row
    i = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    j = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_at = c_ptr + i[:, None] * c_row + j[None, :]
    tl.store(c_at, total.to(c_ptr.dtype.element_ty), mask=(i[:, None] < m) & (j[None, :] < n))


@triton.jit
def matmul_rows_kernel(
    a_ptr, b_ptr, c_ptr, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, BAND: tl.constexpr,
    INTEGER: tl.constexpr,
):  # fmt: skip
    """a [m, k] times b [n, k] turned."""
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    first = pid // (BAND * tiles_n) * BAND
    height = tl.minimum(tiles_m - first, BAND)
    i = (first + pid % (BAND * tiles_n) % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    j = pid % (BAND * tiles_n) // height * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_at = a_ptr + i[:, None] * k + depth[None, :]
    b_at = b_ptr + j[None, :] * k + depth[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32 if INTEGER else tl.float32)
    for _ in range(0, k, BLOCK_K):
        total = tl.dot(tl.load(a_at), tl.load(b_at), total)
        a_at += BLOCK_K
        b_at += BLOCK_K
    tl.store(c_ptr + i[:, None] * n + j[None, :], total.to(c_ptr.dtype.element_ty))


@triton.jit
def matmul_int8_weights_kernel(
    a_ptr, b_ptr, scale_ptr, c_ptr, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """a [m, k] in bf16 times b [k, n] in int8, with a scale for each column."""
    i = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    j = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_at = a_ptr + i[:, None] * k + depth[None, :]
    b_at = b_ptr + depth[:, None] * n + j[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, k, BLOCK_K):
        a = tl.load(a_at)
        total = tl.dot(a, tl.load(b_at).to(a.dtype), total)
        a_at += BLOCK_K
        b_at += BLOCK_K * n
    total *= tl.load(scale_ptr + j)[None, :]
    tl.store(c_ptr + i[:, None] * n + j[None, :], total.to(c_ptr.dtype.element_ty))


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, length, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """One block of queries against all keys of a head, or those up to each query's own."""
    head = tl.program_id(1).to(tl.int64) * length * D
    i = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    j, d = tl.arange(0, BLOCK_N), tl.arange(0, D)
    q = tl.load(q_ptr + head + i[:, None] * D + d[None, :], mask=i[:, None] < length, other=0.0)
    k_at = k_ptr + head + d[:, None] + j[None, :] * D
    v_at = v_ptr + head + j[:, None] * D + d[None, :]
    highest = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    out = tl.zeros((BLOCK_M, D), tl.float32)
    end = (tl.program_id(0) + 1) * BLOCK_M if CAUSAL else length
    for start in range(0, end, BLOCK_N):
        k = tl.load(k_at)
        s = tl.dot(q, k) * (scale * 1.44269504)
        if CAUSAL:
            s = tl.where(i[:, None] >= start + j[None, :], s, -float("inf"))
        new = tl.maximum(highest, tl.max(s, axis=1))
        p = tl.exp2(s - new[:, None])
        shrink = tl.exp2(highest - new)
        total = total * shrink + tl.sum(p, axis=1)
        out = out * shrink[:, None]
        v = tl.load(v_at)
        out = tl.dot(p.to(v.dtype), v, out)
        highest = new
        k_at += BLOCK_N * D
        v_at += BLOCK_N * D
    out = out / total[:, None]
    at = out_ptr + head + i[:, None] * D + d[None, :]
    tl.store(at, out.to(out_ptr.dtype.element_ty), mask=i[:, None] < length)
