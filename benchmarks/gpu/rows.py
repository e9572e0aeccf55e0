"""Kernels that normalise, reduce or scan rows, for whichever `triton` is imported here."""

import triton
import triton.language as tl


@triton.jit
def softmax_kernel(out_ptr, x_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < cols
    x = tl.load(x_ptr + row * x_stride + i, mask=mask, other=-float("inf"))
    weight = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * out_stride + i, weight / tl.sum(weight, axis=0), mask=mask)


@triton.jit
def softmax_persistent_kernel(out_ptr, x_ptr, stride, rows, cols, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    mask = i < cols
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        x = tl.load(x_ptr + row * stride + i, mask=mask, other=-float("inf"))
        weight = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * stride + i, weight / tl.sum(weight, axis=0), mask=mask)


@triton.jit
def softmax_online_kernel(out_ptr, x_ptr, cols, BLOCK: tl.constexpr):
    """Rows longer than a tile, in two passes."""
    start = tl.program_id(0).to(tl.int64) * cols
    i = tl.arange(0, BLOCK)
    highest = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, cols, BLOCK):
        x = tl.load(x_ptr + start + k + i, mask=k + i < cols, other=-float("inf"))
        new = tl.maximum(highest, x)
        total = total * tl.exp(highest - new) + tl.exp(x - new)
        highest = new
    top = tl.max(highest, axis=0)
    whole = tl.sum(total * tl.exp(highest - top), axis=0)
    for k in range(0, cols, BLOCK):
        x = tl.load(x_ptr + start + k + i, mask=k + i < cols, other=-float("inf"))
        tl.store(out_ptr + start + k + i, tl.exp(x - top) / whole, mask=k + i < cols)


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
def layer_norm_loop_kernel(out_ptr, x_ptr, w_ptr, b_ptr, stride, cols, eps, BLOCK: tl.constexpr):
    """Rows longer than a tile, in three passes."""
    row = tl.program_id(0)
    x_ptr += row * stride
    out_ptr += row * stride
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, cols, BLOCK):
        i = k + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + i, mask=i < cols, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / cols
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, cols, BLOCK):
        i = k + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < cols, other=0.0).to(tl.float32)
        x = tl.where(i < cols, x - mean, 0.0)
        total += x * x
    scale = 1 / tl.sqrt(tl.sum(total, axis=0) / cols + eps)
    for k in range(0, cols, BLOCK):
        i = k + tl.arange(0, BLOCK)
        mask = i < cols
        w, b = tl.load(w_ptr + i, mask=mask), tl.load(b_ptr + i, mask=mask)
        x = tl.load(x_ptr + i, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + i, ((x - mean) * scale * w + b).to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def layer_norm_backward_kernel(
    dx_ptr, dy_ptr, x_ptr, w_ptr, part_ptr, rows, cols, per_program, eps, BLOCK: tl.constexpr
):
    """Some rows a program; the gradient of the weights is summed over them."""
    i = tl.arange(0, BLOCK)
    mask = i < cols
    w = tl.load(w_ptr + i, mask=mask, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0) * per_program
    for row in range(first, min(first + per_program, rows)):
        x = tl.load(x_ptr + row * cols + i, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * cols + i, mask=mask, other=0.0).to(tl.float32)
        mean = tl.sum(x, axis=0) / cols
        centred = tl.where(mask, x - mean, 0.0)
        scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / cols + eps)
        xhat = centred * scale
        wdy = w * dy
        c1 = tl.sum(xhat * wdy, axis=0) / cols
        c2 = tl.sum(wdy, axis=0) / cols
        dx = (wdy - (xhat * c1 + c2)) * scale
        tl.store(dx_ptr + row * cols + i, dx.to(dx_ptr.dtype.element_ty), mask=mask)
        dw += dy * xhat
    tl.store(part_ptr + tl.program_id(0) * cols + i, dw, mask=mask)


