"""Kernels over arrays seen as one long row, whose indices are taken apart by `//` and `%`."""

import triton
import triton.language as tl


@triton.jit
def scale_rows_kernel(x_ptr, scale_ptr, out_ptr, n, cols, BLOCK: tl.constexpr):
    """Each row times a number of its own."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    scale = tl.load(scale_ptr + at // cols, mask=inside)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=inside) * scale, mask=inside)


@triton.jit
def add_bias_kernel(x_ptr, bias_ptr, out_ptr, n, cols, BLOCK: tl.constexpr):
    """A row added to each row."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    bias = tl.load(bias_ptr + at % cols, mask=inside)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=inside) + bias, mask=inside)


@triton.jit
def unpack_kernel(x_ptr, scale_ptr, out_ptr, n, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    """Weights of 4 bits, two in a byte, times a number for each group."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    code = (tl.load(x_ptr + at // 2, mask=inside) >> (at % 2 * 4)) & 15
    scale = tl.load(scale_ptr + at // GROUP, mask=inside)
    tl.store(out_ptr + at, (code.to(tl.float32) - 8) * scale, mask=inside)


@triton.jit
def channels_kernel(x_ptr, w_ptr, b_ptr, out_ptr, n, pixels, channels, BLOCK: tl.constexpr):
    """A factor and a summand for each channel of images."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    channel = at // pixels % channels
    w = tl.load(w_ptr + channel, mask=inside)
    b = tl.load(b_ptr + channel, mask=inside)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=inside) * w + b, mask=inside)


@triton.jit
def permute_kernel(x_ptr, out_ptr, n, d1, d2, s0, s1, s2, BLOCK: tl.constexpr):
    """A contiguous copy of three dimensions with any strides."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    place = at // (d1 * d2) * s0 + at // d2 % d1 * s1 + at % d2 * s2
    tl.store(out_ptr + at, tl.load(x_ptr + place, mask=inside), mask=inside)


@triton.jit
def group_norm_kernel(
    x_ptr, y_ptr, w_ptr, b_ptr, channels, pixels, groups, eps, BLOCK: tl.constexpr
):
    """One group of channels of one image."""
    program = tl.program_id(0)
    n = channels * pixels
    at = tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + program * n + at, mask=inside, other=0.0)
    centred = tl.where(inside, x - tl.sum(x, axis=0) / n, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / n + eps)
    channel = program % groups * channels + at // pixels
    w = tl.load(w_ptr + channel, mask=inside)
    b = tl.load(b_ptr + channel, mask=inside)
    tl.store(y_ptr + program * n + at, centred * scale * w + b, mask=inside)


@triton.jit
def batch_norm_kernel(
    x_ptr, y_ptr, w_ptr, b_ptr, images, channels, pixels, eps, BLOCK: tl.constexpr
):
    """One channel of all images."""
    channel = tl.program_id(0)
    n = images * pixels
    total = tl.zeros([BLOCK], tl.float32)
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        place = at // pixels * channels * pixels + channel * pixels + at % pixels
        x = tl.load(x_ptr + place, mask=at < n, other=0.0)
        total += x
        squares += x * x
    mean = tl.sum(total, axis=0) / n
    scale = tl.load(w_ptr + channel) * tl.rsqrt(tl.sum(squares, axis=0) / n - mean * mean + eps)
    shift = tl.load(b_ptr + channel) - mean * scale
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        place = at // pixels * channels * pixels + channel * pixels + at % pixels
        x = tl.load(x_ptr + place, mask=at < n)
        tl.store(y_ptr + place, x * scale + shift, mask=at < n)


@triton.jit
def max_pool_kernel(x_ptr, out_ptr, n, height, width, BLOCK: tl.constexpr):
    """The largest of 2 x 2 pixels."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    half = width // 2
    corner = at // half * 2 * width + at % half * 2
    best = tl.full([BLOCK], -float("inf"), tl.float32)
    for down in tl.static_range(2):
        for right in tl.static_range(2):
            x = tl.load(x_ptr + corner + down * width + right, mask=inside)
            best = tl.maximum(best, x)
    tl.store(out_ptr + at, best, mask=inside)


@triton.jit
def rope_pairs_kernel(x_ptr, cos_ptr, sin_ptr, out_ptr, heads, dim, HALF: tl.constexpr):
    """Neighbouring elements of one head rotated as pairs."""
    token = tl.program_id(0)
    start = (token * heads + tl.program_id(1)) * dim
    pair = tl.arange(0, HALF)
    x = tl.load(x_ptr + start + 2 * pair)
    y = tl.load(x_ptr + start + 2 * pair + 1)
    cos, sin = tl.load(cos_ptr + token * HALF + pair), tl.load(sin_ptr + token * HALF + pair)
    tl.store(out_ptr + start + 2 * pair, x * cos - y * sin)
    tl.store(out_ptr + start + 2 * pair + 1, y * cos + x * sin)


@triton.jit
def reverse_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    """One row from its end to its beginning."""
    start = tl.program_id(0) * cols
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + start + at, mask=at < cols)
    tl.store(out_ptr + start + cols - 1 - at, x, mask=at < cols)


@triton.jit
def embedding_backward_kernel(grad_ptr, index_ptr, table_ptr, dim, BLOCK: tl.constexpr):
    """Add the gradient of one token to its row of the table."""
    token = tl.program_id(0)
    row = tl.load(index_ptr + token)
    at = tl.arange(0, BLOCK)
    grad = tl.load(grad_ptr + token * dim + at, mask=at < dim)
    tl.atomic_add(table_ptr + row * dim + at, grad, mask=at < dim)


@triton.jit
def sum_middle_kernel(x_ptr, out_ptr, depth, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Sums over the middle one of three dimensions."""
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)
    total = tl.zeros([COLS], tl.float32)
    for first in range(0, depth, ROWS):
        row = first + tl.arange(0, ROWS)
        at = (tl.program_id(0) * depth + row[:, None]) * cols + col[None, :]
        inside = (row[:, None] < depth) & (col[None, :] < cols)
        total += tl.sum(tl.load(x_ptr + at, mask=inside, other=0.0), axis=0)
    tl.store(out_ptr + tl.program_id(0) * cols + col, total, mask=col < cols)


@triton.jit
def join_rows_kernel(a_ptr, b_ptr, out_ptr, first, second, BLOCK: tl.constexpr):
    """A row of one matrix, then that of another."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    both = first + second
    is_second = (at >= first) & (at < both)
    a = tl.load(a_ptr + row * first + at, mask=at < first, other=0.0)
    b = tl.load(b_ptr + row * second + at - first, mask=is_second, other=0.0)
    tl.store(out_ptr + row * both + at, tl.where(at < first, a, b), mask=at < both)


@triton.jit
def bias_tiles_kernel(x_ptr, bias_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    """A row added to each row, tile by tile."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)[None, :]
    inside = (row < rows) & (col < cols)
    x = tl.load(x_ptr + row * cols + col, mask=inside)
    bias = tl.load(bias_ptr + col, mask=col < cols)
    tl.store(out_ptr + row * cols + col, x + bias, mask=inside)


@triton.jit
def scatter_kernel(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Each element to a place of its own."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    place = tl.load(index_ptr + at, mask=inside)
    tl.store(out_ptr + place, tl.load(x_ptr + at, mask=inside), mask=inside)
