"""Calls: what a kernel may call, and what is said about calls that are wrong."""

from __future__ import annotations

import ast
import enum
import functools
import inspect
import os
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.errors import CompileError, TypeRuleError
from tilewright.ir.op import Op
from tilewright.ir.types import DType, Type
from tilewright.lang import arithmetic, inline
from tilewright.lang.builtin import builtin, is_builtin
from tilewright.lang.constexpr import constexpr, constexpr_function
from tilewright.lang.expressions import PYTHON_ERRORS, iterate, text_of
from tilewright.lang.jit import BoundJIT, JITCallable
from tilewright.lang.promote import as_python, to_tensor
from tilewright.lang.scope import suggestion
from tilewright.lang.substitutes import REPLACED
from tilewright.lang.tensor import METHODS, _Bound, known, tensor
from tilewright.lang.values import NUMBERS, brief, describe, is_runtime

if TYPE_CHECKING:
    from tilewright.lang.frontend import Frontend

# Modules whose functions a kernel may call with values known at compile time.
PURE_MODULES = frozenset(
    ("math", "_operator", "operator", "builtins", "functools", "itertools", "tilewright")
)
CONSTANT_SELVES = (
    str, bytes, int, float, complex, tuple, dict, frozenset, range, DType, Type, enum.Enum,
)  # fmt: skip


def call(f: Frontend, node: ast.Call) -> Any:
    callee = f.expr(node.func)
    args: list[Any] = []
    for item in node.args:
        if isinstance(item, ast.Starred):
            args.extend(iterate(f, item.value, f.expr(item.value)))
        else:
            args.append(f.expr(item))
    kwargs: dict[str, Any] = {}
    for item in node.keywords:
        if item.arg is None:
            kwargs.update(f.expr(item.value))
        else:
            kwargs[item.arg] = f.expr(item.value)
    f.at(node)
    return call_object(f, callee, args, kwargs, node.func)


def call_object(
    f: Frontend,
    callee: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    node: ast.expr | None = None,
) -> Any:
    """Call what a kernel may call; `node` is the callee's expression, for messages."""
    if isinstance(callee, (JITCallable, inline.LocalFunction)):
        return inline.call(f, callee, args, kwargs)
    if is_builtin(callee) or type(callee) is _Bound:
        return library(f, callee, args, kwargs, node)
    if getattr(callee, "__triton_builtin__", False):  # a program's own, by Triton's mark
        return library(f, builtin(callee), args, kwargs, node)
    if is_library_method(callee):
        return library(f, callee, args, kwargs, node)
    if isinstance(callee, BoundJIT):
        return inline.call(f, callee.function, [callee.instance, *args], kwargs)
    replacement = REPLACED.get(callee) if isinstance(callee, HASHABLE) else None
    if replacement is not None:
        return python_call(f, replacement, args, kwargs, node)
    if isinstance(getattr(callee, "fn", None), JITCallable):  # autotuned
        return inline.call(f, callee.fn, args, kwargs)
    if isinstance(callee, functools.partial):
        merged = {**callee.keywords, **kwargs}
        return call_object(f, callee.func, [*callee.args, *args], merged, node)
    if isinstance(callee, DType):
        return library(f, arithmetic.number, [*args, callee], kwargs, node)
    if is_record_type(callee) or is_record_function(f, callee, node):
        return python_call(f, callee, args, kwargs, node)
    args, kwargs = known(list(args)), {name: known(value) for name, value in kwargs.items()}
    fixed = not any(is_runtime(a) for a in (*args, *kwargs.values()))
    if not may_call(callee) and not (fixed and callable(callee) and is_of_module(f, node)):
        raise not_callable(f, callee, node)
    if not isinstance(callee, constexpr_function):
        if not fixed:
            raise needs_values(callee, args, kwargs, node)
        return python_call(f, callee, args, kwargs, node)
    inline.remember(f, callee.function)
    result = python_call(f, callee, args, kwargs, node)
    if is_runtime(result):  # it may look at the types of tensors, and no more
        raise needs_values(callee, args, kwargs, node)
    return result


