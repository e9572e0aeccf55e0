"""Python scalars, dtypes, and shapes brought together: above the seam, so written once."""

from __future__ import annotations

from typing import Any

from tilewright.errors import TypeRuleError, want
from tilewright.ir import types as t
from tilewright.ir.op import Op, emit
from tilewright.ir.types import DType, Type
from tilewright.lang.constexpr import unwrap
from tilewright.lang.tensor import tensor
from tilewright.ops import math as m
from tilewright.ops import shape as s

KIND_ORDER = {"bool": 0, "uint": 1, "int": 1, "float": 2}
FLOAT32_RANGE = (2.0**-126, (2 - 2**-23) * 2.0**127)


def constant(value: Any, type: Type) -> tensor:
    """A number in every element of a tile of that type."""
    if type.dtype.is_float:
        value = float(value)
    elif type.dtype is t.int1:
        value = bool(value)
    return tensor(emit(s.constant, value=value, type=str(type)))


def scalar_dtype(value: Any) -> DType:
    """The dtype of a Python number, as Triton chooses it."""
    if isinstance(value, bool):
        return t.int1
    if isinstance(value, int):
        for dtype, low, high in (
            (t.int32, -(2**31), 2**31),
            (t.uint32, 2**31, 2**32),
            (t.int64, -(2**63), 2**63),
            (t.uint64, 2**63, 2**64),
        ):
            if low <= value < high:
                return dtype
        raise TypeRuleError(f"the number {value} does not fit into 64 bits")
    if isinstance(value, float):
        low, high = FLOAT32_RANGE
        size = abs(value)
        fits = size == 0 or value != value or size == float("inf") or low <= size <= high
        return t.float32 if fits else t.float64
    raise TypeRuleError(
        f"cannot use a {type(value).__name__} ({getattr(value, 'spelled', repr(value))}) as a tile "
        "or number in a kernel"
    )


def is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float))


def as_python(value: Any) -> Any:
    """Without its constexpr wrapper; NumPy scalars become Python's."""
    value = unwrap(value)
    if (
        not isinstance(value, tensor)
        and type(value).__module__ == "numpy"
        and hasattr(value, "item")
    ):
        return value.item()
    return value


def to_tensor(value: Any) -> tensor:
    """A Python number as a scalar; tensors stay what they are."""
    value = as_python(value)
    if isinstance(value, tensor):
        return value
    return constant(value, Type(scalar_dtype(value)))


def kind(dtype: DType) -> int:
    return KIND_ORDER["bool" if dtype is t.int1 else dtype.kind]


def integer_promotion(x: DType, y: DType) -> DType:
    """The usual arithmetic conversions of C."""
    if x.kind == y.kind:
        return x if x.bits > y.bits else y
    unsigned, signed = (x, y) if x.kind == "uint" else (y, x)
    return unsigned if unsigned.bits >= signed.bits else signed


def computation_dtype(x: DType, x_number: bool, y: DType, y_number: bool, division: bool) -> DType:
    """The dtype in which two operands meet; a Python number of a lower kind does not count."""
    if x_number != y_number:
        number, other = (x, y) if x_number else (y, x)
        if kind(number) <= kind(other):
            return t.float32 if division and other in (t.float16, t.bfloat16) else other
    for wide in (t.float64, t.float32):
        if wide in (x, y):
            return wide
    if t.float16 in (x, y):
        return t.float32 if division else t.float16
    if t.bfloat16 in (x, y):
        return t.bfloat16 if x is y and not division else t.float32
    if x.is_float and y.is_float:
        return x if x is y else t.float16
    if x.is_float or y.is_float:
        raise TypeRuleError(f"cannot combine {x} and {y}; cast one of them")
    if division and x.is_signed != y.is_signed:
        raise TypeRuleError(
            f"Cannot use {x} with {y} because they have different signedness; cast one of them"
        )
    return integer_promotion(x, y)


def integer_range(dtype: DType) -> tuple[int, int]:
    if dtype.is_signed:
        return -(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1
    return 0, (1 << dtype.bits) - 1


def number_as(value: Any, dtype: DType) -> tensor:
    """A Python number in the dtype of the operand it meets."""
    if dtype.is_integer and dtype is not t.int1:
        low, high = integer_range(dtype)
        want(
            value >= 0 or dtype.kind != "uint",
            f"the negative number {value} cannot meet an unsigned {dtype}; cast one of them",
        )
        want(low <= value <= high, f"the number {value} is out of range for {dtype}")
    return constant(value, Type(dtype))


def cast_to(x: tensor, dtype: DType) -> tensor:
    """The tensor as another dtype by value; nothing happens when it has it."""
    if x.dtype == dtype:
        return x
    return tensor(emit(m.cast, x.handle, to=dtype.short))


def same_dtype(x: Any, y: Any, division: bool = False) -> tuple[tensor, tensor]:
    """Both operands in the dtype in which Triton computes with them."""
    x, y = as_python(x), as_python(y)
    x_number, y_number = is_number(x), is_number(y)
    x_dtype = scalar_dtype(x) if x_number else to_tensor(x).dtype
    y_dtype = scalar_dtype(y) if y_number else to_tensor(y).dtype
    if x_dtype.is_pointer or y_dtype.is_pointer:
        return to_tensor(x), to_tensor(y)
    dtype = computation_dtype(x_dtype, x_number, y_dtype, y_number, division)
    return (
        number_as(x, dtype) if x_number else cast_to(x, dtype),
        number_as(y, dtype) if y_number else cast_to(y, dtype),
    )


def common_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to which all broadcast, dimensions aligned at the end."""
    if all(shape == shapes[0] for shape in shapes):
        return shapes[0]
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    out = []
    for sizes in zip(*padded, strict=True):
        size = max(sizes)
        want(
            all(n in (1, size) for n in sizes),
            "shapes do not broadcast: " + " and ".join(str(list(shape)) for shape in shapes),
        )
        out.append(size)
    return tuple(out)


def expand_to(x: tensor, shape: tuple[int, ...]) -> tensor:
    """The tensor broadcast to a shape."""
    if x.shape == shape:
        return x
    handle = x.handle
    if not x.shape:
        return tensor(emit(s.splat, handle, shape=shape))
    if len(x.shape) < len(shape):
        handle = emit(s.reshape, handle, shape=(1,) * (len(shape) - len(x.shape)) + x.shape)
    if handle.type.shape != shape:
        handle = emit(s.broadcast, handle, shape=shape)
    return tensor(handle)


def same_shape(*xs: tensor) -> tuple[tensor, ...]:
    """All operands broadcast to one shape."""
    shape = common_shape(*[x.shape for x in xs])
    return tuple(expand_to(x, shape) for x in xs)


def together(x: Any, y: Any, division: bool = False) -> tuple[tensor, tensor]:
    """Two operands in one dtype and one shape."""
    return same_shape(*same_dtype(x, y, division))


def binary(op: Op, x: Any, y: Any, **attrs: Any) -> tensor:
    """An op of two operands after promotion and broadcasting."""
    x, y = together(x, y)
    return tensor(emit(op, x.handle, y.handle, **attrs))


def unary(op: Op, x: Any, **attrs: Any) -> tensor:
    """An op of one operand."""
    return tensor(emit(op, to_tensor(x).handle, **attrs))
