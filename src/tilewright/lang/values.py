"""Values that may hold tensors inside: taken apart into leaves, put together again, described."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from tilewright.ir import types as t
from tilewright.ir.types import DType, Type
from tilewright.lang.promote import computation_dtype, constant, integer_range, kind, scalar_dtype
from tilewright.lang.tensor import tensor

NUMBERS = frozenset((bool, int, float))


class Undefined:
    """What a name holds that lost its value; reading it is an error, and this says why."""

    __slots__ = ("reason",)

    def __init__(self, reason: str):
        self.reason = reason


def flatten(value: Any, path: str = "", out: list | None = None) -> list[tuple[str, Any]]:
    """The leaves of a value with the expressions that reach them, e.g. `state[1]`."""
    out = [] if out is None else out
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", None)
        for i, item in enumerate(value):
            flatten(item, f"{path}.{fields[i]}" if fields else f"{path}[{i}]", out)
    elif is_record(value):
        for item in dataclasses.fields(value):
            flatten(getattr(value, item.name), f"{path}.{item.name}", out)
    else:
        out.append((path, value))
    return out


def rebuild(value: Any, leaves: Iterator[Any]) -> Any:
    """The value with other leaves, taken in the order of `flatten`."""
    if isinstance(value, tuple):
        items = [rebuild(item, leaves) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if is_record(value):
        new = object.__new__(type(value))
        for item in dataclasses.fields(value):
            part = rebuild(getattr(value, item.name), leaves)
            object.__setattr__(new, item.name, part)
        return new
    return next(leaves)


def is_record(value: Any) -> bool:
    """Whether a value is an instance of a dataclass that may hold tensors; types are leaves."""
    kind_of = type(value)
    return hasattr(kind_of, "__dataclass_fields__") and not issubclass(kind_of, (DType, Type))


def is_runtime(value: Any) -> bool:
    """Whether a tensor is, or is in, the value."""
    if type(value) in NUMBERS or value is None:
        return False
    return any(isinstance(leaf, tensor) for _, leaf in flatten(value))


def same_static(a: Any, b: Any) -> bool:
    """Whether two leaves that are no tensors are the same value."""
    return a is b or (type(a) is type(b) and bool(a == b))


def is_scalar_leaf(value: Any) -> bool:
    """Whether a leaf can become a tensor."""
    return isinstance(value, tensor) or type(value) in NUMBERS


def fits(number: Any, dtype: DType) -> bool:
    """Whether a Python number becomes this dtype without losing anything that its kind has."""
    if dtype.is_pointer or kind(scalar_dtype(number)) > kind(dtype):
        return kind_allows_unsigned(number, dtype)
    if dtype.is_integer and dtype is not t.int1:
        low, high = integer_range(dtype)
        return low <= number <= high
    return True


def kind_allows_unsigned(number: Any, dtype: DType) -> bool:
    """A Python int that is not negative may become an unsigned integer."""
    if dtype.kind != "uint" or dtype is t.int1 or type(number) is not int:
        return False
    low, high = integer_range(dtype)
    return low <= number <= high


def common_type(a: Any, b: Any) -> Type | None:
    """The one type that two leaves can have, numbers taking the type of a tensor; None: none."""
    a_tensor, b_tensor = isinstance(a, tensor), isinstance(b, tensor)
    if a_tensor and b_tensor:
        return a.handle.type if a.handle.type == b.handle.type else None
    if a_tensor or b_tensor:
        known, number = (a, b) if a_tensor else (b, a)
        fine = type(number) in NUMBERS and not known.shape and fits(number, known.dtype)
        return known.handle.type if fine else None
    if type(a) in NUMBERS and type(b) in NUMBERS:
        return Type(computation_dtype(scalar_dtype(a), False, scalar_dtype(b), False, False))
    return None


def as_type(leaf: Any, type: Type) -> tensor:
    """A leaf as a tensor of a type that `common_type` gave for it."""
    return leaf if isinstance(leaf, tensor) else constant(leaf, type)


def describe(value: Any) -> str:
    """A value in the words of a message."""
    if isinstance(value, tensor):
        return str(value.handle.type)
    if type(value) in NUMBERS:
        return f"the number {value}"
    if value is None or isinstance(value, (str, DType)):
        return repr(value)
    if isinstance(value, tuple):
        inner = ", ".join(map(brief, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, Undefined):
        return "undefined"
    name = getattr(value, "__name__", None)
    return f"`{name}`" if name else f"a {type(value).__name__}"


def brief(value: Any) -> str:
    """A value among others: numbers by themselves."""
    return str(value) if type(value) in NUMBERS else describe(value)
