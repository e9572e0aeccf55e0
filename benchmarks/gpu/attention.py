"""Kernels of attention in other forms than the plain one, for whichever `triton` is there."""

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: F401


@triton.jit
def blocks_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, scale, H, L,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Through block pointers; causal in two loops, of which the second one masks."""
    start_m = tl.program_id(0)
    head = tl.program_id(1).to(tl.int64) * L * D
    q_block = tl.make_block_ptr(
        q_ptr + head, (L, D), (D, 1), (start_m * BLOCK_M, 0), (BLOCK_M, D), (1, 0)
    )
    v_block = tl.make_block_ptr(v_ptr + head, (L, D), (D, 1), (0, 0), (BLOCK_N, D), (1, 0))
    k_block = tl.make_block_ptr(k_ptr + head, (D, L), (1, D), (0, 0), (D, BLOCK_N), (0, 1))
    o_block = tl.make_block_ptr(
        out_ptr + head, (L, D), (D, 1), (start_m * BLOCK_M, 0), (BLOCK_M, D), (1, 0)
    )
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    acc = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    qk_scale = scale * 1.44269504
    q = tl.load(q_block)
    for stage in tl.static_range(2 if CAUSAL else 1):
        if stage == 0:
            lo, hi = 0, start_m * BLOCK_M if CAUSAL else L
        else:
            lo, hi = start_m * BLOCK_M, (start_m + 1) * BLOCK_M
        for start_n in range(lo, hi, BLOCK_N):
            start_n = tl.multiple_of(start_n, BLOCK_N)
            k = tl.load(k_block)
            qk = tl.dot(q, k)
            if stage == 1:
                mask = offs_m[:, None] >= (start_n + offs_n[None, :])
                qk = qk * qk_scale + tl.where(mask, 0, -1.0e6)
                m_ij = tl.maximum(m_i, tl.max(qk, 1))
                qk -= m_ij[:, None]
            else:
                m_ij = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
                qk = qk * qk_scale - m_ij[:, None]
            p = tl.math.exp2(qk)
            l_ij = tl.sum(p, 1)
            alpha = tl.math.exp2(m_i - m_ij)
            l_i = l_i * alpha + l_ij
            acc = acc * alpha[:, None]
            v = tl.load(v_block)
            acc = tl.dot(p.to(v.dtype), v, acc)
            m_i = m_ij
            v_block = tl.advance(v_block, (BLOCK_N, 0))
            k_block = tl.advance(k_block, (0, BLOCK_N))
    m_i += tl.math.log2(l_i)
    acc = acc / l_i[:, None]
    tl.store(lse_ptr + tl.program_id(1) * L + offs_m, m_i)
    tl.store(o_block, acc.to(out_ptr.dtype.element_ty))


@triton.jit
def descriptor_attention_kernel(
    q_desc, k_desc, v_desc, o_desc, scale, H, L,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Through tensor descriptors of [heads * L, D]."""
    start_m = tl.program_id(0)
    first = tl.program_id(1) * L
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    acc = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    qk_scale = scale * 1.44269504
    q = q_desc.load([first + start_m * BLOCK_M, 0])
    for start_n in tl.range(0, L, BLOCK_N):
        k = k_desc.load([first + start_n, 0]).T
        qk = tl.dot(q, k)
        m_ij = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
        qk = qk * qk_scale - m_ij[:, None]
        p = tl.math.exp2(qk)
        alpha = tl.math.exp2(m_i - m_ij)
        l_ij = tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = v_desc.load([first + start_n, 0])
        acc = tl.dot(p.to(v.dtype), v, acc)
        l_i = l_i * alpha + l_ij
        m_i = m_ij
    acc = acc / l_i[:, None]
    o_desc.store([first + start_m * BLOCK_M, 0], acc.to(tl.float16))


