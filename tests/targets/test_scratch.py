"""Scratch memory of kernels: places that do not overlap, are used again, and are given back."""

from __future__ import annotations

import os
import random
import re

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.errors import OutOfBoundsError, UnsupportedError
from tilewright.targets.cpu.module import STACK_BYTES
from tilewright.targets.cpu.scratch import ALIGNMENT, Scratch


def test_places_never_overlap_and_come_back_as_one():
    rng = random.Random(5)
    for _ in range(50):
        scratch, held, most = Scratch(), {}, 0
        for _ in range(200):
            if held and rng.random() < 0.45:
                offset = rng.choice(list(held))
                del held[offset]
                scratch.give(offset)
                continue
            size = rng.randrange(1, 1000)
            offset = scratch.take(size)
            assert offset % ALIGNMENT == 0
            assert all(offset + size <= o or o + s <= offset for o, s in held.items())
            held[offset] = size
            most = max(most, sum(held.values()))
            assert max(o + s for o, s in held.items()) <= scratch.size
        assert scratch.size >= most
        for offset in held:
            scratch.give(offset)
        assert scratch.free == [(0, scratch.size)]


def test_a_block_gives_back_what_it_took_but_not_what_is_kept_for_ever():
    scratch = Scratch()
    scratch.open()
    outer = scratch.take(100)
    scratch.open()
    inner, kept = scratch.take(300), scratch.take(64, forever=True)
    scratch.close()
    assert scratch.take(300) == inner
    scratch.close()
    assert scratch.free == [(outer, kept - outer)]
    assert scratch.size == kept + 64


@tilewright.jit
def many(x, out, at, N: tl.constexpr, STEPS: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    a = tl.load(x + i * N + j)
    first = a * 2 - tl.sum(a, 1)[:, None]
    for _ in tl.static_range(STEPS):
        s = tl.sum(a, 0)
        a = (a - s[None, :] * 0.125) * (a * 0.5 + 0.25)
        a = tl.where(a > 4, a * 0.25, tl.where(a < -4, a * 0.25, a))
    tl.store(out + at + i * N + j, a + first)


@tilewright.jit
def deep(x, out, at, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    a = tl.load(x + i * N + j)
    for _ in range(2):
        b = tl.dot(a, a)
        c = b - tl.max(b, 1)[:, None]
        if tl.max(tl.max(c, 0), 0) < 100:
            d = tl.dot(c, b) * 0.5
            a += tl.trans(d) + c
        else:
            a -= tl.trans(b)
        a = a / (1 + tl.max(tl.abs(a), 0)[None, :])
    tl.store(out + at + tl.program_id(0) * N * N + i * N + j, a)


def numbers(n):
    """Multiples of 1/8, so that sums are exact in any order."""
    return np.random.default_rng(n).integers(-8, 8, (n, n)).astype(np.float32) / 8


def scratch_bytes(handle):
    text = handle.compilation.llvm
    found = re.search(r"%scratch = (?:alloca \[|call ptr @aligned_alloc\(i64 64, i64 )(\d+)", text)
    return int(found[1])


def run(kernel, target, n, programs=1, **constants):
    x, out = numbers(n), np.zeros((programs, n, n), np.float32)
    with tilewright.options(target=target, threads=3):
        kernel[(programs,)](x, out, 0, N=n, **constants)
    return out


@pytest.mark.parametrize("steps", [1, 5, 12])
def test_kept_tiles_share_memory(steps):
    n = 32
    x = numbers(n)
    with tilewright.options(target="cpu"):
        handle = many.warmup(x, x, 0, N=n, STEPS=steps, grid=(1,))
    assert scratch_bytes(handle) <= 4 * n * n * 4 + 64 * n * 4
    np.testing.assert_allclose(
        run(many, "cpu", n, STEPS=steps), run(many, "eager", n, STEPS=steps), 1e-4, 1e-4
    )


@pytest.mark.parametrize("n", [16, 64, 256])
def test_large_tiles_on_every_thread(n):
    programs = 7
    x = numbers(n)
    with tilewright.options(target="cpu"):
        handle = deep.warmup(x, x, 0, N=n, grid=(1,))
    assert (scratch_bytes(handle) > STACK_BYTES) == (n == 256)
    found = run(deep, "cpu", n, programs)
    np.testing.assert_allclose(found[0], run(deep, "eager", n)[0], 1e-4, 1e-5)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_more_memory_than_a_program_may_have(monkeypatch):
    monkeypatch.setattr("tilewright.targets.cpu.lower.MOST_SCRATCH", 1 << 20)
    x = numbers(256)
    message = "deep: a program keeps 5 MB of tiles at once, at most 1 MB; take smaller blocks"
    found = pytest.raises(UnsupportedError, match=message)
    with tilewright.options(target="cpu", cache=False), found as error:
        deep.warmup(x.astype(np.float64), x, 0, N=256, grid=(1,))
    assert error.value.loc.file == __file__


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads Linux's statistics")
def test_faults_give_large_scratch_back():
    n = 256
    x, out = numbers(n), np.zeros((1, n, n), np.float32)

    def megabytes():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") >> 20

    with tilewright.options(target="cpu", threads=2):
        for _ in range(3):
            deep[(1,)](x, out, 0, N=n)
        before = megabytes()
        for _ in range(100):  # of 2 MB each
            with pytest.raises(OutOfBoundsError, match="deep: store outside out"):
                deep[(1,)](x, out, 1, N=n)
    assert megabytes() - before < 60
