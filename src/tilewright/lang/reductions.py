"""Reductions and scans with any combining function, sorting, and counting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.errors import want
from tilewright.ir import types as t
from tilewright.ir.op import emit, machine
from tilewright.ir.types import DType, Type
from tilewright.lang import arithmetic as a
from tilewright.lang.builtin import builtin, public
from tilewright.lang.conversion import as_dtype, cast, truth
from tilewright.lang.promote import cast_to, to_tensor
from tilewright.lang.shapes import (
    arange,
    expand_dims,
    gather,
    join,
    ravel,
    reshape,
    split,
    wrap_axis,
)
from tilewright.lang.tensor import method, tensor
from tilewright.ops import math as m
from tilewright.ops import reduce as r
from tilewright.ops.shape import is_power_of_two


def flatten_if(axis: Any, xs: Sequence[tensor]) -> tuple[int, list[tensor]]:
    """The axis, and the tiles as rows when it is None."""
    if axis is None:
        return 0, [ravel(x) for x in xs]
    want(bool(xs[0].shape), f"needs a tile, got {xs[0].handle.type}")
    return wrap_axis(axis, len(xs[0].shape)), list(xs)


def keep(x: tensor, axis: int | None, rank: int) -> tensor:
    """The result of a reduction with the reduced dimensions as dimensions of size 1."""
    return expand_dims(x, list(range(rank)) if axis is None else axis)


def as_tuple(emitted: Any) -> tuple[tensor, ...]:
    """What an op with one or several results gave, as tensors."""
    results = emitted if isinstance(emitted, (tuple, list)) else (emitted,)
    return tuple(tensor(x) for x in results)


def combining(xs: Sequence[tensor], function: Callable) -> Any:
    """The function as the machine takes it, on the scalars of two groups of elements."""
    kinds = [Type(x.dtype) for x in xs]
    return machine().region(function, kinds * 2)


def check_combined(function: Any) -> None:
    want(
        not isinstance(function, (tensor, DType, int, float, str, type(None))),
        f"combine_fn must be a function marked with @triton.jit, got {function!r}",
    )


@method("reduce")
@public(r.reduce)
def reduce(input: Any, axis: Any, combine_fn: Callable, keep_dims: bool = False) -> Any:
    """The elements along an axis (all, if None) combined by a function of two groups."""
    check_combined(combine_fn)
    single = isinstance(input, tensor)
    xs = [input] if single else [to_tensor(x) for x in input]
    where, rows = flatten_if(axis, xs)
    out = reduce_rows(rows, where, combine_fn)
    if keep_dims:
        place = None if axis is None else where
        out = tuple(keep(x, place, len(xs[0].shape)) for x in out)
    return out[0] if single else out


def reduce_rows(xs: Sequence[tensor], axis: int, function: Callable, **attrs: Any) -> tuple:
    """Tiles reduced together by a function.

    One that does more than compute runs once for each element, in order: as a scan, of which the
    last element is the result.
    """
    region = combining(xs, function)
    if machine().acts(region):
        running = as_tuple(emit(r.scan, *[x.handle for x in xs], region=region, axis=axis))
        return reduce_rows(running, axis, last)
    return as_tuple(emit(r.reduce, *[x.handle for x in xs], region=region, axis=axis, **attrs))


@builtin
def last(*values: tensor) -> tuple:
    """Of two groups of elements, the later one."""
    return values[len(values) // 2 :]


def reduce_by(combine: str, x: tensor, axis: Any, keep_dims: bool) -> tensor:
    """A reduction by an op that is named."""
    where, (row,) = flatten_if(axis, [x])
    out = tensor(emit(r.reduce, row.handle, axis=where, combine=combine))
    return keep(out, None if axis is None else where, len(x.shape)) if keep_dims else out


# --- sums


def sum_dtype(dtype: DType) -> DType:
    """Small integers are summed in 32 bits."""
    if dtype.is_integer and dtype.bits < 32:
        return t.int32 if dtype.is_signed else t.uint32
    return dtype


def widened(input: Any, dtype: Any) -> tensor:
    x = to_tensor(input)
    return cast(x, sum_dtype(x.dtype) if dtype is None else as_dtype(dtype))


@method("sum")
@builtin
def sum(input: Any, axis: Any = None, keep_dims: bool = False, dtype: Any = None) -> tensor:
    """Sum along an axis; integers below 32 bits are summed in 32."""
    return reduce_by("add", widened(input, dtype), axis, keep_dims)


def check_integers(x: Any, what: str) -> tensor:
    x = to_tensor(x)
    want(x.dtype.is_integer, f"{what} needs integers, got {x.handle.type}")
    return x


@method("xor_sum")
@builtin
def xor_sum(input: Any, axis: Any = None, keep_dims: bool = False) -> tensor:
    """Bitwise exclusive or along an axis."""
    return reduce_by("bit_xor", check_integers(input, "xor_sum"), axis, keep_dims)


@method("reduce_or")
@builtin
def reduce_or(input: Any, axis: Any = None, keep_dims: bool = False) -> tensor:
    """Bitwise or along an axis."""
    return reduce_by("bit_or", check_integers(input, "reduce_or"), axis, keep_dims)


# --- extremes


def beyond(value1: tensor, value2: tensor, up: bool, tie: Any = None) -> tensor:
    """Whether the first of two is further up, or further down, or wins a tie; everything is
    beyond NaN."""
    further = value1 > value2 if up else value1 < value2
    if tie is not None:  # next to the comparison: where it is known to be won, they are one
        further = further | tie
    return further | (value2 != value2) if value2.dtype.is_float else further


@builtin
def left_if_above(value1: tensor, index1: tensor, value2: tensor, index2: tensor) -> tuple:
    """The larger of two, the earlier one where they are equal."""
    tie = (value1 == value2) & (index1 < index2)
    take = beyond(value1, value2, True, tie)
    return a.where(take, value1, value2), a.where(take, index1, index2)


@builtin
def any_if_above(value1: tensor, index1: tensor, value2: tensor, index2: tensor) -> tuple:
    """The larger of two."""
    take = beyond(value1, value2, True)
    return a.where(take, value1, value2), a.where(take, index1, index2)


@builtin
def left_if_below(value1: tensor, index1: tensor, value2: tensor, index2: tensor) -> tuple:
    """The smaller of two, the earlier one where they are equal."""
    tie = (value1 == value2) & (index1 < index2)
    take = beyond(value1, value2, False, tie)
    return a.where(take, value1, value2), a.where(take, index1, index2)


@builtin
def any_if_below(value1: tensor, index1: tensor, value2: tensor, index2: tensor) -> tuple:
    """The smaller of two."""
    take = beyond(value1, value2, False)
    return a.where(take, value1, value2), a.where(take, index1, index2)


def with_index(x: tensor, axis: Any, function: Callable, keep_dims: bool) -> tuple:
    """A reduction of the elements and their positions along the axis."""
    rank = len(x.shape)
    row = ravel(x) if axis is None else x
    where = 0 if axis is None else wrap_axis(axis, rank)
    positions = arange(0, row.shape[where])
    others = [d for d in range(len(row.shape)) if d != where]
    index = a.expand_to(expand_dims(positions, others) if others else positions, row.shape)
    # Places are distinct, so only NaNs, or ties of which any may win, could tell orders apart.
    value, place = reduce_rows((row, index), where, function, any_order=True)
    if keep_dims:
        kept = None if axis is None else where
        return keep(value, kept, rank), keep(place, kept, rank)
    return value, place


def comparable(x: tensor) -> tensor:
    """Numbers below 32 bits as 32-bit ones, in which extremes are taken."""
    if x.dtype.bits >= 32:
        return x
    want(not x.dtype.is_pointer, f"needs numbers, got {x.handle.type}")
    return cast_to(x, t.float32 if x.dtype.is_float else t.int32)


def extreme(
    combine: str,
    functions: tuple[Callable, Callable],
    input: Any,
    axis: Any,
    indices: bool,
    left: bool,
    keep_dims: bool,
) -> Any:
    x = a.without_bf16(input)
    if indices:
        return with_index(x, axis, functions[0] if left else functions[1], keep_dims)
    return reduce_by(combine, comparable(x), axis, keep_dims)


@method("max")
@builtin
def max(
    input: Any,
    axis: Any = None,
    return_indices: bool = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Any:
    """Largest element along an axis, and where it is, if asked for."""
    pair = (left_if_above, any_if_above)
    left = return_indices_tie_break_left
    return extreme("max", pair, input, axis, return_indices, left, keep_dims)


@method("min")
@builtin
def min(
    input: Any,
    axis: Any = None,
    return_indices: bool = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Any:
    """Smallest element along an axis, and where it is, if asked for."""
    pair = (left_if_below, any_if_below)
    left = return_indices_tie_break_left
    return extreme("min", pair, input, axis, return_indices, left, keep_dims)


@method("argmax")
@builtin
def argmax(
    input: Any, axis: Any = None, tie_break_left: bool = True, keep_dims: bool = False
) -> tensor:
    """Where the largest element along an axis is."""
    return max(input, axis, True, tie_break_left, keep_dims)[1]


@method("argmin")
@builtin
def argmin(
    input: Any, axis: Any = None, tie_break_left: bool = True, keep_dims: bool = False
) -> tensor:
    """Where the smallest element along an axis is."""
    return min(input, axis, True, tie_break_left, keep_dims)[1]


# --- scans


@method("associative_scan")
@public(r.scan)
def associative_scan(input: Any, axis: Any, combine_fn: Callable, reverse: bool = False) -> Any:
    """Along an axis, at each place all elements up to it combined by a function."""
    check_combined(combine_fn)
    single = isinstance(input, tensor)
    xs = [input] if single else [to_tensor(x) for x in input]
    axis = wrap_axis(axis, len(xs[0].shape))
    attrs = {"reverse": True} if reverse else {}
    region = combining(xs, combine_fn)
    out = as_tuple(emit(r.scan, *[x.handle for x in xs], region=region, axis=axis, **attrs))
    return out[0] if single else out


def scan_by(combine: str, x: tensor, axis: Any, reverse: bool) -> tensor:
    attrs = {"reverse": True} if reverse else {}
    axis = wrap_axis(axis, len(x.shape))
    return tensor(emit(r.scan, x.handle, axis=axis, combine=combine, **attrs))


@method("cumsum")
@builtin
def cumsum(input: Any, axis: Any = 0, reverse: bool = False, dtype: Any = None) -> tensor:
    """Running sum along an axis; integers below 32 bits are summed in 32."""
    return scan_by("add", widened(a.without_bf16(input), dtype), axis, reverse)


@method("cumprod")
@builtin
def cumprod(input: Any, axis: Any = 0, reverse: bool = False) -> tensor:
    """Running product along an axis."""
    return scan_by("mul", a.without_bf16(input), axis, reverse)


# --- order and counts


@method("sort")
@public(r.sort)
def sort(x: Any, dim: Any = None, descending: bool = False) -> tensor:
    """The elements in order along one dimension, the last one if none is named."""
    x = to_tensor(x)
    axis = wrap_axis(-1 if dim is None else dim, len(x.shape))
    return tensor(emit(r.sort, x.handle, axis=axis, descending=bool(descending)))


@builtin
def topk(x: Any, k: int, dim: Any = None, descending: bool = True) -> tensor:
    """The k largest (or smallest) elements along a dimension, the last if none is named."""
    return sort_impl(x, k, dim, descending)


@builtin
def sort_impl(x: Any, k: Any = None, dim: Any = None, descending: bool = False) -> tensor:
    """The elements in order, or the first k of them."""
    x = to_tensor(x)
    size = x.shape[wrap_axis(-1 if dim is None else dim, len(x.shape))]
    if k is None or k == size:
        return sort(x, dim, descending)
    return first(sort(comparable(a.without_bf16(x)), dim, descending), k, dim)


def first(x: tensor, k: Any, dim: Any) -> tensor:
    """The first k elements along a dimension."""
    axis = wrap_axis(-1 if dim is None else dim, len(x.shape))
    want(
        isinstance(k, int) and is_power_of_two(k) and k <= x.shape[axis],
        f"k must be a power of two up to {x.shape[axis]}, got {k!r}",
    )
    shape = tuple(k if d == axis else n for d, n in enumerate(x.shape))
    row = reshape(arange(0, k), tuple(k if d == axis else 1 for d in range(len(shape))))
    return gather(x, a.expand_to(row, shape), axis)


@builtin
def bitonic_merge(x: Any, dim: Any = None, descending: bool = False) -> tensor:
    """The elements of a bitonic sequence in order."""
    return sort(x, dim, descending)


@method("histogram")
@public(r.histogram)
def histogram(input: Any, num_bins: int, mask: Any = None) -> tensor:
    """How often each of the numbers 0 to num_bins - 1 occurs."""
    x = to_tensor(input)
    operands = [x.handle]
    if mask is not None:
        operands.append(a.expand_to(truth(mask), x.shape).handle)
    return tensor(emit(r.histogram, *operands, bins=num_bins))


@method("softmax")
@builtin
def softmax(
    x: Any, dim: Any = None, keep_dims: bool = False, ieee_rounding: bool = False
) -> tensor:
    """exp(x) divided by its sum along a dimension, the first one if none is named."""
    x = to_tensor(x)
    axis = 0 if dim is None else wrap_axis(dim, len(x.shape))
    shifted = m.exp(x - max(x, axis, keep_dims=True))
    return a.fdiv(shifted, sum(shifted, axis, keep_dims=True), ieee_rounding)


@builtin
def map_elementwise(scalar_fn: Callable, *args: Any, pack: int = 1) -> Any:
    """The function of scalars, which may branch on them, applied to each element of the tiles."""
    tiles = a.same_shape(*[to_tensor(x) for x in args])
    if pack == 1:
        return machine().map(scalar_fn, tiles)
    shape, size = tiles[0].shape, math.prod(tiles[0].shape)
    want(
        is_power_of_two(pack) and size % pack == 0,
        f"pack must be a power of two that divides {size}, the number of elements, got {pack}",
    )
    results = machine().map(scalar_fn, [part for x in tiles for part in dealt(ravel(x), pack)])
    results = results if isinstance(results, (tuple, list)) else (results,)
    want(
        len(results) % pack == 0,
        f"with pack={pack} the function must return {pack} values for each result, "
        f"got {len(results)} in all",
    )
    groups = [results[i : i + pack] for i in range(0, len(results), pack)]
    whole = tuple(reshape(gathered(group), shape) for group in groups)
    return whole if len(whole) > 1 else whole[0]


def dealt(x: tensor, hands: int) -> list[tensor]:
    """A row dealt out like cards: every `hands`-th element, from each of the first ones on."""
    if hands == 1:
        return [x]
    even, odd = split(reshape(x, (x.shape[0] // 2, 2)))
    pairs = zip(dealt(even, hands // 2), dealt(odd, hands // 2), strict=True)
    return [part for pair in pairs for part in pair]


def gathered(parts: Sequence[tensor]) -> tensor:
    """The row of which these are the parts that `dealt` makes."""
    if len(parts) == 1:
        return parts[0]
    both = join(gathered(parts[::2]), gathered(parts[1::2]))
    return ravel(both)
