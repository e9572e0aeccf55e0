"""Kernels over chunks of sequences, states and groups, for whichever `triton` is there."""

import triton
import triton.language as tl


@triton.jit
def chunk_state_kernel(
    x_ptr, b_ptr, dt_ptr, da_ptr, state_ptr, L, HEADS, CHUNK: tl.constexpr,
    P: tl.constexpr, N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Of each chunk of a state space model the state that it ends in: x' (decay dt b)."""
    chunk, head, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    first = batch * L + chunk * CHUNK
    offs_p, offs_n, offs_k = tl.arange(0, P), tl.arange(0, N), tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + ((first + offs_k[None, :]) * HEADS + head) * P + offs_p[:, None]
    b_ptrs = b_ptr + (first + offs_k[:, None]) * N + offs_n[None, :]
    dt_ptrs = dt_ptr + (first + offs_k) * HEADS + head
    da_ptrs = da_ptr + (first + offs_k) * HEADS + head
    da_last = tl.load(da_ptr + (first + CHUNK - 1) * HEADS + head)
    acc = tl.zeros((P, N), dtype=tl.float32)
    for k in range(0, CHUNK, BLOCK_K):
        on = offs_k < L - chunk * CHUNK - k
        x = tl.load(x_ptrs, mask=on[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=on[:, None], other=0.0).to(tl.float32)
        da = tl.load(da_ptrs, mask=on, other=0.0).to(tl.float32)
        dt = tl.load(dt_ptrs, mask=on, other=0.0).to(tl.float32)
        b *= (tl.exp(tl.minimum(da_last - da, 0.0)) * dt)[:, None]
        acc += tl.dot(x, b.to(x.dtype))
        x_ptrs += BLOCK_K * HEADS * P
        b_ptrs += BLOCK_K * N
        dt_ptrs += BLOCK_K * HEADS
        da_ptrs += BLOCK_K * HEADS
    at = state_ptr + (((batch * (L // CHUNK) + chunk) * HEADS + head) * P + offs_p[:, None]) * N
    tl.store(at + offs_n[None, :], acc.to(state_ptr.dtype.element_ty))


@triton.jit
def chunk_scan_kernel(
    c_ptr, cb_ptr, x_ptr, dt_ptr, da_ptr, state_ptr, out_ptr, L, HEADS, CHUNK: tl.constexpr,
    P: tl.constexpr, N: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Outputs of a chunk: from the state before it, and from the elements inside."""
    part = tl.program_id(0)
    chunk, head, batch = tl.program_id(1), tl.program_id(2) % HEADS, tl.program_id(2) // HEADS
    first = batch * L + chunk * CHUNK
    offs_m = part * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_p, offs_n, offs_k = tl.arange(0, P), tl.arange(0, N), tl.arange(0, BLOCK_K)
    da_m = tl.load(da_ptr + (first + offs_m) * HEADS + head).to(tl.float32)
    c = tl.load(c_ptr + (first + offs_m[:, None]) * N + offs_n[None, :])
    at = state_ptr + (((batch * (L // CHUNK) + chunk) * HEADS + head) * P + offs_p[None, :]) * N
    state = tl.load(at + offs_n[:, None]).to(c.dtype)
    acc = tl.dot(c, state) * tl.exp(da_m)[:, None]
    cb_ptrs = cb_ptr + (batch * (L // CHUNK) + chunk) * CHUNK * CHUNK
    cb_ptrs += offs_m[:, None] * CHUNK + offs_k[None, :]
    x_ptrs = x_ptr + ((first + offs_k[:, None]) * HEADS + head) * P + offs_p[None, :]
    dt_ptrs = dt_ptr + (first + offs_k) * HEADS + head
    da_ptrs = da_ptr + (first + offs_k) * HEADS + head
    for k in range(0, min((part + 1) * BLOCK_M, CHUNK), BLOCK_K):
        cb = tl.load(cb_ptrs).to(tl.float32)
        da_k = tl.load(da_ptrs).to(tl.float32)
        cb *= tl.exp(tl.minimum(da_m[:, None] - da_k[None, :], 0.0))
        cb *= tl.load(dt_ptrs).to(tl.float32)[None, :]
        cb = tl.where(offs_m[:, None] >= k + offs_k[None, :], cb, 0.0)
        x = tl.load(x_ptrs)
        acc += tl.dot(cb.to(x.dtype), x)
        cb_ptrs += BLOCK_K
        x_ptrs += BLOCK_K * HEADS * P
        dt_ptrs += BLOCK_K * HEADS
        da_ptrs += BLOCK_K * HEADS
    out_at = out_ptr + ((first + offs_m[:, None]) * HEADS + head) * P + offs_p[None, :]
    tl.store(out_at, acc.to(out_ptr.dtype.element_ty))


@triton.jit
def selective_scan_kernel(
    x_ptr, dt_ptr, a_ptr, b_ptr, c_ptr, out_ptr, L, DIM, BLOCK_D: tl.constexpr, N: tl.constexpr
):
    """One step after the other, the states of some channels in registers."""
    batch, block = tl.program_id(0), tl.program_id(1)
    d = block * BLOCK_D + tl.arange(0, BLOCK_D)
    n = tl.arange(0, N)
    a = tl.load(a_ptr + d[:, None] * N + n[None, :])
    h = tl.zeros((BLOCK_D, N), tl.float32)
    for t in range(L):
        at = (batch * L + t) * DIM + d
        x = tl.load(x_ptr + at).to(tl.float32)
        dt = tl.load(dt_ptr + at).to(tl.float32)
        b = tl.load(b_ptr + (batch * L + t) * N + n).to(tl.float32)
        c = tl.load(c_ptr + (batch * L + t) * N + n).to(tl.float32)
        h = h * tl.exp(a * dt[:, None]) + (dt * x)[:, None] * b[None, :]
        tl.store(out_ptr + at, tl.sum(h * c[None, :], 1))


@triton.jit
def linear_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, L, scale,
    D: tl.constexpr, DV: tl.constexpr, BLOCK: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Chunk after chunk, with the state in registers."""
    part, head = tl.program_id(0), tl.program_id(1)
    offs_t, offs_d = tl.arange(0, BLOCK), tl.arange(0, D)
    offs_v = part * BLOCK_V + tl.arange(0, BLOCK_V)
    state = tl.zeros((D, BLOCK_V), tl.float32)
    q_ptrs = q_ptr + head * L * D + offs_t[:, None] * D + offs_d[None, :]
    k_ptrs = k_ptr + head * L * D + offs_t[None, :] * D + offs_d[:, None]
    v_ptrs = v_ptr + head * L * DV + offs_t[:, None] * DV + offs_v[None, :]
    out_ptrs = out_ptr + head * L * DV + offs_t[:, None] * DV + offs_v[None, :]
    for _ in range(0, L, BLOCK):
        q = (tl.load(q_ptrs) * scale).to(tl.bfloat16)
        k = tl.load(k_ptrs)
        v = tl.load(v_ptrs)
        s = tl.dot(q, k)
        s = tl.where(offs_t[:, None] >= offs_t[None, :], s, 0)
        o = tl.dot(s.to(q.dtype), v)
        o += tl.dot(q, state.to(q.dtype))
        state += tl.dot(k, v)
        tl.store(out_ptrs, o.to(tl.bfloat16))
        q_ptrs += BLOCK * D
        k_ptrs += BLOCK * D
        v_ptrs += BLOCK * DV
        out_ptrs += BLOCK * DV


@triton.jit
def chunk_cumsum_kernel(x_ptr, out_ptr, L, H, BLOCK_T: tl.constexpr, BLOCK_H: tl.constexpr):
    """Sums down the rows of a chunk."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    h = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    mask = (t[:, None] < L) & (h[None, :] < H)
    at = t[:, None] * H + h[None, :]
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + at, tl.cumsum(x, 0), mask=mask)


@triton.jit
def causal_conv_kernel(
    x_ptr, w_ptr, b_ptr, out_ptr, L, DIM, W: tl.constexpr, BLOCK_T: tl.constexpr,
    BLOCK_D: tl.constexpr,
):  # fmt: skip
    """W earlier steps of each channel, and silu."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    batch = tl.program_id(2)
    acc = tl.zeros((BLOCK_T, BLOCK_D), tl.float32)
    acc += tl.load(b_ptr + d)[None, :].to(tl.float32)
    for k in tl.static_range(W):
        at = t - (W - 1) + k
        mask = (at[:, None] >= 0) & (at[:, None] < L) & (d[None, :] < DIM)
        x = tl.load(x_ptr + (batch * L + at[:, None]) * DIM + d[None, :], mask=mask, other=0.0)
        acc += x.to(tl.float32) * tl.load(w_ptr + d * W + k)[None, :].to(tl.float32)
    acc = acc * tl.sigmoid(acc)
    mask = (t[:, None] < L) & (d[None, :] < DIM)
    out_at = out_ptr + (batch * L + t[:, None]) * DIM + d[None, :]
    tl.store(out_at, acc.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def interleaved_rope_kernel(
    x_ptr, cos_ptr, sin_ptr, out_ptr, heads, HALF: tl.constexpr, HEADS: tl.constexpr
):
    """Pairs of neighbours are rotated."""
    token = tl.program_id(0)
    h, i = tl.arange(0, HEADS)[:, None], tl.arange(0, HALF)[None, :]
    cos = tl.load(cos_ptr + token * HALF + i)
    sin = tl.load(sin_ptr + token * HALF + i)
    at = token * heads * 2 * HALF + h * 2 * HALF + 2 * i
    a = tl.load(x_ptr + at, mask=h < heads, other=0).to(tl.float32)
    b = tl.load(x_ptr + at + 1, mask=h < heads, other=0).to(tl.float32)
    kind = out_ptr.dtype.element_ty
    tl.store(out_ptr + at, (a * cos - b * sin).to(kind), mask=h < heads)
    tl.store(out_ptr + at + 1, (b * cos + a * sin).to(kind), mask=h < heads)


@triton.jit
def added_norm_kernel(x_ptr, r_ptr, w_ptr, out_ptr, cols, eps, BLOCK: tl.constexpr):
    """The residual is added, kept and normalised."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < cols
    x = tl.load(x_ptr + row * cols + i, mask=mask, other=0.0)
    r = tl.load(r_ptr + row * cols + i, mask=mask, other=0.0)
    s = x + r
    tl.store(r_ptr + row * cols + i, s, mask=mask)
    s = s.to(tl.float32)
    scale = tl.rsqrt(tl.sum(s * s, 0) / cols + eps)
    w = tl.load(w_ptr + i, mask=mask, other=0.0)
    tl.store(out_ptr + row * cols + i, (s * scale).to(w.dtype) * w, mask=mask)


@triton.jit
def norm_backward_kernel(
    dx_ptr, dy_ptr, dw_ptr, db_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, lock_ptr, stride, N,
    GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One row; gradients of weights are added to one of some sums, under a lock."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    lock_id = row % GROUPS
    lock_ptr += lock_id
    count_ptr = lock_ptr + GROUPS
    dw_ptrs = dw_ptr + lock_id * N + cols
    db_ptrs = db_ptr + lock_id * N + cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + row * stride + cols, mask=mask, other=0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask).to(tl.float32)
    mean = tl.load(mean_ptr + row)
    rstd = tl.load(rstd_ptr + row)
    xhat = (x - mean) * rstd
    wdy = w * dy
    xhat = tl.where(mask, xhat, 0.0)
    wdy = tl.where(mask, wdy, 0.0)
    c1 = tl.sum(xhat * wdy, axis=0) / N
    c2 = tl.sum(wdy, axis=0) / N
    dx = (wdy - (xhat * c1 + c2)) * rstd
    tl.store(dx_ptr + row * stride + cols, dx, mask=mask)
    partial_dw = (dy * xhat).to(w.dtype)
    partial_db = dy.to(w.dtype)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    count = tl.load(count_ptr)
    if count == 0:
        tl.atomic_xchg(count_ptr, 1)
    else:
        partial_dw += tl.load(dw_ptrs, mask=mask)
        partial_db += tl.load(db_ptrs, mask=mask)
    tl.store(dw_ptrs, partial_dw, mask=mask)
    tl.store(db_ptrs, partial_db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def group_quantize_kernel(x_ptr, out_ptr, scale_ptr, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """Groups of SIZE elements to fp8, each with a scale."""
    g = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < SIZE
    x = tl.load(x_ptr + g.to(tl.int64) * SIZE + i, mask=mask, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(x)), 1e-10) / 448.0
    q = tl.clamp(x / scale, -448.0, 448.0).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + g.to(tl.int64) * SIZE + i, q, mask=mask)
    tl.store(scale_ptr + g, scale)


@triton.jit
def unpack_int4_kernel(x_ptr, scale_ptr, out_ptr, n, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    """Two weights in a byte, with a scale for each group."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i // 2, mask=i < n, other=0)
    x = (x >> ((i % 2) * 4)) & 0xF
    scale = tl.load(scale_ptr + i // GROUP, mask=i < n)
    tl.store(out_ptr + i, ((x.to(tl.float32) - 8) * scale).to(tl.bfloat16), mask=i < n)


@triton.jit
def gather_rows_kernel(
    x_ptr, index_ptr, out_ptr, rows, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Some rows at once, told by an index."""
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    at = tl.load(index_ptr + r, mask=r < rows, other=0)
    mask = (r[:, None] < rows) & (c[None, :] < cols)
    x = tl.load(x_ptr + at[:, None] * cols + c[None, :], mask=mask)
    tl.store(out_ptr + r[:, None] * cols + c[None, :], x, mask=mask)


@triton.jit
def embedding_sum_kernel(
    table_ptr, index_ptr, out_ptr, dim, COUNT: tl.constexpr, BLOCK: tl.constexpr
):
    """The sum of COUNT rows of a table, told by indices."""
    bag = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in range(COUNT):
        row = tl.load(index_ptr + bag * COUNT + k).to(tl.int64)
        acc += tl.load(table_ptr + row * dim + i, mask=i < dim, other=0.0).to(tl.float32)
    tl.store(out_ptr + bag * dim + i, acc.to(out_ptr.dtype.element_ty), mask=i < dim)


@triton.jit
def max_pool_kernel(x_ptr, out_ptr, H, W, OW, n, BLOCK: tl.constexpr):
    """The greatest of 2 x 2 pixels."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    at = i // OW * 2 * W + i % OW * 2
    a = tl.maximum(tl.load(x_ptr + at, mask=mask), tl.load(x_ptr + at + 1, mask=mask))
    b = tl.maximum(tl.load(x_ptr + at + W, mask=mask), tl.load(x_ptr + at + W + 1, mask=mask))
    tl.store(out_ptr + i, tl.maximum(a, b), mask=mask)


@triton.jit
def deinterleave_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Every second element times its neighbour's sigmoid."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x_ptr + 2 * i, mask=i < n).to(tl.float32)
    b = tl.load(x_ptr + 2 * i + 1, mask=i < n).to(tl.float32)
    tl.store(out_ptr + i, (a * tl.sigmoid(b)).to(out_ptr.dtype.element_ty), mask=i < n)


@triton.jit
def batch_stats_kernel(
    x_ptr, mean_ptr, var_ptr, rows, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Mean and variance of columns."""
    c = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_N,), tl.float32)
    squares = tl.zeros((BLOCK_N,), tl.float32)
    for k in range(0, rows, BLOCK_M):
        r = k + tl.arange(0, BLOCK_M)
        mask = (r[:, None] < rows) & (c[None, :] < cols)
        x = tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=mask, other=0.0).to(tl.float32)
        total += tl.sum(x, 0)
        squares += tl.sum(x * x, 0)
    mean = total / rows
    tl.store(mean_ptr + c, mean, mask=c < cols)
    tl.store(var_ptr + c, squares / rows - mean * mean, mask=c < cols)


@triton.jit
def cross_entropy_forward_kernel(x_ptr, target_ptr, loss_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + i, mask=i < cols, other=-float("inf")).to(tl.float32)
    target = tl.load(target_ptr + row)
    top = tl.max(x, 0)
    lse = top + tl.log(tl.sum(tl.exp(x - top), 0))
    tl.store(loss_ptr + row, lse - tl.load(x_ptr + row * cols + target).to(tl.float32))


@triton.jit
def softmax_backward_kernel(dy_ptr, y_ptr, dx_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    y = tl.load(y_ptr + row * cols + i, mask=i < cols, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + row * cols + i, mask=i < cols, other=0.0).to(tl.float32)
    dx = y * (dy - tl.sum(y * dy, 0))
    tl.store(dx_ptr + row * cols + i, dx.to(dx_ptr.dtype.element_ty), mask=i < cols)


@triton.jit
def gated_backward_kernel(dy_ptr, a_ptr, b_ptr, cols, BLOCK: tl.constexpr):
    """Gradients of silu(a) * b, in place."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    mask = i < cols
    dy = tl.load(dy_ptr + row * cols + i, mask=mask, other=0)
    a = tl.load(a_ptr + row * cols + i, mask=mask, other=0).to(tl.float32)
    b = tl.load(b_ptr + row * cols + i, mask=mask, other=0)
    sig = tl.sigmoid(a)
    silu = a * sig
    db = dy * silu
    da = dy * (silu * (1 - sig) + sig) * b
    tl.store(a_ptr + row * cols + i, da, mask=mask)
    tl.store(b_ptr + row * cols + i, db, mask=mask)


@triton.jit
def segments_kernel(x_ptr, starts_ptr, out_ptr, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Sums of rows between offsets."""
    seg = tl.program_id(0)
    c = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    begin, end = tl.load(starts_ptr + seg), tl.load(starts_ptr + seg + 1)
    acc = tl.zeros((BLOCK_N,), tl.float32)
    for k in range(begin, end, BLOCK_M):
        r = k + tl.arange(0, BLOCK_M)
        mask = (r[:, None] < end) & (c[None, :] < cols)
        acc += tl.sum(tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=mask, other=0.0), 0)
    tl.store(out_ptr + seg * cols + c, acc, mask=c < cols)


@triton.jit
def normal_noise_kernel(x_ptr, out_ptr, n, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x + tl.randn(seed, i), mask=i < n)


@triton.jit
def tanh_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """gelu with the tanh of its formula written by exp."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n).to(tl.float32)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    t = 1 - 2 / (tl.exp(2 * inner) + 1)
    tl.store(out_ptr + i, (0.5 * x * (1 + t)).to(out_ptr.dtype.element_ty), mask=i < n)
