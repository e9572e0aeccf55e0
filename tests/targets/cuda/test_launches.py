"""Launches on a GPU that there is not: what the driver is told, by Python and by native code."""

from __future__ import annotations

import ctypes
import gc
import os
import struct
import threading

import fake_gpu
import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import LaunchError, OutOfBoundsError
from tilewright.runtime import compile
from tilewright.runtime.kernel import JITFunction
from tilewright.runtime.observers import unobserved
from tilewright.targets import base
from tilewright.targets.cuda import driver
from tilewright.targets.cuda.target import CUDA
from tilewright.targets.fastcall import shortcut as fastcall

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.skipif(not fastcall.is_possible(), reason="launches are Python's here")


@pytest.fixture
def gpu(monkeypatch):
    found = fake_gpu.FakeGpu(torch, monkeypatch)
    with unobserved():
        yield found
    found.close()


def put(x, y, n, m, scale, flag, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n) * scale
    tl.store(y + i, tl.where(flag, v, m), mask=i < n)


def fill(out, value):
    tl.store(out + tl.program_id(0), value)


def checked(out, value):
    tl.device_assert(value > 0, "value")
    tl.store(out, value)


def nothing(n):
    pass


def by_python(kernel: JITFunction) -> int:
    return sum(entry.launches for entry in kernel.entries.values())


def warm(kernel: JITFunction, grid, *args, **kwargs) -> None:
    """Launch until a launch like this is native."""
    for _ in range(9):
        kernel[grid](*args, **kwargs)
    before = by_python(kernel)
    kernel[grid](*args, **kwargs)
    assert by_python(kernel) == before


def bounds(tensor) -> tuple[int, int, int]:
    storage = tensor.untyped_storage()
    low = storage.data_ptr()
    return tensor.data_ptr(), low, low + storage.nbytes()


def test_native_launches_tell_the_driver_what_those_of_python_do(gpu):
    kernel = tw.jit(put)
    x, y = gpu.tensor(torch.zeros(40)[3:]), gpu.tensor(torch.zeros(64, dtype=torch.float16))
    for n, m, flag in ((32, 5, True), (2**40, -7, False), (7, 2**31 - 1, True)):
        gpu.library.launches.clear()
        warm(kernel, (3, 2), x, y, n, m, 0.5, flag, 32, num_warps=2)
        first, *rest = gpu.library.launches
        for number, other in enumerate(rest, first.number + 1):
            assert other == first._replace(number=number)
        wanted = struct.pack(
            f"@6Q{'q' if n > 2**31 else 'i'}if?", *bounds(x), *bounds(y), n, m, 0.5, flag
        )
        assert first.params == wanted
        assert first[1:6] == ((3, 2, 1), 64, 0, 0, 0)


def test_keywords_grid_functions_and_defaults(gpu):
    kernel = tw.jit(fill)
    out = gpu.tensor(torch.zeros(4))
    warm(kernel, (4,), out, 2.0)
    before = by_python(kernel)
    kernel[lambda meta: (int(meta["value"]), 3)](value=5.0, out=out)
    kernel[7](out, value=2.0)
    kernel[(0,)](out, 2.0)
    assert by_python(kernel) == before
    assert [x.grid for x in gpu.library.launches[-2:]] == [(5, 3, 1), (7, 1, 1)]


def test_alignment_is_a_part_of_the_key(gpu):
    kernel = tw.jit(put)
    whole = torch.zeros(256)
    y = gpu.tensor(torch.zeros(256))
    handles = {}
    for _ in range(10):
        for first, n in ((0, 16), (1, 16), (4, 16), (0, 17), (0, 1), (0, 0)):
            x = gpu.tensor(whole[first:])
            handles[first, n] = kernel[(1,)](x, y, n, 3, 0.5, True, 16)
    before = by_python(kernel)
    for (first, n), handle in handles.items():
        assert kernel[(1,)](gpu.tensor(whole[first:]), y, n, 3, 0.5, True, 16) is handle
    assert by_python(kernel) == before
    assert handles[0, 16] is handles[4, 16] is handles[0, 0]
    assert len(set(map(id, handles.values()))) == 4
    aligned = tw.jit(put, do_not_specialize_on_alignment=["x", "n"])
    for _ in range(10):
        found = {
            aligned[(1,)](gpu.tensor(whole[first:]), y, n, 3, 0.5, True, 16)
            for first, n in ((0, 16), (1, 16), (0, 17))
        }
    assert len(found) == 1


def test_streams(gpu):
    kernel = tw.jit(fill)
    out = gpu.tensor(torch.zeros(4))
    warm(kernel, (4,), out, 2.0)
    gpu.streams[0] = 0xABCDEF0123
    kernel[(4,)](out, 2.0)
    gpu.streams[0] = 0
    kernel[(4,)](out, 2.0)
    assert [x.stream for x in gpu.library.launches[-3:]] == [0, 0xABCDEF0123, 0]


