"""`triton.backends`: the targets under the names of Triton's back ends."""

from types import SimpleNamespace

from tilewright.compat import backends_compiler as compiler
from tilewright.compat import backends_driver as driver
from tilewright.compat.backends_compiler import BaseBackend
from tilewright.compat.backends_driver import DriverBase
from tilewright.runtime.cpu_driver import CpuDriver

__path__: list[str] = []
# One maker of code for both kinds of devices: programs look for "cpu", and for any other name.
backend = SimpleNamespace(compiler=compiler.BaseBackend, driver=CpuDriver)
backends = {"cpu": backend, "tilewright": backend}

__all__ = ["BaseBackend", "DriverBase", "backends", "compiler", "driver"]
