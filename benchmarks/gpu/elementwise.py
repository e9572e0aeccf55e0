"""Kernels of one element at a time, for whichever `triton` is imported here."""

import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=mask) + tl.load(y_ptr + i, mask=mask), mask=mask)


@triton.jit
def gelu_tanh_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask).to(tl.float32)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    out = x * tl.sigmoid(2 * inner)
    tl.store(out_ptr + i, out.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def gelu_exact_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask).to(tl.float32)
    out = 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))
    tl.store(out_ptr + i, out.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask).to(tl.float32)
    tl.store(out_ptr + i, (x * tl.sigmoid(x)).to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def swiglu_kernel(gate_ptr, up_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    i = tl.arange(0, BLOCK)
    mask = i < cols
    gate = tl.load(gate_ptr + start + i, mask=mask, other=0).to(tl.float32)
    up = tl.load(up_ptr + start + i, mask=mask, other=0).to(tl.float32)
    out = gate * tl.sigmoid(gate) * up
    tl.store(out_ptr + start + i, out.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask)
    keep = tl.rand(seed, i) > p
    tl.store(out_ptr + i, tl.where(keep, x / (1 - p), 0.0), mask=mask)


@triton.jit
def adam_kernel(
    p_ptr, g_ptr, m_ptr, v_ptr, n, rate, beta1, beta2, eps, undo1, undo2, BLOCK: tl.constexpr
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    g = tl.load(g_ptr + i, mask=mask)
    m = beta1 * tl.load(m_ptr + i, mask=mask) + (1 - beta1) * g
    v = beta2 * tl.load(v_ptr + i, mask=mask) + (1 - beta2) * g * g
    p = tl.load(p_ptr + i, mask=mask)
    tl.store(m_ptr + i, m, mask=mask)
    tl.store(v_ptr + i, v, mask=mask)
    tl.store(p_ptr + i, p - rate * (m * undo1) / (tl.sqrt(v * undo2) + eps), mask=mask)


@triton.jit
def rope_kernel(x_ptr, cos_ptr, sin_ptr, out_ptr, heads, HALF: tl.constexpr, HEADS: tl.constexpr):
    """All heads of one token: the halves of each head are rotated by the token's angles."""
    token = tl.program_id(0)
    h, i = tl.arange(0, HEADS)[:, None], tl.arange(0, HALF)[None, :]
    mask = h < heads
    cos = tl.load(cos_ptr + token * HALF + i)
    sin = tl.load(sin_ptr + token * HALF + i)
    at = token * heads * 2 * HALF + h * 2 * HALF + i
    a = tl.load(x_ptr + at, mask=mask, other=0).to(tl.float32)
    b = tl.load(x_ptr + at + HALF, mask=mask, other=0).to(tl.float32)
    kind = out_ptr.dtype.element_ty
    tl.store(out_ptr + at, (a * cos - b * sin).to(kind), mask=mask)
    tl.store(out_ptr + at + HALF, (b * cos + a * sin).to(kind), mask=mask)


@triton.jit
def cast_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=mask).to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def bias_relu_kernel(
    x_ptr, bias_ptr, out_ptr, rows, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    c = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    mask = (r < rows) & (c < cols)
    x = tl.load(x_ptr + r * cols + c, mask=mask)
    bias = tl.load(bias_ptr + c, mask=c < cols)
    y = x + bias
    tl.store(out_ptr + r * cols + c, tl.where(y > 0, y, 0.01 * y), mask=mask)


@triton.jit
def grid_stride_kernel(x_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    """A fixed number of programs, each of which takes every so manieth block."""
    step = tl.num_programs(0) * BLOCK
    for start in range(tl.program_id(0) * BLOCK, n, step):
        i = start + tl.arange(0, BLOCK)
        mask = i < n
        tl.store(out_ptr + i, tl.load(x_ptr + i, mask=mask) * scale, mask=mask)
