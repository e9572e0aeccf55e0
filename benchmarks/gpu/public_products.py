"""Kernels around products in further public forms, for whichever `triton` is imported here."""

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: F401


@triton.jit
def place_of(tile, num_m, num_n, GROUP: tl.constexpr):
    in_group = GROUP * num_n
    first_m = tile // in_group * GROUP
    size_m = min(num_m - first_m, GROUP)
    return first_m + (tile % in_group) % size_m, (tile % in_group) // size_m


@triton.jit
def stream_k_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, steps, PROGRAMS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Every program has as many steps of k, which go over several tiles; parts are added."""
    pid = tl.program_id(0)
    num_n = tl.cdiv(N, BLOCK_N)
    per_tile = tl.cdiv(K, BLOCK_K)
    begin = pid * steps
    end = tl.minimum(begin + steps, tl.cdiv(M, BLOCK_M) * num_n * per_tile)
    while begin < end:
        tile = begin // per_tile
        first = begin % per_tile
        last = tl.minimum(per_tile, first + end - begin)
        offs_m = tile // num_n * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_n = tile % num_n * BLOCK_N + tl.arange(0, BLOCK_N)
        offs_k = first * BLOCK_K + tl.arange(0, BLOCK_K)
        a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
        b_ptrs = b_ptr + offs_k[:, None] * N + offs_n[None, :]
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for _ in range(first, last):
            acc += tl.dot(tl.load(a_ptrs), tl.load(b_ptrs))
            a_ptrs += BLOCK_K
            b_ptrs += BLOCK_K * N
        c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
        if first == 0 and last == per_tile:
            tl.store(c_ptrs, acc)
        else:
            tl.atomic_add(c_ptrs, acc)
        begin += last - first


@triton.jit
def lora_kernel(
    x_ptr, w_ptr, a_ptr, b_ptr, out_ptr, M, N, K, scale, R: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """x w + scale (x a) b, with w [K, N], a [K, R], b [R, N]."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k, offs_r = tl.arange(0, BLOCK_K), tl.arange(0, R)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    low = tl.zeros((BLOCK_M, R), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        on = k + offs_k < K
        x = tl.load(x_ptr + offs_m[:, None] * K + k + offs_k[None, :], mask=on[None, :], other=0.0)
        w = tl.load(
            w_ptr + (k + offs_k)[:, None] * N + offs_n[None, :], mask=on[:, None], other=0.0
        )
        a = tl.load(
            a_ptr + (k + offs_k)[:, None] * R + offs_r[None, :], mask=on[:, None], other=0.0
        )
        acc += tl.dot(x, w)
        low += tl.dot(x, a)
    b = tl.load(b_ptr + offs_r[:, None] * N + offs_n[None, :])
    acc += tl.dot(low.to(b.dtype), b) * scale
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(out_ptr.dtype.element_ty))


@triton.jit
def int8_rows_kernel(
    a_ptr, b_ptr, scale_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Weights in int8 as [N, K], a scale for each of the rows."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = b_ptr + offs_n[None, :] * K + offs_k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0)
        acc += tl.dot(a, b.to(a.dtype))
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
    c = acc * tl.load(scale_ptr + offs_n)[None, :]
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], c.to(c_ptr.dtype.element_ty))


