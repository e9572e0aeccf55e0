"""Operators and elementwise functions of tiles: promotion and broadcasting, then one op each."""

from __future__ import annotations

import inspect
import warnings
from enum import Enum
from typing import Any

from tilewright.errors import TypeRuleError, want
from tilewright.ir import types as t
from tilewright.ir.op import Op, emit, machine
from tilewright.ir.types import DType
from tilewright.lang.builtin import builtin, public
from tilewright.lang.conversion import addresses, as_dtype, cast, truth
from tilewright.lang.promote import (
    as_python,
    binary,
    cast_to,
    common_shape,
    expand_to,
    integer_range,
    is_number,
    same_dtype,
    same_shape,
    to_tensor,
    together,
    unary,
)
from tilewright.lang.tensor import method, tensor
from tilewright.ops import debug, memory
from tilewright.ops import math as m


class PropagateNan(Enum):
    """What minimum, maximum and clamp give where an operand is NaN: the other one, or NaN."""

    NONE = 0
    ALL = 1


# --- arithmetic


def is_pointer(x: Any) -> bool:
    return isinstance(x, tensor) and x.dtype.is_pointer


def move(pointer: tensor, offset: Any, backwards: bool = False) -> tensor:
    """The pointer, moved by a number of elements."""
    offset = to_tensor(offset)
    if not offset.dtype.is_integer:
        raise TypeRuleError(
            f"a pointer moves by integers, got {pointer.handle.type} and {offset.handle.type}"
        )
    if offset.dtype.kind == "uint":
        offset = cast_to(offset, t.int64)
    if backwards:
        offset = unary(m.neg, offset)
    pointer, offset = same_shape(pointer, offset)
    size = pointer.dtype.element_ty.bytes
    return tensor(emit(memory.offset, pointer.handle, offset.handle, bytes=size))


def sanitized(op: Op, x: Any, y: Any, sanitize: bool) -> tensor:
    """An operation of the kernel's own, on integers that under `debug` may not wrap around."""
    out = binary(op, x, y)
    current = machine()
    small = out.dtype.is_integer and out.dtype is not t.int1 and out.dtype.bits < 64
    if not (sanitize and small and current.sanitize and current.calls == 1):
        return out
    exact = binary(op, *[cast(v, t.int64) for v in together(x, y)])
    low, high = integer_range(out.dtype)
    fits = (exact >= low) & (exact <= high)
    message = f"{out.dtype} overflow detected for operation {op.name}"
    emit(debug.device_assert, fits.handle, message=message)
    return out


@method("__add__")
@public(m.add)
def add(x: Any, y: Any, sanitize_overflow: bool = True) -> tensor:
    """Sum of two tiles, or a pointer moved forwards; integers wrap around."""
    x, y = as_python(x), as_python(y)
    if is_pointer(x):
        return move(x, y)
    if is_pointer(y):
        return move(y, x)
    return sanitized(m.add, x, y, sanitize_overflow)


@method("__sub__")
@public(m.sub)
def sub(x: Any, y: Any, sanitize_overflow: bool = True) -> tensor:
    """Difference of two tiles, or a pointer moved backwards; integers wrap around."""
    x, y = as_python(x), as_python(y)
    if is_pointer(x):
        return move(x, y, backwards=True)
    return sanitized(m.sub, x, y, sanitize_overflow)


@method("__mul__")
@public(m.mul)
def mul(x: Any, y: Any, sanitize_overflow: bool = True) -> tensor:
    """Product of two tiles; integers wrap around."""
    return sanitized(m.mul, x, y, sanitize_overflow)


@method("__truediv__")
def true_divide(x: Any, y: Any) -> tensor:
    """Quotient of floats; integers and 16-bit floats are divided in fp32."""
    x, y = together(x, y, division=True)
    if x.dtype.is_integer:
        x, y = cast_to(x, t.float32), cast_to(y, t.float32)
    return tensor(emit(m.div, x.handle, y.handle))


@method("__floordiv__")
def integer_divide(x: Any, y: Any) -> tensor:
    """Quotient of integers, truncated as in C."""
    x, y = together(x, y, division=True)
    return tensor(emit(m.idiv, x.handle, y.handle))


@method("__mod__")
def remainder(x: Any, y: Any) -> tensor:
    """Remainder with the sign of the first operand, as in C."""
    x, y = together(x, y, division=True)
    return tensor(emit(m.fmod if x.dtype.is_float else m.irem, x.handle, y.handle))


