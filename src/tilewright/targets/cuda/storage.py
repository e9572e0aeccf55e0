"""Memory of a GPU beside a kernel's arguments, and the time that work takes there."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from tilewright.targets.cuda import driver, streams
from tilewright.targets.cuda.driver import Driver


@contextmanager
def quiet(place: int) -> Iterator[Driver]:
    """The driver on a device (-1: the current one), after all work that was begun there."""
    device = streams.current_stream()[0] if place < 0 else place
    with driver.in_force(device):
        found = driver.driver()
        found.synchronize()
        yield found


FLUSH_BYTES = 256 << 20  # several times the L2; writing them takes 60 us and more


class DeviceStorage:
    """As `targets.storage.Storage`, on a GPU."""

    def __init__(self, size: int, place: int):
        self.size = size
        self.place = streams.current_stream()[0] if place < 0 else place
        with quiet(self.place) as found:
            self.address = found.allocate(size)
            found.fill(self.address, 0, max(1, size))
        # When the process ends, the driver frees all by itself.
        weakref.finalize(self, free, self.place, self.address).atexit = False

    def read(self) -> np.ndarray:
        out = np.empty(self.size, np.uint8)
        with quiet(self.place) as found:
            if self.size:
                found.read_to(out.ctypes.data, self.address, self.size)
        return out

    def write(self, content: np.ndarray) -> None:
        held = np.ascontiguousarray(content)
        with quiet(self.place) as found:
            if held.nbytes:
                found.write(self.address, held.ctypes.data, held.nbytes)

    def take(self, address: int) -> None:
        self.move(self.address, address)

    def put(self, address: int) -> None:
        self.move(address, self.address)

    def move(self, to: int, address: int) -> None:
        """Copy between work that came before and work that comes after."""
        with quiet(self.place) as found:
            if self.size:
                found.copy(to, address, self.size)
            found.synchronize()


def free(place: int, address: int) -> None:
    with quiet(place) as found:
        found.free(address)


def room(place: int) -> int:
    """Bytes of a device that storage may take."""
    with quiet(place) as found:
        return found.free_memory() // 2


def in_force(place: int) -> tuple[int, int]:
    """The number of a device (-1: the current one), and the stream in force on it."""
    device, stream = streams.current_stream()
    return (device, stream) if place in (-1, device) else (place, streams.stream_of(place))


def is_recording(place: int) -> bool:
    """Whether launches on the stream in force become part of a graph."""
    device, stream = in_force(place)
    if not stream:  # the default stream cannot be captured
        return False
    with driver.in_force(device):
        return driver.driver().is_capturing(stream)


def cold_clock(place: int) -> Callable[[Callable[[], object]], int]:
    """As `spent`, with cold caches, and work before that lasts until all of `run` is in the queue:
    else a short kernel takes as long as its launch."""
    flush = DeviceStorage(min(FLUSH_BYTES, room(place)), place)
    return lambda run: spent(place, run, flush)


def spent(place: int, run: Callable[[], object], flush: DeviceStorage | None = None) -> int:
    """Nanoseconds that the work which `run` starts takes on the stream in force of a device."""
    device, stream = in_force(place)
    with driver.in_force(device):
        start, end = streams.Event(), streams.Event()
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
