"""Kernels on several threads: results do not depend on how many, nor on who else launches."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import native
import numpy as np
import pytest
import tiles
from hypothesis import HealthCheck, given, settings

import tilewright
import tilewright.language as tl
from tilewright.errors import OutOfBoundsError
from tilewright.targets.cpu import threads

TEAMS = (1, 2, 3, 5)
native_only = pytest.mark.skipif(not threads.is_native(), reason="needs the native pool")


def on(team):
    return tilewright.options(target="cpu", threads=team)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(case=tiles.kernels())
def test_random_kernels(case):
    code = native.Native(case.kernel)
    results = []
    for team in TEAMS:
        arrays = case.fresh()
        assert code.run(tiles.GRID, arrays, team)[0] == 0
        results.append([a.tobytes() for a in arrays if isinstance(a, np.ndarray)])
    assert all(r == results[0] for r in results)


@tilewright.jit
def softmax(x, out, n, B: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, B)
    v = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * n + i, e / tl.sum(e, 0), mask=i < n)


@tilewright.jit
def product(x, y, out, K, M: tl.constexpr):
    i, k = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, M)
    total = tl.zeros([M, M], tl.float32)
    for start in range(0, K, M):
        a = tl.load(x + i[:, None] * K + start + k[None, :])
        b = tl.load(y + (start + k[:, None]) * M + tl.arange(0, M)[None, :])
        total = tl.dot(a, b, total)
    tl.store(out + i[:, None] * M + tl.arange(0, M)[None, :], total)


@tilewright.jit
def counted(counts, x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(counts + tl.load(x + i, mask=i < n, other=0), 1, mask=i < n)


def run_softmax(seed):
    x = np.random.default_rng(seed).standard_normal((37, 100), np.float32)
    out = np.zeros_like(x)
    softmax[(37,)](x, out, 100, B=128)
    return out


def run_product(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((256, 64), np.float32), rng.standard_normal((64, 16), np.float32)
    out = np.zeros((256, 16), np.float32)
    product[(16,)](x, y, out, 64, M=16)
    return out


def run_counted(seed):
    x = np.random.default_rng(seed).integers(0, 50, 5000).astype(np.int32)
    counts = np.zeros(50, np.int32)
    counted[(79,)](counts, x, 5000, B=64)
    return counts


RUNS = (run_softmax, run_product, run_counted)


@pytest.mark.parametrize("run", RUNS, ids=lambda r: r.__name__)
def test_results_are_the_same_to_the_bit(run):
    results = []
    for team in TEAMS:
        with on(team):
            results += [run(3).tobytes() for _ in range(3)]
    assert all(r == results[0] for r in results)


def test_several_python_threads_launch_at_once():
    with on(1):
        wanted = [run(seed).tobytes() for seed in range(3) for run in RUNS]
    for run in (softmax, product, counted):
        run.forget()  # so that they compile at once, too

    def work(first):
        out = []
        for n in range(30):
            case = (first + n) % len(wanted)
            out.append(RUNS[case % 3](case // 3).tobytes() == wanted[case])
        return all(out)

    with on(3), ThreadPoolExecutor(5) as pool:
        assert all(pool.map(work, range(5)))


@tilewright.jit
def faulty(x, at):
    tl.store(x + at + tl.program_id(0), 1.0)


def test_faults_of_one_thread_leave_the_launches_of_others_alone():
    with on(1):
        wanted = [run(1).tobytes() for run in RUNS]
    x = np.zeros(64, np.float32)

    def fail():
        for n in range(60):
            try:
                faulty[(64,)](x, 1 + n % 2)
            except OutOfBoundsError as error:
                if "of 64, 1 element past" not in str(error) and n % 2 == 0:
                    return False
                continue
            return False
        return True

    def work(_):
        return all(run(1).tobytes() == w for _ in range(20) for run, w in zip(RUNS, wanted))

    with on(3), ThreadPoolExecutor(4) as pool:
        failing = pool.submit(fail)
        assert all(pool.map(work, range(3)))
        assert failing.result()


@tilewright.jit
def long(out, rounds):
    n = 0
    while n < rounds:
        n += 1
    tl.store(out + tl.program_id(0), n)


@native_only
@pytest.mark.parametrize("programs", [1, 100])
@pytest.mark.parametrize("team", [1, 3])
def test_ctrl_c_in_a_kernel(team, programs):
    out = np.zeros(programs, np.int64)
    with on(team):
        wanted = run_softmax(5).tobytes()
        long[(programs,)](out, 10)
        assert out.tolist() == [10] * programs
        for _ in range(3):
            timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                long[(programs,)](out, 1 << 60)
            timer.join()
            assert run_softmax(5).tobytes() == wanted


@native_only
def test_a_signal_handler_may_launch():
    found = []

    def handler(number, frame):
        found.append(run_softmax(5).tobytes())
        if len(found) == 3:
            raise TimeoutError("enough")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with on(3):
            wanted = run_softmax(5).tobytes()
            out = np.zeros(8, np.int64)
            signal.setitimer(signal.ITIMER_REAL, 0.05, 0.1)
            with pytest.raises(TimeoutError, match="enough"):
                long[(8,)](out, 1 << 60)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert found == [wanted] * 3


@native_only
def test_a_fork_while_another_thread_launches():
    code = """
    import os, sys, threading, time
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    sys.path[:0] = [{here!r}, {fuzz!r}]
    import numpy as np
    import test_thread_counts as t
    def check():
        with t.on(3):
            return [run(1).tobytes() for run in t.RUNS]
    wanted = check()
    out = np.zeros(8, np.int64)
    def work():
        with t.on(3):
            t.long[(8,)](out, 20_000_000)
    with t.on(3):
        t.long[(8,)](np.zeros(8, np.int64), 1)
    other = threading.Thread(target=work)
    other.start()
    while not out.any():
        time.sleep(0.001)
    child = os.fork()
    if child == 0:
        os._exit(0 if check() == wanted else 1)
    _, status = os.waitpid(child, 0)
    other.join()
    assert check() == wanted and out.tolist() == [20_000_000] * 8
    sys.exit(os.waitstatus_to_exitcode(status))
    """
    here = os.path.dirname(__file__)
    fuzz = os.path.join(os.path.dirname(here), "fuzz")
    code = textwrap.dedent(code).format(here=here, fuzz=fuzz)
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0


@native_only
def test_a_fork_while_another_thread_compiles():
    code = """
    import os, signal, sys, threading, time
    sys.path[:0] = [{here!r}, {fuzz!r}]
    import numpy as np
    import test_thread_counts as t
    from tilewright.runtime import compile as compilations
    def check(size):
        out = np.zeros(size, np.float32)
        with t.tilewright.options(target="cpu", cache=False):
            t.softmax[(1,)](np.ones(size, np.float32), out, size, B=size)
        return np.allclose(out, 1 / size)
    def work():
        while not done:
            compilations._loaded.clear()
            t.softmax.forget()
            check(128)
    done = []
    check(64)
    other = threading.Thread(target=work)
    other.start()
    for k in range(4):
        time.sleep(0.01 + 0.003 * k)
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            os._exit(0 if check(256) else 1)
        _, status = os.waitpid(child, 0)
        if status:
            break
    done.append(True)
    other.join()
    sys.exit(status != 0)
    """
    here = os.path.dirname(__file__)
    fuzz = os.path.join(os.path.dirname(here), "fuzz")
    code = textwrap.dedent(code).format(here=here, fuzz=fuzz)
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0
