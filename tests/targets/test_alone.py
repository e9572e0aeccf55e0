"""Atomics of launches that have the process for themselves, and of those that do not."""

import threading

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


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
