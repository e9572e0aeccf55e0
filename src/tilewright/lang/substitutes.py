"""Python's builtins in a kernel: what `max`, `int`, `print` and the like do there."""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.errors import CompileError, want
from tilewright.ir.op import emit
from tilewright.lang import arithmetic, meta
from tilewright.lang.constexpr import constexpr
from tilewright.lang.tensor import METHODS, known, tensor
from tilewright.lang.values import assigned, describe, is_runtime
from tilewright.ops import debug

EAGER = "run the kernel step by step with TILEWRIGHT_TARGET=eager to stop in it"


def check_order(items: Sequence[Any]) -> None:
    """Raise for numbers of which Python takes the first and tiles the other."""
    for x in items:
        if isinstance(x, float) and (x != x or (x == 0 and math.copysign(1, x) < 0)):
            raise CompileError(
                f"`min` and `max` of numbers known at compile time do not take {x}; use "
                "tl.minimum or tl.maximum"
            )


def extreme(function: Callable, of_tiles: Callable) -> Callable:
    """`max` or `min`: of known values now, else elementwise; numbers become scalars."""

    def pick(*args: Any) -> Any:
        items = tuple(args[0]) if len(args) == 1 else args
        if not any(isinstance(x, tensor) for x in items):
            check_order(items)
            return assigned(function(items))
        result = items[0]
        for x in items[1:]:
            result = of_tiles(result, x)
        return result

    return pick


def absolute(x: Any) -> Any:
    return METHODS["__abs__"](x) if isinstance(x, tensor) else abs(x)


def number(kind: type, dtype: str) -> Callable:
    """`int`, `float`, `bool`: of values known now."""

    def convert(x: Any = 0) -> Any:
        x = known(x)
        if isinstance(x, tensor):
            raise CompileError(
                f"`{kind.__name__}` needs a value known at compile time, got {describe(x)}; cast "
                f"with x.to(tl.{dtype})"
            )
        return kind(x)

    return convert


def is_instance(value: Any, classes: Any) -> bool:
    """`isinstance`, for which what is known at compile time is a constexpr."""
    kinds = classes if isinstance(classes, tuple) else (classes,)
    if constexpr in kinds and not is_runtime(value):
        return True
    return isinstance(value, kinds)


def length(x: Any) -> int:
    if isinstance(x, tensor):
        raise CompileError(f"a tile has no len, got {describe(x)}; use x.shape[0]")
    return len(tuple(x) if isinstance(x, meta.range) else x)


def show(*values: Any, sep: str = " ", end: str = "\n", **others: Any) -> None:
    """`print`: one device_print for each run-time value, with the text before it."""
    want(
        not others and sep == " " and end == "\n",
        "`print` in a kernel takes no sep, end, file or flush; use tl.device_print(prefix, value)",
    )
    prefix: list[str] = []
    handles: list[Any] = []
    for value in values:
        if isinstance(value, tensor):
            handles.append(value.handle)
            continue
        if handles:
            emit(debug.device_print, *handles, prefix=" ".join(prefix), hex=False)
            prefix, handles = [], []
        prefix.append(str(value))
    emit(debug.device_print, *handles, prefix=" ".join(prefix), hex=False)


def text(value: Any = "") -> str:
    value = known(value)
    if is_runtime(value):
        raise CompileError(
            f"`str` needs a value known at compile time, got {describe(value)}; print it with "
            "tl.device_print"
        )
    return str(value)


def stop(*args: Any, **kwargs: Any) -> None:
    raise CompileError(f"`breakpoint` has no meaning in compiled code; {EAGER}")


def type_of(value: Any) -> Any:
    return value.type if isinstance(value, tensor) else type(value)


def read_attribute(value: Any, name: str, *default: Any) -> Any:
    return getattr(value, name, *default)


def fold(function: Callable) -> Callable:
    """`any`, `all`, `sorted`: of values known now."""

    def apply(items: Any, **kwargs: Any) -> Any:
        items = known(tuple(items))
        if is_runtime(tuple(items)):
            raise CompileError(
                f"`{function.__name__}` needs values known at compile time, got "
                f"{describe(tuple(items))}; combine them with | and &"
            )
        return function(items, **kwargs)

    return apply


def total(items: Any, start: Any = 0) -> Any:
    if isinstance(items, tensor):
        raise CompileError("`sum` adds the items of a tuple; for a tile use tl.sum(x)")
    return sum(items, start)


REPLACED: dict[Any, Callable] = {
    builtins.range: meta.range,
    builtins.max: extreme(max, arithmetic.maximum),
    builtins.min: extreme(min, arithmetic.minimum),
    builtins.abs: absolute,
    builtins.int: number(int, "int32"),
    builtins.float: number(float, "float32"),
    builtins.bool: number(bool, "int1"),
    builtins.str: text,
    builtins.isinstance: is_instance,
    builtins.len: length,
    builtins.print: show,
    builtins.breakpoint: stop,
    builtins.type: type_of,
    builtins.getattr: read_attribute,
    builtins.hasattr: hasattr,
    builtins.any: fold(any),
    builtins.all: fold(all),
    builtins.sorted: fold(sorted),
    builtins.sum: total,
    builtins.tuple: lambda items=(): tuple(items),
    builtins.list: lambda items=(): tuple(items),
    builtins.dict: dict,
    builtins.zip: lambda *items, strict=False: tuple(zip(*items, strict=strict)),
    builtins.enumerate: lambda items, start=0: tuple(enumerate(items, start)),
    builtins.reversed: lambda items: tuple(reversed(tuple(items))),
    builtins.slice: slice,
    functools.partial: functools.partial,
    constexpr: lambda value: value,
}
