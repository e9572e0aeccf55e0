"""Run, step through and explain Triton kernels on CPUs and NVIDIA GPUs."""

from tilewright import language, runtime
from tilewright.config import options
from tilewright.errors import CompileError as CompilationError
from tilewright.errors import OutOfResources, TilewrightError
from tilewright.errors import TilewrightError as TritonError
from tilewright.lang.constexpr import constexpr_function
from tilewright.later import attributes as _attributes
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

# What few programs use: modules, or names in modules, that are loaded then.
_LATER = {
    "debug": "tilewright.debug",
    "testing": "tilewright.testing",
    "watch": "tilewright.instruments.watch:watch",
}
__getattr__ = _attributes(__name__, _LATER)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