def needs_values(
    callee: Any, args: Sequence[Any], kwargs: dict[str, Any], node: ast.expr | None
) -> CompileError:
    return CompileError(
        f"`{named(callee, node)}` is a Python function, which can only be called with values "
        f"known at compile time, got {arguments(args, kwargs)}; {instead_of(callee)}"
    )


HASHABLE = (types.BuiltinFunctionType, types.FunctionType, types.MethodType, type)


def is_record_type(callee: Any) -> bool:
    """Whether a callee makes tuples with names or instances of a dataclass."""
    if not isinstance(callee, type):
        return False
    return hasattr(callee, "__dataclass_fields__") or (
        issubclass(callee, tuple) and hasattr(callee, "_fields")
    )


def is_record_function(f: Frontend, callee: Any, node: ast.expr | None) -> bool:
    """Whether a callee is a Python function of a record: a method, or a static one by its class."""
    if isinstance(callee, types.MethodType):
        return is_record_type(type(callee.__self__))
    if not isinstance(callee, types.FunctionType) or not isinstance(node, ast.Attribute):
        return False
    return isinstance(node.value, ast.Name) and is_record_type(f.expr(node.value))


def is_of_module(f: Frontend, node: ast.expr | None) -> bool:
    """Whether a callee is written as a module's attribute, e.g. `torch.finfo`."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, (ast.Name, ast.Attribute)):
        return False
    return isinstance(f.expr(node.value), types.ModuleType)


def is_library_method(callee: Any) -> bool:
    """Whether a callee belongs to a block pointer, a descriptor, and the like."""
    owner = getattr(callee, "__self__", None)
    return isinstance(callee, types.MethodType) and type(owner).__module__.startswith(
        "tilewright.lang"
    )


def may_call(callee: Any) -> bool:
    """Whether a callee computes with Python values and nothing else."""
    if isinstance(callee, constexpr_function):
        return True
    if isinstance(callee, type):
        ours = callee.__module__.startswith("tilewright.lang") and callee is not tensor
        return ours or issubclass(callee, (*CONSTANT_SELVES, type(None)))
    owner = getattr(callee, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        return isinstance(owner, CONSTANT_SELVES)
    module = (getattr(callee, "__module__", None) or "").split(".")[0]
    if isinstance(owner, types.ModuleType):
        module = owner.__name__.split(".")[0]
    return callable(callee) and module in PURE_MODULES


def library(
    f: Frontend, callee: Any, args: Sequence[Any], kwargs: dict[str, Any], node: ast.expr | None
) -> Any:
    """Call a function of the language; what it says about wrong arguments becomes our error."""
    try:
        result = callee(*args, **kwargs)
    except TypeRuleError as error:
        raise named_error(f, error, named(callee, node)) from None
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise wrong_call(callee, args, kwargs, node, error) from error
    return result.value if type(result) is constexpr else result


def named_error(f: Frontend, error: TypeRuleError, name: str) -> TypeRuleError:
    """What a rule said about this call, beginning with the function's name."""
    if error.loc is not None and error.loc != f.builder.loc:
        return error  # of a helper that the function called
    error.loc = f.builder.loc
    if name.split(".")[-1] not in error.message:
        error.message = f"{name}: {error.message}"
    return error


def python_call(
    f: Frontend, callee: Callable, args: Sequence[Any], kwargs: dict, node: ast.expr | None
) -> Any:
    """Call a Python function now."""
    try:
        result = callee(*args, **kwargs)
    except CompileError:
        raise
    except PYTHON_ERRORS as error:
        message = f"cannot compute `{named(callee, node)}` of {arguments(args, kwargs)}: {error}"
        raise CompileError(message) from error
    result = as_python(result)
    return tuple(result) if type(result) is list else result


