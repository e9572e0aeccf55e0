"""Read-modify-write and compare-and-swap."""

from __future__ import annotations

from tilewright.errors import want
from tilewright.ir.op import Access, op
from tilewright.ir.types import Type
from tilewright.ops.memory import check_access

KINDS = ("add", "max", "min", "and", "or", "xor", "xchg")
SEMANTICS = ("acquire", "release", "acq_rel", "relaxed")
SCOPES = ("gpu", "cta", "sys")


@op(
    eager=lambda port, pointer, value, mask=None, kind="add", **_: port.rmw(
        pointer, value, mask, kind
    ),
    effect="atomic",
    access=Access("atomic", pointer=0, value=1, mask=2),
)
def atomic_rmw(pointer, value, mask=None, kind="add", sem="acq_rel", scope="gpu"):
    """Combine the value into memory at once; gives what was there before (0 where masked).

    Extremes of floats compare bits, as Triton has GPUs do it: a value with the sign bit clear by
    signed integers, one with it set by unsigned integers in the opposite order.
    """
    check_access(pointer, mask)
    want(kind in KINDS, f"no atomic {kind!r}; there are {', '.join(KINDS)}")
    expected = Type(pointer.dtype.element_ty, pointer.shape)
    want(value == expected, f"the value must be {expected}, got {value}")
    if kind in ("and", "or", "xor"):
        want(value.dtype.is_integer, f"atomic_{kind} needs integers, got {value}")
    return value


@op(
    eager=lambda port, pointer, expected, value, **_: port.cas(pointer, expected, value),
    effect="atomic",
    access=Access("atomic", pointer=0, value=2),
)
def atomic_cas(pointer, expected, value, sem="acq_rel", scope="gpu"):
    """Write the value where memory holds `expected`; gives what was there before."""
    check_access(pointer, None)
    result = Type(pointer.dtype.element_ty, pointer.shape)
    want(value == result, f"the new value must be {result}, got {value}")
    want(expected == result, f"the expected value must be {result}, got {expected}")
    return result
