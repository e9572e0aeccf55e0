"""Layers of networks as people write them: norms, losses, attention, convolutions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright
import tilewright.language as tl

BF16 = ml_dtypes.bfloat16


def normal(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@tilewright.jit
def layer_norm(x, w, b, y, mean, rstd, stride, n, eps, B: tl.constexpr):
    row = tl.program_id(0)
    x += row * stride
    y += row * stride
    acc = tl.zeros([B], dtype=tl.float32)
    for off in range(0, n, B):
        i = off + tl.arange(0, B)
        acc += tl.load(x + i, mask=i < n, other=0.0).to(tl.float32)
    mu = tl.sum(acc, axis=0) / n
    var = tl.zeros([B], dtype=tl.float32)
    for off in range(0, n, B):
        i = off + tl.arange(0, B)
        v = tl.load(x + i, mask=i < n, other=0.0).to(tl.float32)
        v = tl.where(i < n, v - mu, 0.0)
        var += v * v
    r = 1 / tl.sqrt(tl.sum(var, axis=0) / n + eps)
    tl.store(mean + row, mu)
    tl.store(rstd + row, r)
    for off in range(0, n, B):
        i = off + tl.arange(0, B)
        on = i < n
        v = tl.load(x + i, mask=on, other=0.0).to(tl.float32)
        tl.store(y + i, (v - mu) * r * tl.load(w + i, mask=on) + tl.load(b + i, mask=on), mask=on)


@tilewright.jit
def layer_norm_grad(dy, x, w, mean, rstd, dx, dw, locks, n, GROUPS: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    on = i < n
    g = tl.load(dy + row * n + i, mask=on, other=0).to(tl.float32)
    xhat = (tl.load(x + row * n + i, mask=on, other=0) - tl.load(mean + row)) * tl.load(rstd + row)
    xhat = tl.where(on, xhat, 0.0)
    wg = tl.where(on, tl.load(w + i, mask=on) * g, 0.0)
    c1, c2 = tl.sum(xhat * wg, axis=0) / n, tl.sum(wg, axis=0) / n
    tl.store(dx + row * n + i, (wg - (xhat * c1 + c2)) * tl.load(rstd + row), mask=on)
    group = row % GROUPS
    lock, count = locks + group, locks + GROUPS + group
    p = dw + group * n + i
    part = g * xhat
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        part += tl.load(p, mask=on)
    tl.store(p, part, mask=on)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@pytest.mark.parametrize("n", [32, 50])
def test_layer_norm_and_its_gradient(target, n):
    x, w, b, dy = normal(9, n), normal(n, seed=1), normal(n, seed=2), normal(9, n, seed=3)
    y, dx = np.zeros_like(x), np.zeros_like(x)
    mean, rstd, dw = np.zeros(9, np.float32), np.zeros(9, np.float32), np.empty((4, n), np.float32)
    locks = np.zeros(8, np.int32)
    layer_norm[(9,)](x, w, b, y, mean, rstd, n, n, 1e-5, B=16)
    layer_norm_grad[(9,)](dy, x, w, mean, rstd, dx, dw, locks, n, GROUPS=4, B=64)
    wide = x.astype(float)
    r = 1 / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    hat = (wide - wide.mean(1, keepdims=True)) * r
    np.testing.assert_allclose(y, hat * w + b, rtol=1e-3, atol=1e-4)
    wg = w * dy
    expected = r * (wg - hat * (hat * wg).mean(1, keepdims=True) - wg.mean(1, keepdims=True))
    np.testing.assert_allclose(dx, expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(dw.sum(0), (dy * hat).sum(0), rtol=1e-3, atol=1e-3)


@tilewright.jit
def cross_entropy(x, labels, loss, grad, n, ignore, smoothing, B: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * n
    y = tl.load(labels + row)
    if y == ignore:
        for start in range(0, n, B):
            i = start + tl.arange(0, B)
            tl.store(grad + row * n + i, 0.0, mask=i < n)
        return
    m = float("-inf")
    d = 0.0
    plain = 0.0
    at_y = tl.load(x + y).cast(tl.float32)
    for start in range(0, n, B):
        i = start + tl.arange(0, B)
        v = tl.load(x + i, mask=i < n, other=float("-inf")).cast(tl.float32)
        plain += tl.sum(tl.where(i < n, v, 0.0))
        new = tl.maximum(m, tl.max(v))
        d = d * tl.exp(m - new) + tl.sum(tl.exp(v - new))
        m = new
    lse = m + tl.log(d)
    for start in range(0, n, B):
        i = start + tl.arange(0, B)
        v = tl.load(x + i, mask=i < n, other=float("-inf")).cast(tl.float32)
        p = tl.exp(v - m) / d - smoothing / n
        p = tl.where(i != y, p, p - (1 - smoothing))
        tl.store(grad + row * n + i, p, mask=i < n)
    tl.store(loss + row, (1 - smoothing) * (lse - at_y) + smoothing * (lse - plain / n))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(target, dtype, smoothing):
    x = (normal(6, 70) * 3).astype(dtype)
    labels = np.array([3, 69, -100, 0, 11, -100], np.int64)
    loss, grad = np.zeros(6, np.float32), np.full((6, 70), 9, np.float32)
    cross_entropy[(6,)](x, labels, loss, grad, 70, -100, smoothing, B=32)
    wide = x.astype(float)
    logp = wide - np.logaddexp.reduce(wide, 1, keepdims=True)
    goal = np.full((6, 70), smoothing / 70)
    on = labels >= 0
    goal[np.flatnonzero(on), labels[on]] += 1 - smoothing
    expected = np.where(on, -(goal * logp).sum(1), 0)
    np.testing.assert_allclose(loss, expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(grad, (np.exp(logp) - goal) * on[:, None], rtol=1e-3, atol=1e-4)


@tilewright.jit
def attention(q, k, v, out, lse, scale, n, H, kv_heads, CAUSAL: tl.constexpr, WINDOW: tl.constexpr,
              BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):  # fmt: skip
    start, head = tl.program_id(0) * BM, tl.program_id(1)
    kv = head // (H // kv_heads)
    m, d = start + tl.arange(0, BM), tl.arange(0, D)
    at = head * n * D + m[:, None] * D + d[None, :]
    qs = tl.load(q + at, mask=m[:, None] < n, other=0.0)
    mi = tl.full([BM], float("-inf"), tl.float32)
    li = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    end = tl.minimum(n, start + BM) if CAUSAL else n
    for j in range(0, end, BN):
        c = j + tl.arange(0, BN)
        ks = tl.load(k + kv * n * D + c[None, :] * D + d[:, None], mask=c[None, :] < n, other=0.0)
        s = tl.dot(qs, ks) * (scale * 1.44269504)
        on = c[None, :] < n
        if CAUSAL:
            on = on & (m[:, None] >= c[None, :])
        if WINDOW > 0:
            on = on & (m[:, None] - c[None, :] < WINDOW)
        s = tl.where(on, s, float("-inf"))
        new = tl.maximum(mi, tl.max(s, 1))
        safe = tl.where(new == float("-inf"), 0.0, new)
        p = tl.exp2(s - safe[:, None])
        alpha = tl.exp2(mi - safe)
        li = li * alpha + tl.sum(p, 1)
        vs = tl.load(v + kv * n * D + c[:, None] * D + d[None, :], mask=c[:, None] < n, other=0.0)
        acc = tl.dot(p.to(vs.dtype), vs, acc * alpha[:, None])
        mi = new
    tl.store(lse + head * n + m, mi * 0.69314718 + tl.log(li), mask=m < n)
    tl.store(out + at, (acc / li[:, None]).to(out.dtype.element_ty), mask=m[:, None] < n)


@pytest.mark.parametrize("window", [0, 10])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", [np.float16, BF16])
def test_attention(target, dtype, causal, window):
    h, kv, n, dim = 4, 2, 50, 16
    q, k, v = (normal(x, n, dim, dtype=dtype, seed=s) for s, x in enumerate((h, kv, kv)))
    out, lse = np.zeros((h, n, dim), dtype), np.zeros((h, n), np.float32)
    attention[(2, h)](q, k, v, out, lse, 0.25, n, h, kv, causal, window, BM=32, BN=16, D=dim)
    wide = [np.repeat(x.astype(float), h // len(x), 0) for x in (q, k, v)]
    s = wide[0] @ wide[1].transpose(0, 2, 1) * 0.25
    i, j = np.indices((n, n))
    s[:, (causal & (i < j)) | ((window > 0) & (i - j >= window))] = -np.inf
    total = np.logaddexp.reduce(s, 2)
    np.testing.assert_allclose(lse, total, rtol=1e-3, atol=1e-3)
    unit = 2e-3 if dtype is np.float16 else 2e-2
    expected = np.exp(s - total[:, :, None]) @ wide[2]
    np.testing.assert_allclose(out.astype(float), expected, rtol=unit, atol=unit)


@tilewright.jit
def causal_conv(x, w, b, state, out, t, dim, SILU: tl.constexpr, W: tl.constexpr, B: tl.constexpr):
    d = tl.program_id(0) * B + tl.arange(0, B)
    on = d < dim
    bias = tl.load(b + d, on, 0.0)
    s0 = tl.load(state + d * (W - 1), on, 0.0)
    s1 = tl.load(state + d * (W - 1) + 1, on, 0.0)
    s2 = tl.load(state + d * (W - 1) + 2, on, 0.0)
    for k in range(t):
        v = tl.load(x + k * dim + d, on, 0.0)
        acc = bias
        for j in tl.static_range(W):
            tap = tl.load(w + d * W + j, on, 0.0)
            if j == 0:
                acc += s0 * tap
            elif j == 1:
                acc += s1 * tap
            elif j == 2:
                acc += s2 * tap
            else:
                acc += v * tap
        s0, s1, s2 = s1, s2, v
        if SILU:
            acc = acc / (1 + tl.exp(-acc))
        tl.store(out + k * dim + d, acc, on)
    tl.store(state + d * (W - 1), s0, on)
    tl.store(state + d * (W - 1) + 1, s1, on)
    tl.store(state + d * (W - 1) + 2, s2, on)


@pytest.mark.parametrize("silu", [False, True])
def test_a_causal_convolution_with_its_state(target, silu):
    x, w, b, state = normal(9, 20), normal(20, 4, seed=1), normal(20, seed=2), normal(20, 3, seed=3)
    out, after = np.zeros_like(x), state.copy()
    causal_conv[(2,)](x, w, b, after, out, 9, 20, silu, 4, 16)
    padded = np.vstack([state.T, x]).astype(float)
    y = sum(padded[j : j + 9] * w[:, j] for j in range(4)) + b
    np.testing.assert_allclose(out, y / (1 + np.exp(-y)) if silu else y, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(after, padded[-3:].T.astype(np.float32))


@tilewright.jit
def conv2d(x, w, out, C: tl.constexpr, h, wd, oh, ow, sh, sw, ph, pw, KH: tl.constexpr,
           KW: tl.constexpr, B: tl.constexpr):  # fmt: skip
    f = tl.program_id(1)
    i = tl.program_id(0) * B + tl.arange(0, B)
    oy, ox = i // ow, i % ow
    acc = tl.zeros((B,), tl.float32)
    for c in range(C):
        for ky in range(KH):
            for kx in tl.static_range(KW):
                y, z = oy * sh - ph + ky, ox * sw - pw + kx
                on = (y >= 0) & (y < h) & (z >= 0) & (z < wd) & (i < oh * ow)
                v = tl.load(x + (c * h + y) * wd + z, on, other=0.0)
                acc += v * tl.load(w + ((f * C + c) * KH + ky) * KW + kx)
    tl.store(out + f * oh * ow + i, acc, i < oh * ow)


@pytest.mark.parametrize(("stride", "pad"), [((1, 1), (0, 0)), ((2, 1), (1, 2)), ((3, 3), (2, 0))])
def test_a_convolution_by_gathering(target, stride, pad):
    x, w = normal(2, 9, 11), normal(3, 2, 3, 2, seed=1)
    oh, ow = (9 + 2 * pad[0] - 3) // stride[0] + 1, (11 + 2 * pad[1] - 2) // stride[1] + 1
    out = np.zeros((3, oh, ow), np.float32)
    conv2d[(-(-oh * ow // 32), 3)](x, w, out, 2, 9, 11, oh, ow, *stride, *pad, 3, 2, 32)
    padded = np.pad(x.astype(float), ((0, 0), (pad[0],) * 2, (pad[1],) * 2))
    expected = np.zeros(out.shape)
    for y in range(oh):
        for z in range(ow):
            a, b = y * stride[0], z * stride[1]
            expected[:, y, z] = (padded[:, a : a + 3, b : b + 2] * w).sum((1, 2, 3))
    np.testing.assert_allclose(out, expected, rtol=1e-3, atol=1e-4)


@tilewright.jit
def selective_scan(u, delta, a, b, c, out, t, dim, N: tl.constexpr, B: tl.constexpr):
    d, n = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, N)
    on = d < dim
    av = tl.load(a + d[:, None] * N + n[None, :], on[:, None], 0.0)
    h = tl.zeros((B, N), tl.float32)
    for k in range(t):
        x = tl.load(u + k * dim + d, on, 0.0)
        dt = tl.load(delta + k * dim + d, on, 0.0)
        dt = tl.where(dt <= 20.0, tl.log(1 + tl.exp(dt)), dt)
        h = h * tl.exp(dt[:, None] * av) + (dt * x)[:, None] * tl.load(b + k * N + n)[None, :]
        tl.store(out + k * dim + d, tl.sum(h * tl.load(c + k * N + n)[None, :], axis=1), on)


def test_a_state_space_recurrence(target):
    t, dim, n = 12, 20, 8
    u, delta, a = normal(t, dim), normal(t, dim, seed=1), -np.abs(normal(dim, n, seed=2))
    b, c, out = normal(t, n, seed=3), normal(t, n, seed=4), np.zeros((t, dim), np.float32)
    delta[3] = 25
    selective_scan[(2,)](u, delta, a, b, c, out, t, dim, n, 16)
    h, expected = np.zeros((dim, n)), np.zeros((t, dim))
    dt = np.log1p(np.exp(delta.astype(float)))
    for k in range(t):
        h = h * np.exp(dt[k][:, None] * a) + (dt[k] * u[k])[:, None] * b[k]
        expected[k] = h @ c[k]
    np.testing.assert_allclose(out, expected, rtol=1e-3, atol=1e-4)


@tilewright.jit
def chunk_delta(q, k, v, out, t, D: tl.constexpr, B: tl.constexpr):
    d = tl.arange(0, D)
    state = tl.zeros((D, D), tl.float32)
    for start in range(0, t, B):
        i = start + tl.arange(0, B)
        on = (i < t)[:, None]
        at = i[:, None] * D + d[None, :]
        qs, ks = tl.load(q + at, on, 0.0), tl.load(k + at, on, 0.0)
        vs = tl.load(v + at, on, 0.0)
        s = tl.dot(qs, tl.trans(ks), input_precision="ieee")
        s = tl.where(i[:, None] >= i[None, :], s, 0.0)
        o = tl.dot(s, vs, input_precision="ieee") + tl.dot(qs, state, input_precision="ieee")
        state += tl.dot(tl.trans(ks), vs, input_precision="ieee")
        tl.store(out + at, o, on)


@pytest.mark.parametrize("t", [16, 45])
def test_linear_attention_by_chunks(target, t):
    q, k, v = (normal(t, 16, seed=s) for s in range(3))
    out = np.zeros_like(q)
    chunk_delta[(1,)](q, k, v, out, t, 16, 16)
    s = np.tril(q.astype(float) @ k.T)
    np.testing.assert_allclose(out, s @ v, rtol=1e-3, atol=1e-3)


@tilewright.jit
def dropout(x, out, n, p, seed, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    keep = tl.rand(seed, i) > p
    tl.store(out + i, tl.where(keep, tl.load(x + i, i < n) / (1 - p), 0.0), i < n)


def test_dropout_with_a_seed(target):
    x = np.ones(2000, np.float32)
    outs = []
    for seed, block in ((5, 64), (5, 256), (6, 64)):
        out = np.zeros_like(x)
        dropout[(-(-2000 // block),)](x, out, 2000, 0.25, seed, block)
        outs.append(out)
    np.testing.assert_array_equal(outs[0], outs[1])
    assert (outs[0] != outs[2]).any()
    assert abs((outs[0] > 0).mean() - 0.75) < 0.05
    np.testing.assert_allclose(outs[0].max(), 1 / 0.75, rtol=1e-6)


@tilewright.jit
def adamw(p, g, m, v, lr, b1, b2, eps, decay, step, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    on = i < n
    w, d = tl.load(p + i, on).to(tl.float32), tl.load(g + i, on).to(tl.float32)
    mean = b1 * tl.load(m + i, on) + (1 - b1) * d
    square = b2 * tl.load(v + i, on) + (1 - b2) * d * d
    c1, c2 = 1 - tl.exp(step * tl.log(b1)), 1 - tl.exp(step * tl.log(b2))
    w = w * (1 - lr * decay) - lr * (mean / c1) / (tl.sqrt(square / c2) + eps)
    tl.store(p + i, w.to(p.dtype.element_ty), on)
    tl.store(m + i, mean, on)
    tl.store(v + i, square, on)


@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_an_optimizer_step(target, dtype):
    p, g, m = normal(70, dtype=dtype), normal(70, dtype=dtype, seed=1), normal(70, seed=2)
    v = np.abs(normal(70, seed=3))
    w, d, m0, v0 = (x.astype(float) for x in (p, g, m, v))
    adamw[(3,)](p, g, m, v, 1e-2, 0.9, 0.999, 1e-8, 0.1, 5, 70, 32)
    m1, v1 = 0.9 * m0 + 0.1 * d, 0.999 * v0 + 0.001 * d * d
    step = (m1 / (1 - 0.9**5)) / (np.sqrt(v1 / (1 - 0.999**5)) + 1e-8)
    w = w * (1 - 1e-3) - 1e-2 * step
    np.testing.assert_allclose(p.astype(float), w, rtol=1e-4 if dtype is np.float32 else 1e-2)
    np.testing.assert_allclose([m, v], [m1, v1], rtol=1e-4, atol=1e-6)
