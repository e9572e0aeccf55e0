"""`triton._utils`: small functions on nested tuples and types that programs borrow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tilewright.ir.types import BY_NAME
from tilewright.ir.types import MAX_ELEMENTS as TRITON_MAX_TENSOR_NUMEL
from tilewright.runtime.dtypes import named_dtype
from tilewright.runtime.signature import SPELLINGS


def is_iterable(x: Any) -> bool:
    """Whether a value is a list or a tuple."""
    return isinstance(x, (list, tuple))


def apply_with_path(value: Any, fn: Callable, path: tuple = ()) -> None:
    """Call `fn(path, leaf)` for every leaf of nested lists and tuples."""
    if not is_iterable(value):
        fn(path, value)
        return
    for index, item in enumerate(value):
        apply_with_path(item, fn, (*path, index))


def find_paths_if(value: Any, condition: Callable) -> list[tuple]:
    """The paths of the leaves for which `condition(path, leaf)` holds."""
    found: list[tuple] = []
    apply_with_path(value, lambda path, leaf: found.append(path) if condition(path, leaf) else None)
    return found


def get_iterable_path(value: Any, path: tuple) -> Any:
    """The item that a path leads to."""
    for index in path:
        value = value[index]
    return value


def set_iterable_path(value: Any, path: tuple, item: Any) -> None:
    """Replace the item that a path leads to."""
    get_iterable_path(value, path[:-1])[path[-1]] = item


def list_list_flatten(x: list[list]) -> tuple[list[int], list]:
    """The lengths of lists, and their items in one list."""
    return [len(row) for row in x], [item for row in x for item in row]


def list_list_unflatten(lengths: list[int], flat: list) -> list[list]:
    """The inverse of `list_list_flatten`."""
    items = iter(flat)
    return [[next(items) for _ in range(length)] for length in lengths]


def is_power_of_two(x: int) -> bool:
    return x > 0 and x & (x - 1) == 0


def validate_block_shape(shape: Any) -> int:
    """The number of elements of a tile of that shape.

    Raises:
        TypeError, ValueError: when there is no such tile.
    """
    for i, size in enumerate(shape):
        if not isinstance(size, int):
            raise TypeError(f"Shape element {i} must have type `int`, got `{type(size)}")
        if not is_power_of_two(size):
            raise ValueError(f"Shape element {i} must be a power of 2")
    count = math.prod(shape)
    if count > TRITON_MAX_TENSOR_NUMEL:
        raise ValueError(
            f"numel ({count}) exceeds triton maximum tensor numel ({TRITON_MAX_TENSOR_NUMEL})"
        )
    return count


def canonicalize_dtype(dtype: Any) -> str:
    """The short spelling of a dtype, e.g. `fp32`."""
    return named_dtype(dtype).name


def canonicalize_ptr_dtype(dtype: Any, is_const: bool) -> str:
    """The spelling of a pointer to a dtype, e.g. `*fp32`."""
    return f"{'*k' if is_const else '*'}{canonicalize_dtype(dtype)}"


BITWIDTH_DICT = {
    name: dtype.bits for name, dtype in {**BY_NAME, **SPELLINGS}.items() if not dtype.is_pointer
}


def get_primitive_bitwidth(dtype: str) -> int:
    """The bits of a dtype by its spelling."""
    return BITWIDTH_DICT[dtype]


def is_namedtuple(value: Any) -> bool:
    """Whether a class, or a value, is a tuple with names."""
    kind = value if isinstance(value, type) else type(value)
    return issubclass(kind, tuple) and hasattr(kind, "_fields")
