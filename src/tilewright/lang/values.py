"""Values that may hold tensors inside: taken apart into leaves, put together again, described."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator
from typing import Any

from tilewright.ir import types as t
from tilewright.ir.types import DType, Type
from tilewright.lang.constexpr import unwrap
from tilewright.lang.promote import (
    computation_dtype,
    constant,
    integer_range,
    kind,
    scalar_dtype,
    to_tensor,
)
from tilewright.lang.tensor import known, tensor

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


def assigned(value: Any) -> Any:
    """What a name holds, or a call gives, that is assigned a value: numbers become scalars.

    So a number that has a name counts with its own dtype, and a literal with that of the tile
    that it meets.
    """
    value = unwrap(value)
    if isinstance(value, (bool, int, float)) and not isinstance(value, enum.Enum):
        return to_tensor(value) if fits_64_bits(value) else value
    if isinstance(value, tuple):
        items = [assigned(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):  # of a comprehension, in eager mode
        return [assigned(item) for item in value]
    return value


def fits_64_bits(value: Any) -> bool:
    return not isinstance(value, int) or -(2**63) <= value < 2**64


def as_number(leaf: Any) -> Any:
    """A number, or one that was assigned, which may take another type; None for others."""
    if type(leaf) in NUMBERS:
        return leaf
    if isinstance(leaf, tensor):
        number = known(leaf)
        if number is not leaf and scalar_dtype(number) is leaf.dtype:
            return number
    return None


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
    if isinstance(a, tensor) and isinstance(b, tensor) and a.handle.type == b.handle.type:
        return a.handle.type
    one, other = as_number(a), as_number(b)
    if one is not None and other is not None:
        return Type(computation_dtype(scalar_dtype(one), False, scalar_dtype(other), False, False))
    if one is None and other is None:
        return None
    x, number = (b, one) if other is None else (a, other)
    fine = isinstance(x, tensor) and not x.shape and fits(number, x.dtype)
    return x.handle.type if fine else None


def as_type(leaf: Any, type: Type) -> tensor:
    """A leaf as a tensor of a type that `common_type` gave for it."""
    if isinstance(leaf, tensor) and leaf.handle.type == type:
        return leaf
    return constant(as_number(leaf), type)


def describe(value: Any) -> str:
    """A value in the words of a message."""
    number = as_number(value)
    if number is not None:
        return f"the number {number}"
    if isinstance(value, tensor):
        return str(value.handle.type)
    if isinstance(value, DType):
        return value.spelled
    if value is None or isinstance(value, str):
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
    number = as_number(value)
    return describe(value) if number is None else str(number)
