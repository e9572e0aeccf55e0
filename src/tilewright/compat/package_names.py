"""What `triton` itself has beside our own names."""

from tilewright.compat.compiler import compile
from tilewright.compat.ttir import native as _C
from tilewright.lang.typenames import aggregate
from tilewright.runtime.background import AsyncCompileMode, FutureKernel

__all__ = ["AsyncCompileMode", "FutureKernel", "_C", "aggregate", "compile"]
