"""Values known at compile time."""

from __future__ import annotations

import inspect
import operator
import re
import textwrap
import types
from typing import Any


class constexpr:
    """A value known at compile time; operators on constexprs give constexprs.

    As an annotation of a kernel's parameter it makes the argument a part of the specialisation.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any):
        while isinstance(value, constexpr):
            value = value.value
        self.value = value

    def __class_getitem__(cls, item: Any) -> type:
        return cls

    def __repr__(self) -> str:
        return f"constexpr[{self.value}]"

    def __str__(self) -> str:
        return str(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __hash__(self) -> int:
        return hash(self.value)

    def __index__(self) -> int:
        return operator.index(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __iter__(self) -> Any:
        return iter(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, index: Any) -> constexpr:
        return constexpr(self.value[unwrap(index)])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.value(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "value":
            raise AttributeError(name)
        return getattr(self.value, name)


def unwrap(value: Any) -> Any:
    """The Python value of a constexpr, also inside tuples and lists."""
    if isinstance(value, constexpr):
        return value.value
    if type(value) in (tuple, list):
        return type(value)(unwrap(v) for v in value)
    return value


def forward(name: str) -> Any:
    function = getattr(operator, name)

    def method(self: constexpr, other: Any) -> Any:
        if not isinstance(other, constexpr) and defers(other):
            return NotImplemented
        return constexpr(function(self.value, unwrap(other)))

    def reflected(self: constexpr, other: Any) -> Any:
        if defers(other):
            return NotImplemented
        return constexpr(function(unwrap(other), self.value))

    return method, reflected


def unary(name: str) -> Any:
    function = getattr(operator, name)
    return lambda self: constexpr(function(self.value))


def defers(other: Any) -> bool:
    """Whether the other operand (a tile) decides what an operator means."""
    return hasattr(other, "handle")


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift",
              "and_", "or_", "xor"):  # fmt: skip
    _method, _reflected = forward(_name)
    setattr(constexpr, f"__{_name.rstrip('_')}__", _method)
    setattr(constexpr, f"__r{_name.rstrip('_')}__", _reflected)
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(constexpr, f"__{_name}__", forward(_name)[0])
for _name in ("neg", "pos", "invert", "abs"):
    setattr(
        constexpr,
        f"__{_name}__",
        unary(_name),
    )


class constexpr_function:
    """A Python function that kernels may call with values known at compile time."""

    def __init__(self, function: Any):
        self.function = function
        self.__name__ = getattr(function, "__name__", "constexpr_function")
        self.__qualname__ = getattr(function, "__qualname__", self.__name__)
        self.__module__ = getattr(function, "__module__", None)
        self.__doc__ = function.__doc__
        self.__wrapped__ = function
        self._given: str | None = None  # a text that stands in for what the file says

    @property
    def fn(self) -> Any:
        """The Python function, by the name that it has in Triton."""
        return self.function

    @property
    def src(self) -> str:
        """The text of the function from its `def` on."""
        if self._given is not None:
            return self._given
        text = textwrap.dedent(inspect.getsource(self.function))
        start = re.search(r"^def\s+\w+\s*\(", text, re.MULTILINE)
        return text[start.start() :] if start else text

    def _unsafe_update_src(self, text: str) -> None:
        """Call what this text defines in place of what the function's file says."""
        names: dict[str, Any] = {}
        exec(text, self.__wrapped__.__globals__, names)
        self._given = text
        self.function = names[self.__name__]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else constexpr_function(self.function.__get__(instance))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(
            *[unwrap(a) for a in args], **{k: unwrap(v) for k, v in kwargs.items()}
        )


def held(value: constexpr) -> Any:
    """What a constexpr from outside a kernel holds; a function in one may be called."""
    if type(value.value) is types.FunctionType:
        return constexpr_function(value.value)
    return value.value
