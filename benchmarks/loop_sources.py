"""Kernels that compute in loops, or much for each element."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def distances_kernel(x_ptr, y_ptr, out_ptr, m, n, depth, M: tl.constexpr, N: tl.constexpr):
    """Between each row of x and each column of y, feature by feature."""
    row, col = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros([M, N], tl.float32)
    for k in range(depth):
        x = tl.load(x_ptr + row * depth + k, mask=row < m, other=0.0)
        y = tl.load(y_ptr + k * n + col, mask=col < n, other=0.0)
        difference = x[:, None] - y[None, :]
        total += difference * difference
    inside = (row[:, None] < m) & (col[None, :] < n)
    tl.store(out_ptr + row[:, None] * n + col[None, :], tl.sqrt(total), mask=inside)


@triton.jit
def polynomial_kernel(x_ptr, factors_ptr, out_ptr, n, DEGREE: tl.constexpr, BLOCK: tl.constexpr):
    """A polynomial by Horner's rule."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    total = tl.zeros([BLOCK], tl.float32)
    for k in range(DEGREE + 1):
        total = total * x + tl.load(factors_ptr + k)
    tl.store(out_ptr + at, total, mask=at < n)


@triton.jit
def rows_times_vector_kernel(x_ptr, v_ptr, out_ptr, rows, cols, M: tl.constexpr, N: tl.constexpr):
    """A matrix times a vector, by sums of whole tiles."""
    row = tl.program_id(0) * M + tl.arange(0, M)
    total = tl.zeros([M, N], tl.float32)
    for start in range(0, cols, N):
        col = start + tl.arange(0, N)
        inside = (row[:, None] < rows) & (col[None, :] < cols)
        x = tl.load(x_ptr + row[:, None] * cols + col[None, :], mask=inside, other=0.0)
        total += x * tl.load(v_ptr + col, mask=col < cols, other=0.0)[None, :]
    tl.store(out_ptr + row, tl.sum(total, axis=1), mask=row < rows)


@triton.jit
def power_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """x^y."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + at, mask=at < n), tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, libdevice.pow(x, y), mask=at < n)
