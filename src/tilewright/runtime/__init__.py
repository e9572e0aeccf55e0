"""From a call `kernel[grid](...)` to a launch: arguments, compilation, caches and timing."""

from tilewright.errors import OutOfResources
from tilewright.runtime import driver
from tilewright.runtime.autotune import Autotuner, Config, Heuristics, autotune, heuristics
from tilewright.runtime.host import InterpreterError
from tilewright.runtime.kernel import JITFunction, KernelInterface
from tilewright.runtime.wrapped import MockTensor, TensorWrapper, reinterpret

__all__ = [
    "Autotuner", "Config", "Heuristics", "InterpreterError", "JITFunction", "KernelInterface",
    "MockTensor", "OutOfResources", "TensorWrapper", "autotune", "driver", "heuristics",
    "reinterpret",
]  # fmt: skip
