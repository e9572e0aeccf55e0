"""`triton.backends`: the targets under the names of Triton's back ends."""

from types import SimpleNamespace

from tilewright.compat import backends_compiler as compiler
from tilewright.compat import backends_driver as driver
from tilewright.runtime.cpu_driver import CpuDriver

__path__: list[str] = []
# Inductor asks whether "cpu" is in here and would then generate code for internals of Triton's.
backends = {"tilewright": SimpleNamespace(compiler=compiler.BaseBackend, driver=CpuDriver)}

__all__ = ["backends", "compiler", "driver"]
