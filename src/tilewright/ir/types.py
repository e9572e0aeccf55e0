"""The types of the tile IR: scalar dtypes, pointers, and tiles of either."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import prod
from typing import Any, ClassVar

MAX_ELEMENTS = 1 << 20  # Triton's own limit on the elements of one tile


@dataclass(frozen=True)
class DType:
    """A scalar type. `name` is Triton's spelling (`fp32`), `short` the one in IR text (`f32`).

    `kind` is one of "int", "uint", "float", "ptr", "void"; `int1` is a "uint" of one bit.
    """

    name: str
    short: str
    kind: str
    bits: int
    mantissa: int = 0  # stored mantissa bits, floats only
    exponent_bias: int = 0
    cast: ClassVar[Callable | None] = None  # what calling a dtype does in a kernel; set by `lang`

    def __call__(self, value: Any) -> Any:
        """The value in this dtype, in a kernel: `tl.float32(0)`."""
        return DType.cast(value, self)

    def __str__(self) -> str:
        return self.name

    @property
    def spelled(self) -> str:
        """How kernels write it, e.g. `tl.float32`."""
        return f"tl.{PUBLIC_NAMES.get(self.name, self.name)}"

    def __repr__(self) -> str:
        return self.spelled.replace("tl.", "triton.language.")

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.name, self.kind))

    @property
    def bytes(self) -> int:
        """Size in memory; `int1` takes a byte."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Integers and booleans, signed or not."""
        return self.kind in ("int", "uint")

    @property
    def is_signed(self) -> bool:
        return self.kind == "int"

    @property
    def is_pointer(self) -> bool:
        return self.kind == "ptr"

    # What Triton programs ask of a dtype.
    @property
    def primitive_bitwidth(self) -> int:
        return self.bits

    @property
    def itemsize(self) -> int:
        return self.bytes

    @property
    def int_bitwidth(self) -> int:
        return self.bits

    @property
    def fp_mantissa_width(self) -> int:
        return self.mantissa

    @property
    def scalar(self) -> DType:
        return self

    @property
    def element_ty(self) -> DType:
        return self

    @property
    def int_signedness(self) -> DType.SIGNEDNESS:
        return DType.SIGNEDNESS.SIGNED if self.is_signed else DType.SIGNEDNESS.UNSIGNED

    class SIGNEDNESS:
        SIGNED = 0
        UNSIGNED = 1

    def is_block(self) -> bool:
        return False

    def is_floating(self) -> bool:
        return self.is_float

    def is_standard_floating(self) -> bool:
        return self.name in ("fp16", "bf16", "fp32", "fp64")

    def is_fp8(self) -> bool:
        return self.is_float and self.bits == 8

    def is_fp16(self) -> bool:
        return self.name == "fp16"

    def is_bf16(self) -> bool:
        return self.name == "bf16"

    def is_fp32(self) -> bool:
        return self.name == "fp32"

    def is_fp64(self) -> bool:
        return self.name == "fp64"

    def is_fp8e5(self) -> bool:
        return self.name == "fp8e5"

    def is_fp8e4nv(self) -> bool:
        return self.name == "fp8e4nv"

    def is_fp8e4b15(self) -> bool:
        return self.name == "fp8e4b15"

    def is_fp8e4b8(self) -> bool:
        return self.name == "fp8e4b8"

    def is_fp8e5b16(self) -> bool:
        return self.name == "fp8e5b16"

    def is_int(self) -> bool:
        return self.is_integer

    def is_int_signed(self) -> bool:
        return self.kind == "int"

    def is_int_unsigned(self) -> bool:
        return self.kind == "uint"

    def is_bool(self) -> bool:
        return self.name == "int1"

    def is_int1(self) -> bool:
        return self.name == "int1"

    def is_int8(self) -> bool:
        return self.name == "int8"

    def is_int16(self) -> bool:
        return self.name == "int16"

    def is_int32(self) -> bool:
        return self.name == "int32"

    def is_int64(self) -> bool:
        return self.name == "int64"

    def is_uint8(self) -> bool:
        return self.name == "uint8"

    def is_uint16(self) -> bool:
        return self.name == "uint16"

    def is_uint32(self) -> bool:
        return self.name == "uint32"

    def is_uint64(self) -> bool:
        return self.name == "uint64"

    def is_ptr(self) -> bool:
        return self.kind == "ptr"

    def is_void(self) -> bool:
        return self.kind == "void"


