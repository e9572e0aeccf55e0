"""Which Python functions a kernel may call: the functions of the language."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from tilewright.errors import OutsideKernelError
from tilewright.ir.op import Op, has_machine, machine
from tilewright.lang.constexpr import constexpr, unwrap
from tilewright.lang.tensor import known, tensor

# Parameters that must be known while the kernel is compiled, in whichever function they are.
STATIC = frozenset(
    ("allow_tf32", "axis", "bitcast", "block_shape", "boundary_check", "can_reorder", "cond",
     "descending", "dim", "dims", "end", "fast_math", "hex", "ieee_rounding", "k", "keep_dims",
     "lhs_k_pack", "max_num_imprecise_acc", "n_rounds", "num_bins", "order", "pack",
     "return_indices", "return_indices_tie_break_left", "reverse", "rhs_k_pack", "shape", "start",
     "strides", "tie_break_left", "values", "volatile")
)  # fmt: skip


# What Triton's compiler passes to functions of the language.
CONTEXT = ("_semantic", "_builder")


def is_needed(function: Callable, name: str) -> bool:
    """Whether a function has a parameter, and no default for it."""
    parameter = inspect.signature(function).parameters.get(name)
    return parameter is not None and parameter.default is parameter.empty


def static_places(function: Callable) -> tuple[list[bool], bool]:
    """Which positional arguments must be known, and whether those beyond must."""
    parameters = inspect.signature(function).parameters.values()
    places = [p.name in STATIC for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    return places, any(p.name in STATIC for p in parameters if p.kind is p.VAR_POSITIONAL)


def argument(value: Any, static: bool) -> Any:
    """An argument without its constexpr; as a number where one is needed."""
    if static and isinstance(value, (tensor, tuple, list)):
        return known(value)
    return unwrap(value)


def as_constexpr(value: Any) -> Any:
    """An argument as Triton's own functions get it: constants in constexprs."""
    constant = value is None or isinstance(value, (bool, int, float, str))
    return constexpr(value) if constant else value


def within(
    fn: Callable, args: tuple, kwargs: dict[str, Any], places: list[bool], beyond: bool
) -> Any:
    """A call that the machine counts, so that what it calls is known not to be the kernel's own."""
    given = [argument(a, s) for a, s in zip(args, places)]
    given += [argument(a, beyond) for a in args[len(places) :]]
    current = machine()
    current.calls += 1
    try:
        return fn(*given, **{k: argument(v, k in STATIC) for k, v in kwargs.items()})
    finally:
        current.calls -= 1


def builtin(fn: Callable) -> Callable:
    """Decorator: a function of the language.

    Constexprs arrive unwrapped, but in functions of programs, which expect Triton's.
    """
    places, beyond = static_places(fn)
    is_users = not fn.__module__.startswith("tilewright")
    context = {name: None for name in CONTEXT if is_users and is_needed(fn, name)}

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not has_machine():
            raise OutsideKernelError(
                f"tl.{fn.__name__} was called outside a kernel. Did you forget to add @triton.jit "
                "to the function that calls it?"
            )
        for name in CONTEXT:
            kwargs.pop(name, None)
        if is_users:
            named = {k: as_constexpr(v) for k, v in kwargs.items()}
            return fn(*map(as_constexpr, args), **named, **context)
        if machine().sanitize:
            return within(fn, args, kwargs, places, beyond)
        given = [argument(a, s) for a, s in zip(args, places)]
        given += [argument(a, beyond) for a in args[len(places) :]]
        return fn(*given, **{k: argument(v, k in STATIC) for k, v in kwargs.items()})

    call.is_tile_builtin = True
    return call


def is_builtin(fn: Any) -> bool:
    """Whether a kernel may call `fn` as a function of the language."""
    return isinstance(fn, Op) or getattr(fn, "is_tile_builtin", False)


def public(op: Op) -> Callable[[Callable], Op]:
    """Decorator: the function is what a call of the op in a kernel does."""

    def attach(function: Callable) -> Op:
        op.public = builtin(function)
        return op

    return attach