@triton.jit
def nibbles_kernel(
    a_ptr, b_ptr, scale_ptr, c_ptr, M, N, K, GROUP_K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Two weights of 4 bits in a byte, [N, K / 2]; a scale for each group of K."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    offs_half = tl.arange(0, BLOCK_K // 2)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + offs_m[:, None] * K + k + offs_k[None, :])
        packed = tl.load(b_ptr + offs_n[:, None] * (K // 2) + k // 2 + offs_half[None, :])
        low = ((packed & 0xF).to(tl.int8) - 8).to(a.dtype)
        high = ((packed >> 4).to(tl.int8) - 8).to(a.dtype)
        b = tl.reshape(tl.join(low, high), (BLOCK_N, BLOCK_K))
        scale = tl.load(scale_ptr + offs_n * (K // GROUP_K) + k // GROUP_K)
        acc += tl.dot(a, (b * scale[:, None]).T)
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def awq_kernel(
    a_ptr, b_ptr, scales_ptr, zeros_ptr, c_ptr, M, N, K, GROUP_K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """8 weights in an int32 along N, spread by interleaving; parts of K apart."""
    pid_z = tl.program_id(2)
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_packed = tl.program_id(1) * (BLOCK_N // 8) + tl.arange(0, BLOCK_N // 8)
    offs_k = pid_z * BLOCK_K + tl.arange(0, BLOCK_K)
    order = (tl.arange(0, 2) * 4)[None, :] + tl.arange(0, 4)[:, None]
    shifts = tl.reshape(order, (8,)) * 4
    shifts = tl.reshape(tl.broadcast_to(shifts[None, :], (BLOCK_K * (BLOCK_N // 8), 8)),
                        (BLOCK_K, BLOCK_N))  # fmt: skip
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K * SPLIT)):
        on = offs_k < K
        a = tl.load(
            a_ptr + offs_m[:, None] * K + offs_k[None, :],
            mask=(offs_m[:, None] < M) & on[None, :], other=0.0,
        )  # fmt: skip
        b = tl.load(
            b_ptr + offs_k[:, None] * (N // 8) + offs_packed[None, :], mask=on[:, None], other=0
        )
        b = tl.interleave(b, b)
        b = tl.interleave(b, b)
        b = tl.interleave(b, b)
        group = (k * SPLIT + pid_z) * BLOCK_K // GROUP_K
        zeros = tl.load(zeros_ptr + group * (N // 8) + offs_packed)[None, :]
        zeros = tl.interleave(zeros, zeros)
        zeros = tl.interleave(zeros, zeros)
        zeros = tl.interleave(zeros, zeros)
        zeros = (tl.broadcast_to(zeros, (BLOCK_K, BLOCK_N)) >> shifts) & 0xF
        scales = tl.load(scales_ptr + group * N + offs_n)[None, :]
        b = (((b >> shifts) & 0xF) - zeros) * scales
        acc = tl.dot(a, b.to(a.dtype), acc)
        offs_k += BLOCK_K * SPLIT
    c_ptrs = c_ptr + pid_z * M * N + offs_m[:, None] * N + offs_n[None, :]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=offs_m[:, None] < M)


@triton.jit
def scaled_blocks_kernel(
    a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, c_ptr, M, N, K, B_HALF: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Microscaled: e4m3 by e4m3, or by e2m1, with a scale for each 32 of K; b [N, K]."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    PACK: tl.constexpr = 2 if B_HALF else 1
    offs_k = tl.arange(0, BLOCK_K)
    offs_kb = tl.arange(0, BLOCK_K // PACK)
    offs_s = tl.arange(0, BLOCK_K // 32)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + offs_m[:, None] * K + k + offs_k[None, :])
        b = tl.load(b_ptr + offs_n[None, :] * (K // PACK) + k // PACK + offs_kb[:, None])
        a_s = tl.load(a_scale_ptr + offs_m[:, None] * (K // 32) + k // 32 + offs_s[None, :])
        b_s = tl.load(b_scale_ptr + offs_n[:, None] * (K // 32) + k // 32 + offs_s[None, :])
        if B_HALF:
            acc = tl.dot_scaled(a, a_s, "e4m3", b, b_s, "e2m1", acc)
        else:
            acc = tl.dot_scaled(a, a_s, "e4m3", b, b_s, "e4m3", acc)
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def subtiled_descriptor_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, SMS: tl.constexpr, GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SUBTILE: tl.constexpr,
):  # fmt: skip
    """Persistent programs with descriptors made in the kernel; results go in two halves."""
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(
        c_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N // 2 if SUBTILE else BLOCK_N]
    )
    start = tl.program_id(0)
    num_m, num_n, steps = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), tl.cdiv(K, BLOCK_K)
    tile_c = start - SMS
    for tile in tl.range(start, num_m * num_n, SMS, flatten=True):
        pid_m, pid_n = place_of(tile, num_m, num_n, GROUP)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for ki in range(steps):
            a = a_desc.load([pid_m * BLOCK_M, ki * BLOCK_K])
            b = b_desc.load([pid_n * BLOCK_N, ki * BLOCK_K])
            acc = tl.dot(a, b.T, acc)
        tile_c += SMS
        pid_m, pid_n = place_of(tile_c, num_m, num_n, GROUP)
        if SUBTILE:
            halves = tl.permute(tl.reshape(acc, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
            first, second = tl.split(halves)
            c_desc.store([pid_m * BLOCK_M, pid_n * BLOCK_N], first.to(c_ptr.dtype.element_ty))
            c_desc.store(
                [pid_m * BLOCK_M, pid_n * BLOCK_N + BLOCK_N // 2],
                second.to(c_ptr.dtype.element_ty),
            )
        else:
            c_desc.store([pid_m * BLOCK_M, pid_n * BLOCK_N], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def batch_of_tiles_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, BATCH: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Products of three dimensions: a few matrices of a batch in one program."""
    first = tl.program_id(2) * BATCH + tl.arange(0, BATCH)[:, None, None]
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[None, :, None]
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, None, :]
    k_row, k_col = tl.arange(0, BLOCK_K)[None, :, None], tl.arange(0, BLOCK_K)[None, None, :]
    acc = tl.zeros((BATCH, BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + first * M * K + offs_m * K + k + k_col)
        b = tl.load(b_ptr + first * K * N + (k + k_row) * N + offs_n)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + first * M * N + offs_m * N + offs_n, acc.to(c_ptr.dtype.element_ty))


@triton.jit
def norm_matmul_kernel(
    x_ptr, gain_ptr, w_ptr, out_ptr, M, N, K, eps,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """RMS norm of x, then its product with w; squares are summed on the way."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    w_ptrs = w_ptr + offs_k[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    squares = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        x = tl.load(x_ptrs)
        wide = x.to(tl.float32)
        squares += tl.sum(wide * wide, axis=1)
        gain = tl.load(gain_ptr + k + offs_k)
        acc += tl.dot((wide * gain[None, :]).to(x.dtype), tl.load(w_ptrs))
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K * N
    acc *= tl.rsqrt(squares / K + eps)[:, None]
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(out_ptr.dtype.element_ty))


@triton.jit
def matmul_softmax_kernel(
    a_ptr, b_ptr, out_ptr, M, K, N: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """softmax of the rows of a b, all columns in one tile."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n, offs_k = tl.arange(0, N), tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + offs_m[:, None] * K + k + offs_k[None, :])
        b = tl.load(b_ptr + (k + offs_k[:, None]) * N + offs_n[None, :])
        acc += tl.dot(a, b)
    acc = tl.exp(acc - tl.max(acc, axis=1)[:, None])
    acc = acc / tl.sum(acc, axis=1)[:, None]
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(out_ptr.dtype.element_ty))


@triton.jit
def exact_matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """fp32 or fp64 as they are, or fp32 by three products in tf32."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = b_ptr + offs_k[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=c_ptr.dtype.element_ty)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(
            tl.load(a_ptrs), tl.load(b_ptrs), acc, input_precision=PRECISION,
            out_dtype=c_ptr.dtype.element_ty,
        )  # fmt: skip
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * N
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc)


@triton.jit
def nchw_conv_kernel(
    x_ptr, w_ptr, out_ptr, N, C, H, W, OUT, P, Q, R: tl.constexpr, S: tl.constexpr,
    PAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A convolution of pictures [N, C, H, W] with [OUT, C, R, S]; k runs over C, R and S."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    n = offs_m // (P * Q)
    p = offs_m % (P * Q) // Q
    q = offs_m % Q
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    inner = C * R * S
    for k in range(0, inner, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        c = offs_k // (R * S)
        h = p[:, None] + (offs_k % (R * S) // S)[None, :] - PAD
        w = q[:, None] + (offs_k % S)[None, :] - PAD
        on = (h >= 0) & (h < H) & (w >= 0) & (w < W) & (n < N)[:, None] & (offs_k < inner)[None, :]
        at = (n[:, None] * C + c[None, :]) * H * W + h * W + w
        x = tl.load(x_ptr + at, mask=on, other=0.0)
        weight = tl.load(
            w_ptr + offs_n[None, :] * inner + offs_k[:, None],
            mask=(offs_k < inner)[:, None] & (offs_n < OUT)[None, :], other=0.0,
        )  # fmt: skip
        acc = tl.dot(x, weight, acc)
    at = (n[:, None] * OUT + offs_n[None, :]) * P * Q + (p * Q + q)[:, None]
    mask = (n < N)[:, None] & (offs_n < OUT)[None, :]
    tl.store(out_ptr + at, acc.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def half_sums_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Sums in fp16."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float16)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + offs_m[:, None] * K + k + offs_k[None, :])
        b = tl.load(b_ptr + (k + offs_k[:, None]) * N + offs_n[None, :])
        acc = tl.dot(a, b, acc, out_dtype=tl.float16)
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc)


@triton.jit
def sparse_blocks_kernel(
    starts_ptr, columns_ptr, values_ptr, b_ptr, c_ptr, N,
    BLOCK: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Rows of blocks that are not zero, times a matrix."""
    row = tl.program_id(0)
    offs_i, offs_n = tl.arange(0, BLOCK), tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    begin, end = tl.load(starts_ptr + row), tl.load(starts_ptr + row + 1)
    acc = tl.zeros((BLOCK, BLOCK_N), dtype=tl.float32)
    for at in range(begin, end):
        column = tl.load(columns_ptr + at)
        a = tl.load(values_ptr + at * BLOCK * BLOCK + offs_i[:, None] * BLOCK + offs_i[None, :])
        b = tl.load(b_ptr + (column * BLOCK + offs_i[:, None]) * N + offs_n[None, :])
        acc = tl.dot(a, b, acc)
    c_ptrs = c_ptr + (row * BLOCK + offs_i[:, None]) * N + offs_n[None, :]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty))


@triton.jit
def chunk_products_kernel(
    c_ptr, b_ptr, out_ptr, L, CHUNK: tl.constexpr, K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """c b' within each chunk of a sequence."""
    chunk, batch = tl.program_id(1), tl.program_id(2)
    num_n = CHUNK // BLOCK_N
    pid_m, pid_n = tl.program_id(0) // num_n, tl.program_id(0) % num_n
    base = (batch * L + chunk * CHUNK) * K
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    c_ptrs = c_ptr + base + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = b_ptr + base + offs_n[None, :] * K + offs_k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    left = tl.minimum(CHUNK, L - chunk * CHUNK)
    for k in range(tl.cdiv(K, BLOCK_K)):
        on = offs_k < K - k * BLOCK_K
        c = tl.load(c_ptrs, mask=(offs_m[:, None] < left) & on[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=on[:, None] & (offs_n[None, :] < left), other=0.0)
        acc += tl.dot(c, b)
        c_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
    at = out_ptr + (batch * (L // CHUNK) + chunk) * CHUNK * CHUNK
    tl.store(at + offs_m[:, None] * CHUNK + offs_n[None, :], acc.to(out_ptr.dtype.element_ty))
