"""Triton's errors under the modules in which programs look for them."""

from tilewright.errors import CompileError as CompilationError
from tilewright.errors import CompileTimeAssertionFailure, OutOfResources
from tilewright.errors import TilewrightError as TritonError
from tilewright.errors import UnsupportedError as UnsupportedLanguageConstruct
from tilewright.runtime.host import InterpreterError


class PTXASError(TritonError):
    """What NVIDIA's assembler would say; nothing here calls it."""


class AutotunerError(TritonError):
    """What a tuner of Triton's raises."""


__all__ = [
    "AutotunerError", "CompilationError", "CompileTimeAssertionFailure", "InterpreterError",
    "OutOfResources", "PTXASError", "TritonError", "UnsupportedLanguageConstruct",
]  # fmt: skip