@method("__neg__")
def negative(x: tensor) -> tensor:
    """The number with the opposite sign."""
    return unary(m.neg, x)


@method("__pos__")
def positive(x: tensor) -> tensor:
    """The number itself."""
    return x


@method("__abs__", "abs")
@public(m.abs)
def abs(x: Any) -> tensor:
    """Absolute value."""
    x = to_tensor(x)
    if x.dtype.kind == "uint":
        return x
    return unary(m.abs, x)


# --- bits


@method("__and__")
def bit_and(x: Any, y: Any) -> tensor:
    """Bitwise and of integers or booleans."""
    return binary(m.bit_and, x, y)


@method("__or__")
def bit_or(x: Any, y: Any) -> tensor:
    """Bitwise or of integers or booleans."""
    return binary(m.bit_or, x, y)


@method("__xor__")
def bit_xor(x: Any, y: Any) -> tensor:
    """Bitwise exclusive or of integers or booleans."""
    return binary(m.bit_xor, x, y)


@method("__invert__")
def invert(x: tensor) -> tensor:
    """Bitwise complement."""
    return unary(m.bit_not, x)


@method("__lshift__")
def shift_left(x: Any, y: Any) -> tensor:
    """Left shift."""
    return binary(m.shl, x, y)


@method("__rshift__")
def shift_right(x: Any, y: Any) -> tensor:
    """Right shift; the sign of the first operand decides whether it is arithmetic."""
    signed = to_tensor(x).dtype.is_signed
    x, y = together(x, y)
    if signed and x.dtype.kind == "uint":
        result, twin = x.dtype, getattr(t, x.dtype.name[1:])
        shifted = binary(m.shr, cast_to(x, twin), cast_to(y, twin))
        return cast_to(shifted, result)
    return tensor(emit(m.shr, x.handle, y.handle))


# --- comparison and logic


def comparison(op: Op, name: str) -> None:
    """Define a comparison; a Python number counts with the dtype that it has as a tensor."""

    @method(name)
    def compare(x: Any, y: Any) -> tensor:
        return binary(op, addresses(to_tensor(x)), addresses(to_tensor(y)))

    compare.__name__ = op.name


for _op in (m.lt, m.le, m.gt, m.ge, m.eq, m.ne):
    comparison(_op, f"__{_op.name}__")


@method("logical_and")
def logical_and(x: Any, y: Any) -> tensor:
    """Whether both hold, element by element."""
    return binary(m.bit_and, truth(x), truth(y))


@method("logical_or")
def logical_or(x: Any, y: Any) -> tensor:
    """Whether one of them holds, element by element."""
    return binary(m.bit_or, truth(x), truth(y))


@method("__not__", "logical_not")
def logical_not(x: Any) -> tensor:
    """Whether it does not hold, element by element."""
    return unary(m.bit_not, truth(x))


@builtin
def where(condition: Any, x: Any, y: Any) -> tensor:
    """x where the condition holds, y elsewhere; all three are broadcast together."""
    if isinstance(condition, tensor) and condition.dtype is not t.int1:
        warnings.warn(
            f"tl.where takes a condition of {condition.dtype} as true where it is not 0; compare "
            "it with 0, as Triton will demand",
            stacklevel=2,
        )
    condition = truth(condition)
    x, y = same_dtype(x, y)
    shape = common_shape(condition.shape, x.shape, y.shape)
    operands = [expand_to(v, shape).handle for v in (condition, x, y)]
    return tensor(emit(m.select, *operands))


def without_bf16(x: Any) -> tensor:
    """bf16 as fp32, in which Triton compares it."""
    x = to_tensor(x)
    return cast_to(x, t.float32) if x.dtype is t.bfloat16 else x


def propagates(propagate_nan: Any) -> dict[str, bool]:
    want(
        isinstance(propagate_nan, PropagateNan),
        f"propagate_nan must be tl.PropagateNan.NONE or ALL, got {propagate_nan!r}",
    )
    return {"propagate_nan": True} if propagate_nan is PropagateNan.ALL else {}


@builtin
def maximum(x: Any, y: Any, propagate_nan: PropagateNan = PropagateNan.NONE) -> tensor:
    """The larger of two, element by element."""
    return binary(m.max, without_bf16(x), without_bf16(y), **propagates(propagate_nan))


