"""Kernels of layers, losses and optimizers, for whichever `triton` is imported here."""

import triton
import triton.language as tl


@triton.jit
def batch_norm_kernel(
    x_ptr, w_ptr, b_ptr, out_ptr, N, C, HW, eps, BLOCK: tl.constexpr
):  # fmt: skip
    """Each program a channel of all images, read twice."""
    c = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for n in range(N):
        base = x_ptr + (n * C + c) * HW
        for k in range(0, HW, BLOCK):
            i = k + tl.arange(0, BLOCK)
            x = tl.load(base + i, mask=i < HW, other=0.0).to(tl.float32)
            total += x
            squares += x * x
    mean = tl.sum(total, 0) / (N * HW)
    var = tl.sum(squares, 0) / (N * HW) - mean * mean
    scale = tl.load(w_ptr + c) / tl.sqrt(var + eps)
    shift = tl.load(b_ptr + c) - mean * scale
    for n in range(N):
        at = (n * C + c) * HW
        for k in range(0, HW, BLOCK):
            i = k + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + at + i, mask=i < HW, other=0.0).to(tl.float32)
            out = (x * scale + shift).to(out_ptr.dtype.element_ty)
            tl.store(out_ptr + at + i, out, mask=i < HW)


@triton.jit
def batch_norm_inference_kernel(
    x_ptr, mean_ptr, var_ptr, w_ptr, b_ptr, out_ptr, n, C, HW, eps, BLOCK: tl.constexpr
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    c = (i // HW) % C
    x = tl.load(x_ptr + i, mask=mask)
    mean, var = tl.load(mean_ptr + c, mask=mask), tl.load(var_ptr + c, mask=mask)
    w, b = tl.load(w_ptr + c, mask=mask), tl.load(b_ptr + c, mask=mask)
    tl.store(out_ptr + i, (x - mean) * tl.rsqrt(var + eps) * w + b, mask=mask)


@triton.jit
def instance_norm_kernel(x_ptr, out_ptr, HW: tl.constexpr, eps, BLOCK: tl.constexpr):
    """An image's channel, read twice; its size is known."""
    base = tl.program_id(0).to(tl.int64) * HW
    total = 0.0
    squares = 0.0
    for k in range(0, HW, BLOCK):
        i = k + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + base + i, mask=i < HW, other=0.0)
        total += tl.sum(x, 0)
        squares += tl.sum(x * x, 0)
    mean = total / HW
    rstd = 1 / tl.sqrt(squares / HW - mean * mean + eps)
    for k in range(0, HW, BLOCK):
        i = k + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + base + i, mask=i < HW, other=0.0)
        tl.store(out_ptr + base + i, (x - mean) * rstd, mask=i < HW)


