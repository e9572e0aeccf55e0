"""Memory of the current device beside a kernel's arguments, and the time that work takes there."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import numpy as np

from tilewright.targets.cuda import driver

FLUSH_BYTES = 256 << 20  # several times the L2; writing them takes 60 us and more


class DeviceStorage:
    """As `targets.storage.Storage`, on the current device."""

    def __init__(self, size: int):
        found = driver.driver()
        found.use(driver.current_stream()[0])
        self.size = size
        self.address = found.allocate(size)
        weakref.finalize(self, found.free, self.address)
        found.fill(self.address, 0, max(1, size))

    def read(self) -> np.ndarray:
        found = driver.driver()
        found.synchronize()
        out = np.empty(self.size, np.uint8)
        if self.size:
            found.read_to(out.ctypes.data, self.address, self.size)
        return out

    def write(self, content: np.ndarray) -> None:
        found = driver.driver()
        found.synchronize()
        held = np.ascontiguousarray(content)
        if held.nbytes:
            found.write(self.address, held.ctypes.data, held.nbytes)

    def take(self, address: int) -> None:
        self.move(self.address, address)

    def put(self, address: int) -> None:
        self.move(address, self.address)

    def move(self, to: int, address: int) -> None:
        """Copy between work that came before and work that comes after."""
        found = driver.driver()
        found.synchronize()
        if self.size:
            found.copy(to, address, self.size)
        found.synchronize()


def room() -> int:
    """Bytes of the current device that storage may take."""
    found = driver.driver()
    found.use(driver.current_stream()[0])
    return found.free_memory() // 2


def cold_clock() -> Callable[[Callable[[], object]], int]:
    """As `spent`, with cold caches, and work before that lasts until all of `run` is in the queue:
    else a short kernel takes as long as its launch."""
    flush = DeviceStorage(min(FLUSH_BYTES, room()))
    return lambda run: spent(run, flush)


def spent(run: Callable[[], object], flush: DeviceStorage | None = None) -> int:
    """Nanoseconds that the work which `run` starts takes on the current stream."""
    stream = driver.current_stream()[1]
    start, end = driver.Event(), driver.Event()
    if flush is not None:
        driver.driver().call("cuMemsetD8Async", flush.address, 0, flush.size, stream)
    start.record(stream)
    run()
    end.record(stream)
    end.synchronize()
    milliseconds = start.elapsed_time(end)
    start.close()
    end.close()
    return round(milliseconds * 1e6)
