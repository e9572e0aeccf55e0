"""The names of a function that is being compiled: its locals, closure, globals, and builtins."""

from __future__ import annotations

import ast
import builtins
import enum
import functools
import os
import types
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from tilewright.config import TRUE_WORDS
from tilewright.errors import CompileError, Loc
from tilewright.ir.op import OPS, Op
from tilewright.ir.types import DType, Type
from tilewright.lang.constexpr import constexpr, constexpr_function, held
from tilewright.lang.jit import JITCallable
from tilewright.lang.source import Source
from tilewright.lang.tensor import METHODS, tensor
from tilewright.lang.typenames import is_note
from tilewright.lang.values import Undefined
from tilewright.later import later

difflib = later("difflib")

BUILTINS = {
    name: getattr(builtins, name)
    for name in (
        "range", "len", "min", "max", "abs", "int", "float", "bool", "str", "isinstance", "getattr",
        "hasattr", "print", "tuple", "list", "zip", "enumerate", "type", "sum", "slice", "round",
        "pow", "divmod", "any", "all", "reversed", "sorted", "repr", "callable", "issubclass",
        "breakpoint", "ValueError", "TypeError", "RuntimeError", "AssertionError", "Exception",
        "NotImplementedError", "NotImplemented", "Ellipsis", "dict", "map", "filter",
    )
}  # fmt: skip

CONSTANTS = (
    bool, int, float, str, bytes, complex, type(None), type(Ellipsis), DType, Type, enum.Enum,
    types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, type,
    JITCallable, constexpr_function, Op, slice, range, frozenset, functools.partial,
)  # fmt: skip
RECORDED = (bool, int, float, str, bytes, complex, type(None), DType, Type, enum.Enum, tuple)

# What Triton takes from outside as constexpr only, unless this variable is set.
PLAIN = (bool, int, float, str, tuple)
ALLOWING = "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS"

MISSING = object()


class Scope:
    """One function that is being compiled, and what its names hold at this point of it."""

    __slots__ = ("name", "source", "names", "fn", "parent", "caller", "depth", "found", "loops",
                 "declared")  # fmt: skip

    def __init__(
        self,
        name: str,
        source: Source,
        names: dict[str, Any],
        fn: Callable,
        parent: Scope | None = None,
        caller: Loc | None = None,
        depth: int = 0,
    ):
        self.name = name
        self.source = source
        self.names = names
        self.fn = fn
        self.parent = parent  # of a function defined inside another one, that one's scope
        self.caller = caller
        self.depth = depth
        self.found: dict[str, Any] = {}  # names found outside, kept
        self.loops: list[Any] = []  # the loops around this point, innermost last
        self.declared: set[str] = set()  # names declared constexpr without a value

    def loc(self, node: ast.AST) -> Loc:
        return self.source.loc(node, self.name, self.caller)

    def read(self, node: ast.Name, record: dict[str, Any]) -> Any:
        """What a name holds; constants found outside the function are noted in `record`."""
        value = self.names.get(node.id, MISSING)
        if value is MISSING:
            value = self.found.get(node.id, MISSING)
            if value is MISSING:
                return self.read_outside(node, record)
        if type(value) is Undefined:
            raise CompileError(f"`{node.id}` has no value here: {value.reason}", self.loc(node))
        return value

    def read_outside(self, node: ast.Name, record: dict[str, Any]) -> Any:
        scope = self.parent
        while scope is not None:
            value = scope.names.get(node.id, MISSING)
            if type(value) is Undefined:
                raise CompileError(f"`{node.id}` has no value here: {value.reason}", self.loc(node))
            if value is not MISSING:
                return value  # not kept: it may change before the next read
            scope = scope.parent
        where, value = self.outside(node.id)
        if value is MISSING:
            raise CompileError(self.unknown(node.id), self.loc(node))
        self.warn_of_plain(node, value)
        value = self.checked(node, value)
        if where and isinstance(value, RECORDED):
            record[f"{where}.{node.id}"] = value
        self.found[node.id] = value
        return value

    def warn_of_plain(self, node: ast.Name, value: Any) -> None:
        """Say what Triton would refuse: from outside it takes numbers as constexpr only."""
        annotations = self.fn.__globals__.get("__annotations__", {})
        if type(value) not in PLAIN or is_note(annotations.get(node.id), "constexpr"):
            return
        if os.environ.get(ALLOWING, "").lower() in TRUE_WORDS:
            return
        loc = self.loc(node)
        warnings.warn_explicit(
            f"Triton refuses `{node.id}`, a name from outside that is no constexpr; write "
            f"`{node.id} = tl.constexpr({value!r})`",
            UserWarning, loc.file, loc.line,
        )  # fmt: skip

    def outside(self, name: str) -> tuple[str, Any]:
        """Where a name is found outside the function, and its value."""
        fn = self.fn
        free = fn.__code__.co_freevars
        if name in free:
            try:
                cell = fn.__closure__[free.index(name)].cell_contents
            except ValueError:  # not assigned yet
                return "", MISSING
            return f"{fn.__module__}.{fn.__qualname__}", cell
        if name in fn.__globals__:
            return str(fn.__module__), fn.__globals__[name]
        return "", BUILTINS.get(name, MISSING)

    def unknown(self, name: str) -> str:
        if hasattr(builtins, name):
            return (
                f"the builtin `{name}` cannot be used in a kernel; compute its value outside and "
                "pass it as a tl.constexpr argument"
            )
        if name in METHODS or getattr(OPS.get(name), "public", None) is not None:
            return f"`{name}` is not defined; did you mean `tl.{name}`?"
        known = [*self.names, *self.fn.__globals__, *BUILTINS]
        if self.parent is not None:
            known += self.parent.names
        return f"`{name}` is not defined{suggestion(name, known)}"

    def checked(self, node: ast.Name, value: Any) -> Any:
        """A value from outside, if a kernel may rely on it."""
        if isinstance(value, constexpr):
            value = held(value)
        if is_constant(value):
            return value
        if type(value).__module__ == "numpy" and hasattr(value, "item") and not value.shape:
            return value.item()
        kind = type(value).__name__
        if isinstance(value, (list, dict, set, bytearray)):
            advice = "write it as a tuple, or pass it as an argument"
        elif hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__"):
            advice = "pass it to the kernel as an argument"
        else:
            advice = "pass what the kernel needs of it as arguments"
        raise CompileError(
            f"the kernel reads `{node.id}` from outside, which is a {kind}: it can change after "
            f"the kernel is compiled; {advice}",
            self.loc(node),
        )


def is_constant(value: Any) -> bool:
    """Whether a value from outside stays what it is."""
    if isinstance(value, tuple):
        return all(is_constant(v) or isinstance(v, constexpr) for v in value)
    if isinstance(value, CONSTANTS):
        return True
    if getattr(value, "is_tile_builtin", False) or isinstance(value, tensor):
        return True
    if isinstance(getattr(value, "fn", None), JITCallable):  # autotuned
        return True
    if type(value).__module__.split(".")[0] in ("tilewright", "torch") and not hasattr(
        value, "__dlpack__"
    ):
        return True
    parameters = getattr(type(value), "__dataclass_params__", None)
    return parameters is not None and parameters.frozen


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean ...?` for a name close to one that exists."""
    close = difflib.get_close_matches(name, [k for k in known if not k.startswith("__")], 1, 0.7)
    return f"; did you mean `{close[0]}`?" if close else ""
