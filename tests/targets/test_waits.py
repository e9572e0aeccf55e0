"""Programs that wait for each other: barriers and locks that work, and deadlocks by name."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from native import Native

import tilewright
import tilewright.language as tl
from tilewright.codegen import llvm
from tilewright.errors import DeadlockError
from tilewright.targets.cpu import threads
from tilewright.targets.cpu.launch import COUNT, TAKEN
from tilewright.targets.cpu.waits import MOST_TOGETHER

native_only = pytest.mark.skipif(not threads.is_native(), reason="needs the native pool")


def on(team):
    return tilewright.options(target="cpu", threads=team)


@tilewright.jit
def meet(count, out, n):
    tl.atomic_add(count, 1)
    while tl.atomic_add(count, 0) < n:
        pass
    tl.store(out + tl.program_id(0), tl.load(count))


@tilewright.jit
def meet_by_load(count, out, n):
    tl.atomic_add(count, 1)
    here = tl.load(count, volatile=True)
    while here < n:
        here = tl.load(count, volatile=True)
    tl.store(out + tl.program_id(0), here)


@tilewright.jit
def meet_by_flags(flags, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.atomic_xchg(flags + tl.program_id(0), 1)
    seen = tl.load(flags + at, volatile=True)
    while tl.min(seen) == 0:
        seen = tl.load(flags + at, volatile=True)
    tl.store(out + tl.program_id(0), tl.sum(seen))


@tilewright.jit
def swap_lock(lock, total, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    while tl.atomic_xchg(lock, 1) == 1:
        pass
    tl.store(total + at, tl.load(total + at) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@tilewright.jit
def try_lock(lock, total, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    done = 0
    while done == 0:
        if tl.atomic_cas(lock, 0, 1) == 0:
            tl.store(total + at, tl.load(total + at) + 1)
            tl.debug_barrier()
            tl.atomic_xchg(lock, 0)
            done = 1


@tilewright.jit
def in_order(turn, out):
    me = tl.program_id(0)
    while tl.atomic_add(turn, 0) != me:
        pass
    tl.store(out + me, tl.load(out + me - 1, mask=me > 0, other=0) + me)
    tl.debug_barrier()
    tl.atomic_add(turn, 1)


@tilewright.jit
def backwards(turn, out, n):
    me = tl.program_id(0)
    while tl.atomic_add(turn, 0) != n - 1 - me:
        pass
    tl.store(out + me, me)
    tl.atomic_add(turn, 1)


# --- waits that end


@native_only
@pytest.mark.parametrize("team", [1, 2, 3])
@pytest.mark.parametrize("n", [2, 3, 40])
@pytest.mark.parametrize("kernel", [meet, meet_by_load], ids=["atomic", "load"])
def test_a_barrier_of_more_programs_than_threads(kernel, n, team):
    for _ in range(3):
        count, out = np.zeros(1, np.int32), np.zeros(n, np.int32)
        with on(team):
            kernel[(n,)](count, out, n)
        assert out.tolist() == [n] * n


@native_only
def test_a_barrier_by_flags():
    flags, out = np.zeros(16, np.int32), np.zeros(16, np.int32)
    with on(2):
        meet_by_flags[(16,)](flags, out, 16)
    assert out.tolist() == [16] * 16


@pytest.mark.parametrize("team", [1, 2, 5])
@pytest.mark.parametrize("kernel", [swap_lock, try_lock], ids=["swap", "try"])
def test_locks(kernel, team):
    lock, total = np.zeros(1, np.int32), np.zeros(64, np.float32)
    with on(team):
        kernel[(3000,)](lock, total, 64)
    assert (total == 3000).all()
    assert lock[0] == 0


@pytest.mark.parametrize("team", [1, 2, 5])
def test_programs_that_wait_for_earlier_ones(team):
    turn, out = np.zeros(1, np.int32), np.zeros(500, np.int32)
    with on(team):
        in_order[(500,)](turn, out)
    np.testing.assert_array_equal(out, np.cumsum(np.arange(500)))


@native_only
def test_programs_that_wait_for_later_ones():
    turn, out = np.zeros(1, np.int32), np.zeros(30, np.int32)
    with on(2):
        backwards[(30,)](turn, out, 30)
    np.testing.assert_array_equal(out, np.arange(30))


@tilewright.jit
def slow_writer(flag, out, rounds):
    if tl.program_id(0) == 0:
        n = 0
        while n < rounds:
            n += 1
        tl.store(out, n)
        tl.debug_barrier()
        tl.atomic_xchg(flag, 1)
    else:
        while tl.atomic_add(flag, 0) == 0:
            pass
        tl.store(out + 1, tl.load(out))


@native_only
def test_a_wait_for_a_program_that_computes_for_long_is_no_deadlock():
    rounds, spent = 20_000_000, 0.0
    while spent < 1.5:  # longer than a deadlock needs to be reported
        flag, out = np.zeros(1, np.int32), np.zeros(2, np.int64)
        start = time.perf_counter()
        with on(2):
            slow_writer[(2,)](flag, out, rounds)
        spent = time.perf_counter() - start
        assert out.tolist() == [rounds, rounds]
        rounds = int(rounds * max(1.1, min(10, 2 / spent)))


@tilewright.jit
def wait_for_host(flag, out):
    while tl.load(flag, volatile=True) == 0:
        pass
    tl.store(out, 1)


@native_only
def test_a_wait_for_another_python_thread():
    flag, out = np.zeros(1, np.int32), np.zeros(1, np.int32)
    timer = threading.Timer(0.2, flag.__setitem__, (0, 1))
    timer.start()
    with on(1):
        wait_for_host[(1,)](flag, out)
    timer.join()
    assert out[0] == 1


@native_only
def test_barriers_launched_by_several_python_threads():
    failed = []

    def launch():
        for _ in range(10):
            count, out = np.zeros(1, np.int32), np.zeros(6, np.int32)
            with on(3):
                meet[(6,)](count, out, 6)
            if out.tolist() != [6] * 6:
                failed.append(out.tolist())

    launchers = [threading.Thread(target=launch) for _ in range(3)]
    for launcher in launchers:
        launcher.start()
    for launcher in launchers:
        launcher.join()
    assert not failed


# --- waits that never end


def test_a_barrier_that_one_program_misses_is_reported_whole():
    count, out = np.zeros(1, np.int32), np.zeros(1, np.int32)
    with on(1), pytest.raises(DeadlockError) as error:
        meet[(1,)](count, out, 2)
    line = meet.fn.__code__.co_firstlineno + 3
    assert str(error.value).splitlines() == [
        f"meet: program (0, 0, 0) waits at {__file__}:{line} for a value that no running program "
        "will write",
        f"  {__file__}:{line}:5 in meet",
        "        while tl.atomic_add(count, 0) < n:",
        "        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
    ]
    assert out.tolist() == [0]


@native_only
def test_a_barrier_of_more_programs_than_can_run_at_once():
    n = MOST_TOGETHER + 9
    count, out = np.zeros(1, np.int32), np.zeros(n, np.int32)
    with on(2), pytest.raises(DeadlockError) as error:
        meet[(n,)](count, out, n)
    assert f"9 of {n} programs have not started" in str(error.value)
    assert f"launch at most {MOST_TOGETHER} programs" in str(error.value)


@pytest.mark.parametrize("team", [1, 3])
def test_a_lock_that_nobody_opens(team):
    lock, total = np.ones(1, np.int32), np.zeros(4, np.float32)
    with on(team):
        with pytest.raises(DeadlockError, match="swap_lock: program .* waits at"):
            swap_lock[(3,)](lock, total, 4)
        lock[0] = 0
        swap_lock[(3,)](lock, total, 4)
    assert total.tolist() == [3] * 4


@native_only
def test_a_value_that_nobody_writes_after_all_have_come():
    count, out = np.zeros(1, np.int32), np.zeros(5, np.int32)
    with on(2), pytest.raises(DeadlockError, match="all 5 programs that have not ended wait"):
        meet[(5,)](count, out, 6)


@tilewright.jit
def try_lock_for_ever(lock, out):
    done = 0
    while done == 0:
        if tl.atomic_cas(lock, 0, 1) == 0:
            tl.store(out, 1)
            done = 1


@tilewright.jit
def forgotten_load(flag, out):
    seen = tl.load(flag)
    while seen == 0:
        pass
    tl.store(out, seen)


@pytest.mark.parametrize("kernel", [try_lock_for_ever, forgotten_load], ids=["try", "forgotten"])
def test_loops_that_do_nothing_for_ever(kernel):
    word, out = np.full(1, kernel is try_lock_for_ever, np.int32), np.zeros(1, np.int32)
    with on(2), pytest.raises(DeadlockError, match=f"{kernel.__name__}: program"):
        kernel[(1,)](word, out)
    assert out[0] == 0


def test_eager_reports_the_same(monkeypatch):
    monkeypatch.setattr("tilewright.eager.machine.Eager.most_polls", 50)
    count, out = np.zeros(1, np.int32), np.zeros(8, np.int32)
    with tilewright.options(target="eager"), pytest.raises(DeadlockError, match="meet: program"):
        meet[(8,)](count, out, 8)


@native_only
@pytest.mark.parametrize("team", [1, 3])
def test_ctrl_c_ends_a_wait(team):
    flag, out = np.zeros(1, np.int32), np.zeros(1, np.int32)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    with on(team):
        wait_for_host.warmup(flag, out, grid=(4,))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            wait_for_host[(4,)](flag, out)
        timer.join()
        flag[0] = 1
        wait_for_host[(4,)](flag, out)
    assert out[0] == 1


@native_only
def test_a_barrier_in_a_forked_child():
    code = """
    import os, sys, traceback
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    sys.path.insert(0, {here!r})
    from test_waits import test_a_barrier_by_flags as check
    check()
    child = os.fork()
    if child == 0:
        try:
            check()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status))
    """
    code = textwrap.dedent(code).format(here=os.path.dirname(__file__))
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


# --- Python's threads as the pool


@functools.cache
def python_pool():
    text = threads.python_pool_ir()
    return threads.PythonPool(llvm.compile_object(text, llvm.host_machine()).bytes)


@pytest.mark.parametrize(("team", "n", "stuck"), [(2, 9, False), (1, 2, True), (2, 9, True)])
def test_the_same_without_the_native_pool(monkeypatch, team, n, stuck):
    monkeypatch.setattr(threads, "_pool", python_pool())
    count, out = np.zeros(1, np.int32), np.zeros(n, np.int32)
    kernel = meet.warmup(count, out, n, grid=(n,)).compilation.kernel
    native = Native(kernel)
    record = native.run((n,), [count, out, n + stuck], team, chunk=-1)
    assert record[0] == stuck
    if stuck:
        assert record[COUNT - TAKEN] == (n if team > 1 else 1)
    else:
        assert out.tolist() == [n] * n


# --- locks


@tilewright.jit
def add_under_lock(x, out, lock, N: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + tl.program_id(0) * N + at)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out + at, tl.load(out + at) + value)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@tilewright.jit
def add_in_turn(x, out, turn, N: tl.constexpr):
    pid, at = tl.program_id(0), tl.arange(0, N)
    value = tl.load(x + pid * N + at)
    while tl.atomic_cas(turn, pid, pid) != pid:
        pass
    tl.store(out + at, tl.load(out + at) + value)
    tl.debug_barrier()
    tl.atomic_xchg(turn, pid + 1)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("kernel, waits", [(add_under_lock, False), (add_in_turn, True)])
def test_programs_that_take_a_lock_wait_for_nobody_to_begin(kernel, waits, threads):
    x = np.arange(300 * 16, dtype=np.int32).reshape(300, 16)
    out, lock = np.zeros(16, np.int32), np.zeros(1, np.int32)
    with on(threads):
        handle = kernel[(300,)](x, out, lock, N=16)
    assert out.tolist() == x.sum(0).tolist()
    assert handle.compilation.binary.waits is waits


def test_a_lock_that_is_never_free_is_reported():
    x, out = np.zeros((40, 16), np.int32), np.zeros(16, np.int32)
    with on(2), pytest.raises(DeadlockError) as error:
        add_under_lock[(40,)](x, out, np.ones(1, np.int32), N=16)
    assert "locks must be free before a launch" in str(error.value)
