"""How many threads a launch takes: estimated from its kernel."""

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.codegen import llvm


@tw.jit
def histogram(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.load(x + at), 1)


@tw.jit
def split_k(a, b, c, K, BLOCK: tl.constexpr):
    rows, steps = tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(tl.program_id(0) * BLOCK, K, BLOCK * tl.num_programs(0)):
        left = tl.load(a + rows[:, None] * K + (k + steps)[None, :])
        right = tl.load(b + (k + steps)[:, None] * BLOCK + rows[None, :])
        acc += tl.dot(left, right)
    tl.atomic_add(c + rows[:, None] * BLOCK + rows[None, :], acc)


@tw.jit
def copy(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at))


def test_locks_that_cost_more_than_a_second_thread_gains_are_not_taken():
    x, out = np.arange(4096, dtype=np.int32) % 7, np.zeros(8, np.int32)
    with tw.options(target="cpu", threads=2):
        handle = histogram[(4,)](x, out, BLOCK=1024)
    assert out.tolist() == np.bincount(x, minlength=8).tolist()
    assert handle.compilation.binary.useful(2) == 1
    assert handle.compilation.binary.useful(64) == 64


def test_a_few_atomics_after_much_work_are_shared():
    a, b = np.ones((64, 4096), np.float32), np.ones((4096, 64), np.float32)
    c = np.zeros((64, 64), np.float32)
    with tw.options(target="cpu", threads=2):
        handle = split_k[(4,)](a, b, c, 4096, BLOCK=64)
    assert (c == 4096).all()
    assert handle.compilation.binary.useful(2) == 2


def test_a_second_thread_is_not_woken_for_a_microsecond():
    x, out = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
    with tw.options(target="cpu", threads=2):
        handle = copy[(4,)](x, out, BLOCK=256)
    assert (out == x).all()
    assert 4 < handle.compilation.binary.few < 1000


@tw.jit
def summed(x, out, n):
    total = 0.0
    for k in range(n):
        total += tl.load(x + k)
    tl.store(out + tl.program_id(0), total)


def test_programs_whose_rounds_are_not_known_may_be_long():
    x, out = np.ones(1000, np.float32), np.zeros(4, np.float32)
    with tw.options(target="cpu", threads=2):
        handle = summed[(4,)](x, out, 1000)
    assert out.tolist() == [1000] * 4
    assert handle.compilation.binary.few == 1


def test_rounds_that_are_not_known_count_as_much_work():
    a, b = np.ones((16, 4096), np.float32), np.ones((4096, 16), np.float32)
    c = np.zeros((16, 16), np.float32)
    with tw.options(target="cpu", threads=2):
        handle = split_k[(4,)](a, b, c, 4096, BLOCK=16)
    assert (c == 4096).all()
    assert handle.compilation.binary.useful(2) == 2


@tw.jit
def product(a, b, c, K, EXP: tl.constexpr):
    rows, steps = tl.arange(0, 64), tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, 64):
        left = tl.load(a + rows[:, None] * K + (k + steps)[None, :])
        right = tl.load(b + (k + steps)[:, None] * 64 + rows[None, :])
        if EXP:
            left = tl.exp(left)
        acc += tl.dot(left, right)
    tl.store(c + rows[:, None] * 64 + rows[None, :], acc)


@pytest.mark.skipif(llvm.host_machine().arch != "x86_64", reason="decided for x86-64")
def test_what_surrounds_large_products_is_not_improved():
    a, b = np.ones((64, 128), np.float32), np.ones((128, 64), np.float32)
    c = np.zeros((64, 64), np.float32)
    for exp, level in ((False, 0), (True, 1)):
        with tw.options(target="cpu"):
            handle = product[(1,)](a, b, c, 128, EXP=exp)
        np.testing.assert_allclose(c, 128 * (np.e if exp else 1), rtol=1e-5)
        assert handle.compilation.metadata["level"] == level
