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
