"""What `triton.runtime.jit` has beside our own names."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn, TypeVar

from tilewright.errors import UnsupportedError
from tilewright.lang.constexpr import constexpr, constexpr_function
from tilewright.lang.jit import JITCallable
from tilewright.lang.promote import scalar_dtype
from tilewright.language.core import dtype
from tilewright.runtime import driver
from tilewright.runtime.descriptor import TensorDescriptor
from tilewright.runtime.dtypes import named_dtype
from tilewright.runtime.signature import Parameter as KernelParam
from tilewright.runtime.wrapped import MockTensor, TensorWrapper, reinterpret


def get_full_name(fn: Any) -> str:
    """Module and qualified name of a function."""
    return f"{fn.__module__}.{fn.__qualname__}"


class JitFunctionInfo(NamedTuple):
    """Which function a hook is told of."""

    module: str
    name: str
    jit_function: Any


def get_jit_fn_file_line(fn: Any) -> tuple[str, int]:
    """Where a kernel is written: the file, and the line of its `def`."""
    inner = fn
    while not isinstance(inner, JITCallable):
        inner = inner.fn
    source = inner.source
    return source.file, source.node.lineno + source.shift


def type_canonicalisation(name: Any) -> str:
    """The short spelling of a dtype, e.g. `fp32` of `torch.float32`."""
    found = named_dtype(str(name))
    if found is None:
        raise UnsupportedError(f"no dtype {name!r}")
    return re.sub(r"^u?int", lambda m: m[0][0] if m[0] == "int" else "u", found.name)


def mangle_type(arg: Any, specialize: bool = False) -> str:
    """The type of an argument as signatures spell it, e.g. `*fp32` or `i32`."""
    if arg is None or isinstance(arg, constexpr):
        return "constexpr"
    if isinstance(arg, TensorDescriptor):
        return f"tensordesc<{mangle_type(arg.base)[1:]}{list(arg.block_shape)}>"
    if isinstance(arg, float):
        return "fp32"
    if isinstance(arg, bool):
        return "u1"
    if isinstance(arg, int):
        return type_canonicalisation(scalar_dtype(arg).name)
    return "*" + type_canonicalisation(str(arg.dtype).removeprefix("torch."))


def create_specialize_impl(specialize_extra: Any = None) -> Callable:
    """A function that gives the type of an argument, and what is known beyond it: nothing."""
    return lambda arg, *_, **__: (mangle_type(arg), None)


def specialize_impl(*args: Any) -> NoReturn:
    """Triton's own way of looking at an argument; ours is `JITFunction.prepare`."""
    raise UnsupportedError("triton.runtime.jit.specialize_impl is an internal of Triton's")


T = TypeVar("T")
ConstexprFunction = constexpr_function
native_specialize_impl = create_function_from_signature = specialize_impl

__all__ = [
    "ConstexprFunction", "JITCallable", "JitFunctionInfo", "KernelParam", "MockTensor", "T",
    "TensorWrapper", "constexpr_function", "create_function_from_signature",
    "create_specialize_impl", "driver", "dtype", "get_full_name", "get_jit_fn_file_line",
    "mangle_type", "native_specialize_impl", "reinterpret", "specialize_impl",
    "type_canonicalisation",
]  # fmt: skip
