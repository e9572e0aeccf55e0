"""The names of `triton.language.standard`."""

# ruff: noqa: F401 - the names are here to be imported from here

from tilewright.lang.arithmetic import cdiv, sigmoid
from tilewright.lang.constexpr import constexpr_function
from tilewright.lang.reductions import (
    argmax,
    argmin,
    bitonic_merge,
    cumprod,
    cumsum,
    max,
    min,
    reduce_or,
    softmax,
    sort,
    sort_impl,
    sum,
    topk,
    xor_sum,
)
from tilewright.lang.shapes import (
    flip,
    full_like,
    interleave,
    ravel,
    swizzle2d,
    zeros,
    zeros_like,
)


@constexpr_function
def _log2(i):
    """The logarithm to base 2 of a number known at compile time, rounded down."""
    return int(i).bit_length() - 1


@constexpr_function
def _is_power_of_two(i):
    """Whether a number known at compile time is a power of two."""
    return i > 0 and i & (i - 1) == 0


__all__ = [name for name in globals() if not name.startswith("__")]
