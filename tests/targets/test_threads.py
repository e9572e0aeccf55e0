"""The thread pool: every chunk once, whatever the threads; stopping, signals, nesting, forking."""

import ctypes
import functools
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from tilewright import config
from tilewright.codegen import llvm
from tilewright.targets.cpu import threads
from tilewright.targets.cpu.pool import FUTEX_CALL, pool_ir

# Arguments: 0 the state, 1 an array of counters, 2 a number.
ENTRIES = """
declare i64 @tw_poll(ptr)
declare i32 @usleep(i32)

; counters[i] += 1 for each i of the chunk
define void @count(i64 %begin, i64 %end, ptr %args) {
entry:
  %p = getelementptr i64, ptr %args, i64 1
  %counters = load ptr, ptr %p
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %c = getelementptr i64, ptr %counters, i64 %i
  %old = atomicrmw add ptr %c, i64 1 monotonic
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}

; count, then 1 ms of sleep
define void @nap(i64 %begin, i64 %end, ptr %args) {
  call void @count(i64 %begin, i64 %end, ptr %args)
  %r = call i32 @usleep(i32 1000)
  ret void
}

; count, and a fault in the chunk that begins with the number
define void @fault(i64 %begin, i64 %end, ptr %args) {
  call void @count(i64 %begin, i64 %end, ptr %args)
  %p = getelementptr i64, ptr %args, i64 2
  %number = load i64, ptr %p
  %here = icmp eq i64 %begin, %number
  br i1 %here, label %stop, label %done
stop:
  %state = load ptr, ptr %args
  store atomic i64 1, ptr %state release, align 8
  br label %done
done:
  ret void
}

; count the arrivals in counters[0] until they are the number
define void @meet(i64 %begin, i64 %end, ptr %args) {
entry:
  %state = load ptr, ptr %args
  %cp = getelementptr i64, ptr %args, i64 1
  %counters = load ptr, ptr %cp
  %np = getelementptr i64, ptr %args, i64 2
  %number = load i64, ptr %np
  %old = atomicrmw add ptr %counters, i64 1 acq_rel
  br label %loop
loop:
  %here = load atomic i64, ptr %counters acquire, align 8
  %all = icmp sge i64 %here, %number
  %stop = call i64 @tw_poll(ptr %state)
  %stopped = icmp ne i64 %stop, 0
  %end1 = or i1 %all, %stopped
  br i1 %end1, label %done, label %loop
done:
  ret void
}

; never ends but by the stop word
define void @stuck(i64 %begin, i64 %end, ptr %args) {
  %state = load ptr, ptr %args
  br label %loop
loop:
  %stop = call i64 @tw_poll(ptr %state)
  %go = icmp eq i64 %stop, 0
  br i1 %go, label %loop, label %done
done:
  ret void
}
"""

NAMES = ("count", "nap", "fault", "meet", "stuck")

native_only = pytest.mark.skipif(not threads.is_native(), reason="needs the native pool")


@functools.cache
def python_pool():
    text = threads.python_pool_ir()
    return threads.PythonPool(llvm.compile_object(text, llvm.host_machine()).bytes)


@pytest.fixture(params=["own", "python"])
def pool(request):
    return threads.start() if request.param == "own" else python_pool()


