"""`triton.backends.driver`: the base classes of drivers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.runtime.cpu_driver import CpuDriver
from tilewright.runtime.driver import Chosen, CudaDriver


class _IsDriver(type):
    """Of the class that every driver of ours is taken to be an instance of."""

    def __instancecheck__(cls, instance: Any) -> bool:
        ours = cls is DriverBase and isinstance(instance, (Chosen, CpuDriver, CudaDriver))
        return ours or super().__instancecheck__(instance)


class DriverBase(CpuDriver, metaclass=_IsDriver):
    """What programs derive drivers of their own from."""


GPUDriver = DriverBase
Benchmarker = Callable  # what a driver measures calls with

__all__ = ["Benchmarker", "DriverBase", "GPUDriver"]
