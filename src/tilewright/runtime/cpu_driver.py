"""The CPU under the names by which programs ask Triton's driver for a device."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from tilewright import config
from tilewright.errors import UnsupportedError
from tilewright.runtime.timing import measure
from tilewright.targets.cpu.threads import default_threads

FLUSH_BYTES = (
    64 << 20
)  # what a benchmark overwrites between runs; more than a core's share of cache


@dataclass(frozen=True)
class GPUTarget:
    """What code is made for."""

    backend: str
    arch: int | str
    warp_size: int


class Event:
    """A point in time, as `torch.cuda.Event`; work on the CPU is done when a launch returns."""

    def __init__(self, enable_timing: bool = False, **_: Any):
        self.time = 0.0

    def record(self, stream: Any = None) -> None:
        self.time = time.perf_counter()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from here to `end`."""
        return (end.time - self.time) * 1e3

    def synchronize(self) -> None:
        """Nothing is in flight."""


class CpuInterface:
    """What `torch.cuda` is for a GPU, for the CPU."""

    Event = Event

    @staticmethod
    def synchronize(device: Any = None) -> None:
        """Nothing is in flight."""

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def set_device(device: Any) -> None:
        """There is one device."""

    @staticmethod
    def device_count() -> int:
        return 1


class Utilities:
    """What programs ask about a device."""

    @staticmethod
    def get_device_properties(device: int = 0) -> dict[str, int]:
        """The CPU in a GPU's words: a core is a multiprocessor, a program runs on one thread."""
        return {
            "multiprocessor_count": default_threads(),
            "max_shared_mem": 1 << 20,
            "max_num_regs": 1 << 16,
            "warpSize": 1,
            "sm_clock_rate": 0,
            "mem_clock_rate": 0,
            "mem_bus_width": 0,
        }

    @staticmethod
    def load_binary(*args: Any) -> NoReturn:
        raise UnsupportedError("driver.utils.load_binary loads GPU code; the CPU target has none")


def benchmark(call: Callable[[], Any], quantiles: Sequence[float] | None = None) -> Any:
    """Milliseconds that a call takes: the mean, or these quantiles."""
    timing = measure(call)
    if quantiles is None:
        return timing.mean * 1e3
    return [timing.quantile(q) * 1e3 for q in quantiles]


class CpuDriver:
    """The CPU as a Triton driver."""

    def __init__(self) -> None:
        self.utils = Utilities()

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cpu", config.get("features") or "host", 1)

    def get_active_torch_device(self) -> Any:
        """`torch.device("cpu")`, for which a stream may be set as for the devices of GPUs."""
        import torch

        if not hasattr(torch.cpu, "set_stream"):
            torch.cpu.set_stream = lambda stream: None
        return torch.device("cpu")

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        """There is one device."""

    def get_current_stream(self, device: Any = None) -> int:
        return 0

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        return (0, 0)

    def get_device_interface(self) -> type[CpuInterface]:
        return CpuInterface

    def get_benchmarker(self) -> Callable:
        """`bench(call, quantiles=None)`: milliseconds of a call."""
        return benchmark

    def get_empty_cache_for_benchmark(self) -> Any:
        """Memory that `clear_cache` overwrites."""
        import torch

        return torch.empty(FLUSH_BYTES // 4, dtype=torch.int)

    def clear_cache(self, cache: Any) -> None:
        """Push other data out of the caches."""
        cache.zero_()

    @staticmethod
    def is_active() -> bool:
        return True

    def map_python_to_cpp_type(self, name: str) -> NoReturn:
        raise UnsupportedError("driver.map_python_to_cpp_type: kernels are launched without C++")