def test_launches_go_to_the_device_of_their_arrays(gpu):
    kernel = tw.jit(fill)
    outs = [gpu.tensor(torch.zeros(4), device) for device in (0, 1)]
    gpu.streams[1] = 0x77
    for current in (0, 1, 0):
        gpu.set_device(current)
        for _ in range(9):
            for device, out in enumerate(outs):
                kernel[(4,)](out, 2.0)
                last = gpu.library.launches[-1]
                assert (last.device, last.stream) == (device, [0, 0x77][device])
                assert gpu.device() == current
        before = by_python(kernel)
        kernel[(4,)](outs[current], 2.0)
        assert by_python(kernel) == before
    with pytest.raises(LaunchError, match="cuda:1"):
        tw.jit(put)[(1,)](outs[0], outs[1], 3, 3, 0.5, True, 16)


class OnlyInterface:
    def __init__(self, array):
        self.array = array

    @property
    def __cuda_array_interface__(self):
        return self.array.__array_interface__ | {"version": 3}


def test_arrays_that_do_not_say_where_they_are(gpu):
    kernel = tw.jit(fill)
    for device in (0, 1, 0):
        out = np.zeros((4, 6), np.float32)[:, 2:]
        gpu.library.places[out.ctypes.data] = device
        for _ in range(6):
            kernel[(4,)](OnlyInterface(out), 2.0)
            last = gpu.library.launches[-1]
            assert last.device == device
            address = out.ctypes.data
            assert last.params == struct.pack("@QQQf", address, address, address + 88, 2.0)


def test_launches_without_arrays_go_to_the_current_device(gpu):
    kernel = tw.jit(nothing)
    with tw.options(target="cuda"):
        for current in (0, 1, 0):
            gpu.set_device(current)
            for _ in range(9):
                kernel[(4,)](5)
                assert gpu.library.launches[-1].device == current


def test_arrays_elsewhere_are_refused(gpu):
    kernel = tw.jit(put)
    x, y = gpu.tensor(torch.zeros(16)), gpu.tensor(torch.zeros(16))
    warm(kernel, (1,), x, y, 3, 3, 0.5, True, 16)
    for wrong in (torch.zeros(16), np.zeros(16, np.float32)):
        with pytest.raises(LaunchError, match="'y'"):
            kernel[(1,)](x, wrong, 3, 3, 0.5, True, 16)


def test_one_kernel_on_both_targets(gpu):
    kernel = tw.jit(fill)
    here, there = torch.zeros(4), gpu.tensor(torch.zeros(4))
    for _ in range(12):
        kernel[(4,)](there, 2.0)
        kernel[(4,)](here, 3.0)
    before = by_python(kernel)
    count = len(gpu.library.launches)
    here[:] = 0
    kernel[(4,)](there, 2.0)
    kernel[(4,)](here, 3.0)
    assert by_python(kernel) == before
    assert len(gpu.library.launches) == count + 1 and here.tolist() == [3.0] * 4


def report(gpu, kernel, number: int, address: int) -> None:
    """Write to the fault record what a kernel would."""
    (entry,) = kernel.entries.values()
    words = (ctypes.c_uint64 * 2).from_address(entry.handle.compilation.binary.record)
    words[0], words[1] = 1 << 48 | number << 31 | 2, address


@pytest.mark.parametrize("late", [0, 3, 300])
def test_faults_are_raised_by_the_next_launch(gpu, late):
    kernel = tw.jit(fill)
    out = gpu.tensor(torch.zeros(16)[:4])
    warm(kernel, (4,), out, 2.0)
    number = gpu.library.launches[-1].number
    for _ in range(late):
        kernel[(2,)](gpu.tensor(torch.zeros(3)), 2.0)
    report(gpu, kernel, number, out.data_ptr() + 64)
    count = len(gpu.library.launches)
    message = "element 16 of 16" if late < 256 else "touches address"
    with pytest.raises(OutOfBoundsError, match=message):
        kernel[(4,)](out, 2.0)
    kernel[(4,)](out, 2.0)
    assert len(gpu.library.launches) == count + 1


def test_asserts_wait_for_each_launch(gpu):
    kernel = tw.jit(checked)
    out = gpu.tensor(torch.zeros(4))
    for _ in range(20):
        kernel[(1,)](out, 3, debug=True)
    assert not kernel.shortcuts["cuda"].lines


