"""Run, step through and explain Triton kernels on CPUs and NVIDIA GPUs."""

from tilewright import debug, language, runtime, testing
from tilewright.config import options
from tilewright.errors import CompileError as CompilationError
from tilewright.errors import OutOfResources, TilewrightError
from tilewright.errors import TilewrightError as TritonError
from tilewright.instruments.watch import watch
from tilewright.lang.constexpr import constexpr_function
from tilewright.runtime.autotune import Autotuner, Config, Heuristics, autotune, heuristics
from tilewright.runtime.host import (
    InterpreterError,
    cdiv,
    must_use_result,
    next_power_of_2,
    set_allocator,
)
from tilewright.runtime.kernel import JITFunction, KernelInterface, jit
from tilewright.runtime.wrapped import MockTensor, TensorWrapper, reinterpret

version = "0.1.0"
# The version of Triton whose language this is: under the stand-in this module is `triton`, and
# programs compare `triton.__version__` (docs/decisions/0001-version.md).
__version__ = "3.6.0"

__all__ = [
    "Autotuner", "CompilationError", "Config", "Heuristics", "InterpreterError", "JITFunction",
    "KernelInterface", "MockTensor", "OutOfResources", "TensorWrapper", "TilewrightError",
    "TritonError", "autotune", "cdiv", "constexpr_function", "debug", "heuristics", "jit",
    "language", "must_use_result", "next_power_of_2", "options", "reinterpret", "runtime",
    "set_allocator", "testing", "version", "watch",
]  # fmt: skip
