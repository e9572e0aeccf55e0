"""Values in another dtype: casts by value and by bits, pointers as integers, numbers as tiles."""

from __future__ import annotations

from typing import Any

from tilewright.errors import TypeRuleError, want
from tilewright.ir import types as t
from tilewright.ir.op import emit
from tilewright.ir.types import DType, Type
from tilewright.lang.builtin import builtin
from tilewright.lang.constexpr import unwrap
from tilewright.lang.promote import as_python, binary, cast_to, constant, is_number, to_tensor
from tilewright.lang.tensor import method, tensor
from tilewright.ops import math as m


def addresses(x: tensor) -> tensor:
    """A pointer as the integer that it is; other values as they are."""
    return tensor(emit(m.bitcast, x.handle, to="i64")) if x.dtype.is_pointer else x


def as_dtype(value: Any) -> DType:
    """A dtype from what a kernel may write for one."""
    value = unwrap(value)
    if isinstance(value, Type):
        return value.dtype
    if isinstance(value, str) and value in t.BY_NAME:
        return t.BY_NAME[value]
    if not isinstance(value, DType):
        name = "tl." + getattr(value, "__name__", str(value)).rpartition(".")[2]
        instead = f"; write {name}" if any(d.spelled == name for d in t.SCALARS) else ""
        raise TypeRuleError(f"needs a dtype such as tl.float32, got {value!r}{instead}")
    return value


def cast(x: tensor, dtype: DType, rounding: str | None = None) -> tensor:
    """The tensor by value in another dtype; pointers count as 64-bit integers."""
    if x.dtype == dtype:
        return x
    if dtype.is_pointer:
        bits = x if x.dtype.is_pointer else cast_to(x, t.int64)
        return tensor(emit(m.bitcast, bits.handle, to=dtype.short))
    if x.dtype.is_pointer:
        want(dtype.is_integer, f"cannot cast {x.dtype.spelled} to {dtype.spelled}")
        number = addresses(x)
        return binary(m.ne, number, 0) if dtype is t.int1 else cast_to(number, dtype)
    attrs = {"rounding": rounding} if rounding else {}
    return tensor(emit(m.cast, x.handle, to=dtype.short, **attrs))


def check_rounding(rounding: str | None, source: DType, target: DType) -> str | None:
    """The rounding attribute of a cast, which only a narrowing of floats may name."""
    if rounding is None:
        return None
    want(rounding in ("rtne", "rtz"), f"no rounding {rounding!r}; there are 'rtne' and 'rtz'")
    want(
        source.is_float and target.is_float and target.bits < source.bits,
        f"fp_downcast_rounding is only for narrower floats, not from {source} to {target}",
    )
    return rounding if rounding != "rtne" else None


@method("to", "cast")
@builtin
def cast_function(
    input: Any, dtype: Any, fp_downcast_rounding: str | None = None, bitcast: bool = False
) -> tensor:
    """The tile in another dtype: the same number, or with `bitcast` the same bits."""
    x, dtype = to_tensor(input), as_dtype(dtype)
    if x.dtype == dtype:
        return x
    if bitcast and not x.dtype.is_pointer and not dtype.is_pointer:
        return tensor(emit(m.bitcast, x.handle, to=dtype.short))
    return cast(x, dtype, check_rounding(fp_downcast_rounding, x.dtype, dtype))


def truth(x: Any) -> tensor:
    """Whether each element is not zero."""
    return cast(to_tensor(x), t.int1)


def number_in(value: Any, dtype: DType) -> tensor:
    """A number or tensor converted to a dtype as an assignment in C would."""
    value = as_python(value)
    if not is_number(value):
        if not isinstance(value, tensor):
            raise TypeRuleError(f"needs a number or a tile, got {value!r}")
        return cast(value, dtype)
    if dtype.is_pointer or (isinstance(value, float) and dtype.is_integer):
        return cast(to_tensor(value), dtype)
    if dtype.is_integer and dtype is not t.int1:
        value = int(value) & ((1 << dtype.bits) - 1)
        if dtype.is_signed and value >> (dtype.bits - 1):
            value -= 1 << dtype.bits
    return constant(value, Type(dtype))
