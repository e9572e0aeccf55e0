"""Kernels that quantize, gather, scan and reorder, for whichever `triton` is imported here."""

import triton
import triton.language as tl


@triton.jit
def row_quantize_kernel(x_ptr, out_ptr, scale_ptr, cols, BLOCK: tl.constexpr):
    """A row of 16-bit floats to int8, read twice."""
    row = tl.program_id(0).to(tl.int64) * cols
    top = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, cols, BLOCK):
        i = k + tl.arange(0, BLOCK)
        top = tl.maximum(top, tl.abs(tl.load(x_ptr + row + i, mask=i < cols, other=0.0)))
    scale = tl.max(top, 0) / 127
    tl.store(scale_ptr + tl.program_id(0), scale)
    for k in range(0, cols, BLOCK):
        i = k + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + i, mask=i < cols, other=0.0).to(tl.float32) / scale
        q = tl.where(x >= 0, x + 0.5, x - 0.5).to(tl.int8)
        tl.store(out_ptr + row + i, q, mask=i < cols)


@triton.jit
def row_dequantize_kernel(x_ptr, scale_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + i, mask=i < cols, other=0)
    out = x.to(tl.float32) * tl.load(scale_ptr + row)
    tl.store(out_ptr + row * cols + i, out.to(out_ptr.dtype.element_ty), mask=i < cols)


@triton.jit
def block_quantize_kernel(x_ptr, out_ptr, scale_ptr, M, N, BLOCK: tl.constexpr):
    """Square blocks to fp8, each with a scale."""
    pm, pn = tl.program_id(0), tl.program_id(1)
    r = pm * BLOCK + tl.arange(0, BLOCK)[:, None]
    c = pn * BLOCK + tl.arange(0, BLOCK)[None, :]
    mask = (r < M) & (c < N)
    x = tl.load(x_ptr + r * N + c, mask=mask, other=0.0).to(tl.float32)
    scale = tl.max(tl.abs(x)) / 448.0
    tl.store(out_ptr + r * N + c, (x / scale).to(out_ptr.dtype.element_ty), mask=mask)
    tl.store(scale_ptr + pm * tl.num_programs(1) + pn, scale)


