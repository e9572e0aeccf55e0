"""Loops and branches as they are in reports."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
import tilewright.language as tl


@tilewright.jit
def count(out, low, high, step):
    turns = 0
    last = -1
    total = 0
    for i in range(low, high, step):
        turns += 1
        last = i
    for i in tl.range(low, high, step, num_stages=2):
        total += i
    tl.store(out, turns)
    tl.store(out + 1, last)
    tl.store(out + 2, total)


@pytest.mark.parametrize(
    "bounds",
    [
        (0, 10, 3),
        (0, 0, 1),
        (5, 2, 1),
        (10, 0, -1),
        (10, 0, -3),
        (-5, 5, 2),
        (0, -3, 1),
        (3, 9, -1),
    ],
)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_steps_that_only_the_launch_knows(target, bounds, dtype):
    """Native code took every such step to be positive."""
    out = np.zeros(3, np.int64)
    far = (1 << 40) * (dtype is np.int64)
    low, high, step = bounds
    count[(1,)](out, low + far, high + far, step)
    turns = list(range(low + far, high + far, step))
    assert out.tolist() == [len(turns), turns[-1] if turns else -1, sum(turns)]


@tilewright.jit
def leave_early(x, out, n, B: tl.constexpr):
    pid = tl.program_id(0)
    if pid * B >= n:
        return
    i = pid * B + tl.arange(0, B)
    if tl.load(x + pid * B) < 0:
        tl.store(out + i, -1.0, i < n)
        return
    tl.store(out + i, tl.load(x + i, i < n) * 2, i < n)


def test_programs_that_leave_early(target):
    x = np.arange(40, dtype=np.float32) - 8
    out = np.zeros(40, np.float32)
    leave_early[(9,)](x, out, 40, 8)
    assert out.tolist() == [-1] * 8 + (x[8:] * 2).tolist()


@tilewright.jit
def sign_of(v):
    if v > 0:
        return 1
    elif v < 0:
        return -1
    else:
        return 0


@tilewright.jit
def clamp_to(v, low: tl.constexpr, high: tl.constexpr):
    if low is None:
        return tl.minimum(v, high)
    if high is None:
        return tl.maximum(v, low)
    return tl.minimum(tl.maximum(v, low), high)


@tilewright.jit
def helpers(x, out, LOW: tl.constexpr, HIGH: tl.constexpr):
    v = tl.load(x + tl.program_id(0))
    tl.store(out + 2 * tl.program_id(0), sign_of(v))
    tl.store(out + 2 * tl.program_id(0) + 1, clamp_to(v, LOW, HIGH))


@pytest.mark.parametrize("bounds", [(None, 1.5), (-1.0, None), (-1.0, 2.0)])
def test_helpers_return_from_branches(target, bounds):
    x, out = np.array([-3, 0, 2.5, 1], np.float32), np.zeros((4, 2), np.float32)
    helpers[(4,)](x, out, *bounds)
    np.testing.assert_array_equal(out.T, [np.sign(x), np.clip(x, *bounds)])


@tilewright.jit
def inner_store(p, v, mask):
    tl.store(p, v, mask=mask)
    return v


@tilewright.jit
def results_disregarded(x, out, n, B: tl.constexpr):
    for start in range(0, n, B):
        i = start + tl.arange(0, B)
        v = tl.load(x + i, mask=i < n) * 2
        if start < 16:
            inner_store(out + i, v, i < n)
        else:
            inner_store(out + i, -v, i < n)


def test_a_result_that_nobody_wants(target):
    x, out = np.arange(30, dtype=np.float32), np.zeros(30, np.float32)
    results_disregarded[(1,)](x, out, 30, 8)
    np.testing.assert_array_equal(out, np.where(np.arange(30) < 16, x * 2, -x * 2))


@tilewright.jit
def collatz(out, n):
    v = tl.program_id(0) + 1
    steps = 0
    while v != 1:
        if v % 2 == 0:
            v = v // 2
        else:
            v = 3 * v + 1
        steps += 1
    tl.store(out + tl.program_id(0), steps)


def test_loops_that_end_when_they_end(target):
    out = np.zeros(20, np.int32)
    collatz[(20,)](out, 20)
    assert out[:10].tolist() == [0, 1, 7, 2, 5, 8, 16, 3, 19, 6]


@tilewright.jit
def tile_until(x, out, limit, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    turns = tl.zeros((B,), tl.int32)
    while tl.max((v < limit).to(tl.int32), 0) > 0:
        low = v < limit
        v = tl.where(low, v * v + 0.5, v)
        turns += low.to(tl.int32)
    tl.store(out + i, turns)


def test_a_loop_until_all_lanes_are_done(target):
    x, out = np.linspace(0.1, 2, 16).astype(np.float32), np.zeros(16, np.int32)
    tile_until[(1,)](x, out, 100.0, 16)
    for v, turns in zip(x, out, strict=True):
        count = 0
        while v < 100:
            v = np.float32(v * v + np.float32(0.5))
            count += 1
        assert turns == count


@tilewright.jit
def flags(x, out, n):
    found = -1
    searching = True
    i = 0
    while searching and i < n:
        if tl.load(x + i) > 5:
            found = i
            searching = False
        i += 1
    tl.store(out, found)
    tl.store(out + 1, i)


@pytest.mark.parametrize("row", [[1, 2, 9, 3], [9], [1, 2], [5, 5, 5, 6]])
def test_a_search_that_stops(target, row):
    out = np.zeros(2, np.int32)
    flags[(1,)](np.array(row, np.float32), out, len(row))
    found = next((k for k, v in enumerate(row) if v > 5), -1)
    assert out.tolist() == [found, found + 1 if found >= 0 else len(row)]


@tilewright.jit
def nested(x, out, m, n, B: tl.constexpr):
    total = tl.zeros((B,), tl.float32)
    best = -float("inf")
    for i in range(m):
        row = tl.zeros((B,), tl.float32)
        for j in range(0, n, B):
            at = j + tl.arange(0, B)
            v = tl.load(x + i * n + at, at < n, 0.0)
            if i % 2 == 0:
                row += v
            else:
                for _ in range(i):
                    row -= v
        best = tl.maximum(best, tl.sum(row, 0))
        total += row
    tl.store(out, tl.sum(total, 0))
    tl.store(out + 1, best)


@pytest.mark.parametrize(("m", "n"), [(1, 5), (4, 20), (0, 3), (3, 0)])
def test_loops_in_loops(target, m, n):
    x = np.random.default_rng(0).standard_normal((m, n)).astype(np.float32)
    out = np.zeros(2, np.float32)
    nested[(1,)](x if x.size else np.zeros(1, np.float32), out, m, n, 8)
    rows = [x[i].astype(float).sum() * (1 if i % 2 == 0 else -i) for i in range(m)]
    np.testing.assert_allclose(out, [sum(rows), max(rows, default=-np.inf)], rtol=1e-4, atol=1e-4)


@tilewright.jit
def made_in_a_branch(x, out, flag, B: tl.constexpr):
    i = tl.arange(0, B)
    if flag > 0:
        v = tl.load(x + i)
        scale = 2
    elif flag == 0:
        v = tl.zeros((B,), tl.float32)
        scale = 3
    else:
        v = tl.full((B,), 1.5, tl.float32)
        scale = 4
    tl.store(out + i, v * scale)


@pytest.mark.parametrize("flag", [1, 0, -1, 16])
def test_names_made_in_branches(target, flag):
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    made_in_a_branch[(1,)](x, out, flag, 8)
    assert out.tolist() == (x * 2 if flag > 0 else np.full(8, 0 if flag == 0 else 6.0)).tolist()


@tilewright.jit
def both_and_or(x, out, n, lo, hi):
    i = tl.program_id(0)
    v = tl.load(x + i)
    inside = v > lo and v < hi
    outside = not (v >= lo and v <= hi)
    code = 0
    if inside and i % 2 == 0:
        code = 1
    elif outside or i == n - 1:
        code = 2
    tl.store(out + i, code)
    tl.store(out + n + i, (0 < v < 3) + 0)


def test_conditions_of_scalars(target):
    x, out = np.array([1, 5, -2, 2, 3, 2.5], np.float32), np.zeros((2, 6), np.int32)
    both_and_or[(6,)](x, out, 6, 0.0, 3.0)
    code = [1 if 0 < v < 3 and k % 2 == 0 else 2 if not 0 <= v <= 3 or k == 5 else 0
            for k, v in enumerate(x)]  # fmt: skip
    assert out.tolist() == [code, [int(0 < v < 3) for v in x]]


@tilewright.jit
def persistent(x, out, m, n, B: tl.constexpr):
    for row in tl.range(tl.program_id(0), m, tl.num_programs(0), num_stages=2):
        top = -float("inf")
        total = 0.0
        for start in tl.range(0, n, B, loop_unroll_factor=2):
            i = start + tl.arange(0, B)
            v = tl.load(x + row * n + i, i < n, -float("inf"))
            new = tl.maximum(top, tl.max(v, 0))
            total = total * tl.exp(top - new) + tl.sum(tl.exp(v - new), 0)
            top = new
        for start in range(0, n, B):
            i = start + tl.arange(0, B)
            v = tl.load(x + row * n + i, i < n)
            tl.store(out + row * n + i, tl.exp(v - top) / total, i < n)


@pytest.mark.parametrize("programs", [1, 2, 7])
def test_rows_dealt_out_to_programs(target, programs):
    x = np.random.default_rng(0).standard_normal((5, 45)).astype(np.float32) * 3
    out = np.zeros_like(x)
    persistent[(programs,)](x, out, 5, 45, 16)
    e = np.exp(x.astype(float))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-4, atol=1e-7)


@tilewright.jit
def triangle(out, n, B: tl.constexpr):
    pid = tl.program_id(0)
    row = 0
    left = pid
    while left > row:
        row += 1
        left -= row
    for k in range(row, -1, -1):
        tl.atomic_add(out + k, 1)
    for k in tl.range(left + 1):
        tl.atomic_max(out + n + k, row)


def test_pairs_of_a_triangle(target):
    out = np.zeros((2, 4), np.int32)
    triangle[(10,)](out, 4, 1)
    pairs = [(i, j) for i in range(4) for j in range(i + 1)]
    assert out[0].tolist() == [sum(k <= i for i, _ in pairs) for k in range(4)]
    assert out[1].tolist() == [3, 3, 3, 3]


@tilewright.jit
def carried_types(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    p = x + i
    mask = i < n
    on = mask
    acc = tl.zeros((B,), tl.float16)
    for k in range(3):
        acc = (acc + tl.load(p, on, 0.0)).to(tl.float16)
        p += 1
        on = mask & (i + k + 1 < n)
    tl.store(out + i, acc, mask)


def test_pointers_and_masks_carried_by_a_loop(target):
    x, out = np.arange(6, dtype=np.float16), np.zeros(6, np.float16)
    carried_types[(1,)](x, out, 6, 8)
    padded = np.pad(x, (0, 3))
    np.testing.assert_array_equal(out, padded[:6] + padded[1:7] + padded[2:8])
