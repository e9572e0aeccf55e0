"""Making tiles and moving their elements: shapes, dimensions, subscripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.errors import TypeRuleError, want
from tilewright.ir.op import emit
from tilewright.ir.types import Type
from tilewright.lang.arithmetic import minimum
from tilewright.lang.builtin import builtin, public
from tilewright.lang.constexpr import unwrap
from tilewright.lang.conversion import as_dtype, cast, number_in
from tilewright.lang.promote import (
    as_python,
    constant,
    expand_to,
    is_number,
    same_dtype,
    same_shape,
    to_tensor,
)
from tilewright.lang.tensor import method, tensor
from tilewright.ops import shape as s


def as_shape(values: Any) -> tuple[int, ...]:
    """A shape from a sequence of numbers or one number."""
    values = unwrap(values)
    sizes = [as_python(n) for n in values] if isinstance(values, Sequence) else [as_python(values)]
    for n in sizes:
        want(
            isinstance(n, int) and not isinstance(n, bool),
            f"a shape must be known at compile time, got {n!r}; make the argument a tl.constexpr",
        )
    return tuple(int(n) for n in sizes)


def varargs(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments given one by one or as one sequence."""
    if len(values) == 1 and isinstance(values[0], Sequence):
        return tuple(unwrap(v) for v in values[0])
    return values


def wrap_axis(axis: Any, rank: int) -> int:
    """A dimension counted from the front; negative ones count from the end."""
    axis = as_python(axis)
    want(
        not isinstance(axis, tensor) or not axis.shape,
        "the second argument is an axis, got a tile; for two tiles, element by element, use "
        "tl.maximum, tl.minimum, + or *",
    )
    want(
        isinstance(axis, int) and -rank <= axis < rank,
        f"invalid axis {axis!r}: it must be a number from {-rank} to {rank - 1}",
    )
    return axis % rank if rank else 0


# --- making tiles


@public(s.arange)
def arange(start: Any, end: Any) -> tensor:
    """The int32 numbers from start up to, not including, end; their number is a power of two."""
    for bound in (start, end):
        want(
            isinstance(bound, int),
            f"arange needs numbers known at compile time, got {bound!r}; "
            "make the argument a tl.constexpr and mask what is too much",
        )
        want(-(2**31) <= bound <= 2**31, f"arange gives int32, which does not hold {bound}")
    return tensor(emit(s.arange, start=int(start), end=int(end)))


@builtin
def full(shape: Any, value: Any, dtype: Any) -> tensor:
    """A tile with one value in every element."""
    shape, dtype = as_shape(shape), as_dtype(dtype)
    if is_number(value):
        scalar = number_in(value, dtype)
        return scalar if not shape else tensor(emit(s.splat, scalar.handle, shape=shape))
    want(
        isinstance(value, tensor) and value.handle.type.size == 1,
        f"full needs one number, got {value!r}",
    )
    scalar = cast(reshape(value, ()), dtype)
    return expand_to(scalar, s.check_shape(shape))


@builtin
def zeros(shape: Any, dtype: Any) -> tensor:
    """A tile of zeros."""
    return constant(0, Type(as_dtype(dtype), s.check_shape(as_shape(shape))))


@builtin
def zeros_like(input: Any) -> tensor:
    """A tile of zeros of the same type."""
    return constant(0, to_tensor(input).handle.type)


@builtin
def full_like(input: Any, value: Any) -> tensor:
    """A tile of the same type with one value in every element."""
    kind = to_tensor(input).handle.type
    return full(kind.shape, value, kind.dtype)


# --- shapes


@method("broadcast_to")
@builtin
def broadcast_to(input: Any, *shape: Any) -> tensor:
    """The tile repeated along its dimensions of size 1."""
    x, shape = to_tensor(input), as_shape(varargs(shape))
    want(
        len(x.shape) in (0, len(shape)),
        f"cannot broadcast {x.handle.type} to {list(shape)}: the numbers of dimensions differ",
    )
    return expand_to(x, shape)


@builtin
def broadcast(input: Any, other: Any) -> tuple[tensor, ...]:
    """Both tiles broadcast to one shape."""
    return same_shape(to_tensor(input), to_tensor(other))


@method("reshape")
@builtin
def reshape(input: Any, *shape: Any, can_reorder: bool = False) -> tensor:
    """The same elements, in row-major order, in another shape."""
    x, shape = to_tensor(input), as_shape(varargs(shape))
    return x if x.shape == shape else tensor(emit(s.reshape, x.handle, shape=shape))


@method("view")
@builtin
def view(input: Any, *shape: Any) -> tensor:
    """The same elements, in row-major order, in another shape."""
    return reshape(input, *shape)


@method("ravel")
@builtin
def ravel(x: Any, can_reorder: bool = False) -> tensor:
    """The elements as one row."""
    return reshape(x, to_tensor(x).handle.type.size)


@builtin
def squeeze(x: Any, dim: Any) -> tensor:
    """The tile without a dimension of size 1."""
    x = to_tensor(x)
    place = wrap_axis(dim, len(x.shape))
    want(x.shape[place] == 1, f"dimension {place} of {x.handle.type} does not have size 1")
    return reshape(x, x.shape[:place] + x.shape[place + 1 :])


@builtin
def unsqueeze(x: Any, dim: Any) -> tensor:
    """The tile with a new dimension of size 1 before one that is there."""
    x = to_tensor(x)
    return reshape(x, (*x.shape[:dim], 1, *x.shape[dim:]))