@triton.jit
def varlen_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, starts_ptr, scale, stride_t, stride_kt, GROUPS: tl.constexpr,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Sequences of several lengths packed one after the other, causal, shared heads of keys."""
    seq, head, block = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    start = tl.load(starts_ptr + seq)
    length = tl.load(starts_ptr + seq + 1) - start
    if block * BLOCK_M >= length:
        return
    offs_m = block * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    kv_head = head // GROUPS
    q_at = q_ptr + (start + offs_m[:, None]) * stride_t + head * D + offs_d[None, :]
    q = tl.load(q_at, mask=offs_m[:, None] < length, other=0.0)
    k_at = k_ptr + (start + offs_n[None, :]) * stride_kt + kv_head * D + offs_d[:, None]
    v_at = v_ptr + (start + offs_n[:, None]) * stride_kt + kv_head * D + offs_d[None, :]
    m_i = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    end = tl.minimum((block + 1) * BLOCK_M, length)
    for start_n in range(0, end, BLOCK_N):
        on = start_n + offs_n < length
        k = tl.load(k_at + start_n * stride_kt, mask=on[None, :], other=0.0)
        qk = tl.dot(q, k) * scale
        qk = tl.where(offs_m[:, None] >= (start_n + offs_n[None, :]), qk, float("-inf"))
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.exp(qk - m_ij[:, None])
        alpha = tl.exp(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(v_at + start_n * stride_kt, mask=on[:, None], other=0.0)
        acc += tl.dot(p.to(v.dtype), v)
        m_i = m_ij
    acc = acc / l_i[:, None]
    out_at = out_ptr + (start + offs_m[:, None]) * stride_t + head * D + offs_d[None, :]
    tl.store(out_at, acc.to(out_ptr.dtype.element_ty), mask=offs_m[:, None] < length)


@triton.jit
def decode_kernel(
    q_ptr, k_ptr, v_ptr, mid_ptr, table_ptr, lengths_ptr, scale, pages,
    KV_HEADS: tl.constexpr, GROUPS: tl.constexpr, BLOCK_H: tl.constexpr, D: tl.constexpr,
    PAGE: tl.constexpr, BLOCK_N: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """One new token against its paged keys: a group of heads, one part of the keys a program."""
    seq, kv_head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    heads = kv_head * GROUPS + tl.arange(0, BLOCK_H)
    on_h = tl.arange(0, BLOCK_H) < GROUPS
    offs_d = tl.arange(0, D)
    offs_n = tl.arange(0, BLOCK_N)
    length = tl.load(lengths_ptr + seq)
    per = tl.cdiv(tl.cdiv(length, SPLITS), BLOCK_N) * BLOCK_N
    begin = split * per
    end = tl.minimum(begin + per, length)
    q_at = q_ptr + (seq * KV_HEADS * GROUPS + heads[:, None]) * D + offs_d[None, :]
    q = tl.load(q_at, mask=on_h[:, None], other=0.0)
    m_i = tl.zeros([BLOCK_H], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_H], dtype=tl.float32)
    acc = tl.zeros([BLOCK_H, D], dtype=tl.float32)
    if end > begin:
        for start_n in range(begin, end, BLOCK_N):
            n = start_n + offs_n
            page = tl.load(table_ptr + seq * pages + n // PAGE, mask=n < end, other=0)
            place = (page * PAGE + n % PAGE) * (KV_HEADS * D) + kv_head * D
            k = tl.load(k_ptr + place[None, :] + offs_d[:, None], mask=n[None, :] < end, other=0.0)
            qk = tl.dot(q, k.to(q.dtype)) * scale
            qk = tl.where(on_h[:, None] & (n[None, :] < end), qk, float("-inf"))
            v = tl.load(v_ptr + place[:, None] + offs_d[None, :], mask=n[:, None] < end, other=0.0)
            m_ij = tl.maximum(tl.max(qk, 1), m_i)
            alpha = tl.exp(m_i - m_ij)
            p = tl.exp(qk - m_ij[:, None])
            acc *= alpha[:, None]
            acc += tl.dot(p.to(v.dtype), v)
            l_i = l_i * alpha + tl.sum(p, 1)
            m_i = m_ij
        at = ((seq * KV_HEADS * GROUPS + heads) * SPLITS + split) * (D + 1)
        tl.store(mid_ptr + at[:, None] + offs_d[None, :], acc / l_i[:, None], mask=on_h[:, None])
        tl.store(mid_ptr + at + D, m_i + tl.log(l_i), mask=on_h)


@triton.jit
def single_decode_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, length, scale, HEADS: tl.constexpr,
    D: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """One query a head without tensor cores: products and sums of [BLOCK_N, D]."""
    seq, head = tl.program_id(0), tl.program_id(1)
    offs_d = tl.arange(0, D)
    offs_n = tl.arange(0, BLOCK_N)
    q = tl.load(q_ptr + (seq * HEADS + head) * D + offs_d).to(tl.float32)
    m_i = -float("inf")
    l_i = 0.0
    acc = tl.zeros([D], dtype=tl.float32)
    base = seq * length * HEADS * D + head * D
    for start in range(0, length, BLOCK_N):
        n = start + offs_n
        at = base + n[:, None] * HEADS * D + offs_d[None, :]
        k = tl.load(k_ptr + at, mask=n[:, None] < length, other=0.0)
        qk = tl.sum(q[None, :] * k, 1) * scale
        qk = tl.where(n < length, qk, float("-inf"))
        v = tl.load(v_ptr + at, mask=n[:, None] < length, other=0.0)
        m_ij = tl.maximum(tl.max(qk, 0), m_i)
        alpha = tl.exp(m_i - m_ij)
        p = tl.exp(qk - m_ij)
        acc = acc * alpha + tl.sum(p[:, None] * v, 0)
        l_i = l_i * alpha + tl.sum(p, 0)
        m_i = m_ij
    tl.store(out_ptr + (seq * HEADS + head) * D + offs_d, acc / l_i)


@triton.jit
def backward_keys_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, scale, L,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Gradients of a block of keys and values, over all queries."""
    head = tl.program_id(1).to(tl.int64)
    start_n = tl.program_id(0) * BLOCK_N
    base = head * L * D
    offs_n = start_n + tl.arange(0, BLOCK_N)
    offs_m = tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    k = tl.load(k_ptr + base + offs_n[:, None] * D + offs_d[None, :])
    v = tl.load(v_ptr + base + offs_n[:, None] * D + offs_d[None, :])
    dk = tl.zeros([BLOCK_N, D], dtype=tl.float32)
    dv = tl.zeros([BLOCK_N, D], dtype=tl.float32)
    begin = start_n // BLOCK_M * BLOCK_M if CAUSAL else 0
    qt_ptrs = q_ptr + base + (begin + offs_m[None, :]) * D + offs_d[:, None]
    do_ptrs = do_ptr + base + (begin + offs_m[:, None]) * D + offs_d[None, :]
    for curr in range(begin, L, BLOCK_M):
        qt = tl.load(qt_ptrs)
        m = tl.load(lse_ptr + head * L + curr + offs_m)
        qkt = tl.dot(k, qt)
        pt = tl.math.exp2(qkt - m[None, :])
        if CAUSAL:
            pt = tl.where(curr + offs_m[None, :] >= offs_n[:, None], pt, 0.0)
        do = tl.load(do_ptrs)
        dv += tl.dot(pt.to(tl.float16), do)
        di = tl.load(delta_ptr + head * L + curr + offs_m)
        dpt = tl.dot(v, tl.trans(do)).to(tl.float32)
        dst = pt * (dpt - di[None, :])
        dk += tl.dot(dst.to(tl.float16), tl.trans(qt))
        qt_ptrs += BLOCK_M * D
        do_ptrs += BLOCK_M * D
    tl.store(dv_ptr + base + offs_n[:, None] * D + offs_d[None, :], dv.to(tl.float16))
    dk *= scale
    tl.store(dk_ptr + base + offs_n[:, None] * D + offs_d[None, :], dk.to(tl.float16))


