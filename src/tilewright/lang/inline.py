"""Functions called by a kernel: bound to their arguments and compiled in place."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tilewright.errors import CompileError, Loc
from tilewright.lang.constexpr import unwrap
from tilewright.lang.jit import JITCallable
from tilewright.lang.outcome import Returned
from tilewright.lang.scope import Scope, suggestion
from tilewright.lang.source import read_source
from tilewright.lang.statements import is_constexpr_note
from tilewright.lang.tensor import known
from tilewright.lang.values import assigned

if TYPE_CHECKING:
    from tilewright.lang.frontend import Frontend

MAX_DEPTH = 100


class LocalFunction:
    """A function or lambda that a kernel defines; it sees the names around it."""

    __slots__ = ("node", "scope", "defaults", "kw_defaults", "__name__")

    def __init__(self, node: ast.FunctionDef | ast.Lambda, scope: Scope, defaults, kw_defaults):
        self.node = node
        self.scope = scope
        self.defaults = defaults
        self.kw_defaults = kw_defaults
        self.__name__ = getattr(node, "name", "<lambda>")


def define(f: Frontend, node: ast.FunctionDef) -> None:
    """A function definition inside a function; decorators are ignored if they are jit."""
    for decorator in node.decorator_list:
        if not ast.unparse(decorator).split("(")[0].endswith("jit"):
            raise f.error(
                "a function inside a kernel takes no decorators but triton.jit", decorator
            )
    f.scope.names[node.name] = make_function(f, node)


def make_function(f: Frontend, node: ast.FunctionDef | ast.Lambda) -> LocalFunction:
    defaults = tuple(f.expr(d) for d in node.args.defaults)
    kw_defaults = {
        a.arg: f.expr(d) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults) if d
    }
    return LocalFunction(node, f.scope, defaults, kw_defaults)


def call(
    f: Frontend,
    function: JITCallable | LocalFunction,
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> Any:
    """Compile the body of a function here; gives what it returns."""
    outer, loc, depth = f.scope, f.builder.loc, f.scope.depth + 1
    if depth > MAX_DEPTH:
        raise CompileError(
            f"calls are nested more than {MAX_DEPTH} deep at `{function.__name__}`: functions are "
            "compiled in place, so recursion must end by a condition known at compile time; write "
            "a loop",
            without_middle(loc),
        )
    if isinstance(function, LocalFunction):
        node, source, fn, parent = (
            function.node, function.scope.source, function.scope.fn, function.scope,
        )  # fmt: skip
        defaults, kw_defaults = function.defaults, function.kw_defaults
    else:
        source, fn, parent = function.source, function.fn, None
        node = source.node
        defaults, kw_defaults = fn.__defaults__ or (), fn.__kwdefaults__ or {}
        f.sources.setdefault(full_name(function), source.text)
    names = bind(function.__name__, node.args, defaults, kw_defaults, args, kwargs)
    f.scope = Scope(function.__name__, source, names, fn, parent, loc, depth)
    try:
        if isinstance(node, ast.Lambda):
            return f.expr(node.body)
        outcome = f.block(node.body)
    finally:
        f.scope, f.builder.loc = outer, loc
    return assigned(outcome.value) if isinstance(outcome, Returned) else None


def without_middle(loc: Loc) -> Loc:
    """A long chain of callers, of which only both ends are shown."""
    chain = [loc]
    while chain[-1].caller is not None:
        chain.append(chain[-1].caller)
    shown = chain[:2] + chain[-2:]
    result: Loc | None = None
    for part in reversed(shown):
        result = replace(part, caller=result)
    return result


def full_name(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def remember(f: Frontend, function: Callable) -> None:
    """Note the source of a Python function on whose results the kernel depends."""
    if isinstance(function, types.FunctionType) and full_name(function) not in f.sources:
        try:
            f.sources[full_name(function)] = read_source(function).text
        except CompileError:
            f.sources[full_name(function)] = function.__code__.co_code.hex()


def bind(
    name: str,
    spec: ast.arguments,
    defaults: tuple,
    kw_defaults: dict[str, Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> dict[str, Any]:
    """The parameters of a function with the values that a call gives them."""
    positional = [*spec.posonlyargs, *spec.args]
    names: dict[str, Any] = {}
    for parameter, value in zip(positional, args):
        names[parameter.arg] = value
    if spec.vararg is not None:
        names[spec.vararg.arg] = tuple(args[len(positional) :])
    elif len(args) > len(positional):
        raise wrong(name, spec, f"takes {len(positional)} arguments, {len(args)} are given")
    extra: dict[str, Any] = {}
    accepted = {a.arg for a in (*spec.args, *spec.kwonlyargs)}
    for key, value in kwargs.items():
        if key in names and key in accepted:
            raise wrong(name, spec, f"is given `{key}` twice")
        if key in accepted:
            names[key] = value
        elif spec.kwarg is not None:
            extra[key] = value
        else:
            raise wrong(name, spec, f"has no argument `{key}`{suggestion(key, accepted)}")
    if spec.kwarg is not None:
        names[spec.kwarg.arg] = extra
    for parameter, value in zip(positional[len(positional) - len(defaults) :], defaults):
        names.setdefault(parameter.arg, unwrap(value))
    for key, value in kw_defaults.items():
        names.setdefault(key, unwrap(value))
    missing = [a.arg for a in (*positional, *spec.kwonlyargs) if a.arg not in names]
    if missing:
        quoted = ", ".join(f"`{m}`" for m in missing)
        raise wrong(name, spec, f"is not given {quoted}")
    take_constexprs(spec, names)
    return names


def take_constexprs(spec: ast.arguments, names: dict[str, Any]) -> None:
    """Parameters that are annotated as constexpr hold the value itself, if it is known now.

    What only the run knows is passed all the same, as Triton does: it counts where it is used.
    """
    for parameter in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
        note = parameter.annotation
        if note is not None and is_constexpr_note(note):
            names[parameter.arg] = known(names[parameter.arg])


def wrong(name: str, spec: ast.arguments, what: str) -> CompileError:
    return CompileError(f"`{name}` {what}\n  its call: {name}({ast.unparse(spec)})")


def fill_defaults(jit: JITCallable, names: dict[str, Any], loc: Loc) -> None:
    """Parameters of a kernel that nobody gave have their defaults."""
    for key, parameter in jit.python_signature.parameters.items():
        if key in names:
            continue
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            names[key] = ()
        elif parameter.default is inspect.Parameter.empty:
            raise CompileError(f"`{jit.__name__}` is not given `{key}`", loc)
        else:
            names[key] = unwrap(parameter.default)


STATEMENTS = {ast.FunctionDef: define}
EXPRESSIONS = {ast.Lambda: make_function}
