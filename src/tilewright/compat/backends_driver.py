"""`triton.backends.driver`: the base classes of drivers."""

from tilewright.runtime.cpu_driver import CpuDriver as DriverBase

GPUDriver = DriverBase

__all__ = ["DriverBase", "GPUDriver"]
