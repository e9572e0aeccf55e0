"""Run a native function over a range of programs on all cores, stoppable by faults and Ctrl-C.

The function is `void entry(i64 begin, i64 end, ptr args)`. Slot 0 of `args`, 8-byte slots all,
points to the launch's state: `STATE_BYTES` of i64 words, first the stop word (zeroed by the
launcher; a kernel that finds a fault stores `FAULT`), then seven that belong to the pool.
"""

from __future__ import annotations

import ctypes
import os
import string
import sys
import threading
from functools import cache
from typing import NoReturn

from tilewright import config
from tilewright.codegen import llvm
from tilewright.later import later
from tilewright.locks import Lock
from tilewright.targets.cpu.alone import PYTHON_ALONE_IR
from tilewright.targets.cpu.asked import ASKED_IR
from tilewright.targets.cpu.pool import EXPORTS, FUTEX_CALL, KERNEL_EXPORTS, pool_ir
from tilewright.targets.cpu.stop import POLL_IR
from tilewright.targets.cpu.waits import MOST_TOGETHER, NUMBERS, PYTHON_WAITS_IR

futures = later("concurrent.futures")  # where there is no native pool

STATE_BYTES = 64
GO, FAULT, INTERRUPTED = 0, 1, 2
MOST_THREADS = 1 << 16
TORCH_COUNTER = "_ZN2at15get_num_threadsEv"  # at::get_num_threads()

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


class NativePool:
    """The pool of `pool_ir`; its threads start with the first launch that wants them."""

    def __init__(self, object_bytes: bytes):
        library = llvm.Library.load(object_bytes, EXPORTS)
        self.library = library
        self.parallel_address = library.address("tw_parallel")
        self.raise_address = library.address("tw_raise")
        integers = [ctypes.c_int64] * 3
        launch = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, *integers)
        self._launch = launch(self.parallel_address)
        self._raise = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(self.raise_address)
        self._reset = ctypes.CFUNCTYPE(None, ctypes.c_int64)(library.address("tw_reset"))
        self._forget_workers()
        os.register_at_fork(after_in_child=self._forget_workers)

    def _forget_workers(self) -> None:
        self._reset(threading.main_thread().ident)

    def parallel(self, entry: int, args: int, total: int, chunk: int, threads: int) -> int:
        status = self._launch(entry, args, total, chunk, threads)
        if status == INTERRUPTED:
            self.raise_interrupt(args)
        return status

    def raise_interrupt(self, args: int) -> NoReturn:
        self._raise(args)
        raise KeyboardInterrupt


class PythonPool:
    """The same with Python's threads, for systems without the native pool."""

    def __init__(self, object_bytes: bytes):
        self.library = llvm.Library.load(object_bytes, KERNEL_EXPORTS)
        self.counting = threading.Lock()

    def parallel(self, entry: int, args: int, total: int, chunk: int, threads: int) -> int:
        if chunk < 0 and threads > 1:
            threads = MOST_TOGETHER
        chunk = max(chunk, 1)
        state = ctypes.c_int64.from_address(args).value
        stop = ctypes.c_int64.from_address(state)
        standing = ctypes.c_int64.from_address(state + 48)
        programs = ctypes.c_int64.from_address(state + 56)
        run = _ENTRY(entry)
        begins = range(0, total, chunk)
        claims = iter(begins)
        standing.value = 0
        programs.value = len(begins) << 32

        def claim() -> int | None:
            with self.counting:
                begin = next(claims, None)
                if begin is not None:
                    programs.value += 1 - (1 << 32)
                return begin

        def work() -> None:
            while stop.value == GO and (begin := claim()) is not None:
                run(begin, min(begin + chunk, total), args)
                with self.counting:
                    programs.value -= 1

        team = min(threads, -(-total // chunk))
        if team <= 1:
            work()
        else:
            with futures.ThreadPoolExecutor(team) as executor:
                try:
                    futures.wait([executor.submit(work) for _ in range(team)])
                except BaseException:
                    stop.value = INTERRUPTED
                    raise
        if stop.value == INTERRUPTED:
            raise KeyboardInterrupt
        return stop.value


_starting = Lock()
# Never freed: the workers run the pool's code until the process ends.
_pool: NativePool | PythonPool | None = None


def is_native() -> bool:
    """Whether the pool is native code here (Linux on x86-64 or aarch64), not Python's."""
    return sys.platform == "linux" and llvm.host_machine().arch in FUTEX_CALL


def python_pool_ir() -> str:
    """What kernels call where Python's threads are the pool."""
    waits = string.Template(PYTHON_WAITS_IR).substitute(NUMBERS)
    return POLL_IR + ASKED_IR + PYTHON_ALONE_IR + waits


def compile_pool() -> bytes:
    """The object code that `start` takes, to be kept on disk."""
    machine = llvm.host_machine()
    text = pool_ir(machine.arch) if is_native() else python_pool_ir()
    # Level 1 would take 20 ms instead of 5, and launches as long (benchmarks/launch_time.py).
    return llvm.compile_object(text, machine, codegen_level=0).bytes


def start(object_bytes: bytes | None = None) -> NativePool | PythonPool:
    """The pool of this process, at the first call made from a kept object or compiled."""
    global _pool
    with _starting:
        if _pool is None:
            kind = NativePool if is_native() else PythonPool
            _pool = kind(object_bytes or compile_pool())
        return _pool


def parallel(entry: int, args: int, total: int, chunk: int, threads: int) -> int:
    """Run `entry(begin, end, args)` over [0, total) by chunks; the result is the stop word.

    Once the stop word is set, no further chunk is run. With one thread, or while another launch
    has the pool, everything runs in this thread. A `chunk` of -1 says that programs may wait for
    each other: they run one at a time in as many threads as that takes, and wait for the pool.

    Raises:
        KeyboardInterrupt: or what else a Python signal handler raised meanwhile.
    """
    return (_pool or start()).parallel(entry, args, total, chunk, threads)


def raise_interrupt(args: int) -> NoReturn:
    """Raise what a signal handler raised during the launch, on the native pool, of these `args`."""
    start().raise_interrupt(args)


def address(name: str) -> int:
    """Where one of `KERNEL_EXPORTS` is."""
    return (_pool or start()).library.address(name)


def default_threads() -> int:
    """How many threads a launch uses: the setting `threads`, else the cores this process has.

    Where the program has torch, no more than torch was told to use.
    """
    wanted = config.get("threads")
    if wanted > 0:
        return wanted
    return min(core_count(), torch_threads() or MOST_THREADS)


def core_count() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def torch_threads() -> int:
    """How many threads torch uses; 0 where the program has no torch."""
    count = getattr(sys.modules.get("torch"), "get_num_threads", None)
    return count() if count is not None else 0


@cache
def torch_counter() -> int:
    """The address of the C function that `torch_threads` calls; 0 where it cannot be found."""
    folder = os.path.join(os.path.dirname(sys.modules["torch"].__file__), "lib")
    try:
        library = ctypes.CDLL(os.path.join(folder, "libtorch_cpu.so"))
        function = getattr(library, TORCH_COUNTER)
    except (OSError, AttributeError):
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0