@triton.jit
def group_norm_backward_kernel(
    x_ptr, dy_ptr, w_ptr, dx_ptr, mean_ptr, rstd_ptr, C, HW, PER: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Channel by channel of a group, twice."""
    image, group = tl.program_id(0), tl.program_id(1)
    at = image * tl.num_programs(1) + group
    mean, rstd = tl.load(mean_ptr + at), tl.load(rstd_ptr + at)
    c1 = 0.0
    c2 = 0.0
    for ch in range(PER):
        w = tl.load(w_ptr + group * PER + ch)
        base = (image * C + group * PER + ch) * HW
        for k in range(0, HW, BLOCK):
            i = k + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + base + i, mask=i < HW, other=0.0).to(tl.float32)
            dy = tl.load(dy_ptr + base + i, mask=i < HW, other=0.0).to(tl.float32)
            xhat = (x - mean) * rstd
            c1 += tl.sum(tl.where(i < HW, xhat * w * dy, 0.0), 0)
            c2 += tl.sum(w * dy, 0)
    c1 = c1 / (PER * HW)
    c2 = c2 / (PER * HW)
    for ch in range(PER):
        w = tl.load(w_ptr + group * PER + ch)
        base = (image * C + group * PER + ch) * HW
        for k in range(0, HW, BLOCK):
            i = k + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + base + i, mask=i < HW, other=0.0).to(tl.float32)
            dy = tl.load(dy_ptr + base + i, mask=i < HW, other=0.0).to(tl.float32)
            xhat = (x - mean) * rstd
            dx = (w * dy - (xhat * c1 + c2)) * rstd
            tl.store(dx_ptr + base + i, dx.to(dx_ptr.dtype.element_ty), mask=i < HW)


@triton.jit
def rms_backward_kernel(
    dy_ptr, x_ptr, w_ptr, rstd_ptr, dx_ptr, dw_ptr, rows, cols, PER, BLOCK: tl.constexpr
):
    """Some rows a program; the gradient of weights is summed up in a tile."""
    pid = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < cols
    w = tl.load(w_ptr + i, mask=mask, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), tl.float32)
    for row in range(pid * PER, min((pid + 1) * PER, rows)):
        x = tl.load(x_ptr + row * cols + i, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * cols + i, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        m = dy * w
        dx = rstd * m - (rstd * rstd * rstd / cols) * tl.sum(m * x, 0) * x
        dw += dy * x * rstd
        tl.store(dx_ptr + row * cols + i, dx.to(dx_ptr.dtype.element_ty), mask=mask)
    tl.store(dw_ptr + pid * cols + i, dw, mask=mask)


@triton.jit
def norm_persistent_kernel(out_ptr, x_ptr, w_ptr, rows, cols, eps, BLOCK: tl.constexpr):
    """As many programs as fit, each over many rows."""
    i = tl.arange(0, BLOCK)
    mask = i < cols
    w = tl.load(w_ptr + i, mask=mask, other=0.0)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        x = tl.load(x_ptr + row * cols + i, mask=mask, other=0.0).to(tl.float32)
        mean = tl.sum(x, 0) / cols
        centred = tl.where(mask, x - mean, 0.0)
        rstd = tl.rsqrt(tl.sum(centred * centred, 0) / cols + eps)
        tl.store(out_ptr + row * cols + i, (centred * rstd * w).to(w.dtype), mask=mask)


@triton.jit
def log_softmax_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    """Rows of any length, read twice."""
    row = tl.program_id(0).to(tl.int64) * cols
    top = -float("inf")
    total = 0.0
    for k in range(0, cols, BLOCK):
        i = k + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + i, mask=i < cols, other=-float("inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(x, 0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new), 0)
        top = new
    lse = top + tl.log(total)
    for k in range(0, cols, BLOCK):
        i = k + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + i, mask=i < cols, other=0.0).to(tl.float32)
        tl.store(out_ptr + row + i, (x - lse).to(out_ptr.dtype.element_ty), mask=i < cols)


@triton.jit
def causal_softmax_kernel(x_ptr, out_ptr, L, scale, BLOCK: tl.constexpr):
    """Rows of scores up to the diagonal."""
    row = tl.program_id(0)
    at = (tl.program_id(1).to(tl.int64) * L + row) * L
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at + i, mask=i < L, other=-float("inf")).to(tl.float32) * scale
    x = tl.where(i <= row, x, -float("inf"))
    p = tl.exp(x - tl.max(x, 0))
    p = p / tl.sum(p, 0)
    tl.store(out_ptr + at + i, p.to(out_ptr.dtype.element_ty), mask=i < L)


@triton.jit
def small_softmax_kernel(
    x_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr
):  # fmt: skip
    """Several short rows a program."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    c = tl.arange(0, COLS)[None, :]
    mask = (r < rows) & (c < cols)
    x = tl.load(x_ptr + r * cols + c, mask=mask, other=-float("inf"))
    p = tl.exp(x - tl.max(x, 1)[:, None])
    tl.store(out_ptr + r * cols + c, p / tl.sum(p, 1)[:, None], mask=mask)


@triton.jit
def kl_kernel(y_ptr, t_ptr, loss_ptr, cols, eps, BLOCK: tl.constexpr):
    """Sums over rows of log probabilities and targets."""
    row = tl.program_id(0).to(tl.int64) * cols
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, cols, BLOCK):
        i = k + tl.arange(0, BLOCK)
        y = tl.load(y_ptr + row + i, mask=i < cols, other=0.0)
        t = tl.load(t_ptr + row + i, mask=i < cols, other=0.0)
        total += t * (tl.log(tl.maximum(t, eps)) - y)
    tl.store(loss_ptr + tl.program_id(0), tl.sum(total, 0))