def named(callee: Any, node: ast.expr | None) -> str:
    return text_of(node) if node is not None else getattr(callee, "__name__", repr(callee))


def arguments(args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    shown = [brief(a) for a in args] + [f"{k}={brief(v)}" for k, v in kwargs.items()]
    return f"({', '.join(shown)})"


def signature_of(callee: Any) -> tuple[inspect.Signature | None, int]:
    """The signature of a function of the language, and how many arguments are bound already."""
    bound = 0
    if type(callee) is _Bound:
        callee, bound = callee.function, 1
    if isinstance(callee, Op):
        callee = callee.public
    try:
        return inspect.signature(callee), bound
    except (TypeError, ValueError):
        return None, bound


def wrong_call(
    callee: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    node: ast.expr | None,
    error: Exception,
) -> CompileError:
    """What is wrong about a call that Python refused, or the function's own complaint."""
    name = named(callee, node)
    signature, bound = signature_of(callee)
    if signature is None:
        return TypeRuleError(f"{name}: {error}")
    shown = list(signature.parameters.values())[bound:]
    text = f"{name}({', '.join(map(parameter_text, shown))})"
    try:
        signature.bind(*(None,) * bound, *args, **kwargs)
    except TypeError as refusal:
        accepted = [p.name for p in shown]
        for given in kwargs:
            if given not in accepted:
                hint = suggestion(given, accepted)
                return TypeRuleError(
                    f"`{name}` has no argument `{given}`{hint}\n  its call: {text}"
                )
        return TypeRuleError(f"wrong call of `{name}`: {refusal}\n  its call: {text}")
    return TypeRuleError(f"{name}: {error}")


def parameter_text(parameter: inspect.Parameter) -> str:
    star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    if parameter.default is parameter.empty:
        return star + parameter.name
    return f"{parameter.name}={parameter.default!r}"


def instead_of(callee: Any) -> str:
    """What to write for a function of Python's, PyTorch's or NumPy's."""
    name = getattr(callee, "__name__", "")
    return f"use tl.{name}" if name in METHODS else "write it with functions of tl"


def not_callable(f: Frontend, callee: Any, node: ast.expr | None) -> CompileError:
    name = named(callee, node)
    if isinstance(callee, types.MethodType):
        callee = callee.__func__
    if isinstance(callee, types.FunctionType):
        code = callee.__code__
        place = f"{os.path.basename(code.co_filename)}, line {code.co_firstlineno}"
        return CompileError(
            f"`{name}` is a plain Python function ({place}); decorate it with @triton.jit, or "
            "with @triton.constexpr_function if it only computes with values known at compile time"
        )
    if isinstance(callee, tensor) or type(callee) in NUMBERS or callee is None:
        return CompileError(f"cannot call `{name}`, which is {describe(callee)}")
    if isinstance(callee, type):
        return CompileError(
            f"cannot make a `{name}` in a kernel; use a tuple, a NamedTuple or a dataclass"
            if getattr(callee, "__module__", "") != "numpy"
            else f"cannot call `{name}` in a kernel; cast with x.to(tl.{callee.__name__})"
        )
    if getattr(callee, "__name__", "") in METHODS and name.split(".")[0] != "functools":
        return CompileError(f"cannot call `{name}` in a kernel; {instead_of(callee)}")
    owner = getattr(callee, "__self__", None)
    if isinstance(owner, (list, dict, set)):
        return CompileError(f"`{name}` changes a {type(owner).__name__}, which kernels cannot do")
    return CompileError(
        f"cannot call `{name}` in a kernel, which is a {type(callee).__name__}; a kernel may call "
        "functions of tl, @triton.jit functions, and @triton.constexpr_function functions"
    )


def as_tensor(value: Any) -> tensor:
    return value if isinstance(value, tensor) else to_tensor(value)


TABLE = {ast.Call: call}
