"""`triton.backends.driver`: the base classes of drivers."""

from collections.abc import Callable

from tilewright.runtime.cpu_driver import CpuDriver as DriverBase

GPUDriver = DriverBase
Benchmarker = Callable  # what a driver measures calls with

__all__ = ["Benchmarker", "DriverBase", "GPUDriver"]
