"""The names of `triton.language.standard`."""

# ruff: noqa: F401 - the names are here to be imported from here

from tilewright.lang.arithmetic import (
    add,
    bit_or,
    bit_xor,
    cdiv,
    maximum,
    minimum,
    mul,
    sigmoid,
)
from tilewright.lang.builtin import builtin
from tilewright.lang.constexpr import constexpr_function
from tilewright.lang.reductions import (
    any_if_above as _argmax_combine_tie_break_fast,
)
from tilewright.lang.reductions import (
    any_if_below as _argmin_combine_tie_break_fast,
)
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
from tilewright.lang.reductions import (
    left_if_above as _argmax_combine_tie_break_left,
)
from tilewright.lang.reductions import (
    left_if_below as _argmin_combine_tie_break_left,
)
from tilewright.lang.shapes import (
    flip,
    full_like,
    interleave,
    ravel,
    squeeze,
    swizzle2d,
    unsqueeze,
    zeros,
    zeros_like,
)
from tilewright.lang.typenames import get_int_dtype

_get_int_dtype = get_int_dtype
_elementwise_max, _elementwise_min = builtin(maximum), builtin(minimum)
_sum_combine, _prod_combine = builtin(add), builtin(mul)
_xor_combine, _or_combine = builtin(bit_xor), builtin(bit_or)


@constexpr_function
def _log2(i):
    """The logarithm to base 2 of a number known at compile time, rounded down."""
    return int(i).bit_length() - 1


@constexpr_function
def _is_power_of_two(i):
    """Whether a number known at compile time is a power of two."""
    return i > 0 and i & (i - 1) == 0


__all__ = [name for name in globals() if not name.startswith("__")]
