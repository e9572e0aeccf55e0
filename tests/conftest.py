"""What all tests share: hypothesis settings, a cache of their own, and skipping without a GPU."""

from __future__ import annotations

import ctypes
import functools
import os
import signal

import hypothesis
import pytest

hypothesis.settings.register_profile("tilewright", deadline=None, derandomize=True)
hypothesis.settings.load_profile("tilewright")


@functools.cache
def gpu_count() -> int:
    """NVIDIA GPUs that the driver offers; 0 without a driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def pytest_collection_modifyitems(items):
    on_gpu = [item for item in items if item.get_closest_marker("cuda")]
    if not on_gpu or gpu_count():
        return
    for item in on_gpu:
        item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU"))


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Compiled kernels go to a fresh folder, so no test sees code from an earlier version."""
    before = os.environ.get("TILEWRIGHT_CACHE_DIR")
    os.environ["TILEWRIGHT_CACHE_DIR"] = str(tmp_path_factory.mktemp("kernels"))
    yield
    if before is None:
        del os.environ["TILEWRIGHT_CACHE_DIR"]
    else:
        os.environ["TILEWRIGHT_CACHE_DIR"] = before


@pytest.fixture(scope="session", autouse=True)
def interrupts():
    """Ctrl-C interrupts, also where a shell runs the tests in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