def test_wrong_grids(gpu):
    kernel = tw.jit(fill)
    out = gpu.tensor(torch.zeros(4))
    for _ in range(10):
        with pytest.raises(LaunchError, match=r"\(1, 65536, 1\) is too large for a GPU"):
            kernel[(1, 65536)](out, 2.0)
        kernel[(1, 65535, 2)](out, 2.0)
    with pytest.raises(LaunchError, match="negative"):
        kernel[(-1,)](out, 2.0)


def test_errors_of_the_driver(gpu):
    kernel = tw.jit(fill)
    out = gpu.tensor(torch.zeros(4))
    warm(kernel, (4,), out, 2.0)
    gpu.library.status = 719
    with pytest.raises(LaunchError, match="fill: the launch failed: CUDA error 719, what went"):
        kernel[(4,)](out, 2.0)
    gpu.library.status = 0
    kernel[(4,)](out, 2.0)


def test_threads_without_a_context(gpu):
    kernel = tw.jit(fill)
    out = gpu.tensor(torch.zeros(4))
    warm(kernel, (4,), out, 2.0)
    count = len(gpu.library.launches)
    wrong = []

    def launch() -> None:
        try:
            for _ in range(100):
                kernel[(4,)](out, 2.0)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=launch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    launches = gpu.library.launches[count:]
    assert len(launches) == 400 == len({x.number for x in launches})


# --- modules


def test_modules_are_unloaded_when_their_kernel_is_gone(gpu):
    kernel, other = tw.jit(fill), tw.jit(nothing)
    outs = [gpu.tensor(torch.zeros(4), device) for device in (0, 1)]
    for out in outs:
        warm(kernel, (4,), out, 2.0) if out is outs[0] else kernel[(4,)](out, 2.0)
    records = len(driver.driver().free_records)
    assert sorted(gpu.library.loaded.values()) == [0, 1]
    forget(kernel)
    assert len(gpu.library.loaded) == 2  # not at any time, but when others are loaded
    with tw.options(target="cuda"):
        other[(1,)](5)
    assert list(gpu.library.loaded.values()) == [0]
    assert len(driver.driver().free_records) == records  # one back, one taken
    for out in outs:
        warm(kernel, (4,), out, 2.0) if out is outs[0] else kernel[(4,)](out, 2.0)


def forget(kernel: JITFunction) -> None:
    """Drop all that a kernel was compiled to."""
    kernel.forget()
    compile._loaded.clear()
    gc.collect()


@pytest.mark.parametrize("native", [False, True])
def test_modules_that_a_graph_may_hold_stay(gpu, native):
    kernel, other = tw.jit(fill), tw.jit(nothing)
    out = gpu.tensor(torch.zeros(4))
    if native:
        warm(kernel, (4,), out, 2.0)
    gpu.streams[0] = 0x99
    gpu.library.capturing.add(0x99)
    kernel[(4,)](out, 2.0)
    gpu.library.capturing.clear()
    forget(kernel)
    with tw.options(target="cuda"):
        other[(1,)](5)
    assert len(gpu.library.loaded) == 2


def test_what_the_driver_says_of_a_kernel(gpu):
    handle = tw.jit(fill)[(4,)](gpu.tensor(torch.zeros(4)), 2.0)
    assert (handle.n_regs, handle.n_spills, handle.facts["programs"]) == (40, 2, 12)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_processes_are_told(gpu):
    kernel = tw.jit(fill)
    out = gpu.tensor(torch.zeros(4))
    warm(kernel, (4,), out, 2.0)
    child = os.fork()
    if child == 0:
        try:
            kernel[(4,)](out, 2.0)
        except LaunchError as error:
            os._exit(0 if "before this process was forked" in str(error) else 2)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    kernel[(4,)](out, 2.0)


def test_tuning_tells_apart_what_only_gpus_do(gpu, monkeypatch):
    def spent(run) -> int:
        run()
        return 1000

    monkeypatch.setattr(CUDA.__class__, "clock", lambda self, place, cold: spent)
    host = base.find("cpu").storage
    monkeypatch.setattr(CUDA.__class__, "storage", lambda self, size, place: host(size))
    configs = [tw.Config({}, num_warps=warps) for warps in (1, 2, 4)]
    kernel = tw.autotune(configs, key=["value"])(tw.jit(fill))
    here, there = torch.zeros(4), gpu.tensor(torch.zeros(4))
    kernel[(4,)](here, 2.0)
    assert len(kernel.configs_timings) == 1
    for _ in range(3):
        kernel[(4,)](there, 2.0)
    assert len(kernel.configs_timings) == 3
    assert [key[-1] for key in kernel.cache] == ["torch.float32", "cuda:0"]
    gpu.library.launches.clear()
    kernel[(4,)](there, 2.0)
    assert len(gpu.library.launches) == 1
