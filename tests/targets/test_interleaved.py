"""Stores between one another share a loop; those that meet keep their order."""

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


@tw.jit
def channels(x, out, S: tl.constexpr, A: tl.constexpr, B: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + at)
    tl.store(out + S * at, v)
    tl.store(out + S * at + A, v + 100)
    tl.store(out + (S * at + B), v + 200)


@tw.jit
def turned(x, ROWS: tl.constexpr, N: tl.constexpr):
    """Complex numbers times i, in place, row by row."""
    at = tl.arange(0, ROWS)[:, None] * (2 * N) + tl.arange(0, N)[None, :] * 2
    real, imaginary = tl.load(x + at), tl.load(x + at + 1)
    tl.store(x + at, -imaginary)
    tl.store(x + at + 1, real)


@tw.jit
def mixed(out, ROUNDS: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b = at.to(tl.uint32), at.to(tl.uint32) * 7 + 1
    for _ in tl.static_range(ROUNDS):
        a = a + b
        b = ((b << 7) | (b >> 25)) ^ a
    tl.store(out + 2 * at, a.to(tl.int32))
    tl.store(out + 2 * at + 1, b.to(tl.int32))


def on_both(kernel, arrays, **constants):
    found = []
    for target in ("eager", "cpu"):
        copies = [a.copy() for a in arrays]
        with tw.options(target=target):
            handle = kernel[(1,)](*copies, **constants)
        found.append(copies)
    for stepped, native in zip(*found, strict=True):
        assert stepped.tolist() == native.tolist()
    return handle


@pytest.mark.parametrize(
    "s, a, b", [(3, 1, 2), (2, 1, 2), (2, 2, 1), (1, 1, 2), (4, 4, 8), (-3, 1, -1), (-2, -2, 1)]
)
def test_stores_of_channels(s, a, b):
    x = np.arange(64, dtype=np.float32)
    found = []
    for target in ("eager", "cpu"):
        memory = np.zeros(600, np.float32)
        with tw.options(target=target):
            channels[(1,)](x, memory[300:], S=s, A=a, B=b, N=64)
        found.append(memory.tolist())
    assert found[0] == found[1]


def test_pairs_in_place():
    x = np.arange(4 * 64, dtype=np.float32)
    on_both(turned, [x], ROWS=4, N=32)


def test_values_made_of_positions_by_many_steps_are_made_once():
    handle = on_both(mixed, [np.zeros(256, np.int32)], ROUNDS=24, N=128)
    text = handle.asm["llir"]
    assert text.count(" shl ") < 24 * 6


@tw.jit
def halves(x, c_ptr, s_ptr, ROWS: tl.constexpr, HALF: tl.constexpr, GAP: tl.constexpr):
    """Rotate two parts of each row, in place; they overlap if the gap is too short."""
    at = tl.arange(0, ROWS)[:, None] * (2 * HALF) + tl.arange(0, HALF)[None, :]
    c, s = tl.load(c_ptr + tl.arange(0, HALF)), tl.load(s_ptr + tl.arange(0, HALF))
    left, right = tl.load(x + at), tl.load(x + at + GAP)
    tl.store(x + at, left * c[None, :] - right * s[None, :])
    tl.store(x + at + GAP, right * c[None, :] + left * s[None, :])


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("gap", [64, 63, 32, 1, 100, -64, 256])
def test_parts_of_rows_in_place(rows, gap):
    random = np.random.default_rng(gap + 100)
    x, c, s = (random.integers(-4, 5, n).astype(np.float32) for n in (1024, 64, 64))
    found = []
    for target in ("eager", "cpu"):
        memory = x.copy()
        with tw.options(target=target):
            halves[(1,)](memory[128:], c, s, ROWS=rows, HALF=64, GAP=gap)
        found.append(memory.tolist())
    assert found[0] == found[1]


@tw.jit
def four(out, seed, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b, c, d = tl.randint4x(seed, at)
    tl.store(out + at, a)
    tl.store(out + at + N, b)
    tl.store(out + at + 2 * N, c)
    tl.store(out + (at + 3 * N), d)


def test_stores_beyond_one_another_share_what_they_are_made_of():
    handle = on_both(four, [np.zeros(4 * 64, np.uint32)], seed=7, N=64)
    assert handle.asm["llir"].count(" mul <") < 4 * 20  # ten rounds of two, at most 4 chunks


@tw.jit
def rotated(x, w, by, STEP: tl.constexpr, MOVE: tl.constexpr, ROWS: tl.constexpr, N: tl.constexpr):
    """Halves of rows rotated in place, as far apart as is said."""
    at = tl.arange(0, ROWS)[:, None] * STEP + tl.arange(0, N)[None, :]
    cos = tl.load(w + tl.arange(0, N))[None, :]
    on = tl.arange(0, ROWS)[:, None] < by
    first = tl.load(x + at, mask=on, other=0.0)
    second = tl.load(x + at + MOVE, mask=on, other=0.0)
    tl.store(x + at, first * cos - second, mask=on)
    tl.store(x + at + MOVE, second * cos + first, mask=on)


@pytest.mark.parametrize("rows", [8, 5])
@pytest.mark.parametrize(
    "step, move", [(64, 32), (64, 16), (96, 32), (96, 64), (64, 1), (40, 32), (64, 96)]
)
def test_halves_of_rows_in_place(rows, step, move):
    x, w = np.arange(2000, dtype=np.float32), np.arange(32, dtype=np.float32) % 3
    on_both(rotated, [x[500:], w], by=rows, STEP=step, MOVE=move, ROWS=8, N=32)


def test_halves_that_do_not_meet_are_read_and_written_together():
    x, w = np.arange(2000, dtype=np.float32), np.ones(32, np.float32)
    sizes = []
    for step in (64, 40):
        handle = on_both(rotated, [x[500:], w], by=8, STEP=step, MOVE=32, ROWS=8, N=32)
        sizes.append(len(handle.asm["llvm"]))
    assert sizes[0] < 0.8 * sizes[1]  # one nest, not two or three
