"""`triton.backends.driver`: the base classes of drivers."""

from tilewright.runtime.driver import CpuDriver as DriverBase

GPUDriver = DriverBase

__all__ = ["DriverBase", "GPUDriver"]