class Job:
    """The arguments of the test entries, and a launch of one of them."""

    def __init__(self, pool, size=1, number=0):
        code = llvm.compile_object(ENTRIES, llvm.host_machine()).bytes
        imports = {"tw_poll": pool.library.address("tw_poll")}
        self.library = llvm.Library.load(code, NAMES, imports)
        self.pool = pool
        self.state = (ctypes.c_int64 * (threads.STATE_BYTES // 8))()
        self.counters = (ctypes.c_int64 * size)()
        addresses = ctypes.addressof(self.state), ctypes.addressof(self.counters)
        self.args = (ctypes.c_int64 * 3)(*addresses, number)

    def run(self, entry, total, chunk, team):
        args = ctypes.addressof(self.args)
        return self.pool.parallel(self.library.address(entry), args, total, chunk, team)


def test_every_chunk_is_run_exactly_once(pool):
    job = Job(pool, 1000)
    expected = [0] * 1000
    rng = random.Random(7)
    for _ in range(3000 if pool is threads.start() else 100):
        total = rng.randrange(0, 1000) if rng.random() < 0.3 else rng.randrange(0, 20)
        chunk = rng.choice([0, 1, 1, 3, 7, 64, 1001])
        assert job.run("count", total, chunk, rng.randrange(1, 6)) == threads.GO
        expected = [n + (i < total) for i, n in enumerate(expected)]
    assert list(job.counters) == expected


def test_a_chunk_has_its_size_and_the_last_one_the_rest(pool):
    job = Job(pool, 10, number=8)
    assert job.run("fault", 10, 4, 1) == threads.FAULT
    assert list(job.counters) == [1] * 10
    job = Job(pool, 10, number=9)
    assert job.run("fault", 10, 4, 1) == threads.GO


def test_a_fault_ends_the_launch_and_the_pool_goes_on(pool):
    job = Job(pool, 100_000, number=0)
    assert job.run("fault", 100_000, 1, 3) == threads.FAULT
    assert job.counters[0] == 1
    assert sum(job.counters) < 100_000
    assert max(job.counters) == 1
    assert Job(pool, 50).run("count", 50, 1, 3) == threads.GO


@pytest.mark.parametrize("team", [1, 3])
def test_a_launch_that_is_stopped_before_it_begins_runs_nothing(pool, team):
    job = Job(pool, 100)
    job.state[0] = threads.FAULT
    assert job.run("count", 100, 1, team) == threads.FAULT
    assert sum(job.counters) == 0


def test_a_stop_reaches_workers_in_their_own_loops(pool):
    job = Job(pool)
    timer = stop_after(0.05, job)
    assert job.run("stuck", 8, 1, 3) == threads.FAULT
    timer.join()


def test_several_python_threads_launch_at_once(pool):
    jobs = [Job(pool, 200) for _ in range(4)]

    def launch(job):
        for _ in range(50):
            job.run("count", 200, 3, 3)

    launchers = [threading.Thread(target=launch, args=(job,)) for job in jobs]
    for launcher in launchers:
        launcher.start()
    for launcher in launchers:
        launcher.join()
    assert all(list(job.counters) == [50] * 200 for job in jobs)


@native_only
def test_more_chunks_than_a_ticket_can_number():
    job = Job(threads.start())
    job.state[0] = threads.FAULT
    assert job.run("count", 1 << 62, 1, 3) == threads.FAULT


def stop_after(seconds, job):
    timer = threading.Timer(seconds, job.state.__setitem__, (0, threads.FAULT))
    timer.start()
    return timer


def test_as_many_threads_take_part_as_are_asked_for(pool):
    job = Job(pool, number=4)
    timer = stop_after(20, job)
    assert job.run("meet", 4, 1, 4) == threads.GO
    timer.cancel()


@pytest.mark.parametrize("team", [1, 2])
def test_no_more_threads_take_part_than_are_asked_for(pool, team):
    job = Job(pool, number=3)
    timer = stop_after(0.1, job)
    assert job.run("meet", 8, 1, team) == threads.FAULT
    timer.join()
    assert job.counters[0] == team


def interrupt_after(seconds, number=signal.SIGINT):
    timer = threading.Timer(seconds, os.kill, (os.getpid(), number))
    timer.start()
    return timer


@native_only
@pytest.mark.parametrize("team", [1, 3])
@pytest.mark.parametrize("entry", ["stuck", "nap"])
def test_ctrl_c_ends_a_long_launch(entry, team):
    job = Job(threads.start(), 1_000_000)
    timer = interrupt_after(0.1)
    with pytest.raises(KeyboardInterrupt):
        job.run(entry, 1_000_000, 1, team)
    timer.join()
    assert job.state[0] == threads.INTERRUPTED
    again = Job(threads.start(), 100)
    assert again.run("count", 100, 1, team) == threads.GO
    assert list(again.counters) == [1] * 100


@native_only
def test_what_a_signal_handler_raises_comes_out_of_the_launch():
    def handler(number, frame):
        raise TimeoutError("too long")

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        timer = interrupt_after(0.1, signal.SIGUSR1)
        with pytest.raises(TimeoutError, match="too long"):
            Job(threads.start()).run("stuck", 8, 1, 3)
        timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)


@native_only
def test_a_forked_child_has_its_own_workers():
    code = """
    import os, sys
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # NumPy starts no threads of its own
    sys.path.insert(0, {here!r})
    from test_threads import Job, threads
    def check():
        job = Job(threads.start(), 100)
        for _ in range(200):
            job.run("count", 100, 1, 3)
        assert list(job.counters) == [200] * 100
        tasks = os.listdir("/proc/self/task")
        assert len(tasks) == 3, tasks
    check()
    child = os.fork()
    if child == 0:
        try:
            check()
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    check()
    sys.exit(os.waitstatus_to_exitcode(status))
    """
    code = textwrap.dedent(code).format(here=os.path.dirname(__file__))
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


@native_only
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_workers_keep_off_the_core_of_the_thread_that_launches():
    code = """
    import os, sys
    sys.path.insert(0, {here!r})
    from test_threads import Job, threads
    mine, before = os.sched_getaffinity(0), set(os.listdir("/proc/self/task"))
    first, second = sorted(mine)[:2]
    job = Job(threads.start(), 8, number=2)
    for core in (first, second, first):
        os.sched_setaffinity(0, mine)
        job.counters[0] = 0
        os.sched_setaffinity(0, {{core}})
        os.sched_setaffinity(0, mine)  # still on this core, most likely
        job.run("meet", 2, 1, 2)
        (worker,) = set(os.listdir("/proc/self/task")) - before
        allowed = os.sched_getaffinity(int(worker))
        assert len(allowed) == len(mine) - 1 and allowed < mine, allowed
    os.sched_setaffinity(0, {{first}})
    job.counters[0] = 0
    job.run("meet", 2, 1, 2)  # one core for both
    """
    code = textwrap.dedent(code).format(here=os.path.dirname(__file__))
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


@pytest.mark.parametrize("arch", sorted(FUTEX_CALL))
def test_the_pool_compiles_for_every_processor(arch):
    machine = llvm.Machine(f"{arch}-unknown-linux-gnu", "generic" if arch == "aarch64" else "")
    text = llvm.emit_assembly(pool_ir(arch), machine)
    assert {"x86_64": "pause", "aarch64": "yield"}[arch] in text
    assert f"{FUTEX_CALL[arch]}" in text


def test_default_threads_follow_the_setting():
    with config.options(threads=5):
        assert threads.default_threads() == 5
    with config.options(threads=0):
        assert threads.default_threads() >= 1