@triton.jit
def rms_norm_kernel(out_ptr, x_ptr, w_ptr, cols, eps, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    i = tl.arange(0, BLOCK)
    mask = i < cols
    x = tl.load(x_ptr + start + i, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + i, mask=mask).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / cols + eps)
    tl.store(out_ptr + start + i, (x * scale * w).to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def group_norm_kernel(
    out_ptr, x_ptr, w_ptr, b_ptr, channels, size, groups, eps, BLOCK: tl.constexpr
):
    """One group of channels of one picture, in chunks."""
    n, g = tl.program_id(0), tl.program_id(1)
    per = channels // groups
    start = (n * channels + g * per) * size
    count = per * size
    total, squares = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for k in range(0, count, BLOCK):
        i = k + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + start + i, mask=i < count, other=0.0).to(tl.float32)
        total += x
        squares += x * x
    mean = tl.sum(total, axis=0) / count
    scale = tl.rsqrt(tl.sum(squares, axis=0) / count - mean * mean + eps)
    for k in range(0, count, BLOCK):
        i = k + tl.arange(0, BLOCK)
        mask = i < count
        channel = g * per + i // size
        w = tl.load(w_ptr + channel, mask=mask)
        b = tl.load(b_ptr + channel, mask=mask)
        x = tl.load(x_ptr + start + i, mask=mask, other=0.0).to(tl.float32)
        y = (x - mean) * scale * w + b
        tl.store(out_ptr + start + i, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def cross_entropy_kernel(x_ptr, target_ptr, loss_ptr, cols, BLOCK: tl.constexpr):
    """The loss of a row, and its gradient in place, in two passes over chunks."""
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(target_ptr + row)
    x_ptr += row * cols
    highest = -float("inf")
    total = 0.0
    own = tl.load(x_ptr + target).to(tl.float32)
    for k in range(0, cols, BLOCK):
        i = k + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < cols, other=-float("inf")).to(tl.float32)
        new = tl.maximum(highest, tl.max(x, axis=0))
        total = total * tl.exp(highest - new) + tl.sum(tl.exp(x - new), axis=0)
        highest = new
    for k in range(0, cols, BLOCK):
        i = k + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < cols, other=-float("inf")).to(tl.float32)
        p = tl.exp(x - highest) / total
        p = tl.where(i == target, p - 1, p)
        tl.store(x_ptr + i, p.to(x_ptr.dtype.element_ty), mask=i < cols)
    tl.store(loss_ptr + row, highest + tl.log(total) - own)


@triton.jit
def sum_rows_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    start = tl.program_id(0) * cols
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + start + i, mask=i < cols, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x, axis=0))


@triton.jit
def sum_cols_kernel(x_ptr, out_ptr, rows, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    c = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, rows, BLOCK_M):
        r = k + tl.arange(0, BLOCK_M)
        mask = (r[:, None] < rows) & (c[None, :] < cols)
        total += tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + c, tl.sum(total, axis=0), mask=c < cols)


@triton.jit
def sum_all_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(x, axis=0))


@triton.jit
def argmax_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + i, mask=i < cols, other=-float("inf"))
    tl.store(out_ptr + row, tl.argmax(x, axis=0))


@triton.jit
def welford(mean_a, m2_a, count_a, mean_b, m2_b, count_b):
    count = count_a + count_b
    delta = mean_b - mean_a
    part = count_b / count
    return mean_a + delta * part, m2_a + m2_b + delta * delta * count_a * part, count


@triton.jit
def variance_kernel(x_ptr, mean_ptr, var_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + i)
    mean, m2, count = tl.reduce(
        (x, tl.zeros((BLOCK,), tl.float32), tl.full((BLOCK,), 1.0, tl.float32)), 0, welford
    )
    tl.store(mean_ptr + row, mean)
    tl.store(var_ptr + row, m2 / count)


@triton.jit
def cumsum_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + i, mask=i < cols, other=0.0)
    tl.store(out_ptr + row * cols + i, tl.cumsum(x, axis=0), mask=i < cols)


@triton.jit
def decay(a_x, b_x, a_y, b_y):
    return a_x * a_y, a_y * b_x + b_y


@triton.jit
def decay_scan_kernel(a_ptr, b_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    """h[t] = a[t] * h[t - 1] + b[t] along each row."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    a = tl.load(a_ptr + row * cols + i, mask=i < cols, other=1.0)
    b = tl.load(b_ptr + row * cols + i, mask=i < cols, other=0.0)
    _, h = tl.associative_scan((a, b), 0, decay)
    tl.store(out_ptr + row * cols + i, h, mask=i < cols)


@triton.jit
def sort_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + i)
    tl.store(out_ptr + row * cols + i, tl.sort(x))


@triton.jit
def quantize_kernel(x_ptr, out_ptr, scale_ptr, cols, BLOCK: tl.constexpr):
    """Rows to int8, each with its own scale."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < cols
    x = tl.load(x_ptr + row * cols + i, mask=mask, other=0.0).to(tl.float32)
    top = tl.max(tl.abs(x), axis=0)
    scaled = x * (127.0 / top)
    scaled = tl.where(scaled >= 0, scaled + 0.5, scaled - 0.5)
    tl.store(out_ptr + row * cols + i, scaled.to(tl.int8), mask=mask)
    tl.store(scale_ptr + row, top / 127.0)