@triton.jit
def pack_int4_kernel(x_ptr, out_ptr, scale_ptr, cols, GROUP: tl.constexpr, ROWS: tl.constexpr):
    """Groups of a row to 4 bits, 8 to a word."""
    row = tl.program_id(0)
    g = tl.arange(0, ROWS)[:, None]
    x = tl.load(x_ptr + row * cols + g * GROUP + tl.arange(0, GROUP)[None, :]).to(tl.float32)
    scale = tl.max(tl.abs(x), 1) / 7
    q = (x / scale[:, None] + 8.5).to(tl.int32) & 15
    q = tl.reshape(q, (ROWS, GROUP // 8, 8)) << (tl.arange(0, 8) * 4)[None, None, :]
    words = tl.sum(q, 2)
    at = row * (cols // 8) + g * (GROUP // 8) + tl.arange(0, GROUP // 8)[None, :]
    tl.store(out_ptr + at, words)
    tl.store(scale_ptr + row * (cols // GROUP) + tl.arange(0, ROWS), scale)


@triton.jit
def long_cumsum_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    """Block after block of a long row."""
    row = tl.program_id(0).to(tl.int64) * cols
    before = 0.0
    for k in range(0, cols, BLOCK):
        i = k + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + i, mask=i < cols, other=0.0).to(tl.float32)
        tl.store(out_ptr + row + i, tl.cumsum(x, 0) + before, mask=i < cols)
        before += tl.sum(x, 0)


@triton.jit
def topk_gating_kernel(
    x_ptr, w_ptr, id_ptr, rows, E: tl.constexpr, K: tl.constexpr, ROWS: tl.constexpr
):
    """The K greatest of E scores, one after the other."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    e = tl.arange(0, E)
    on = r < rows
    x = tl.load(x_ptr + r[:, None] * E + e[None, :], mask=on[:, None], other=-float("inf"))
    x = tl.exp(x - tl.max(x, 1)[:, None])
    x = x / tl.sum(x, 1)[:, None]
    for k in tl.static_range(K):
        top, at = tl.max(x, 1, return_indices=True)
        tl.store(w_ptr + r * K + k, top, mask=on)
        tl.store(id_ptr + r * K + k, at, mask=on)
        x = tl.where(e[None, :] == at[:, None], -1.0, x)


@triton.jit
def compact_kernel(x_ptr, out_ptr, count_ptr, n, BLOCK: tl.constexpr):
    """What is positive, in any order of blocks."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    on = (x > 0).to(tl.int32)
    first = tl.atomic_add(count_ptr, tl.sum(on, 0))
    tl.store(out_ptr + first + tl.cumsum(on, 0) - 1, x, mask=x > 0)


@triton.jit
def average_pool_kernel(x_ptr, out_ptr, H, W, OH, OW, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """SIZE x SIZE pixels around each second one."""
    plane = tl.program_id(0)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = i < OH * OW
    oh, ow = i // OW, i % OW
    total = tl.zeros((BLOCK,), tl.float32)
    for dy in tl.static_range(SIZE):
        for dx in tl.static_range(SIZE):
            h, w = oh * 2 + dy - SIZE // 2, ow * 2 + dx - SIZE // 2
            on = mask & (h >= 0) & (h < H) & (w >= 0) & (w < W)
            total += tl.load(x_ptr + plane * H * W + h * W + w, mask=on, other=0.0)
    tl.store(out_ptr + plane * OH * OW + i, total / (SIZE * SIZE), mask=mask)


@triton.jit
def upsample_kernel(x_ptr, out_ptr, H, W, BLOCK: tl.constexpr):
    """Twice as many pixels each way, between two neighbours of each row and column."""
    plane = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    oh, ow = i // (2 * W), i % (2 * W)
    mask = i < 4 * H * W
    y, x = (oh.to(tl.float32) + 0.5) * 0.5 - 0.5, (ow.to(tl.float32) + 0.5) * 0.5 - 0.5
    y, x = tl.maximum(y, 0.0), tl.maximum(x, 0.0)
    y0, x0 = y.to(tl.int32), x.to(tl.int32)
    y1, x1 = tl.minimum(y0 + 1, H - 1), tl.minimum(x0 + 1, W - 1)
    fy, fx = y - y0, x - x0
    base = x_ptr + plane * H * W
    a, b = tl.load(base + y0 * W + x0, mask=mask), tl.load(base + y0 * W + x1, mask=mask)
    c, d = tl.load(base + y1 * W + x0, mask=mask), tl.load(base + y1 * W + x1, mask=mask)
    top, low = a + (b - a) * fx, c + (d - c) * fx
    tl.store(out_ptr + plane * 4 * H * W + i, top + (low - top) * fy, mask=mask)


@triton.jit
def embedding_backward_kernel(dy_ptr, index_ptr, dw_ptr, dim, BLOCK: tl.constexpr):
    """Rows added to the rows that an index tells."""
    token = tl.program_id(0)
    row = tl.load(index_ptr + token).to(tl.int64)
    i = tl.arange(0, BLOCK)
    dy = tl.load(dy_ptr + token.to(tl.int64) * dim + i, mask=i < dim, other=0.0)
    tl.atomic_add(dw_ptr + row * dim + i, dy, mask=i < dim)


@triton.jit
def bag_kernel(table_ptr, index_ptr, start_ptr, out_ptr, dim, BLOCK: tl.constexpr):
    """The mean of the rows of a bag, of which each has its own number."""
    bag = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    begin, end = tl.load(start_ptr + bag), tl.load(start_ptr + bag + 1)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(begin, end):
        row = tl.load(index_ptr + k)
        total += tl.load(table_ptr + row * dim + i, mask=i < dim, other=0.0)
    tl.store(out_ptr + bag * dim + i, total / tl.maximum(end - begin, 1), mask=i < dim)


@triton.jit
def unpermute_kernel(
    x_ptr, index_ptr, w_ptr, out_ptr, dim, K: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """The weighted sum of what K experts gave for a token."""
    token = tl.program_id(0)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(K):
        row = tl.load(index_ptr + token * K + k)
        w = tl.load(w_ptr + token * K + k)
        x = tl.load(x_ptr + row.to(tl.int64) * dim + i, mask=i < dim, other=0.0)
        total += w * x.to(tl.float32)
    out = total.to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + token.to(tl.int64) * dim + i, out, mask=i < dim)


@triton.jit
def cache_kernel(k_ptr, slot_ptr, cache_ptr, stride, size, BLOCK: tl.constexpr):
    """Keys of tokens to the slots of a paged cache."""
    token = tl.program_id(0)
    slot = tl.load(slot_ptr + token).to(tl.int64)
    if slot < 0:
        return
    i = tl.arange(0, BLOCK)
    x = tl.load(k_ptr + token * stride + i, mask=i < size)
    tl.store(cache_ptr + slot * size + i, x, mask=i < size)


@triton.jit
def swap_axes_kernel(x_ptr, out_ptr, S, H, D: tl.constexpr, BLOCK: tl.constexpr):
    """Tokens by heads to heads by tokens."""
    head = tl.program_id(1) % H
    batch = (tl.program_id(1) // H).to(tl.int64)
    s = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    d = tl.arange(0, D)[None, :]
    x = tl.load(x_ptr + batch * S * H * D + (s * H + head) * D + d, mask=s < S)
    tl.store(out_ptr + (batch * H + head) * S * D + s * D + d, x, mask=s < S)


@triton.jit
def stencil_kernel(x_ptr, out_ptr, H, W, BM: tl.constexpr, BN: tl.constexpr):
    """Five points."""
    r = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    c = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    at = x_ptr + r * W + c
    inner = (r > 0) & (r < H - 1) & (c > 0) & (c < W - 1)
    total = tl.load(at - W, mask=inner, other=0.0) + tl.load(at + W, mask=inner, other=0.0)
    total += tl.load(at - 1, mask=inner, other=0.0) + tl.load(at + 1, mask=inner, other=0.0)
    total -= 4 * tl.load(at, mask=(r < H) & (c < W), other=0.0)
    tl.store(out_ptr + r * W + c, total, mask=inner)


@triton.jit
def column_argmin_kernel(x_ptr, out_ptr, at_ptr, rows, cols, BM: tl.constexpr, BN: tl.constexpr):
    """The least of each column and where it is."""
    c = tl.program_id(0) * BN + tl.arange(0, BN)
    best = tl.full((BN,), float("inf"), tl.float32)
    where = tl.zeros((BN,), tl.int32)
    for k in range(0, rows, BM):
        r = k + tl.arange(0, BM)
        mask = (r[:, None] < rows) & (c[None, :] < cols)
        x = tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=mask, other=float("inf"))
        low, at = tl.min(x, 0, return_indices=True)
        where = tl.where(low < best, at + k, where)
        best = tl.minimum(best, low)
    tl.store(out_ptr + c, best, mask=c < cols)
    tl.store(at_ptr + c, where, mask=c < cols)


@triton.jit
def int8_gemv_kernel(w_ptr, s_ptr, x_ptr, out_ptr, N, K, BN: tl.constexpr, BK: tl.constexpr):
    """Rows of int8 weights times a vector of 16-bit floats."""
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    total = tl.zeros((BN, BK), tl.float32)
    for k in range(0, K, BK):
        i = k + tl.arange(0, BK)
        w = tl.load(w_ptr + n[:, None] * K + i[None, :], mask=n[:, None] < N, other=0)
        x = tl.load(x_ptr + i).to(tl.float32)
        total += w.to(tl.float32) * x[None, :]
    out = tl.sum(total, 1) * tl.load(s_ptr + n, mask=n < N)
    tl.store(out_ptr + n, out.to(out_ptr.dtype.element_ty), mask=n < N)


@triton.jit
def left_vector_kernel(
    a_ptr, x_ptr, out_ptr, M, N, PER, BM: tl.constexpr, BN: tl.constexpr
):  # fmt: skip
    """A vector times a matrix, parts of the sum added by atomics."""
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    start = tl.program_id(1) * PER
    total = tl.zeros((BN,), tl.float32)
    for k in range(start, start + PER, BM):
        m = k + tl.arange(0, BM)
        mask = (m[:, None] < M) & (n[None, :] < N)
        a = tl.load(a_ptr + m[:, None] * N + n[None, :], mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + m, mask=m < M, other=0.0).to(tl.float32)
        total += tl.sum(a * x[:, None], 0)
    tl.atomic_add(out_ptr + n, total, mask=n < N)


@triton.jit
def pointer_copy_kernel(x_ptr, y_ptr, out_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """A sum by block pointers."""
    pm, pn = tl.program_id(0), tl.program_id(1)
    x = tl.make_block_ptr(x_ptr, (M, N), (N, 1), (pm * BM, pn * BN), (BM, BN), (1, 0))
    y = tl.make_block_ptr(y_ptr, (M, N), (N, 1), (pm * BM, pn * BN), (BM, BN), (1, 0))
    out = tl.make_block_ptr(out_ptr, (M, N), (N, 1), (pm * BM, pn * BN), (BM, BN), (1, 0))
    total = tl.load(x, boundary_check=(0, 1)) + tl.load(y, boundary_check=(0, 1))
    tl.store(out, total, boundary_check=(0, 1))


@triton.jit
def described_copy_kernel(x_ptr, out_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Twice a matrix, by descriptors."""
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BM, BN])
    out = tl.make_tensor_descriptor(out_ptr, [M, N], [N, 1], [BM, BN])
    at = [tl.program_id(0) * BM, tl.program_id(1) * BN]
    out.store(at, x.load(at) * 2)


@triton.jit
def streaming_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Read and written once, as the hints say."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask, eviction_policy="evict_first")
    y = tl.load(y_ptr + i, mask=mask, cache_modifier=".cg")
    tl.store(out_ptr + i, x * y, mask=mask, eviction_policy="evict_first")


@triton.jit
def outer_kernel(x_ptr, y_ptr, out_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Products of all pairs, added to a matrix."""
    r, c = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    x, y = tl.load(x_ptr + r, mask=r < M), tl.load(y_ptr + c, mask=c < N)
    at = out_ptr + r[:, None] * N + c[None, :]
    mask = (r[:, None] < M) & (c[None, :] < N)
    tl.store(at, tl.load(at, mask=mask) + x[:, None] * y[None, :], mask=mask)


@triton.jit
def half_scatter_kernel(x_ptr, index_ptr, out_ptr, dim, BLOCK: tl.constexpr):
    """Rows of 16-bit floats added to rows that an index tells."""
    token = tl.program_id(0)
    row = tl.load(index_ptr + token).to(tl.int64)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + token.to(tl.int64) * dim + i, mask=i < dim, other=0.0)
    tl.atomic_add(out_ptr + row * dim + i, x, mask=i < dim, sem="relaxed")