@dataclass(frozen=True, repr=False)
class PointerDType(DType):
    """A pointer to one scalar dtype."""

    element: DType = field(default=None, kw_only=True)
    const: bool = field(default=False, kw_only=True)

    __hash__ = DType.__hash__

    @property
    def element_ty(self) -> DType:
        return self.element

    @property
    def spelled(self) -> str:
        return f"tl.pointer_type({self.element.spelled})"


@cache
def pointer_to(element: DType, const: bool = False) -> PointerDType:
    """The dtype of a pointer to `element`."""
    mark = "*k" if const else "*"
    return PointerDType(
        f"pointer<{element.name}>", mark + element.short, "ptr", 64, element=element, const=const
    )


int1 = DType("int1", "i1", "uint", 1)
int8 = DType("int8", "i8", "int", 8)
int16 = DType("int16", "i16", "int", 16)
int32 = DType("int32", "i32", "int", 32)
int64 = DType("int64", "i64", "int", 64)
uint8 = DType("uint8", "u8", "uint", 8)
uint16 = DType("uint16", "u16", "uint", 16)
uint32 = DType("uint32", "u32", "uint", 32)
uint64 = DType("uint64", "u64", "uint", 64)
float8e5 = DType("fp8e5", "f8e5", "float", 8, 2, 15)
float8e5b16 = DType("fp8e5b16", "f8e5b16", "float", 8, 2, 16)
float8e4nv = DType("fp8e4nv", "f8e4nv", "float", 8, 3, 7)
float8e4b8 = DType("fp8e4b8", "f8e4b8", "float", 8, 3, 8)
float8e4b15 = DType("fp8e4b15", "f8e4b15", "float", 8, 3, 15)
float16 = DType("fp16", "f16", "float", 16, 10, 15)
bfloat16 = DType("bf16", "bf16", "float", 16, 7, 127)
float32 = DType("fp32", "f32", "float", 32, 23, 127)
float64 = DType("fp64", "f64", "float", 64, 52, 1023)
void = DType("void", "void", "void", 0)

SCALARS = (
    int1, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    float8e5, float8e5b16, float8e4nv, float8e4b8, float8e4b15,
    float16, bfloat16, float32, float64,
)  # fmt: skip
BY_SHORT = {d.short: d for d in (*SCALARS, void)}
BY_NAME = {d.name: d for d in (*SCALARS, void)}
PUBLIC_NAMES = {
    "fp8e5": "float8e5", "fp8e5b16": "float8e5b16", "fp8e4nv": "float8e4nv",
    "fp8e4b8": "float8e4b8", "fp8e4b15": "float8e4b15", "fp16": "float16",
    "bf16": "bfloat16", "fp32": "float32", "fp64": "float64",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a value: a dtype and a shape; the empty shape is a scalar."""

    dtype: DType
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        if not self.shape:
            return self.dtype.short
        return f"{self.dtype.short}[{','.join(map(str, self.shape))}]"

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def is_tile(self) -> bool:
        return bool(self.shape)

    @property
    def scalar(self) -> DType:
        return self.dtype

    @property
    def element_ty(self) -> DType:
        """What Triton calls so: of a tile its dtype, of a scalar pointer what it points to."""
        return self.dtype if self.shape else self.dtype.element_ty

    def with_dtype(self, dtype: DType) -> Type:
        return Type(dtype, self.shape)

    def with_shape(self, shape: tuple[int, ...]) -> Type:
        return Type(self.dtype, tuple(shape))

    def is_block(self) -> bool:
        return bool(self.shape)

    def is_ptr(self) -> bool:
        return self.dtype.is_pointer and not self.shape

    def get_block_shapes(self) -> tuple[int, ...]:
        return self.shape


def parse_dtype(text: str) -> DType:
    """Read a dtype as IR text spells it, e.g. `f32` or `*f16`."""
    if text.startswith("*k"):
        return pointer_to(parse_dtype(text[2:]), const=True)
    if text.startswith("*"):
        return pointer_to(parse_dtype(text[1:]))
    return BY_SHORT[text]


def parse_type(text: str) -> Type:
    """Read a type as IR text spells it, e.g. `*f32[64,64]`."""
    if not text.endswith("]"):
        return Type(parse_dtype(text))
    dtype, dims = text[:-1].split("[")
    return Type(parse_dtype(dtype), tuple(int(d) for d in dims.split(",")))
