"""Pointers, block pointers and steps that conditions of a running kernel choose."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
import tilewright.language as tl


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@tilewright.jit
def guarded_counts(out, tokens, lengths, N: tl.constexpr, MOST: tl.constexpr):
    pid, i = tl.program_id(0), tl.arange(0, N)
    n = tl.load(lengths + pid)
    count, weight = tl.zeros((N,), tl.int32), tl.full((N,), 1.0, tl.float32)
    for k in tl.static_range(MOST):
        if k < n:
            count += (i == tl.load(tokens + pid * MOST + k)).to(tl.int32)
            weight = weight * 2
    tl.store(out + pid * N + i, count * weight.to(tl.int32))


def test_an_unrolled_loop_that_ends_late(target):
    tokens = np.random.default_rng(0).integers(0, 16, (4, 5)).astype(np.int32)
    lengths, out = np.array([0, 1, 3, 5], np.int32), np.zeros((4, 16), np.int32)
    guarded_counts[(4,)](out, tokens, lengths, 16, 5)
    for row, n, found in zip(tokens, lengths, out, strict=True):
        assert found.tolist() == (np.bincount(row[:n], minlength=16) * 2**n).tolist()


@tilewright.jit
def block_of_a_branch(x, out, B: tl.constexpr):
    pid = tl.program_id(0)
    first = tl.make_block_ptr(x, shape=2 * B, strides=1, offsets=0, block_shape=B, order=0)
    if pid % 2 == 0:
        block = first
    else:
        block = tl.advance(first, B)
    tl.store(out + pid * B + tl.arange(0, B), tl.load(block))
    for k in range(2):
        if k == pid:
            block = tl.advance(first, (0,))
        tl.store(out + (2 + pid * 2 + k) * B + tl.arange(0, B), tl.load(block, boundary_check=(0,)))


def test_a_block_pointer_from_a_branch(target):
    x, out = np.arange(64), np.zeros((6, 32), np.int64)
    block_of_a_branch[(2,)](x, out, 32)
    a, b = x.reshape(2, 32)
    np.testing.assert_array_equal(out, [a, b, a, a, b, a])


@tilewright.jit
def merged(x, y, out, n, flags, B: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * B + tl.arange(0, B)
    flag = tl.load(flags + pid)
    if flag == 0:
        source = x + i
        place = out + i
    else:
        source = y + n - 1 - i
        if flag == 2:
            tl.store(out + i, -1.0, i < n)
            return
        place = out + i
        if flag == 3:
            source = x + i // 2
    tl.store(place, tl.load(source, i < n), i < n)


def test_pointers_of_both_branches_where_one_leaves(target):
    n, i = 60, np.arange(60)
    x, y, out = normal(64), normal(n, seed=1), np.zeros(n, np.float32)
    merged[(4,)](x, y, out, n, np.arange(4, dtype=np.int32), 16)
    expected = np.select([i < 16, i < 32, i < 48], [x[:n], y[::-1], -1.0], x[i // 2])
    np.testing.assert_array_equal(out, expected)


@tilewright.jit
def product_of_one_of_two(a, b, bt, c, choice, M, N, K, BM: tl.constexpr, BN: tl.constexpr,
                          BK: tl.constexpr):  # fmt: skip
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for step in tl.range(0, tl.cdiv(K, BK), num_stages=2):
        k = step * BK + tl.arange(0, BK)
        x = tl.load(a + rm[:, None] * K + k[None, :], (rm[:, None] < M) & (k[None, :] < K), 0.0)
        if tl.load(choice + step) == 1:
            right = b + k[:, None] * N + rn[None, :]
        else:
            right = bt + rn[None, :] * K + k[:, None]
        y = tl.load(right, (k[:, None] < K) & (rn[None, :] < N), 0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + rm[:, None] * N + rn[None, :], acc, (rm[:, None] < M) & (rn[None, :] < N))


@pytest.mark.parametrize("choice", [(0,) * 5, (1,) * 5, (0, 1, 0, 1, 1)])
def test_each_step_of_a_product_reads_one_of_two_arrays(target, choice):
    m, n, k = 33, 40, 70
    a, b, bt = (
        normal(*s, seed=i, dtype=np.float16) for i, s in enumerate([(m, k), (k, n), (n, k)])
    )
    c, chosen = np.zeros((m, n), np.float32), np.array(choice, np.int32)
    product_of_one_of_two[(2, 2)](a, b, bt, c, chosen, m, n, k, 32, 32, 16)
    right = np.where(np.repeat(chosen, 16)[:k, None] == 1, b, bt.T).astype(float)
    np.testing.assert_allclose(c, a.astype(float) @ right, 1e-3, 2e-2)


@tilewright.jit
def attention_over_marked_blocks(q, k, v, marks, out, T, blocks, scale, BM: tl.constexpr,
                                 BN: tl.constexpr, D: tl.constexpr):  # fmt: skip
    pm, d = tl.program_id(0), tl.arange(0, D)
    rm = pm * BM + tl.arange(0, BM)
    rows = tl.load(q + rm[:, None] * D + d[None, :], (rm < T)[:, None], 0.0)
    top, total = tl.full([BM], float("-inf"), tl.float32), tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for b in range(blocks):
        mark = tl.load(marks + pm * blocks + b)
        if mark != 0:
            n = b * BN + tl.arange(0, BN)
            keys = tl.load(k + n[None, :] * D + d[:, None], (n < T)[None, :], 0.0)
            s = tl.dot(rows, keys, input_precision="ieee") * scale
            s = tl.where((n < T)[None, :], s, float("-inf"))
            if mark == 2:
                s = tl.where(rm[:, None] >= n[None, :], s, float("-inf"))
            new = tl.maximum(top, tl.max(s, 1))
            safe = tl.where(new == float("-inf"), 0.0, new)
            p, less = tl.exp(s - safe[:, None]), tl.exp(top - safe)
            total = total * less + tl.sum(p, 1)
            values = tl.load(v + n[:, None] * D + d[None, :], (n < T)[:, None], 0.0)
            acc = acc * less[:, None] + tl.dot(p, values, input_precision="ieee")
            top = new
    acc = acc / tl.where(total == 0, 1.0, total)[:, None]
    tl.store(out + rm[:, None] * D + d[None, :], acc, (rm < T)[:, None])


def test_blocks_of_attention_that_are_left_out(target):
    t, d = 60, 16
    q, k, v = (normal(t, d, seed=i) for i in range(3))
    marks, out = np.random.default_rng(3).integers(0, 3, (4, 4)).astype(np.int32), np.zeros_like(q)
    marks[1] = 0
    attention_over_marked_blocks[(4,)](q, k, v, marks, out, t, 4, 0.25, 16, 16, d)
    i, j = np.arange(t)[:, None], np.arange(t)[None]
    mark = marks[i // 16, j // 16]
    w = np.exp(q.astype(float) @ k.T * 0.25) * ((mark == 1) | ((mark == 2) & (i >= j)))
    total = w.sum(1, keepdims=True)
    expected = w @ v / np.where(total == 0, 1, total)
    np.testing.assert_allclose(out, expected, 1e-3, 1e-4)


@tilewright.jit
def sparse_convolution(x, w, out, neighbours, n, TAPS: tl.constexpr, CI: tl.constexpr,
                       CO: tl.constexpr, I: tl.constexpr, O: tl.constexpr,  # noqa: E741
                       B: tl.constexpr):  # fmt: skip
    at = tl.program_id(0) * B + tl.arange(0, B)
    ci, co = tl.arange(0, I), tl.arange(0, O)
    acc = tl.zeros((B, O), tl.float32)
    for tap in range(TAPS):
        j = tl.load(neighbours + at * TAPS + tap, at < n, -1)
        if tl.max(j, 0) >= 0:
            rows = (j >= 0)[:, None] & (ci < CI)[None, :]
            a = tl.load(x + j[:, None] * CI + ci[None, :], mask=rows, other=0)
            some = (ci < CI)[:, None] * (co < CO)[None, :]
            b = tl.load(w + (tap * CI + ci[:, None]) * CO + co[None, :], mask=some, other=0)
            acc += tl.dot(a, b, input_precision="ieee")
    tl.store(out + at[:, None] * CO + co[None, :], acc, mask=(at < n)[:, None] * (co < CO)[None, :])


def test_taps_without_neighbours_are_left_out(target):
    n, taps, ci, co = 50, 9, 12, 20
    x, w, out = normal(n, ci), normal(taps, ci, co, seed=1), np.zeros((n, co), np.float32)
    neighbours = np.random.default_rng(2).integers(-1, n, (n, taps)).astype(np.int32)
    neighbours[:, 4] = -1
    neighbours[16:32] = -1
    sparse_convolution[(4,)](x, w, out, neighbours, n, taps, ci, co, 16, 32, 16)
    expected = np.zeros((n, co))
    for tap in range(taps):
        some = neighbours[:, tap] >= 0
        expected[some] += x[neighbours[some, tap]].astype(float) @ w[tap]
    np.testing.assert_allclose(out, expected, 1e-3, 1e-4)


@tilewright.jit
def swapped_in_turn(a, step_a, b, step_b, out, n):
    for i in range(0, n, 2):
        tl.store(out + i, tl.load(a + i * step_a))
        a, b = b, a
        step_a, step_b = step_b, step_a


@pytest.mark.parametrize("steps", [(1, 1), (1, 2), (2, 1), (3, 2)])
def test_pointers_and_strides_change_places(target, steps):
    a, b, out = np.arange(40), np.arange(40) + 100, np.zeros(16, int)
    swapped_in_turn[(1,)](a, steps[0], b, steps[1], out, 10)
    for turn in range(5):
        assert out[2 * turn] == (a, b)[turn % 2][2 * turn * steps[turn % 2]]
