"""Kernels that mostly move elements, for whichever `triton` is imported here."""

import triton
import triton.language as tl


@triton.jit
def transpose_kernel(x_ptr, out_ptr, rows, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (r[:, None] < rows) & (c[None, :] < cols)
    x = tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=mask)
    turned = (c[:, None] < cols) & (r[None, :] < rows)
    tl.store(out_ptr + c[:, None] * rows + r[None, :], tl.trans(x), mask=turned)


@triton.jit
def batched_transpose_kernel(
    x_ptr, out_ptr, rows, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """The same, by indices only, of many matrices."""
    start = tl.program_id(2).to(tl.int64) * rows * cols
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    c = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    mask = (r < rows) & (c < cols)
    x = tl.load(x_ptr + start + r * cols + c, mask=mask)
    tl.store(out_ptr + start + c * rows + r, x, mask=mask)


@triton.jit
def strided_copy_kernel(x_ptr, out_ptr, n, step, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i * step, mask=mask), mask=mask)


@triton.jit
def embedding_kernel(table_ptr, index_ptr, out_ptr, dim, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    row = tl.load(index_ptr + token)
    i = tl.arange(0, BLOCK)
    mask = i < dim
    x = tl.load(table_ptr + row.to(tl.int64) * dim + i, mask=mask)
    tl.store(out_ptr + token.to(tl.int64) * dim + i, x, mask=mask)


@triton.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    index = tl.load(index_ptr + i, mask=mask)
    tl.store(out_ptr + i, tl.load(x_ptr + index, mask=mask), mask=mask)


@triton.jit
def scatter_add_kernel(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    index = tl.load(index_ptr + i, mask=mask, other=0)
    tl.atomic_add(out_ptr + index, tl.load(x_ptr + i, mask=mask), mask=mask)


@triton.jit
def histogram_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    """Counted in each program, then added to the whole."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.atomic_add(out_ptr + tl.arange(0, BINS), tl.histogram(x, BINS))


@triton.jit
def histogram_atomic_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask, other=0)
    tl.atomic_add(out_ptr + x, 1, mask=mask)


@triton.jit
def gemv_kernel(a_ptr, x_ptr, out_ptr, rows, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    total = tl.zeros((BLOCK_M,), tl.float32)
    for k in range(0, cols, BLOCK_N):
        c = k + tl.arange(0, BLOCK_N)
        mask = (r[:, None] < rows) & (c[None, :] < cols)
        a = tl.load(a_ptr + r[:, None] * cols + c[None, :], mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + c, mask=c < cols, other=0.0).to(tl.float32)
        total += tl.sum(a * x[None, :], axis=1)
    tl.store(out_ptr + r, total, mask=r < rows)