@triton.jit
def backward_queries_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, scale, L,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Gradients of a block of queries, over all keys."""
    head = tl.program_id(1).to(tl.int64)
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    base = head * L * D
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    q = tl.load(q_ptr + base + offs_m[:, None] * D + offs_d[None, :])
    do = tl.load(do_ptr + base + offs_m[:, None] * D + offs_d[None, :])
    m = tl.load(lse_ptr + head * L + offs_m)[:, None]
    di = tl.load(delta_ptr + head * L + offs_m)
    dq = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    kt_ptrs = k_ptr + base + offs_n[None, :] * D + offs_d[:, None]
    vt_ptrs = v_ptr + base + offs_n[None, :] * D + offs_d[:, None]
    for _ in range(0, L, BLOCK_N):
        kt = tl.load(kt_ptrs)
        vt = tl.load(vt_ptrs)
        qk = tl.dot(q, kt)
        p = tl.math.exp2(qk - m)
        dp = tl.dot(do, vt).to(tl.float32)
        ds = (p * (dp - di[:, None])).to(tl.float16)
        dq += tl.dot(ds, tl.trans(kt))
        kt_ptrs += BLOCK_N * D
        vt_ptrs += BLOCK_N * D
    tl.store(dq_ptr + base + offs_m[:, None] * D + offs_d[None, :], (dq * scale).to(tl.float16))
