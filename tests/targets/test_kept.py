"""Packed operands that one program leaves to the next, beside the eager machine."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.targets.cpu.kept import MOST_TILES


@tilewright.jit
def walk(a, b, c, k, a_row, b_row, b_column, order, ROUNDS: tl.constexpr, N: tl.constexpr):
    """Each program multiplies 16 rows of `a` by the columns of `b` that `order` names."""
    pid = tl.program_id(0)
    lanes = tl.arange(0, N)
    rows = (pid * 16 + tl.arange(0, 16))[:, None]
    total = tl.zeros((16, N), tl.float32)
    for turn in range(ROUNDS):
        column = tl.load(order + pid * ROUNDS + turn) * N
        for start in range(0, k, 16):
            depth = start + tl.arange(0, 16)
            x = tl.load(a + rows * a_row + depth[None, :], depth[None, :] < k, other=0.0)
            at = b + depth[:, None] * b_row + (column + lanes)[None, :] * b_column
            y = tl.load(at, depth[:, None] < k, other=0.0)
            total = tl.dot(x, y, total)
    tl.store(c + rows * N + lanes[None, :], total)


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def on_both(make, launch):
    """What `launch` leaves in the arrays of `make`, natively, which is what eager leaves."""
    results = []
    for target in ("eager", "cpu"):
        arrays = make()
        with tilewright.options(target=target, threads=1):
            launch(*arrays)
        results.append([np.array(x) for x in arrays])
    for x, y in zip(*results, strict=True):
        np.testing.assert_allclose(y, x, rtol=1e-4, atol=1e-4)
    return results[1]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("k", [16, 45, 16 * (MOST_TILES + 2)])
@pytest.mark.parametrize(
    "order",
    [[[0], [0], [0], [1], [1], [0], [1], [2], [0]], [[0, 0], [0, 1], [1, 0], [1, 0]]],
    ids=["alone", "pairs"],
)
def test_walks(order, k, turned):
    programs, rounds = len(order), len(order[0])
    b = floats(96, k, seed=1).T if turned else floats(k, 96, seed=1)
    steps = [s // 4 for s in b.strides]

    def make():
        return floats(16 * programs, k) / 16, b, np.zeros((16 * programs, 32), np.float32)

    def launch(a, b, c):
        walk[(programs,)](a, b, c, k, k, *steps, np.array(order, np.int32), ROUNDS=rounds, N=32)

    a, b, c = on_both(make, launch)
    for i, columns in enumerate(order):
        want = sum(a[16 * i :][:16] @ b[:, 32 * j :][:, :32] for j in columns)
        np.testing.assert_allclose(c[16 * i :][:16], want, rtol=1e-3, atol=1e-3)


def test_memory_that_changes_between_launches():
    a, b, order = floats(64, 32), floats(32, 32, seed=1), np.zeros((4, 1), np.int32)
    for _ in range(3):
        c = np.zeros((64, 32), np.float32)
        with tilewright.options(target="cpu", threads=1):
            walk[(4,)](a, b, c, 32, 32, 32, 1, order, ROUNDS=1, N=32)
        np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
        b += 1


@tilewright.jit
def strided(a, b, c, steps, N: tl.constexpr):
    """The same addresses with rows as far apart as each program is told."""
    pid = tl.program_id(0)
    lanes = tl.arange(0, N)
    step = tl.load(steps + pid)
    total = tl.zeros((N, N), tl.float32)
    for start in range(0, 2 * N, N):
        depth = start + lanes
        x = tl.load(a + lanes[:, None] * 2 * N + depth[None, :])
        total = tl.dot(x, tl.load(b + depth[:, None] * step + lanes[None, :]), total)
    tl.store(c + (pid * N + lanes)[:, None] * N + lanes[None, :], total)


def test_rows_as_far_apart_as_each_program_is_told():
    steps = np.array([32, 32, 48, 32, 64, 64], np.int32)

    def make():
        return floats(16, 32), floats(32, 64, seed=1), np.zeros((96, 16), np.float32)

    on_both(make, lambda a, b, c: strided[(6,)](a, b, c, steps, N=16))


@tilewright.jit
def in_place(a, b, N: tl.constexpr):
    """Every program multiplies `b`, which it then changes."""
    lanes = tl.arange(0, N)
    at = lanes[:, None] * N + lanes[None, :]
    total = tl.dot(tl.load(a + at), tl.load(b + at))
    tl.store(b + at, total)


def test_operands_that_programs_change():
    on_both(lambda: (floats(16, 16) / 4, floats(16, 16)), lambda a, b: in_place[(5,)](a, b, N=16))


@tilewright.jit
def forward(a, b, c, N: tl.constexpr):
    lanes = tl.arange(0, N)
    at = lanes[:, None] * N + lanes[None, :]
    total = tl.dot(tl.load(a + at), tl.load(b + at))
    tl.store(c + at, total)


def test_operands_that_share_memory_with_results():
    on_both(lambda: (floats(16, 16) / 4, floats(16, 16)), lambda a, b: forward[(5,)](a, b, b, N=16))


@tilewright.jit
def after_other_tiles(a, b, c, d, rounds, N: tl.constexpr, M: tl.constexpr, W: tl.constexpr):
    """Before it walks, each program fills a larger tile, in memory that it then gives back."""
    pid = tl.program_id(0)
    lanes, rows, wide = tl.arange(0, N), tl.arange(0, M), tl.arange(0, W)
    sums = tl.zeros((M, W), tl.float32)
    for turn in range(rounds):
        left = tl.load(a + rows[:, None] * M + rows[None, :])
        right = tl.load(b + rows[:, None] * W + wide[None, :]) * (pid + turn + 1.0)
        sums = tl.dot(left, right, sums)
    tl.store(d + (pid * M + rows)[:, None] * W + wide[None, :], sums)
    total = tl.zeros((N, N), tl.float32)
    for start in range(0, 60 * N, N):
        depth = start + lanes
        x = tl.load(a + lanes[:, None] + depth[None, :])
        total = tl.dot(x, tl.load(b + depth[:, None] * N + lanes[None, :]), total)
    tl.store(c + (pid * N + lanes)[:, None] * N + lanes[None, :], total)


def test_memory_that_a_program_gives_back_before_it_walks():
    def make():
        c, d = np.zeros((8 * 16, 16), np.float32), np.zeros((8 * 64, 256), np.float32)
        return floats(64, 64) / 16, floats(64, 256, seed=1), c, d

    on_both(make, lambda *arrays: after_other_tiles[(8,)](*arrays, 2, N=16, M=64, W=256))
