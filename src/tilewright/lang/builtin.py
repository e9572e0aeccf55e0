"""Which Python functions a kernel may call: the functions of the language."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tilewright.errors import InternalError
from tilewright.ir.op import Op, has_machine
from tilewright.lang.constexpr import unwrap


def builtin(function: Callable) -> Callable:
    """Decorator: a function of the language. Constexprs arrive unwrapped."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not has_machine():
            raise InternalError(
                f"tl.{function.__name__} was called outside a kernel; "
                "decorate the function that calls it with @triton.jit"
            )
        kwargs.pop("_semantic", None)
        kwargs.pop("_builder", None)
        return function(*[unwrap(a) for a in args], **{k: unwrap(v) for k, v in kwargs.items()})

    call.is_tile_builtin = True
    return call


def is_builtin(value: Any) -> bool:
    """Whether a kernel may call `value` as a function of the language."""
    return isinstance(value, Op) or getattr(value, "is_tile_builtin", False)


def public(op: Op) -> Callable[[Callable], Op]:
    """Decorator: the function is what a call of the op in a kernel does."""

    def attach(function: Callable) -> Op:
        op.public = builtin(function)
        return op

    return attach
