"""The device in force, under the names by which programs ask Triton's driver for it."""

from __future__ import annotations

import sys
from typing import Any

from tilewright.language import target_info
from tilewright.runtime import gpu_driver
from tilewright.runtime.cpu_driver import CpuDriver, GPUTarget, benchmark
from tilewright.runtime.gpu_driver import CudaDriver

__all__ = ["CpuDriver", "CudaDriver", "GPUTarget", "active", "benchmark", "driver", "utils"]


class Chosen:
    """The GPU's driver where a program can use one, else the CPU's; chosen at each question."""

    def __init__(self) -> None:
        self.drivers = (CpuDriver(), CudaDriver())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.drivers[gpu_driver.is_in_force()], name)


class Utilities:
    """What the driver in force answers of its device."""

    def __getattr__(self, name: str) -> Any:
        return getattr(active.utils, name)


default = Chosen()
active: Any = default
utils = Utilities()
driver = sys.modules[__name__]  # programs find Triton's in `triton.runtime.driver` by this name
target_info.source = lambda: active.get_current_target()


def set_active(driver: Any) -> None:
    """Make another object answer; launches still go by their arguments and the settings."""
    global active
    active = driver


def reset_active() -> None:
    global active
    active = default
