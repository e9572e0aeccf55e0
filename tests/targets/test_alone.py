"""Atomics of launches that have the process for themselves, and of those that do not."""

import threading

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import DeadlockError


@tw.jit
def count_kernel(x_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.atomic_add(counts_ptr + tl.load(x_ptr + at, mask=inside, other=0), 1, mask=inside)


@tw.jit
def update_kernel(x_ptr, value_ptr, old_ptr, n, KIND: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(value_ptr + at, mask=at < n, other=0)
    if KIND == "add":
        old = tl.atomic_add(x_ptr + at, value, mask=at < n)
    elif KIND == "max":
        old = tl.atomic_max(x_ptr + at, value, mask=at < n)
    else:
        old = tl.atomic_xchg(x_ptr + at, value, mask=at < n)
    tl.store(old_ptr + at, old, mask=at < n)


@tw.jit
def total_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + at, mask=at < n, other=0), axis=0))


@tw.jit
def locked_kernel(lock_ptr, sum_ptr, x_ptr, SLOTS: tl.constexpr, BLOCK: tl.constexpr):
    """Rows of x are added up in sums, of which a lock each lets in one program at a time."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    slot = row % SLOTS
    while tl.atomic_cas(lock_ptr + slot, 0, 1) == 1:
        pass
    here = sum_ptr + slot * BLOCK + at
    tl.store(here, tl.load(here) + tl.load(x_ptr + row * BLOCK + at))
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr + slot, 0)


@tw.jit
def exchange_kernel(x_ptr, wanted_ptr, value_ptr, old_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    wanted, value = tl.load(wanted_ptr + at), tl.load(value_ptr + at)
    tl.store(old_ptr + at, tl.atomic_cas(x_ptr + at // 2, wanted, value))


def count(x, counts):
    count_kernel[(tw.cdiv(x.size, 64),)](x, counts, x.size, BLOCK=64)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_equal_addresses_meet(threads):
    x = np.random.default_rng(0).integers(0, 7, 5001).astype(np.int32)
    counts = np.zeros(7, np.int32)
    with tw.options(threads=threads):
        count(x, counts)
    np.testing.assert_array_equal(counts, np.bincount(x, minlength=7))


def test_launches_of_several_python_threads_meet():
    x = np.random.default_rng(0).integers(0, 3, 20000).astype(np.int32)
    counts = np.zeros(3, np.int32)

    def work():
        for _ in range(50):
            count(x, counts)

    with tw.options(threads=1):
        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()
        work()
        for worker in workers:
            worker.join()
    np.testing.assert_array_equal(counts, 250 * np.bincount(x, minlength=3))


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64", "float16"])
@pytest.mark.parametrize("kind", ["add", "max", "xchg"])
@pytest.mark.parametrize("n", [1, 16, 50, 64])
@pytest.mark.parametrize("threads", [1, 2])
def test_neighbours(threads, n, kind, dtype):
    if kind == "max" and dtype == "float16":
        pytest.skip("Triton has no such atomic")
    rng = np.random.default_rng(n)
    before, value = (rng.integers(-9, 9, 64).astype(dtype) for _ in range(2))
    x, old = before.copy(), np.zeros(64, dtype)
    with tw.options(threads=threads):
        update_kernel[(1,)](x, value, old, n, KIND=kind, BLOCK=64)
    result = {"add": before + value, "max": np.maximum(before, value), "xchg": value}[kind]
    np.testing.assert_array_equal(x[:n], result[:n])
    np.testing.assert_array_equal(x[n:], before[n:])
    np.testing.assert_array_equal(old[:n], before[:n])


@pytest.mark.parametrize("threads", [1, 3])
def test_one_number_for_all_programs(threads):
    x = np.arange(1000, dtype=np.int32)
    out = np.zeros(1, np.int32)
    with tw.options(threads=threads):
        total_kernel[(32,)](x, out, 1000, BLOCK=32)
    assert out[0] == x.sum()


def add_up(locks, sums, x):
    locked_kernel[(len(x),)](locks, sums, x, SLOTS=len(locks), BLOCK=x.shape[1])


@pytest.mark.parametrize("threads", [1, 3])
def test_locks_are_taken_and_given_back(threads):
    x = np.random.default_rng(0).integers(0, 9, (101, 64)).astype(np.int32)
    locks, sums = np.zeros(4, np.int32), np.zeros((4, 64), np.int32)
    with tw.options(threads=threads):
        add_up(locks, sums, x)
    np.testing.assert_array_equal(sums, [x[k::4].sum(axis=0) for k in range(4)])
    assert not locks.any()


def test_locks_of_several_python_threads_meet():
    x = np.random.default_rng(0).integers(0, 9, (300, 64)).astype(np.int32)
    locks, sums = np.zeros(2, np.int32), np.zeros((2, 64), np.int32)

    def work():
        for _ in range(40):
            add_up(locks, sums, x)

    with tw.options(threads=1):
        workers = [threading.Thread(target=work) for _ in range(3)]
        for worker in workers:
            worker.start()
        work()
        for worker in workers:
            worker.join()
    np.testing.assert_array_equal(sums, [160 * x[k::2].sum(axis=0) for k in range(2)])


def test_a_lock_that_nobody_holds_is_reported():
    locks, sums = np.ones(1, np.int32), np.zeros((1, 64), np.int32)
    with tw.options(threads=1), pytest.raises(DeadlockError):
        add_up(locks, sums, np.ones((3, 64), np.int32))
    locks[0] = 0  # and the next launch is alone again
    with tw.options(threads=1):
        add_up(locks, sums, np.ones((3, 64), np.int32))
    assert (sums == 3).all()


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float16"])
@pytest.mark.parametrize("threads", [1, 2])
def test_exchanges_that_compare(threads, dtype):
    """Pairs of lanes meet: the second one sees what the first one left."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, 32).astype(dtype)
    wanted, value = (rng.integers(0, 2, 64).astype(dtype) for _ in range(2))
    expected, olds, old = x.copy(), [], np.zeros(64, dtype)
    for lane in range(64):
        olds.append(expected[lane // 2])
        if olds[-1] == wanted[lane]:
            expected[lane // 2] = value[lane]
    with tw.options(threads=threads):
        exchange_kernel[(1,)](x, wanted, value, old, BLOCK=64)
    np.testing.assert_array_equal(x, expected)
    np.testing.assert_array_equal(old, olds)
