"""Attention and states of chunks in further public forms, for whichever `triton` is there."""

import triton
import triton.language as tl


@triton.jit
def attend(
    acc, l_i, m_i, q, k_desc, v_desc, first, start_m, scale, offs_m, offs_n, lo, hi,
    BLOCK_N: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    for start_n in tl.range(lo, hi, BLOCK_N):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        k = k_desc.load([first + start_n, 0]).T
        qk = tl.dot(q, k)
        if MASKED:
            on = offs_m[:, None] >= (start_n + offs_n[None, :])
            qk = qk * scale + tl.where(on, 0, -1.0e6)
            m_ij = tl.maximum(m_i, tl.max(qk, 1))
            qk -= m_ij[:, None]
        else:
            m_ij = tl.maximum(m_i, tl.max(qk, 1) * scale)
            qk = qk * scale - m_ij[:, None]
        p = tl.math.exp2(qk)
        alpha = tl.math.exp2(m_i - m_ij)
        l_ij = tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = v_desc.load([first + start_n, 0])
        acc = tl.dot(p.to(v.dtype), v, acc)
        l_i = l_i * alpha + l_ij
        m_i = m_ij
    return acc, l_i, m_i


@triton.jit
def staged_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, scale, H, L,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Descriptors made in the kernel; the part before the diagonal, then the diagonal."""
    start_m, head = tl.program_id(0), tl.program_id(1)
    rows = H * L
    k_desc = tl.make_tensor_descriptor(k_ptr, [rows, D], [D, 1], [BLOCK_N, D])
    v_desc = tl.make_tensor_descriptor(v_ptr, [rows, D], [D, 1], [BLOCK_N, D])
    q_desc = tl.make_tensor_descriptor(q_ptr, [rows, D], [D, 1], [BLOCK_M, D])
    o_desc = tl.make_tensor_descriptor(out_ptr, [rows, D], [D, 1], [BLOCK_M, D])
    first = head * L
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    acc = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    q = q_desc.load([first + start_m * BLOCK_M, 0])
    end = start_m * BLOCK_M if CAUSAL else L
    acc, l_i, m_i = attend(
        acc, l_i, m_i, q, k_desc, v_desc, first, start_m, scale * 1.44269504, offs_m, offs_n,
        0, end, BLOCK_N, False,
    )  # fmt: skip
    if CAUSAL:
        acc, l_i, m_i = attend(
            acc, l_i, m_i, q, k_desc, v_desc, first, start_m, scale * 1.44269504, offs_m, offs_n,
            start_m * BLOCK_M, (start_m + 1) * BLOCK_M, BLOCK_N, True,
        )  # fmt: skip
    m_i += tl.math.log2(l_i)
    acc = acc / l_i[:, None]
    tl.store(lse_ptr + head * L + offs_m, m_i)
    o_desc.store([first + start_m * BLOCK_M, 0], acc.to(out_ptr.dtype.element_ty))


@triton.jit
def keys_part(
    dk, dv, q_ptr, k, v, do_ptr, m_ptr, d_ptr, start_n, start_m, steps,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_n = start_n + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, D)
    qt_ptrs = q_ptr + offs_m[None, :] * D + offs_k[:, None]
    do_ptrs = do_ptr + offs_m[:, None] * D + offs_k[None, :]
    curr = start_m
    for _ in range(steps):
        qt = tl.load(qt_ptrs)
        offs_m = curr + tl.arange(0, BLOCK_M)
        m = tl.load(m_ptr + offs_m)
        qkt = tl.dot(k, qt)
        pt = tl.math.exp2(qkt - m[None, :])
        if MASKED:
            pt = tl.where(offs_m[None, :] >= offs_n[:, None], pt, 0.0)
        do = tl.load(do_ptrs)
        dv += tl.dot(pt.to(tl.float16), do)
        di = tl.load(d_ptr + offs_m)
        dpt = tl.dot(v, tl.trans(do)).to(tl.float32)
        dst = pt * (dpt - di[None, :])
        dk += tl.dot(dst.to(tl.float16), tl.trans(qt))
        curr += BLOCK_M
        qt_ptrs += BLOCK_M * D
        do_ptrs += BLOCK_M * D
    return dk, dv


@triton.jit
def queries_part(
    dq, q, k_ptr, v_ptr, do, m, d_ptr, start_m, start_n, steps,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_n = start_n + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, D)
    kt_ptrs = k_ptr + offs_n[None, :] * D + offs_k[:, None]
    vt_ptrs = v_ptr + offs_n[None, :] * D + offs_k[:, None]
    di = tl.load(d_ptr + offs_m)
    curr = start_n
    for _ in range(steps):
        kt = tl.load(kt_ptrs)
        vt = tl.load(vt_ptrs)
        p = tl.math.exp2(tl.dot(q, kt) - m)
        if MASKED:
            p = tl.where(offs_m[:, None] >= (curr + tl.arange(0, BLOCK_N))[None, :], p, 0.0)
        dp = tl.dot(do, vt).to(tl.float32)
        ds = (p * (dp - di[:, None])).to(tl.float16)
        dq += tl.dot(ds, tl.trans(kt))
        curr += BLOCK_N
        kt_ptrs += BLOCK_N * D
        vt_ptrs += BLOCK_N * D
    return dq


@triton.jit
def causal_backward_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, dk_ptr, dv_ptr, scale, L,
    D: tl.constexpr, M1: tl.constexpr, N1: tl.constexpr, M2: tl.constexpr, N2: tl.constexpr,
    SLICE: tl.constexpr,
):  # fmt: skip
    """All gradients in one kernel: of a block of keys, then of the block of queries there."""
    head = tl.program_id(2).to(tl.int64)
    at = head * L * D
    q_ptr += at
    k_ptr += at
    v_ptr += at
    do_ptr += at
    m_ptr, d_ptr = lse_ptr + head * L, delta_ptr + head * L
    offs_k = tl.arange(0, D)
    start_n = tl.program_id(0) * N1
    start_m = start_n
    offs_n = start_n + tl.arange(0, N1)
    k = tl.load(k_ptr + offs_n[:, None] * D + offs_k[None, :])
    v = tl.load(v_ptr + offs_n[:, None] * D + offs_k[None, :])
    dv = tl.zeros([N1, D], dtype=tl.float32)
    dk = tl.zeros([N1, D], dtype=tl.float32)
    MASK_M: tl.constexpr = M1 // SLICE
    dk, dv = keys_part(
        dk, dv, q_ptr, k, v, do_ptr, m_ptr, d_ptr, start_n, start_m, N1 // MASK_M,
        D, MASK_M, N1, MASKED=True,
    )  # fmt: skip
    start_m += N1
    dk, dv = keys_part(
        dk, dv, q_ptr, k, v, do_ptr, m_ptr, d_ptr, start_n, start_m, (L - start_m) // M1,
        D, M1, N1, MASKED=False,
    )  # fmt: skip
    tl.store(dv_ptr + at + offs_n[:, None] * D + offs_k[None, :], dv.to(tl.float16))
    dk *= scale
    tl.store(dk_ptr + at + offs_n[:, None] * D + offs_k[None, :], dk.to(tl.float16))
    start_m = tl.program_id(0) * M2
    end_n = start_m + M2
    MASK_N: tl.constexpr = N2 // SLICE
    offs_m = start_m + tl.arange(0, M2)
    q = tl.load(q_ptr + offs_m[:, None] * D + offs_k[None, :])
    dq = tl.zeros([M2, D], dtype=tl.float32)
    do = tl.load(do_ptr + offs_m[:, None] * D + offs_k[None, :])
    m = tl.load(m_ptr + offs_m)[:, None]
    steps = M2 // MASK_N
    dq = queries_part(
        dq, q, k_ptr, v_ptr, do, m, d_ptr, start_m, end_n - steps * MASK_N, steps,
        D, M2, MASK_N, MASKED=True,
    )  # fmt: skip
    end_n -= steps * MASK_N
    steps = end_n // N2
    dq = queries_part(
        dq, q, k_ptr, v_ptr, do, m, d_ptr, start_m, end_n - steps * N2, steps,
        D, M2, N2, MASKED=False,
    )  # fmt: skip
    dq *= 0.6931471824645996
    tl.store(dq_ptr + at + offs_m[:, None] * D + offs_k[None, :], dq.to(tl.float16))


@triton.jit
def bias_attention_kernel(
    q_ptr, k_ptr, v_ptr, bias_ptr, out_ptr, lse_ptr, scale, L, D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BIAS: tl.constexpr, CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr, CAP: tl.constexpr,
):  # fmt: skip
    """Masked by lengths; a bias of scores, a window of keys, scores that are capped."""
    head = tl.program_id(1).to(tl.int64)
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n, offs_d = tl.arange(0, BLOCK_N), tl.arange(0, D)
    base = head * L * D
    q = tl.load(
        q_ptr + base + offs_m[:, None] * D + offs_d[None, :], mask=offs_m[:, None] < L, other=0.0
    )
    lse = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    acc = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    begin = 0
    if WINDOW > 0:
        begin = tl.maximum(0, (tl.program_id(0) * BLOCK_M - WINDOW) // BLOCK_N * BLOCK_N)
    end = tl.minimum((tl.program_id(0) + 1) * BLOCK_M, L) if CAUSAL else L
    for start_n in range(begin, end, BLOCK_N):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        on = (start_n + offs_n)[:, None] < L
        at = base + (start_n + offs_n)[:, None] * D + offs_d[None, :]
        k = tl.load(k_ptr + at, mask=on, other=0.0)
        qk = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
        qk += tl.dot(q, tl.trans(k))
        qk *= scale
        if CAP > 0:
            qk = CAP * (2 * tl.sigmoid(2 * qk / CAP) - 1)
        if BIAS:
            qk += tl.load(
                bias_ptr + offs_m[:, None] * L + (start_n + offs_n)[None, :]
            ).to(tl.float32)  # fmt: skip
        qk += tl.where((start_n + offs_n)[None, :] < L, 0, float("-inf"))
        if CAUSAL:
            qk += tl.where(offs_m[:, None] >= (start_n + offs_n)[None, :], 0, float("-inf"))
        if WINDOW > 0:
            near = offs_m[:, None] - (start_n + offs_n)[None, :] < WINDOW
            qk = tl.where(near, qk, -1.0e6)
        m_ij = tl.maximum(tl.max(qk, 1), lse)
        p = tl.exp(qk - m_ij[:, None])
        l_ij = tl.sum(p, 1)
        acc = acc * tl.exp(m_i - m_ij)[:, None]
        v = tl.load(v_ptr + at, mask=on, other=0.0)
        acc += tl.dot(p.to(v.dtype), v)
        m_i = m_ij
        lse = m_ij + tl.log(tl.exp(lse - m_ij) + l_ij)
    acc = acc * tl.exp(m_i - lse)[:, None]
    tl.store(lse_ptr + head * L + offs_m, lse, mask=offs_m < L)
    out_at = out_ptr + base + offs_m[:, None] * D + offs_d[None, :]
    tl.store(out_at, acc.to(out_ptr.dtype.element_ty), mask=offs_m[:, None] < L)


@triton.jit
def context_attention_kernel(
    q_ptr, k_ptr, v_ptr, places_ptr, out_ptr, scale, L, H: tl.constexpr, GROUPS: tl.constexpr,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Causal; the rows of keys and values are chosen by a table."""
    seq, head = tl.program_id(1), tl.program_id(2)
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n, offs_d = tl.arange(0, BLOCK_N), tl.arange(0, D)
    q = tl.load(
        q_ptr + ((seq * L + offs_m[:, None]) * H + head) * D + offs_d[None, :],
        mask=offs_m[:, None] < L, other=0.0,
    )  # fmt: skip
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    end = tl.minimum((tl.program_id(0) + 1) * BLOCK_M, L)
    KV: tl.constexpr = H // GROUPS
    for start_n in range(0, end, BLOCK_N):
        n = start_n + offs_n
        place = tl.load(places_ptr + seq * L + n, mask=n < end, other=0).to(tl.int64)
        at = (place * KV + head // GROUPS) * D
        k = tl.load(k_ptr + at[None, :] + offs_d[:, None], mask=n[None, :] < end, other=0.0)
        qk = tl.dot(q, k)
        qk = tl.where(offs_m[:, None] >= n[None, :], qk * scale, -1.0e8)
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - m_ij[:, None])
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(v_ptr + at[:, None] + offs_d[None, :], mask=n[:, None] < end, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc)
        m_i = m_ij
    out_at = out_ptr + ((seq * L + offs_m[:, None]) * H + head) * D + offs_d[None, :]
    out = acc / l_i[:, None]
    tl.store(out_at, out.to(out_ptr.dtype.element_ty), mask=offs_m[:, None] < L)


@triton.jit
def latent_decode_kernel(
    q_ptr, kv_ptr, mid_ptr, table_ptr, lengths_ptr, scale, pages, HEADS: tl.constexpr,
    BLOCK_H: tl.constexpr, C: tl.constexpr, R: tl.constexpr, PAGE: tl.constexpr,
    BLOCK_N: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """One token against compressed keys, which are the values as well, and their rotated part."""
    seq, block, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    heads = block * BLOCK_H + tl.arange(0, BLOCK_H)
    offs_c, offs_r, offs_n = tl.arange(0, C), C + tl.arange(0, R), tl.arange(0, BLOCK_N)
    length = tl.load(lengths_ptr + seq)
    per = tl.cdiv(tl.cdiv(length, SPLITS), BLOCK_N) * BLOCK_N
    begin = split * per
    end = tl.minimum(begin + per, length)
    at = q_ptr + (seq * HEADS + heads[:, None]) * (C + R)
    q = tl.load(at + offs_c[None, :])
    q_rot = tl.load(at + offs_r[None, :])
    m_i = tl.zeros([BLOCK_H], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_H], dtype=tl.float32)
    acc = tl.zeros([BLOCK_H, C], dtype=tl.float32)
    for start_n in range(begin, end, BLOCK_N):
        n = start_n + offs_n
        page = tl.load(table_ptr + seq * pages + n // PAGE, mask=n < end, other=0)
        place = (page * PAGE + n % PAGE) * (C + R)
        k = tl.load(kv_ptr + place[None, :] + offs_c[:, None], mask=n[None, :] < end, other=0.0)
        qk = tl.dot(q, k.to(q.dtype))
        k_rot = tl.load(kv_ptr + place[None, :] + offs_r[:, None], mask=n[None, :] < end, other=0.0)
        qk += tl.dot(q_rot, k_rot.to(q.dtype))
        qk = tl.where(n[None, :] < end, qk * scale, float("-inf"))
        v = tl.trans(k)
        m_ij = tl.maximum(tl.max(qk, 1), m_i)
        alpha = tl.exp(m_i - m_ij)
        p = tl.exp(qk - m_ij[:, None])
        acc *= alpha[:, None]
        acc += tl.dot(p.to(v.dtype), v)
        l_i = l_i * alpha + tl.sum(p, 1)
        m_i = m_ij
    to = ((seq * HEADS + heads) * SPLITS + split) * C
    tl.store(mid_ptr + to[:, None] + offs_c[None, :], acc / l_i[:, None])


@triton.jit
def gated_states_kernel(
    k_ptr, v_ptr, g_ptr, h_ptr, L, D: tl.constexpr, DV: tl.constexpr, BLOCK: tl.constexpr,
    BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """The state before each chunk, where each column of keys decays by its own gate."""
    pid_k, pid_v, head = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    offs_t = tl.arange(0, BLOCK)
    offs_k = pid_k * BLOCK_K + tl.arange(0, BLOCK_K)
    offs_v = pid_v * BLOCK_V + tl.arange(0, BLOCK_V)
    h = tl.zeros([BLOCK_K, BLOCK_V], dtype=tl.float32)
    for c in range(tl.cdiv(L, BLOCK)):
        t = head * L + c * BLOCK
        at = h_ptr + (head * (L // BLOCK) + c) * D * DV
        tl.store(at + offs_k[:, None] * DV + offs_v[None, :], h.to(h_ptr.dtype.element_ty))
        k = tl.load(k_ptr + (t + offs_t[None, :]) * D + offs_k[:, None])
        v = tl.load(v_ptr + (t + offs_t[:, None]) * DV + offs_v[None, :])
        g = tl.load(g_ptr + (t + offs_t[None, :]) * D + offs_k[:, None])
        last = tl.load(g_ptr + (t + BLOCK - 1) * D + offs_k)
        h *= tl.exp(last)[:, None]
        k = (k * tl.exp(last[:, None] - g)).to(k.dtype)
        h += tl.dot(k, v)


@triton.jit
def gated_outputs_kernel(
    q_ptr, v_ptr, g_ptr, h_ptr, a_ptr, o_ptr, L, scale, D: tl.constexpr, DV: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Outputs of chunks: q, decayed, times the state, and what is within the chunk."""
    pid_v, chunk, head = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    offs_t = tl.arange(0, BLOCK)
    offs_v = pid_v * BLOCK_V + tl.arange(0, BLOCK_V)
    t = head * L + chunk * BLOCK
    o = tl.zeros([BLOCK, BLOCK_V], dtype=tl.float32)
    for i in range(tl.cdiv(D, BLOCK_K)):
        offs_k = i * BLOCK_K + tl.arange(0, BLOCK_K)
        q = tl.load(q_ptr + (t + offs_t[:, None]) * D + offs_k[None, :])
        q = (q * scale).to(q.dtype)
        g = tl.load(g_ptr + (t + offs_t[:, None]) * D + offs_k[None, :])
        h = tl.load(
            h_ptr + (head * (L // BLOCK) + chunk) * D * DV + offs_k[:, None] * DV + offs_v[None, :]
        )
        qg = (q * tl.exp(g)).to(q.dtype)
        if i >= 0:
            o += tl.dot(qg, h.to(qg.dtype))
    v = tl.load(v_ptr + (t + offs_t[:, None]) * DV + offs_v[None, :])
    a = tl.load(a_ptr + (t + offs_t[:, None]) * BLOCK + offs_t[None, :])
    a = tl.where(offs_t[:, None] >= offs_t[None, :], a, 0.0).to(v.dtype)
    o += tl.dot(a, v)
    tl.store(o_ptr + (t + offs_t[:, None]) * DV + offs_v[None, :], o.to(o_ptr.dtype.element_ty))


@triton.jit
def delta_states_kernel(
    k_ptr, w_ptr, u_ptr, new_ptr, h_ptr, L, D: tl.constexpr, DV: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """The delta rule: what the state does not foretell of the values is added to it."""
    pid_v, head = tl.program_id(0), tl.program_id(1)
    offs_t, offs_k = tl.arange(0, BLOCK), tl.arange(0, D)
    offs_v = pid_v * BLOCK_V + tl.arange(0, BLOCK_V)
    h = tl.zeros([D, BLOCK_V], dtype=tl.float32)
    for c in range(tl.cdiv(L, BLOCK)):
        t = head * L + c * BLOCK
        at = h_ptr + (head * (L // BLOCK) + c) * D * DV
        tl.store(at + offs_k[:, None] * DV + offs_v[None, :], h.to(h_ptr.dtype.element_ty))
        w = tl.load(w_ptr + (t + offs_t[:, None]) * D + offs_k[None, :])
        u = tl.load(u_ptr + (t + offs_t[:, None]) * DV + offs_v[None, :])
        u -= tl.dot(w, h.to(w.dtype))
        new_at = new_ptr + (t + offs_t[:, None]) * DV + offs_v[None, :]
        tl.store(new_at, u.to(new_ptr.dtype.element_ty))
        k = tl.load(k_ptr + (t + offs_t[None, :]) * D + offs_k[:, None])
        h += tl.dot(k, u.to(k.dtype))


@triton.jit
def within_chunk_kernel(
    q_ptr, k_ptr, g_ptr, a_ptr, L, scale, D: tl.constexpr, BLOCK: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """q k' within chunks, with one gate for each row."""
    chunk, head = tl.program_id(0), tl.program_id(1)
    t = head * L + chunk * BLOCK
    offs_t = tl.arange(0, BLOCK)
    a = tl.zeros([BLOCK, BLOCK], dtype=tl.float32)
    for i in range(tl.cdiv(D, BLOCK_K)):
        q = tl.make_block_ptr(
            q_ptr + t * D, (BLOCK, D), (D, 1), (0, i * BLOCK_K), (BLOCK, BLOCK_K), (1, 0)
        )
        k = tl.make_block_ptr(
            k_ptr + t * D, (D, BLOCK), (1, D), (i * BLOCK_K, 0), (BLOCK_K, BLOCK), (0, 1)
        )
        a += tl.dot(tl.load(q, boundary_check=(0, 1)), tl.load(k, boundary_check=(0, 1)))
    g = tl.load(g_ptr + t + offs_t).to(tl.float32)
    a = a * tl.exp(g[:, None] - g[None, :]) * scale
    a = tl.where(offs_t[:, None] >= offs_t[None, :], a, 0)
    tl.store(a_ptr + (t + offs_t[:, None]) * BLOCK + offs_t[None, :], a.to(a_ptr.dtype.element_ty))
