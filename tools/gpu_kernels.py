"""Kernels that tools/gpu_check.py times, for whichever `triton` is imported here."""

import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=mask) + tl.load(y_ptr + i, mask=mask), mask=mask)


@triton.jit
def softmax_kernel(out_ptr, x_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < cols
    x = tl.load(x_ptr + row * x_stride + i, mask=mask, other=-float("inf"))
    weight = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * out_stride + i, weight / tl.sum(weight, axis=0), mask=mask)


@triton.jit
def layer_norm_kernel(out_ptr, x_ptr, w_ptr, b_ptr, stride, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < cols
    x = tl.load(x_ptr + row * stride + i, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / cols
    centred = tl.where(mask, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / cols + eps)
    weight, bias = tl.load(w_ptr + i, mask=mask), tl.load(b_ptr + i, mask=mask)
    out = centred * scale * weight.to(tl.float32) + bias.to(tl.float32)
    tl.store(out_ptr + row * stride + i, out.to(out_ptr.dtype.element_ty), mask=mask)


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
