"""Block pointers and tensor descriptors: a base, a shape and strides that become pointer tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.errors import want
from tilewright.ir import types as t
from tilewright.ir.op import emit
from tilewright.ir.types import DType, Type
from tilewright.lang.arithmetic import add
from tilewright.lang.constexpr import unwrap
from tilewright.lang.conversion import cast
from tilewright.lang.promote import as_python, constant, expand_to, is_number
from tilewright.lang.tensor import tensor
from tilewright.ops import shape as s


def as_list(values: Any) -> list[Any]:
    """A sequence of numbers and scalars, or one of them, as a list."""
    values = unwrap(values)
    if isinstance(values, tensor) or is_number(values):
        return [values]
    return [as_python(v) for v in values]


def scalar_of(value: Any, dtype: DType, what: str) -> tensor:
    """A number or integer scalar as a scalar of a dtype."""
    if is_number(value):
        return constant(value, Type(dtype))
    want(
        isinstance(value, tensor) and not value.shape and value.dtype.is_integer,
        f"{what} must be integers, got {value!r}",
    )
    return cast(value, dtype)


def size_of(value: Any, what: str) -> Any:
    """A number as it is, a scalar as int64: what index arithmetic takes."""
    return value if is_number(value) else scalar_of(value, t.int64, what)


def along(x: tensor, axis: int, rank: int) -> tensor:
    """A 1-D tile as one that runs along one of several dimensions."""
    shape = tuple(x.shape[0] if d == axis else 1 for d in range(rank))
    return tensor(emit(s.reshape, x.handle, shape=shape)) if rank > 1 else x


def indices(offset: Any, size: int, axis: int, rank: int) -> tensor:
    """The int64 indices offset, offset + 1, ... along a dimension."""
    counts = cast(tensor(emit(s.arange, start=0, end=size)), t.int64)
    at = counts if is_zero(offset) else cast(offset, t.int64) + counts
    return along(at, axis, rank)


def is_zero(value: Any) -> bool:
    return is_number(value) and value == 0


def pointers(base: tensor, places: Sequence[tensor], strides: Sequence[Any]) -> tensor:
    """The pointers to every combination of indices along the dimensions."""
    out = base
    for at, stride in zip(places, strides, strict=True):
        out = add(out, at if is_number(stride) and stride == 1 else at * stride)
    return out


def inside(places: Sequence[tensor], sizes: Sequence[Any], axes: Sequence[int]) -> Any:
    """Where the indices of the named dimensions lie in their sizes; None without any."""
    mask = None
    for axis in axes:
        within = (places[axis] >= 0) & (places[axis] < sizes[axis])
        mask = within if mask is None else mask & within
    return mask


@dataclass(frozen=True)
class block_pointer_type:
    """The type of a pointer to a block, of which kernels ask what it points to."""

    element_ty: Type

    def is_ptr(self) -> bool:
        return True

    def is_block(self) -> bool:
        return False


@dataclass(frozen=True, eq=False)
class block_pointer:
    """A block of a tensor in memory, of a fixed shape at a place that can move."""

    base: tensor
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    offsets: tuple[tensor, ...]
    block_shape: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def dtype(self) -> DType:
        return self.base.dtype

    @property
    def type(self) -> block_pointer_type:
        return block_pointer_type(Type(self.base.dtype.element_ty, self.block_shape))

    def advance(self, offsets: Any) -> block_pointer:
        """The block pointer, moved by offsets along each dimension."""
        steps = as_list(offsets)
        want(
            len(steps) == len(self.offsets),
            f"needs {len(self.offsets)} offsets, got {len(steps)}",
        )
        moved = [
            at if is_zero(step) else at + scalar_of(step, t.int32, "offsets")
            for at, step in zip(self.offsets, steps, strict=True)
        ]
        return replace(self, offsets=tuple(moved))

    def access(self, boundary_check: Any, padding: str) -> tuple[tensor, Any, Any]:
        """Pointers, mask and `other` of a load or store through it."""
        want(padding in ("", "zero", "nan"), f"no padding_option {padding!r}; 'zero' or 'nan'")
        rank = len(self.block_shape)
        axes = sorted(a + rank if a < 0 else a for a in as_list(boundary_check or ()))
        want(
            len(set(axes)) == len(axes) and all(0 <= a < rank for a in axes),
            f"boundary_check {axes} must name dimensions below {rank}, each at most once",
        )
        places = [
            indices(at, size, axis, rank)
            for axis, (at, size) in enumerate(zip(self.offsets, self.block_shape, strict=True))
        ]
        at = expand_to(pointers(self.base, places, self.strides), self.block_shape)
        mask = inside(places, self.shape, axes)
        if mask is None:
            return at, None, None
        return at, expand_to(mask, self.block_shape), padding_value(self.base, padding)


def padding_value(base: tensor, padding: str) -> float | int | None:
    """What a load gives outside; NaN is for floats only."""
    element = base.dtype.element_ty
    want(padding != "nan" or element.is_float, f"{element} has no NaN to pad with")
    return {"nan": float("nan"), "zero": 0}.get(padding)


def check_base(base: Any) -> tensor:
    want(
        isinstance(base, tensor) and base.dtype.is_pointer and not base.shape,
        f"the base must be one pointer, got {base!r}",
    )
    return base


def static_shape(values: Any) -> tuple[int, ...]:
    sizes = as_list(values)
    want(
        all(isinstance(n, int) for n in sizes),
        f"the shape of a block must be known at compile time, got {sizes}",
    )
    return s.check_shape(tuple(sizes))


def make_block_pointer(
    base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any
) -> block_pointer:
    """A block pointer from what `tl.make_block_ptr` takes."""
    block = static_shape(block_shape)
    order = tuple(as_list(order))
    parts = [as_list(x) for x in (shape, strides, offsets)]
    want(
        all(len(x) == len(block) for x in parts),
        f"shape, strides, offsets and block_shape must have one length, got "
        f"{[len(x) for x in parts]} and {len(block)}",
    )
    want(
        sorted(order) == list(range(len(block))),
        f"order {list(order)} does not name each of the {len(block)} dimensions once",
    )
    sizes = tuple(size_of(x, "the shape") for x in parts[0])
    steps = tuple(size_of(x, "the strides") for x in parts[1])
    places = tuple(scalar_of(x, t.int32, "offsets") for x in parts[2])
    return block_pointer(check_base(base), sizes, steps, places, block, order)
