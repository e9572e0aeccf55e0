"""Kernels that are compiled ahead of their launches: by text, and in other threads."""

from __future__ import annotations

from concurrent.futures import Executor, Future, ThreadPoolExecutor

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.compat import knobs
from tilewright.runtime.background import AsyncCompileMode


@tilewright.jit
def scale(x, out, n, sizes, TO: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, (tl.load(x + i, i < n) * sizes[0] + sizes[1]).to(TO), i < n)


@tilewright.jit
def other(x):
    tl.store(x, 1)


@pytest.fixture
def told():
    """What hooks of compilations are told."""
    found = []
    knobs.runtime.jit_cache_hook = lambda **kwargs: found.append(kwargs)
    yield found
    knobs.runtime.jit_cache_hook = None


def test_a_text_is_compiled_again(told):
    scale.forget()
    array = np.zeros(8, np.float32)
    given = (array, array, 2**40 + 3, (4, 0.5), tl.float32, 8)
    handle = scale.warmup(*given, num_warps=2)
    compile = told[0]["compile"]
    assert told[0]["fn"].name == "scale" and told[0]["is_manual_warmup"] is compile["is_warmup"]
    assert compile["key"] in scale.device_caches[0][0]
    scale.forget()
    assert scale.preload(compile["specialization_data"]).hash == handle.hash
    assert len(told) == 2
    scale.warmup(*given, num_warps=2)
    assert len(told) == 2  # which is what was loaded
    with pytest.raises(RuntimeError, match="Specialization data is for"):
        other.preload(compile["specialization_data"])


class Later(Executor):
    """Runs what it is given when it is told to."""

    def __init__(self):
        self.waiting = []

    def submit(self, function, /, *args):
        future = Future()
        self.waiting.append(lambda: future.set_result(function(*args)))
        return future


def test_each_kernel_is_compiled_once():
    @tilewright.jit
    def fill(x, A: tl.constexpr):
        tl.store(x, A)

    x, pool = np.zeros(1, np.float32), Later()
    with AsyncCompileMode(pool):
        for a in (1, 2, 1):
            fill.warmup(x, a, grid=(1,))
        assert (len(pool.waiting), len(fill.cache)) == (2, 0)
        with pytest.raises(RuntimeError, match="already active"), AsyncCompileMode(pool):
            pass
        for run in pool.waiting:
            run()
        fill[(1,)](x, 2)
        assert (len(fill.cache), x[0]) == (1, 2)
    assert len(fill.cache) == 2


def test_launches_wait_for_threads(host_target):
    @tilewright.jit
    def fill(x, A: tl.constexpr):
        tl.store(x, A)

    arrays = [np.zeros(1, d) for d in (np.float32, np.int32)]
    with ThreadPoolExecutor(2) as pool, AsyncCompileMode(pool):
        for x in arrays:
            fill.warmup(x, 1, grid=(1,))
        for x in arrays:
            fill[(1,)](x, 1)
            fill[(1,)](x, 2)
    assert [x[0] for x in arrays] == [2, 2]


def test_what_cannot_be_compiled(host_target):
    @tilewright.jit
    def wrong(x, A: tl.constexpr):
        tl.static_assert(A > 0)

    x = np.zeros(1, np.float32)
    with ThreadPoolExecutor(1) as pool, AsyncCompileMode(pool, ignore_errors=True):
        wrong.warmup(x, 0, grid=(1,))
    with (
        pytest.raises(tilewright.CompilationError),
        ThreadPoolExecutor(1) as pool,
        AsyncCompileMode(pool),
    ):
        wrong.warmup(x, 0, grid=(1,))
