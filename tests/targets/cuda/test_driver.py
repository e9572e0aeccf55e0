"""The driver where there is none, and the architectures that code can be made for."""

from __future__ import annotations

import ctypes
import os

import numpy as np
import pytest

import tilewright as tw
from tilewright import language as tl
from tilewright.errors import LaunchError
from tilewright.ir.types import parse_type
from tilewright.targets.cuda import arch, driver
from tilewright.targets.cuda.history import slot_format
from tilewright.targets.cuda.launch import CudaBinary, ParameterBuffer
from tilewright.targets.cuda.target import CUDA, CudaTarget, warps_of

needs_no_driver = pytest.mark.skipif(driver.is_available(), reason="there is a GPU here")


@tw.jit
def ones_kernel(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 1.0)


def test_arrays_on_the_cpu_are_refused_by_name():
    with tw.options(target="cuda"), pytest.raises(LaunchError) as found:
        ones_kernel[(1,)](np.zeros(16, np.float32), BLOCK=16)
    assert "ones_kernel: the arrays are on cpu and the target is cuda" in str(found.value)


@needs_no_driver
def test_without_a_driver_the_way_out_is_named():
    with pytest.raises(LaunchError, match="no NVIDIA driver is installed here"):
        driver.driver()


@needs_no_driver
def test_identity_needs_a_device_unless_one_is_named():
    with pytest.raises(LaunchError):
        CUDA.identity()
    assert CudaTarget("sm_80").identity().startswith("sm_80 ptx")


@pytest.mark.parametrize(
    ("capability", "name"),
    [(75, "sm_75"), (80, "sm_80"), (86, "sm_86"), (89, "sm_89"), (90, "sm_90a"), (121, "sm_120")],
)
def test_architecture_of_a_device(capability, name):
    assert arch.of_capability(capability).name == name


def test_old_devices_are_refused():
    with pytest.raises(LaunchError, match="compute capability 7.0, code can be made from 7.5 on"):
        arch.of_capability(70)
    with pytest.raises(LaunchError, match="no architecture 'sm_42'"):
        arch.find("sm_42")
    assert arch.find("90a") is arch.find("sm_90a")


@pytest.mark.parametrize("count", [0, None])
def test_default_number_of_warps(count):
    assert warps_of({"num_warps": count}) == 4


@pytest.mark.parametrize("count", [3, 64, -1, 2.0])
def test_impossible_numbers_of_warps(count):
    with pytest.raises(LaunchError, match="num_warps must be"):
        warps_of({"num_warps": count})


def test_slots_are_packed_as_the_kernel_takes_them():
    texts = ("*f32", "i32", "u8", "i1", "f16", "f32", "f64", "i64", "u64")
    assert "".join(slot_format(parse_type(x)) for x in texts) == "QQQiBBffdqQ"


def binary() -> CudaBinary:
    site = {
        "kind": "load", "param": 0, "file": "x.py", "line": 3, "col": 0, "end_line": 3,
        "end_col": 1, "function": "k", "bytes": 4, "message": "",
    }  # fmt: skip
    metadata = {
        "name": "k", "entry": "e", "params": [["x", "*f32"], ["n", "i32"]], "sites": [site],
        "num_warps": 4, "shared": 0, "asserts": False,
    }  # fmt: skip
    return CudaBinary(b"", metadata)


def launch_number(found: CudaBinary, number: int, grid: tuple, values: tuple) -> None:
    """Have a binary remember a launch that there was not."""
    buffer = ParameterBuffer(found.history.size)
    head = (*grid, 128, 1, 1, 0, 0, 0, 0)
    found.history.pack_into(buffer.memory, 0, *head, found.record, number, 0, *values)
    found.history.remember(number, buffer.address)


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (1400, "touches element 100 of 100, 1 element past the end"),
        (1396, "touches element 100 of 100, 1 element past the end"),  # the end of a vector
        (996, "touches element -1 of 100, 1 element before the start"),
    ],
)
def test_late_reports_name_the_launch_they_are_of(address, text):
    found = binary()
    memory = (ctypes.c_uint64 * 8)()
    found.record = ctypes.addressof(memory)
    launch_number(found, 4, (2, 3, 1), (1000, 1000, 1400, 7))
    memory[0], memory[1] = 1 << 48 | 4 << 31 | 5, address
    message = str(found.fault())
    assert "program (1, 2, 0)" in message
    assert text in message
    assert memory[0] == 0


def test_reports_of_launches_long_ago_give_the_address():
    found = binary()
    memory = (ctypes.c_uint64 * 8)()
    found.record = ctypes.addressof(memory)
    launch_number(found, 4 + 256, (2, 3, 1), (1000, 1000, 1400, 7))
    memory[0], memory[1] = 1 << 48 | 4 << 31 | 5, 0x1234
    assert "touches address 0x1234" in str(found.fault())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_processes_are_told(monkeypatch):
    class Used:
        process = os.getpid() + 1

    monkeypatch.setattr(driver, "process_driver", Used)
    with pytest.raises(LaunchError, match="before this process was forked"):
        driver.driver()