@builtin
def minimum(x: Any, y: Any, propagate_nan: PropagateNan = PropagateNan.NONE) -> tensor:
    """The smaller of two, element by element."""
    return binary(m.min, without_bf16(x), without_bf16(y), **propagates(propagate_nan))


@builtin
def clamp(x: Any, min: Any, max: Any, propagate_nan: PropagateNan = PropagateNan.NONE) -> tensor:
    """x, but not below min and not above max; floats only."""
    low, high = same_dtype(without_bf16(min), without_bf16(max))
    x, low = same_dtype(without_bf16(x), low)
    x, high = same_dtype(x, high)
    low = cast_to(low, x.dtype)
    want(x.dtype.is_float, f"clamp needs floats, got {x.handle.type}; use minimum and maximum")
    attrs = propagates(propagate_nan)
    return binary(m.min, binary(m.max, x, low, **attrs), high, **attrs)


# --- functions of one or more floats

METHODS_OF_ONE = (
    m.exp, m.exp2, m.log, m.log2, m.sin, m.cos, m.sqrt, m.rsqrt, m.erf, m.floor, m.ceil,
)  # fmt: skip
ONLY_FUNCTIONS = (
    m.expm1, m.log1p, m.tan, m.asin, m.acos, m.atan, m.sinh, m.cosh, m.tanh, m.asinh, m.acosh,
    m.atanh, m.erfc, m.cbrt, m.trunc, m.rint,
)  # fmt: skip


def publish(op: Op) -> None:
    """Make the op itself the function of one argument that kernels call."""

    def call(x: Any) -> tensor:
        return unary(op, x)

    call.__name__, call.__doc__ = op.name, op.rule.__doc__
    public(op)(call)


for _op in (*METHODS_OF_ONE, *ONLY_FUNCTIONS):
    publish(_op)
for _op in METHODS_OF_ONE:
    method(_op.name)(_op)


def tensors_together(*xs: Any) -> tuple[tensor, ...]:
    """Operands in one dtype and shape; Python numbers count with the dtype they have as tensors."""
    tensors = [to_tensor(x) for x in xs]
    for i in range(1, len(tensors)):
        for j in range(i):
            tensors[j], tensors[i] = same_dtype(tensors[j], tensors[i])
    tensors = [cast_to(x, tensors[-1].dtype) for x in tensors]
    return same_shape(*tensors)


def publish_many(op: Op) -> None:
    """Make the op itself the function of several arguments that kernels call."""

    signature = inspect.signature(op.rule)

    def call(*xs: Any, **named: Any) -> tensor:
        operands = signature.bind(*xs, **named).args
        return tensor(emit(op, *[x.handle for x in tensors_together(*operands)]))

    call.__name__, call.__doc__, call.__signature__ = op.name, op.rule.__doc__, signature
    public(op)(call)


for _op in (m.umulhi, m.fma, m.atan2, m.pow, m.fmod):
    publish_many(_op)


@builtin
def fdiv(x: Any, y: Any, ieee_rounding: bool = False) -> tensor:
    """Quotient of floats, without a change of dtype."""
    x, y = tensors_together(x, y)
    exact = {"exact": True} if ieee_rounding else {}
    return tensor(emit(m.div, x.handle, y.handle, **exact))


@builtin
def div_rn(x: Any, y: Any) -> tensor:
    """Quotient of floats, rounded to nearest."""
    x, y = tensors_together(x, y)
    return tensor(emit(m.div, x.handle, y.handle, exact=True))


@builtin
def sqrt_rn(x: Any) -> tensor:
    """Square root, rounded to nearest."""
    return unary(m.sqrt, x, exact=True)


@method("sigmoid")
@builtin
def sigmoid(x: Any) -> tensor:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + m.exp(-to_tensor(x)))


@method("cdiv")
@builtin
def cdiv(x: Any, div: Any) -> Any:
    """Quotient rounded up, of numbers that are not negative."""
    if is_number(x) and is_number(div):
        return (x + div - 1) // div
    return (to_tensor(x) + div - 1) // div


@builtin
def number(x: Any, dtype: Any = None) -> tensor:
    """A number or tile as a tensor, in the dtype if one is given."""
    x = to_tensor(x)
    return x if dtype is None else cast(x, as_dtype(dtype))


DType.cast = number
