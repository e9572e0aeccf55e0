"""A GPU in force, under the names by which programs ask Triton's driver for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn

from tilewright import config
from tilewright.errors import UnsupportedError
from tilewright.later import later
from tilewright.runtime import arrays
from tilewright.runtime.cpu_driver import FLUSH_BYTES, CpuDriver, GPUTarget, benchmark

cuda = later("tilewright.targets.cuda.driver")

GPU_FLUSH_BYTES = 4 * FLUSH_BYTES  # more than the L2 of any GPU


class GpuUtilities:
    """What programs ask about a GPU."""

    @staticmethod
    def get_device_properties(device: int | None = None) -> dict[str, int]:
        found = cuda.driver().device(CudaDriver.get_current_device() if device is None else device)
        return {
            "multiprocessor_count": found.processors,
            "max_shared_mem": found.shared_limit,
            "max_num_regs": found.registers,
            "warpSize": found.warp_size,
            "sm_clock_rate": found.clock_khz,
            "mem_clock_rate": found.memory_clock_khz,
            "mem_bus_width": found.bus_bits,
        }

    @staticmethod
    def load_binary(*args: Any) -> NoReturn:
        raise UnsupportedError("driver.utils.load_binary: launch kernels, which loads them")


class CudaDriver(CpuDriver):
    """The current GPU as a Triton driver."""

    def __init__(self) -> None:
        self.utils = GpuUtilities()

    def get_current_target(self) -> GPUTarget:
        device = cuda.driver().device(self.get_current_device())
        return GPUTarget("cuda", device.capability, device.warp_size)

    def get_active_torch_device(self) -> Any:
        """`torch.device("cuda", number)` of the current GPU."""
        return torch().device("cuda", self.get_current_device())

    @staticmethod
    def get_current_device() -> int:
        return torch().cuda.current_device()

    def set_current_device(self, device: int) -> None:
        torch().cuda.set_device(device)

    def get_current_stream(self, device: Any = None) -> int:
        return torch().cuda.current_stream(device).cuda_stream

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        return torch().cuda.get_device_capability(device)

    def get_device_interface(self) -> Any:
        return torch().cuda

    def get_benchmarker(self) -> Callable:
        """`bench(call, quantiles=None)`: milliseconds of a call."""

        def bench(call: Callable[[], Any], quantiles: Any = None) -> Any:
            return benchmark(lambda: (call(), torch().cuda.synchronize()), quantiles)

        return bench

    def get_empty_cache_for_benchmark(self) -> Any:
        return torch().empty(GPU_FLUSH_BYTES // 4, dtype=torch().int, device="cuda")


def torch() -> Any:
    return sys.modules["torch"]


def is_in_force() -> bool:
    """Whether the program's torch has a GPU, and the settings do not keep kernels from it."""
    found = sys.modules.get("torch")
    return (
        hasattr(found, "cuda")
        and not arrays.pretended
        and config.get("target") in ("", "cuda")
        and found.cuda.is_available()
        and cuda.is_available()
    )
