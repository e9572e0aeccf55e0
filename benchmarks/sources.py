"""Triton kernels that the benchmarks need and the examples do not have."""

import triton
import triton.language as tl


@triton.jit
def swiglu_kernel(gate_ptr, up_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    """`silu(gate) * up` for one row."""
    start = tl.program_id(0).to(tl.int64) * cols
    at = tl.arange(0, BLOCK)
    inside = at < cols
    gate = tl.load(gate_ptr + start + at, mask=inside, other=0).to(tl.float32)
    up = tl.load(up_ptr + start + at, mask=inside, other=0)
    tl.store(out_ptr + start + at, gate * tl.sigmoid(gate) * up, mask=inside)


@triton.jit
def adam_kernel(
    p_ptr, g_ptr, m_ptr, v_ptr, n, rate, beta1, beta2, eps, undo1, undo2, BLOCK: tl.constexpr
):
    """One step of Adam in place; `undo1`, `undo2` are 1 / (1 - beta ** step)."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    g = tl.load(g_ptr + at, mask=inside)
    m = beta1 * tl.load(m_ptr + at, mask=inside) + (1 - beta1) * g
    v = beta2 * tl.load(v_ptr + at, mask=inside) + (1 - beta2) * g * g
    p = tl.load(p_ptr + at, mask=inside)
    tl.store(m_ptr + at, m, mask=inside)
    tl.store(v_ptr + at, v, mask=inside)
    tl.store(p_ptr + at, p - rate * (m * undo1) / (tl.sqrt(v * undo2) + eps), mask=inside)


@triton.jit
def embedding_kernel(table_ptr, index_ptr, out_ptr, dim, BLOCK: tl.constexpr):
    """Copy the row of the table that one index names."""
    token = tl.program_id(0)
    row = tl.load(index_ptr + token)
    at = tl.arange(0, BLOCK)
    inside = at < dim
    x = tl.load(table_ptr + row.to(tl.int64) * dim + at, mask=inside)
    tl.store(out_ptr + token.to(tl.int64) * dim + at, x, mask=inside)


@triton.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """One element for each index."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    index = tl.load(index_ptr + at, mask=inside)
    tl.store(out_ptr + at, tl.load(x_ptr + index, mask=inside), mask=inside)


@triton.jit
def layer_norm_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, scale_ptr, cols, eps, BLOCK: tl.constexpr
):
    """One row that fits in a tile."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < cols
    x = tl.load(x_ptr + row * cols + at, mask=inside, other=0.0)
    mean = tl.sum(x, axis=0) / cols
    centred = tl.where(inside, x - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / cols + eps)
    w = tl.load(w_ptr + at, mask=inside)
    b = tl.load(b_ptr + at, mask=inside)
    tl.store(y_ptr + row * cols + at, centred * scale * w + b, mask=inside)
    tl.store(mean_ptr + row, mean)
    tl.store(scale_ptr + row, scale)


@triton.jit
def layer_norm_backward_kernel(
    dy_ptr, x_ptr, w_ptr, mean_ptr, scale_ptr, dx_ptr, dw_parts_ptr, db_parts_ptr, rows, cols,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """ROWS rows, one after the other; their gradients of weight and bias are one row of parts."""
    at = tl.arange(0, BLOCK)
    inside = at < cols
    w = tl.load(w_ptr + at, mask=inside, other=0.0)
    dw = tl.zeros([BLOCK], tl.float32)
    db = tl.zeros([BLOCK], tl.float32)
    first = tl.program_id(0) * ROWS
    for row in range(first, tl.minimum(first + ROWS, rows)):
        offset = row.to(tl.int64) * cols + at
        dy = tl.load(dy_ptr + offset, mask=inside, other=0.0)
        x = tl.load(x_ptr + offset, mask=inside, other=0.0)
        scale = tl.load(scale_ptr + row)
        normal = tl.where(inside, (x - tl.load(mean_ptr + row)) * scale, 0.0)
        flow = w * dy
        along = tl.sum(flow * normal, axis=0) / cols
        mean_flow = tl.sum(flow, axis=0) / cols
        tl.store(dx_ptr + offset, (flow - mean_flow - normal * along) * scale, mask=inside)
        dw += dy * normal
        db += dy
    part = tl.program_id(0) * cols + at
    tl.store(dw_parts_ptr + part, dw, mask=inside)
    tl.store(db_parts_ptr + part, db, mask=inside)


@triton.jit
def sum_rows_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    """The sum of one row."""
    at = tl.arange(0, BLOCK)
    start = tl.program_id(0).to(tl.int64) * cols
    x = tl.load(x_ptr + start + at, mask=at < cols, other=0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x, axis=0))


@triton.jit
def sum_cols_kernel(x_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    """The sums of COLS columns, ROWS rows at a time."""
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    total = tl.zeros([COLS], tl.float32)
    for first in range(0, rows, ROWS):
        row = first + tl.arange(0, ROWS)
        inside = (row[:, None] < rows) & (col[None, :] < cols)
        x = tl.load(x_ptr + row[:, None] * cols + col[None, :], mask=inside, other=0)
        total += tl.sum(x, axis=0)
    tl.store(out_ptr + col, total, mask=col < cols)


@triton.jit
def matmul_int8_kernel(
    a_ptr, b_ptr, c_ptr, scale_ptr, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """`a @ b` of int8 summed in int32, then scaled by a factor for each column into fp32."""
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    cols = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    depth = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for start in range(0, k, BLOCK_K):
        along = start + depth
        a_inside = (rows < m) & (along[None, :] < k)
        b_inside = (along[:, None] < k) & (cols < n)
        a = tl.load(a_ptr + rows * k + along[None, :], mask=a_inside, other=0)
        b = tl.load(b_ptr + along[:, None] * n + cols, mask=b_inside, other=0)
        total += tl.dot(a, b)
    scale = tl.load(scale_ptr + cols, mask=cols < n)
    tl.store(c_ptr + rows * n + cols, total * scale, mask=(rows < m) & (cols < n))


@triton.jit
def matmul_wrapped_kernel(
    a_ptr, b_ptr, c_ptr, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """`a @ b` where the indices of rows and columns run around the ends of the matrices."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_at = a_ptr + (rows % m)[:, None] * k + depth[None, :]
    b_at = b_ptr + depth[:, None] * n + (cols % n)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        a = tl.load(a_at, mask=depth[None, :] < k - start, other=0.0)
        b = tl.load(b_at, mask=depth[:, None] < k - start, other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
        a_at += BLOCK_K
        b_at += BLOCK_K * n
    inside = (rows < m)[:, None] & (cols < n)[None, :]
    tl.store(c_ptr + rows[:, None] * n + cols[None, :], total.to(c_ptr.dtype.element_ty), inside)


@triton.jit
def matmul_weights_kernel(
    a_ptr, w_ptr, c_ptr, scale_ptr, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """`a @ w` of 8-bit weights that have a scale for each column."""
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    cols = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    depth = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        along = start + depth
        a = tl.load(a_ptr + rows * k + along, mask=(rows < m) & (along < k), other=0.0)
        at = w_ptr + along[:, None] * n + cols
        w = tl.load(at, mask=(along[:, None] < k) & (cols < n), other=0)
        total = tl.dot(a, w.to(a.dtype), total, input_precision="ieee")
    scale = tl.load(scale_ptr + cols, mask=cols < n)
    inside = (rows < m) & (cols < n)
    tl.store(c_ptr + rows * n + cols, (total * scale).to(c_ptr.dtype.element_ty), inside)


@triton.jit
def matmul_rows_kernel(
    a_ptr, b_ptr, c_ptr, chosen_ptr, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """`a[chosen] @ b`, as experts multiply the tokens that were sent to them."""
    place = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rows = tl.load(chosen_ptr + place, mask=place < m, other=0)
    cols = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    depth = tl.arange(0, BLOCK_K)
    a_at = a_ptr + rows[:, None] * k + depth[None, :]
    b_at = b_ptr + depth[:, None] * n + cols
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        left = k - start
        a = tl.load(a_at, mask=(rows < m)[:, None] & (depth < left)[None, :], other=0.0)
        b = tl.load(b_at, mask=(depth < left)[:, None] & (cols < n), other=0.0)
        total += tl.dot(a, b, input_precision="ieee")
        a_at += BLOCK_K
        b_at += BLOCK_K * n
    inside = (place < m)[:, None] & (cols < n)
    tl.store(c_ptr + place[:, None] * n + cols, total.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def experts_kernel(
    x_ptr, w_ptr, out_ptr, rows_ptr, expert_ptr, count, n, k, CHOSEN: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Rows of tokens times the transposed weights of the expert that a tile's rows went to."""
    rows = tl.load(rows_ptr + tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M))
    here = rows < count
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    expert = tl.load(expert_ptr + tl.program_id(0))
    x_at = x_ptr + rows[:, None] // CHOSEN * k + depth[None, :]
    w_at = w_ptr + expert * n * k + cols[None, :] * k + depth[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        left = k - start
        x = tl.load(x_at, mask=here[:, None] & (depth < left)[None, :], other=0.0)
        w = tl.load(w_at, mask=(depth < left)[:, None] & (cols < n)[None, :], other=0.0)
        total += tl.dot(x, w)
        x_at += BLOCK_K
        w_at += BLOCK_K
    at = out_ptr + rows[:, None] * n + cols[None, :]
    tl.store(at, total.to(out_ptr.dtype.element_ty), mask=here[:, None] & (cols < n)[None, :])


@triton.jit
def batched_matmul_kernel(
    a_ptr, b_ptr, c_ptr, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Contiguous (batch, m, k) times (batch, k, n); the batch is axis 2 of the grid."""
    batch = tl.program_id(2).to(tl.int64)
    a_ptr += batch * m * k
    b_ptr += batch * k * n
    c_ptr += batch * m * n
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    cols = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    depth = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        along = start + depth
        a_inside = (rows < m) & (along[None, :] < k)
        b_inside = (along[:, None] < k) & (cols < n)
        a = tl.load(a_ptr + rows * k + along[None, :], mask=a_inside, other=0.0)
        b = tl.load(b_ptr + along[:, None] * n + cols, mask=b_inside, other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
    tl.store(c_ptr + rows * n + cols, total, mask=(rows < m) & (cols < n))


@triton.jit
def convolution_kernel(
    x_ptr, w_ptr, y_ptr, height, width, channels, filters,
    SIDE: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Same-size convolution of one (height, width, channels) image, axis 2 of the grid.

    The weights are (SIDE, SIDE, channels, filters): a matrix product for each of their positions,
    whose left side is read straight from the shifted image.
    """
    image = tl.program_id(2).to(tl.int64) * height * width
    pixel = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    filter = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    channel = tl.arange(0, BLOCK_C)
    row, col = pixel // width, pixel % width
    total = tl.zeros([BLOCK_P, BLOCK_F], tl.float32)
    for position in range(SIDE * SIDE):
        down = position // SIDE - SIDE // 2
        right = position % SIDE - SIDE // 2
        inside = (row + down >= 0) & (row + down < height)
        inside = inside & (col + right >= 0) & (col + right < width)
        source = image + pixel + down * width + right
        for first in range(0, channels, BLOCK_C):
            x_at = source[:, None] * channels + (first + channel)[None, :]
            x = tl.load(x_ptr + x_at, mask=inside[:, None], other=0.0)
            w_at = (position * channels + first + channel)[:, None] * filters + filter[None, :]
            total = tl.dot(x, tl.load(w_ptr + w_at), total, input_precision="ieee")
    y_at = (image + pixel)[:, None] * filters + filter[None, :]
    tl.store(y_ptr + y_at, total, mask=(pixel < height * width)[:, None])


@triton.jit
def attention_keys_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, length, scale,
    DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Gradients of BLOCK_N keys and values of one head, over all queries that see them."""
    head = tl.program_id(1).to(tl.int64) * length
    first = tl.program_id(0) * BLOCK_N
    keys = first + tl.arange(0, BLOCK_N)
    dims = tl.arange(0, DIM)
    key_at = (head + keys)[:, None] * DIM + dims[None, :]
    known = keys[:, None] < length
    k = tl.load(k_ptr + key_at, mask=known, other=0.0)
    v = tl.load(v_ptr + key_at, mask=known, other=0.0)
    dk = tl.zeros([BLOCK_N, DIM], tl.float32)
    dv = tl.zeros([BLOCK_N, DIM], tl.float32)
    begin = 0
    if CAUSAL:
        begin = first // BLOCK_M * BLOCK_M
    for start in range(begin, length, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        row_at = (head + rows)[:, None] * DIM + dims[None, :]
        asked = rows[:, None] < length
        q = tl.load(q_ptr + row_at, mask=asked, other=0.0)
        do = tl.load(do_ptr + row_at, mask=asked, other=0.0)
        lse = tl.load(lse_ptr + head + rows, mask=rows < length, other=0.0)
        delta = tl.load(delta_ptr + head + rows, mask=rows < length, other=0.0)
        score = tl.dot(k, tl.trans(q), input_precision="ieee") * scale
        weight = tl.exp(score - lse[None, :])
        seen = rows[None, :] < length
        if CAUSAL:
            seen = seen & (keys[:, None] <= rows[None, :])
        weight = tl.where(seen, weight, 0.0)
        dv = tl.dot(weight, do, dv, input_precision="ieee")
        pull = tl.dot(v, tl.trans(do), input_precision="ieee") - delta[None, :]
        dk = tl.dot(weight * pull, q, dk, input_precision="ieee")
    tl.store(dk_ptr + key_at, dk * scale, mask=known)
    tl.store(dv_ptr + key_at, dv, mask=known)


@triton.jit
def attention_queries_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, length, scale,
    DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """The gradient of BLOCK_M queries of one head, over all keys that they see."""
    head = tl.program_id(1).to(tl.int64) * length
    first = tl.program_id(0) * BLOCK_M
    rows = first + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, DIM)
    row_at = (head + rows)[:, None] * DIM + dims[None, :]
    asked = rows[:, None] < length
    q = tl.load(q_ptr + row_at, mask=asked, other=0.0)
    do = tl.load(do_ptr + row_at, mask=asked, other=0.0)
    lse = tl.load(lse_ptr + head + rows, mask=rows < length, other=0.0)
    delta = tl.load(delta_ptr + head + rows, mask=rows < length, other=0.0)
    dq = tl.zeros([BLOCK_M, DIM], tl.float32)
    end = length
    if CAUSAL:
        end = tl.minimum(length, first + BLOCK_M)
    for start in range(0, end, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        key_at = (head + keys)[:, None] * DIM + dims[None, :]
        known = keys[:, None] < length
        k = tl.load(k_ptr + key_at, mask=known, other=0.0)
        v = tl.load(v_ptr + key_at, mask=known, other=0.0)
        weight = tl.exp(tl.dot(q, tl.trans(k), input_precision="ieee") * scale - lse[:, None])
        seen = keys[None, :] < length
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None])
        weight = tl.where(seen, weight, 0.0)
        pull = tl.dot(do, tl.trans(v), input_precision="ieee") - delta[:, None]
        dq = tl.dot(weight * pull, k, dq, input_precision="ieee")
    tl.store(dq_ptr + row_at, dq * scale, mask=asked)


@triton.jit
def attention_delta_kernel(out_ptr, do_ptr, delta_ptr, rows, DIM: tl.constexpr, ROWS: tl.constexpr):
    """What the softmax subtracts in its gradient: the sum of out * dout of each query."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = row[:, None] * DIM + tl.arange(0, DIM)[None, :]
    inside = row[:, None] < rows
    out = tl.load(out_ptr + at, mask=inside, other=0.0)
    do = tl.load(do_ptr + at, mask=inside, other=0.0)
    tl.store(delta_ptr + row, tl.sum(out * do, axis=1), mask=row < rows)
