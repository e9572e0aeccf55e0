"""Ops that make tiles and move their elements without computing."""

from __future__ import annotations

from math import prod

import numpy as np

from tilewright.errors import TypeRuleError, want
from tilewright.ir import types as t
from tilewright.ir.op import op
from tilewright.ir.types import MAX_ELEMENTS, Type, parse_type
from tilewright.ops.convert import encode_e4b15
from tilewright.ops.rules import numpy_dtype, same


def is_power_of_two(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


def check_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A tile's shape: powers of two, not more than MAX_ELEMENTS in all."""
    for n in shape:
        if not is_power_of_two(n):
            raise TypeRuleError(
                f"each dimension of a tile must be a power of two, got {shape}; "
                f"take tl.arange(0, {1 << max(0, int(n) - 1).bit_length()}) and a mask"
            )
    if prod(shape) > MAX_ELEMENTS:
        raise TypeRuleError(
            f"a tile holds at most {MAX_ELEMENTS} elements, {shape} has {prod(shape)}"
        )
    return tuple(shape)


def fill(value, type):
    kind = parse_type(type)
    dtype = numpy_dtype(kind.dtype)
    if kind.dtype.is_integer and kind.dtype.name != "int1":
        value = int(value) & (1 << kind.dtype.bits) - 1
        return np.full(kind.shape, value, np.uint64).astype(dtype)
    numbers = np.full(kind.shape, value)
    if kind.dtype is t.float8e4b15:  # of which NumPy holds the bits only
        return encode_e4b15(numbers)
    return numbers.astype(dtype)


@op(eager=fill)
def constant(value, type):
    """One number in every element."""
    kind = parse_type(type)
    check_shape(kind.shape)
    return kind


@op(eager=lambda start, end: np.arange(start, end, dtype=np.int32))
def arange(start, end):
    """The integers from start up to, not including, end; their number is a power of two."""
    want(end > start, f"needs start < end, got arange({start}, {end})")
    n = end - start
    want(
        is_power_of_two(n),
        f"arange's range must be a power of two, got {n} elements; "
        f"take tl.arange({start}, {start + (1 << (n - 1).bit_length())}) and a mask",
    )
    return Type(t.int32, check_shape((n,)))


@op(eager=lambda x, shape: np.broadcast_to(x, shape))
def splat(x, shape):
    """A scalar in every element of a tile."""
    if x.shape:
        raise TypeRuleError(f"needs a scalar, got {x}")
    return x.with_shape(check_shape(shape))


@op(eager=lambda x, shape: np.broadcast_to(x, shape))
def broadcast(x, shape):
    """A tile repeated along its dimensions of size 1."""
    if len(x.shape) != len(shape) or any(a not in (1, b) for a, b in zip(x.shape, shape)):
        raise TypeRuleError(f"cannot broadcast {x} to {list(shape)}: sizes must be equal or 1")
    return x.with_shape(check_shape(shape))


@op(eager=lambda x, shape: np.reshape(x, shape))
def reshape(x, shape):
    """The same elements, in row-major order, in another shape."""
    if prod(shape) != x.size:
        raise TypeRuleError(f"cannot reshape {x} to {list(shape)}: sizes differ")
    return x.with_shape(check_shape(shape))


@op(eager=lambda x, order: np.transpose(x, order))
def permute(x, order):
    """The dimensions in another order."""
    want(
        sorted(order) == list(range(len(x.shape))),
        f"order {list(order)} does not name each of the {len(x.shape)} dimensions of {x} once",
    )
    return x.with_shape(tuple(x.shape[i] for i in order))


@op(eager=lambda x, y: np.stack([x, y], axis=-1))
def join(x, y):
    """Two tiles along a new last dimension of size 2."""
    return same(x, y).with_shape((*x.shape, 2))


@op(eager=lambda x: (x[..., 0], x[..., 1]))
def split(x):
    """The two halves of a tile along its last dimension of size 2."""
    want(bool(x.shape) and x.shape[-1] == 2, f"the last dimension must be 2, got {x}")
    half = x.with_shape(x.shape[:-1])
    return (half, half)


@op(eager=lambda x, y: np.concatenate([x, y]))
def cat(x, y):
    """Two tiles one after the other along the first dimension."""
    same(x, y)
    want(bool(x.shape), f"needs tiles, got {x}")
    return x.with_shape(check_shape((2 * x.shape[0], *x.shape[1:])))


@op(eager=lambda x, axis: np.flip(x, axis))
def flip(x, axis):
    """The elements in opposite order along one dimension."""
    check_axis(x, axis)
    return x


def take(x, index, axis):
    return np.take_along_axis(x, np.clip(index, 0, x.shape[axis] - 1).astype(np.int64), axis)


@op(eager=take)
def gather(x, index, axis):
    """Element index[i] of x along one dimension, for each position i of index."""
    check_axis(x, axis)
    want(index.dtype.is_integer, f"the index must be integers, got {index}")
    want(len(index.shape) == len(x.shape), f"ranks differ: {x} and index {index}")
    for d, (a, b) in enumerate(zip(x.shape, index.shape, strict=True)):
        want(d == axis or a == b, f"{x} and index {index} differ outside axis {axis}")
    return x.with_shape(index.shape)


def check_axis(x: Type, axis: int) -> None:
    """Raise unless `axis` is a dimension of x."""
    want(
        0 <= axis < len(x.shape),
        f"axis {axis} is out of range for {x}, which has {len(x.shape)} dimensions",
    )