@method("item")
@builtin
def item(input: Any) -> tensor:
    """The scalar in a tile of one element."""
    return reshape(input, ())


@method("permute")
@builtin
def permute(input: Any, *dims: Any) -> tensor:
    """The dimensions in another order."""
    x = to_tensor(input)
    order = tuple(wrap_axis(d, len(x.shape)) for d in varargs(dims))
    return (
        x
        if order == tuple(range(len(order))) and len(order) == len(x.shape)
        else tensor(emit(s.permute, x.handle, order=order))
    )


@method("trans")
@builtin
def trans(input: Any, *dims: Any) -> tensor:
    """The tile with its last two dimensions exchanged, or in the order given."""
    x, order = to_tensor(input), varargs(dims)
    rank = len(x.shape)
    if not order:
        want(rank >= 2, f"trans needs at least two dimensions, got {x.handle.type}")
        order = (*range(rank - 2), rank - 1, rank - 2)
    return permute(x, *order)


@method("expand_dims")
@builtin
def expand_dims(input: Any, axis: Any) -> tensor:
    """The tile with new dimensions of size 1 at the places given."""
    x = to_tensor(input)
    axes = [as_python(a) for a in axis] if isinstance(axis, Sequence) else [as_python(axis)]
    rank = len(x.shape) + len(axes)
    places = sorted(wrap_axis(a, rank) for a in axes)
    want(
        len(set(places)) == len(places),
        f"{axes} are duplicate axes, normalized axes = {places}",
    )
    shape = list(x.shape)
    for place in places:
        shape.insert(place, 1)
    return reshape(x, shape)


@method("__getitem__")
def subscript(x: tensor, index: Any) -> tensor:
    """x[None, :], x[:, None], x[...]: new dimensions of size 1."""
    index = unwrap(index)
    parts = list(index) if isinstance(index, Sequence) else [index]
    parts = [as_python(p) for p in parts]
    kept = [p for p in parts if p is not None]
    if any(p is Ellipsis for p in parts):
        at = parts.index(Ellipsis)
        missing = len(x.shape) - len(kept) + 1
        parts[at : at + 1] = [slice(None)] * missing
        kept = [p for p in parts if p is not None]
    whole = all(is_whole_slice(p) for p in kept)
    if whole and not x.shape:  # a scalar has no dimension that a `:` could keep
        parts, kept = [p for p in parts if p is None], []
    if not whole or len(kept) > len(x.shape):
        raise TypeRuleError(
            "unsupported tensor index: only `:` and `None` may stand here, "
            f"got {x.handle.type} with [{', '.join(map(show_index, parts))}]; "
            "elements are not addressable, load what you need or use tl.gather"
        )
    parts += [slice(None)] * (len(x.shape) - len(kept))
    sizes = iter(x.shape)
    return reshape(x, tuple(1 if p is None else next(sizes) for p in parts))


def is_whole_slice(part: Any) -> bool:
    return isinstance(part, slice) and part == slice(None)


def show_index(part: Any) -> str:
    if isinstance(part, tensor):
        return str(part.handle.type)
    return ":" if is_whole_slice(part) else repr(part)


# --- elements


@public(s.join)
def join(a: Any, b: Any) -> tensor:
    """Two tiles along a new last dimension of size 2."""
    x, y = same_shape(*same_dtype(a, b))
    return tensor(emit(s.join, x.handle, y.handle))


@method("split")
@public(s.split)
def split(a: Any) -> tuple[tensor, tensor]:
    """The two halves of a tile along its last dimension of size 2."""
    left, right = emit(s.split, to_tensor(a).handle)
    return tensor(left), tensor(right)


@builtin
def interleave(a: Any, b: Any) -> tensor:
    """The elements of two tiles in turn along their last dimension."""
    both = join(a, b)
    if len(both.shape) == 1:
        return both
    return reshape(both, (*both.shape[:-2], 2 * both.shape[-2]))


@public(s.cat)
def cat(input: Any, other: Any, can_reorder: bool = False, dim: int = 0) -> tensor:
    """Two tiles one after the other; the order is kept."""
    x, y = to_tensor(input), to_tensor(other)
    dim = wrap_axis(dim, len(x.shape))
    order = [dim, *(d for d in range(len(x.shape)) if d != dim)]
    back = [order.index(d) for d in range(len(order))]
    x, y = permute(x, order), permute(y, order)
    return permute(tensor(emit(s.cat, x.handle, y.handle)), back)


@method("flip")
@public(s.flip)
def flip(x: Any, dim: Any = None) -> tensor:
    """The elements in opposite order along one dimension, the last one if none is named."""
    x = to_tensor(x)
    axis = wrap_axis(-1 if dim is None else dim, len(x.shape))
    return tensor(emit(s.flip, x.handle, axis=axis))


@method("gather")
@public(s.gather)
def gather(src: Any, index: Any, axis: Any) -> tensor:
    """Element index[i] of a tile along one dimension, for each position i of the index."""
    x, index = to_tensor(src), to_tensor(index)
    return tensor(emit(s.gather, x.handle, index.handle, axis=wrap_axis(axis, len(x.shape))))


@builtin
def swizzle2d(i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> tuple[Any, Any]:
    """The place (i, j) of a row-major matrix in column-major order within groups of rows."""
    place = i * size_j + j
    group = size_g * size_j
    first = place // group * size_g
    height = minimum(size_i - first, size_g)
    place = place % group
    return first + place % height, place // height
