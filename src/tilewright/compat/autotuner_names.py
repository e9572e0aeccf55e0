"""What `triton.runtime.autotuner` has beside our own names."""

from tilewright.compat.errors import PTXASError
from tilewright.errors import CompileTimeAssertionFailure, OutOfResources
from tilewright.runtime.kernel import KernelInterface

__all__ = ["CompileTimeAssertionFailure", "KernelInterface", "OutOfResources", "PTXASError"]
