"""Models of sequences: recurrences, states in chunks, paths through lattices, gated steps."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
import tilewright.language as tl


def normal(*shape, seed=0, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def several(count, *shape, scale=1.0):
    return [normal(*shape, seed=k, scale=scale) for k in range(count)]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@tilewright.jit
def advantages(rewards, values, done, out, steps, gamma, lam, n, B: tl.constexpr):
    e = tl.program_id(0) * B + tl.arange(0, B)
    m = e < n
    a = tl.zeros([B], tl.float32)
    after = tl.load(values + steps * n + e, m, 0.0)
    for k in range(steps):
        t = steps - 1 - k
        live = 1.0 - tl.load(done + t * n + e, m, 0).to(tl.float32)
        v = tl.load(values + t * n + e, m, 0.0)
        a = tl.load(rewards + t * n + e, m, 0.0) + gamma * after * live - v + gamma * lam * live * a
        tl.store(out + t * n + e, a, m)
        after = v


def test_advantages_from_the_last_step_on(target):
    steps, n = 20, 37
    rewards, values, out = (
        normal(steps, n),
        normal(steps + 1, n, seed=1),
        np.zeros((steps, n), np.float32),
    )
    done = np.random.default_rng(2).random((steps, n)) < 0.2
    advantages[(3,)](rewards, values, done, out, steps, 0.99, 0.95, n, 16)
    a, expected = np.zeros(n), np.zeros((steps, n))
    for t in reversed(range(steps)):
        live = 1 - done[t].astype(float)
        a = rewards[t] + 0.99 * values[t + 1] * live - values[t] + 0.99 * 0.95 * live * a
        expected[t] = a
    np.testing.assert_allclose(out, expected, 1e-4, 1e-4)


@tilewright.jit
def delta_rule(r, w, k, v, a, b, out, before, after, steps, D: tl.constexpr):
    head, i = tl.program_id(0), tl.arange(0, D)
    at = head * D * D + i[:, None] * D + i[None, :]
    state = tl.load(before + at)
    for t in range(steps):
        p = head * steps * D + t * D + i
        decay = tl.exp(-tl.exp(tl.load(w + p)))
        seen = tl.sum(state * tl.load(a + p)[None, :], 1)
        state = state * decay[None, :] + seen[:, None] * tl.load(b + p)[None, :]
        state += tl.load(v + p)[:, None] * tl.load(k + p)[None, :]
        tl.store(out + p, tl.sum(state * tl.load(r + p)[None, :], 1))
    tl.store(after + at, state)


def test_a_state_that_replaces_what_it_recalls(target):
    heads, steps, d = 3, 12, 16
    r, w, k, v, a, b = several(6, heads, steps, d, scale=0.5)
    before = normal(heads, d, d, seed=9, scale=0.1)
    out, after = np.zeros((heads, steps, d), np.float32), np.zeros_like(before)
    delta_rule[(heads,)](r, w, k, v, a, b, out, before, after, steps, d)
    state = before.astype(float)
    for t in range(steps):
        seen = np.einsum("hij,hj->hi", state, a[:, t])
        state = (
            state * np.exp(-np.exp(w[:, t].astype(float)))[:, None]
            + seen[:, :, None] * b[:, t, None]
        )
        state = state + v[:, t, :, None] * k[:, t, None]
        expected = np.einsum("hij,hj->hi", state, r[:, t])
        np.testing.assert_allclose(out[:, t], expected, 1e-3, 1e-3)
    np.testing.assert_allclose(after, state, 1e-3, 1e-3)


@tilewright.jit
def scan_in_chunks(x, dt, A, Bm, C, D, z, out, states, steps, H, G: tl.constexpr, P: tl.constexpr,
                   N: tl.constexpr, L: tl.constexpr, GATED: tl.constexpr):  # fmt: skip
    h, b = tl.program_id(0), tl.program_id(1)
    g = h // (H // G)
    i, p, n = tl.arange(0, L), tl.arange(0, P), tl.arange(0, N)
    rate = tl.load(A + h)
    state = tl.zeros([P, N], tl.float32)
    for c in range(tl.cdiv(steps, L)):
        t = c * L + i
        m = t < steps
        d = tl.load(dt + (b * steps + t) * H + h, m, 0.0)
        d = tl.where(d <= 20.0, tl.log(1 + tl.exp(d)), d)
        d = tl.where(m, d, 0.0)
        run = tl.cumsum(d * rate, 0)
        rows = ((b * steps + t)[:, None] * H + h) * P + p[None, :]
        shared = ((b * steps + t)[:, None] * G + g) * N + n[None, :]
        xs = tl.load(x + rows, m[:, None], 0.0)
        bs, cs = tl.load(Bm + shared, m[:, None], 0.0), tl.load(C + shared, m[:, None], 0.0)
        y = tl.dot(cs, tl.trans(state), input_precision="ieee") * tl.exp(run)[:, None]
        w = tl.dot(cs, tl.trans(bs), input_precision="ieee")
        w = tl.where(
            i[:, None] >= i[None, :], w * tl.exp(run[:, None] - run[None, :]) * d[None, :], 0.0
        )
        y += tl.dot(w, xs, input_precision="ieee")
        if GATED:
            gate = tl.load(z + rows, m[:, None], 0.0)
            y = (y + xs * tl.load(D + h)) * gate * tl.sigmoid(gate)
        tl.store(out + rows, y, m[:, None])
        last = tl.sum(tl.where(i == L - 1, run, 0.0), 0)
        new = bs * (tl.exp(last - run) * d)[:, None]
        state = state * tl.exp(last) + tl.dot(tl.trans(xs), new, input_precision="ieee")
    tl.store(states + ((b * H + h) * P + p[:, None]) * N + n[None, :], state)


@pytest.mark.parametrize("gated", [False, True])
def test_a_state_space_model_in_chunks(target, gated):
    b, steps, h, g, p, n = 2, 37, 4, 2, 16, 16
    x, z = several(2, b, steps, h, p)
    dt, D = normal(b, steps, h, seed=3), normal(h, seed=4)
    rate = -np.abs(normal(h, seed=5))
    left, right = normal(b, steps, g, n, seed=6), normal(b, steps, g, n, seed=7)
    out, states = np.zeros_like(x), np.zeros((b, h, p, n), np.float32)
    scan_in_chunks[(h, b)](
        x, dt, rate, left, right, D, z, out, states, steps, h, g, p, n, 16, gated
    )
    d, state = np.log1p(np.exp(dt.astype(float))), np.zeros((b, h, p, n))
    lefts, rights = left.repeat(2, 2), right.repeat(2, 2)
    for t in range(steps):
        state = state * np.exp(d[:, t] * rate)[..., None, None]
        state = state + (x[:, t] * d[:, t, :, None])[..., None] * lefts[:, t, :, None]
        y = (state * rights[:, t, :, None]).sum(-1)
        if gated:
            y = (y + x[:, t] * D[:, None]) * z[:, t] * sigmoid(z[:, t].astype(float))
        np.testing.assert_allclose(out[:, t], y, 1e-3, 1e-3)
    np.testing.assert_allclose(states, state, 1e-3, 1e-3)


@tilewright.jit
def lstm(x, wi, wh, bias, h0, c0, out, steps, R: tl.constexpr, W: tl.constexpr, H: tl.constexpr):
    r, i, h = tl.arange(0, R)[:, None], tl.arange(0, W), tl.arange(0, H)
    hidden, cell = tl.load(h0 + r * H + h[None, :]), tl.load(c0 + r * H + h[None, :])
    for t in range(steps):
        now = tl.load(x + (t * R + r) * W + i[None, :])
        gates = ()
        for g in tl.static_range(4):
            row = g * H + h[None, :]
            z = tl.dot(now, tl.load(wi + row * W + i[:, None]), input_precision="ieee")
            z += tl.dot(hidden, tl.load(wh + row * H + h[:, None]), input_precision="ieee")
            gates = gates + (z + tl.load(bias + g * H + h)[None, :],)
        cell = tl.sigmoid(gates[1]) * cell + tl.sigmoid(gates[0]) * (
            2 * tl.sigmoid(2 * gates[2]) - 1
        )
        hidden = tl.sigmoid(gates[3]) * (2 * tl.sigmoid(2 * cell) - 1)
        tl.store(out + (t * R + r) * H + h[None, :], hidden)


def test_gates_in_a_tuple(target):
    steps, r, i, h = 4, 16, 16, 32
    x, out = normal(steps, r, i), np.zeros((steps, r, h), np.float32)
    wi, wh, bias = (
        normal(4 * h, i, scale=0.2),
        normal(4 * h, h, seed=1, scale=0.2),
        normal(4 * h, seed=2),
    )
    h0, c0 = normal(r, h, seed=3), normal(r, h, seed=4)
    lstm[(1,)](x, wi, wh, bias, h0, c0, out, steps, r, i, h)
    hidden, cell = h0.astype(float), c0.astype(float)
    for t in range(steps):
        z = (x[t] @ wi.T.astype(float) + hidden @ wh.T + bias).reshape(r, 4, h)
        cell = sigmoid(z[:, 1]) * cell + sigmoid(z[:, 0]) * np.tanh(z[:, 2])
        hidden = sigmoid(z[:, 3]) * np.tanh(cell)
        np.testing.assert_allclose(out[t], hidden, 1e-3, 1e-4)


@tilewright.jit
def paths(logs, labels, alpha, out, steps, C, n, S: tl.constexpr):
    s = tl.arange(0, S)
    odd, on = s % 2 == 1, s < 2 * n + 1
    label = tl.where(odd, tl.load(labels + s // 2, odd & on, 0), 0)
    leap = odd & (s >= 3) & (tl.load(labels + s // 2 - 1, odd & (s >= 3) & on, -1) != label)
    a = tl.where(s < 2, tl.load(logs + label, on, float("-inf")), float("-inf"))
    tl.store(alpha + s, a)
    for t in range(1, steps):
        tl.debug_barrier()
        row = alpha + (t - 1) * S + s
        one = tl.load(row - 1, s >= 1, float("-inf"))
        two = tl.load(row - 2, leap, float("-inf"))
        top = tl.maximum(a, tl.maximum(one, two))
        top = tl.where(top == float("-inf"), 0.0, top)
        a = top + tl.log(tl.exp(a - top) + tl.exp(one - top) + tl.exp(two - top))
        a += tl.load(logs + t * C + label, on, float("-inf"))
        tl.store(alpha + t * S + s, a)
    end = (s == 2 * n) | (s == 2 * n - 1)
    top = tl.max(tl.where(end, a, float("-inf")), 0)
    tl.store(out, -(top + tl.log(tl.sum(tl.where(end, tl.exp(a - top), 0.0), 0))))


def test_all_paths_through_labels_and_blanks(target):
    steps, classes, labels = 20, 6, np.array([1, 1, 2, 5, 2], np.int32)
    logs = normal(steps, classes)
    logs -= np.log(np.exp(logs.astype(float)).sum(1, keepdims=True)).astype(np.float32)
    out, alpha = np.zeros(1, np.float32), np.zeros((steps, 16), np.float32)
    paths[(1,)](logs, labels, alpha, out, steps, classes, 5, 16)
    full = np.zeros(11, int)
    full[1::2] = labels
    p = np.zeros(11)
    p[:2] = np.exp(logs[0, full[:2]])
    for t in range(1, steps):
        new = p.copy()
        new[1:] += p[:-1]
        leap = (np.arange(11) % 2 == 1) & (np.arange(11) >= 3) & (full != np.roll(full, 2))
        new[leap] += np.roll(p, 2)[leap]
        p = new * np.exp(logs[t, full].astype(float))
    np.testing.assert_allclose(out[0], -np.log(p[-2:].sum()), 1e-4)


@tilewright.jit
def token_at(done, stride, pending, start, row, n, place):
    if place < n:
        return tl.load(done + row * stride + place)
    after = start + place - n
    return tl.load(pending + after)


@tilewright.jit
def last_of_a_pattern(done, stride, pending, starts, lengths, out, total, PATTERN: tl.constexpr):
    row = tl.program_id(0)
    n, start = tl.load(lengths + row), tl.load(starts + row)
    found = -1
    for i in tl.range(0, total - len(PATTERN) + 1):
        hit = True
        for j in tl.static_range(len(PATTERN)):
            hit = hit & (token_at(done, stride, pending, start, row, n, i + j) == PATTERN[j])
        if hit:
            found = i
    tl.store(out + row, found)


def test_a_helper_reads_one_of_two_arrays_in_a_loop(target):
    rng = np.random.default_rng(0)
    done, pending = (rng.integers(0, 3, shape).astype(np.int32) for shape in ((4, 20), (60,)))
    lengths, starts = np.array([3, 10, 0, 20], np.int32), np.array([0, 10, 20, 30], np.int32)
    out = np.zeros(4, np.int32)
    last_of_a_pattern[(4,)](done, 20, pending, starts, lengths, out, 18, (1, 2))
    for row, (n, start) in enumerate(zip(lengths, starts, strict=True)):
        tokens = [*done[row, :n], *pending[start:]][:18]
        places = [i for i in range(17) if tokens[i : i + 2] == [1, 2]]
        assert out[row] == max(places, default=-1)