@triton.jit
def focal_loss_kernel(x_ptr, t_ptr, out_ptr, n, alpha, gamma, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask, other=0.0)
    t = tl.load(t_ptr + i, mask=mask, other=0.0)
    p = 1 / (1 + tl.exp(-x))
    ce = tl.maximum(x, 0) - x * t + tl.log(1 + tl.exp(-tl.abs(x)))
    pt = p * t + (1 - p) * (1 - t)
    at = alpha * t + (1 - alpha) * (1 - t)
    tl.store(out_ptr + i, at * tl.exp(gamma * tl.log(1 - pt + 1e-8)) * ce, mask=mask)


@triton.jit
def geglu_backward_kernel(dy_ptr, a_ptr, b_ptr, da_ptr, db_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * cols
    i = tl.arange(0, BLOCK)
    mask = i < cols
    dy = tl.load(dy_ptr + row + i, mask=mask, other=0)
    a = tl.load(a_ptr + row + i, mask=mask, other=0).to(tl.float32)
    b = tl.load(b_ptr + row + i, mask=mask, other=0)
    cube = a * a * a
    inner = 0.7978845608028654 * (a + 0.044715 * cube)
    t = 2 * tl.sigmoid(2 * inner) - 1
    gelu = 0.5 * a * (1 + t)
    slope = 0.5 * (1 + t) + 0.5 * a * (1 - t * t) * (
        0.7978845608028654 * (1 + 3 * 0.044715 * a * a)
    )
    tl.store(db_ptr + row + i, (dy * gelu).to(db_ptr.dtype.element_ty), mask=mask)
    tl.store(da_ptr + row + i, (dy * b * slope).to(da_ptr.dtype.element_ty), mask=mask)


@triton.jit
def adamw_kernel(
    p_ptr, g_ptr, m_ptr, v_ptr, n, lr, b1, b2, eps, decay, c1, c2, BLOCK: tl.constexpr
):
    """Weights and gradients of 16 bits, states of 32."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    p = tl.load(p_ptr + i, mask=mask).to(tl.float32)
    g = tl.load(g_ptr + i, mask=mask).to(tl.float32)
    m = b1 * tl.load(m_ptr + i, mask=mask) + (1 - b1) * g
    v = b2 * tl.load(v_ptr + i, mask=mask) + (1 - b2) * g * g
    p = p * (1 - lr * decay) - lr * (m / c1) / (tl.sqrt(v / c2) + eps)
    tl.store(p_ptr + i, p.to(p_ptr.dtype.element_ty), mask=mask)
    tl.store(m_ptr + i, m, mask=mask)
    tl.store(v_ptr + i, v, mask=mask)


@triton.jit
def lion_kernel(p_ptr, g_ptr, m_ptr, n, lr, b1, b2, decay, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    p, g = tl.load(p_ptr + i, mask=mask), tl.load(g_ptr + i, mask=mask)
    m = tl.load(m_ptr + i, mask=mask)
    mixed = m * b1 + g * (1 - b1)
    step = tl.where(mixed > 0, 1.0, tl.where(mixed < 0, -1.0, 0.0))
    tl.store(p_ptr + i, p * (1 - lr * decay) - lr * step, mask=mask)
    tl.store(m_ptr + i, m * b2 + g * (1 - b2), mask=mask)


@triton.jit
def squared_norm_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """A sum of squares over a grid-stride loop, added to one number."""
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        i = k + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
        total += x * x
    tl.atomic_add(out_ptr, tl.sum(total, 0))


@triton.jit
def recurrence_kernel(a_ptr, x_ptr, out_ptr, L, D, BLOCK: tl.constexpr):
    """h = a h + x, step by step, for a block of channels."""
    d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.program_id(1).to(tl.int64) * L * D + d
    h = tl.zeros((BLOCK,), tl.float32)
    for _ in range(L):
        a = tl.load(a_ptr + at).to(tl.float32)
        x = tl.load(x_ptr + at).to(tl.float32)
        h = a * h + x
        tl.store(out_ptr + at, h.to(out_ptr.dtype.element_ty))
        at += D


@triton.jit
def column_sums_kernel(x_ptr, out_ptr, rows, cols, PER, BLOCK: tl.constexpr):
    """Rows one by one, added to the result by atomics (gradients of biases)."""
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    start = tl.program_id(1) * PER
    total = tl.zeros((BLOCK,), tl.float32)
    for r in range(start, min(start + PER, rows)):
        total += tl.load(x_ptr + r * cols + c, mask=c < cols, other=0.0).to(tl.float32)
    tl.atomic_add(out_ptr + c, total, mask=c < cols)
