"""Programs that share one task: tiles dealt out, partial results that meet, tables and locks."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
import tilewright.language as tl


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@tilewright.jit
def look_back(x, out, state, n, B: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * B + tl.arange(0, B)
    v = tl.load(x + i, i < n, 0).to(tl.int32)
    total = tl.sum(v, 0).to(tl.int64)
    known = (total << 2) | 1
    if pid == 0:
        known = (total << 2) | 2
    tl.atomic_xchg(state + pid, known)
    before = tl.zeros([], tl.int64)
    k = pid - 1
    looking = k >= 0
    while looking:
        found = tl.atomic_add(state + k, 0)
        kind = found & 3
        if kind == 2:
            before += found >> 2
            looking = False
        elif kind == 1:
            before += found >> 2
            k -= 1
    if pid > 0:
        tl.atomic_xchg(state + pid, ((before + total) << 2) | 2)
    tl.store(out + i, before + tl.cumsum(v, 0), i < n)


@pytest.mark.parametrize("n", [1, 100, 5000])
def test_a_running_sum_that_looks_back(target, n):
    x = np.random.default_rng(0).integers(-5, 9, n).astype(np.int32)
    programs = -(-n // 128)
    out, state = np.zeros(n, np.int64), np.zeros(programs, np.int64)
    look_back[(programs,)](x, out, state, n, 128)
    np.testing.assert_array_equal(out, np.cumsum(x, dtype=np.int64))


@tilewright.jit
def digit_counts(keys, counts, n, shift, R: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * B + tl.arange(0, B)
    digit = (tl.load(keys + i, i < n, 0) >> shift) & (R - 1)
    tl.store(
        counts + tl.arange(0, R) * tl.num_programs(0) + pid, tl.histogram(digit, R, mask=i < n)
    )


@tilewright.jit
def sums_before(counts, m, B: tl.constexpr):
    carry = tl.zeros([], tl.int32)
    for start in range(0, m, B):
        i = start + tl.arange(0, B)
        c = tl.load(counts + i, i < m, 0)
        tl.store(counts + i, carry + tl.cumsum(c, 0) - c, i < m)
        carry += tl.sum(c, 0)


@tilewright.jit
def by_digit(
    keys, values, keys_out, values_out, starts, n, shift, R: tl.constexpr, B: tl.constexpr
):
    pid = tl.program_id(0)
    i = pid * B + tl.arange(0, B)
    m = i < n
    k, v = tl.load(keys + i, m, 0), tl.load(values + i, m, 0)
    digit = (k >> shift) & (R - 1)
    mine = ((digit[:, None] == tl.arange(0, R)[None, :]) & m[:, None]).to(tl.int32)
    rank = tl.sum((tl.cumsum(mine, 0) - mine) * mine, 1)
    place = tl.load(starts + digit * tl.num_programs(0) + pid, m, 0) + rank
    tl.store(keys_out + place, k, m)
    tl.store(values_out + place, v, m)


def test_a_sort_by_digits(target):
    n, block, radix = 777, 64, 16
    programs = -(-n // block)
    first = np.random.default_rng(0).integers(0, 1 << 12, n).astype(np.int32)
    keys, values = first.copy(), np.arange(n, dtype=np.int32)
    for shift in (0, 4, 8):
        counts = np.zeros(radix * programs, np.int32)
        new = np.zeros((2, n), np.int32)
        digit_counts[(programs,)](keys, counts, n, shift, radix, block)
        sums_before[(1,)](counts, len(counts), 128)
        by_digit[(programs,)](keys, values, *new, counts, n, shift, radix, block)
        keys, values = new
    order = np.argsort(first, kind="stable")
    assert values.tolist() == order.tolist()
    assert keys.tolist() == first[order].tolist()


@tilewright.jit
def stream_k(a, b, c, locks, M, N, K, total, each, BM: tl.constexpr, BN: tl.constexpr,
             BK: tl.constexpr):  # fmt: skip
    start = tl.program_id(0) * each
    end = tl.minimum(start + each, total)
    steps, across = tl.cdiv(K, BK), tl.cdiv(N, BN)
    while start < end:
        tile, first = start // steps, start % steps
        last = tl.minimum(steps, first + end - start)
        rm, rn = tile // across * BM + tl.arange(0, BM), tile % across * BN + tl.arange(0, BN)
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(first, last):
            rk = k * BK + tl.arange(0, BK)
            x = tl.load(
                a + rm[:, None] * K + rk[None, :], (rm[:, None] < M) & (rk[None, :] < K), 0.0
            )
            y = tl.load(
                b + rk[:, None] * N + rn[None, :], (rk[:, None] < K) & (rn[None, :] < N), 0.0
            )
            acc = tl.dot(x, y, acc, input_precision="ieee")
        at, on = rm[:, None] * N + rn[None, :], (rm[:, None] < M) & (rn[None, :] < N)
        if first == 0 and last == steps:
            tl.store(c + at, acc, on)
        else:
            while tl.atomic_cas(locks + tile, 0, 1) == 1:
                pass
            tl.store(c + at, tl.load(c + at, on, 0.0) + acc, on)
            tl.debug_barrier()
            tl.atomic_xchg(locks + tile, 0)
        start += last - first


@pytest.mark.parametrize("shape", [(40, 50, 100, 5), (33, 16, 130, 3)])
def test_steps_of_all_tiles_dealt_out(target, shape):
    m, n, k, programs = shape
    a, b, c = normal(m, k), normal(k, n, seed=1), np.zeros((m, n), np.float32)
    tiles = -(-m // 16) * -(-n // 32)
    total = tiles * -(-k // 16)
    each = -(-total // programs)
    stream_k[(programs,)](a, b, c, np.zeros(tiles, np.int32), m, n, k, total, each, 16, 32, 16)
    np.testing.assert_allclose(c, a.astype(float) @ b.astype(float), 1e-4, 1e-4)


@tilewright.jit
def grouped(ap, bp, cp, sizes, groups, programs, BM: tl.constexpr, BN: tl.constexpr,
            BK: tl.constexpr):  # fmt: skip
    tile, done, ao, bo, co = tl.program_id(0), 0, 0, 0, 0
    for g in range(groups):
        M, N, K = tl.load(sizes + g * 3), tl.load(sizes + g * 3 + 1), tl.load(sizes + g * 3 + 2)
        across = tl.cdiv(N, BN)
        tiles = tl.cdiv(M, BM) * across
        while tile >= done and tile < done + tiles:
            rm = (tile - done) // across * BM + tl.arange(0, BM)
            rn = (tile - done) % across * BN + tl.arange(0, BN)
            acc = tl.zeros((BM, BN), tl.float32)
            for k in range(0, K, BK):
                rk = k + tl.arange(0, BK)
                left, right = (
                    (rm[:, None] < M) & (rk[None, :] < K),
                    (rk[:, None] < K) & (rn[None, :] < N),
                )
                x = tl.load(ap + ao + rm[:, None] * K + rk[None, :], left, 0.0)
                acc += tl.dot(x, tl.load(bp + bo + rk[:, None] * N + rn[None, :], right, 0.0))
            on = (rm[:, None] < M) & (rn[None, :] < N)
            tl.store(cp + co + rm[:, None] * N + rn[None, :], acc.to(tl.float16), on)
            tile += programs
        done, ao, bo, co = done + tiles, ao + M * K, bo + K * N, co + M * N


def test_products_of_many_sizes_in_one_launch(target):
    sizes = [(33, 20, 40), (16, 16, 16), (5, 70, 33), (64, 10, 7)]
    left = [normal(m, k, seed=i, dtype=np.float16) for i, (m, n, k) in enumerate(sizes)]
    right = [normal(k, n, seed=9 + i, dtype=np.float16) for i, (m, n, k) in enumerate(sizes)]
    a, b = (np.concatenate([x.ravel() for x in xs]) for xs in (left, right))
    c = np.zeros(sum(m * n for m, n, _ in sizes), np.float16)
    grouped[(3,)](a, b, c, np.array(sizes, np.int32), 4, 3, 16, 32, 16)
    expected = [x.astype(float) @ y.astype(float) for x, y in zip(left, right, strict=True)]
    np.testing.assert_allclose(c, np.concatenate([x.ravel() for x in expected]), 2e-2, 5e-2)


@tilewright.jit
def count_in_table(keys, table, counts, SIZE: tl.constexpr):
    k = tl.load(keys + tl.program_id(0))
    slot = ((k.to(tl.uint32) * 2654435769) >> 20).to(tl.int32) & (SIZE - 1)
    placed = False
    while not placed:
        held = tl.atomic_cas(table + slot, -1, k)
        if (held == -1) | (held == k):
            tl.atomic_add(counts + slot, 1)
            placed = True
        else:
            slot = (slot + 1) & (SIZE - 1)


def test_a_table_with_open_places(target):
    keys = np.random.default_rng(0).integers(0, 40, 200).astype(np.int32)
    table, counts = np.full(64, -1, np.int32), np.zeros(64, np.int32)
    count_in_table[(200,)](keys, table, counts, 64)
    found = {int(k): int(c) for k, c in zip(table, counts, strict=True) if k >= 0}
    assert found == dict(
        zip(*(x.tolist() for x in np.unique(keys, return_counts=True)), strict=True)
    )


@tilewright.jit
def keep_positive(x, out, count, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, i < n, 0.0)
    keep = (v > 0) & (i < n)
    start = tl.atomic_add(count, tl.sum(keep.to(tl.int32), 0), sem="relaxed")
    tl.store(out + start + tl.cumsum(keep, 0) - 1, v, keep)


def test_what_is_kept_lies_side_by_side(target):
    x, out, count = normal(1000), np.zeros(1000, np.float32), np.zeros(1, np.int32)
    keep_positive[(8,)](x, out, count, 1000, 128)
    kept = np.sort(x[x > 0])
    assert count[0] == len(kept)
    np.testing.assert_array_equal(np.sort(out[: len(kept)]), kept)


@tilewright.jit
def keyed_sum(x, y):
    key: tl.constexpr = 0xFFFF0000
    kx, ky = x & key, y & key
    return tl.where(kx == ky, x + y - kx, y)


@tilewright.jit
def ranks_of_experts(ids, experts, ranks, tokens, n, B: tl.constexpr):
    i = tl.arange(0, B)
    e = tl.load(ids + i, i < n, 0xFFFF).to(tl.uint32)
    both = tl.sort((e << 16) | i.to(tl.uint32), 0)
    run = tl.associative_scan((both & 0xFFFF0000) | 1, 0, keyed_sum)
    tl.store(experts + i, (both >> 16).to(tl.int32), i < n)
    tl.store(ranks + i, ((run - 1) & 0xFFFF).to(tl.int32), i < n)
    tl.store(tokens + i, (both & 0xFFFF).to(tl.int32), i < n)


def test_a_scan_that_begins_anew_with_each_key(target):
    ids = np.random.default_rng(0).integers(0, 9, 50).astype(np.int16)
    experts, ranks, tokens = np.zeros((3, 50), np.int32)
    ranks_of_experts[(1,)](ids, experts, ranks, tokens, 50, 64)
    order = np.argsort(ids, kind="stable")
    assert tokens.tolist() == order.tolist()
    assert experts.tolist() == ids[order].tolist()
    assert ranks.tolist() == [int((ids[order][:j] == ids[order][j]).sum()) for j in range(50)]
