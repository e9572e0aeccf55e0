"""LLVM types, operands and constants as text, with the codes of the narrow float formats."""

from __future__ import annotations

import ctypes
import math
import struct
from dataclasses import dataclass
from functools import cache, lru_cache

from tilewright.ir import types as ty
from tilewright.ir.types import DType


@dataclass(frozen=True, slots=True)
class Format:
    """What a narrow float format does at its edges; codes are without the sign bit.

    `largest` is the greatest finite code, `overflow` what a larger value (or infinity) becomes,
    `nan` what NaN becomes. With `signed_zero` false the sign bit alone means NaN.
    """

    largest: int
    overflow: int
    nan: int
    signed_zero: bool = True


# The e4 formats saturate, as `cvt.rn.satfinite` does on NVIDIA; the e5 formats overflow to
# infinity, or to NaN where there is none. This table is the only place that says so.
FORMATS = {
    ty.float16: Format(0x7BFF, 0x7C00, 0x7E00),
    ty.bfloat16: Format(0x7F7F, 0x7F80, 0x7FC0),
    ty.float8e5: Format(0x7B, 0x7C, 0x7E),
    ty.float8e5b16: Format(0x7F, 0x80, 0x80, signed_zero=False),
    ty.float8e4nv: Format(0x7E, 0x7E, 0x7F),
    ty.float8e4b8: Format(0x7F, 0x7F, 0x80, signed_zero=False),
    ty.float8e4b15: Format(0x7F, 0x7F, 0x7F),
}

# LLVM moves a scalar `bfloat` on x86 by conversions that take denormals to 0, so bf16 is left out.
_FLOAT_NAMES = {"fp16": "half", "fp32": "float", "fp64": "double"}


@cache
def llvm_type(dtype: DType, width: int = 1) -> str:
    """The register type of `width` lanes of `dtype`; fp8 and bf16 travel as codes, in integers."""
    if dtype.is_pointer:
        scalar = "ptr"
    else:
        scalar = _FLOAT_NAMES.get(dtype.name, f"i{dtype.bits}")
    return scalar if width == 1 else f"<{width} x {scalar}>"


@cache
def suffix(dtype: DType, width: int = 1) -> str:
    """How the name of an overloaded intrinsic spells `llvm_type(dtype, width)`."""
    scalar = f"{'f' if dtype.name in _FLOAT_NAMES else 'i'}{dtype.bits}"
    scalar = "p0" if dtype.is_pointer else scalar
    return scalar if width == 1 else f"v{width}{scalar}"


@dataclass(frozen=True, slots=True)
class Lane:
    """`width` values of one dtype in a register; `text` is an SSA name or a literal."""

    text: str
    dtype: DType
    width: int = 1

    @property
    def type(self) -> str:
        return llvm_type(self.dtype, self.width)

    @property
    def typed(self) -> str:
        """The operand as most instructions want it: type, then name."""
        return f"{llvm_type(self.dtype, self.width)} {self.text}"

    @property
    def is_literal(self) -> bool:
        return not self.text.startswith("%")

    @property
    def known(self) -> int | None:
        """The value of an integer literal, else None."""
        text = self.text.split(" ")[-1].rstrip(")")
        if self.dtype.is_integer and text.lstrip("-").isdigit():
            return int(text)
        return None


def encode(value: float, dtype: DType) -> int:
    """The code of `value` in a format of at most 16 bits, rounded once, to nearest even."""
    form, top = FORMATS[dtype], 1 << (dtype.bits - 1)
    sign = top if math.copysign(1.0, value) < 0 else 0
    if math.isnan(value):
        return form.nan | (0 if form.nan == top else sign)
    size = abs(value)
    if math.isinf(size):
        code = form.overflow
    elif size == 0:
        code = 0
    else:
        exponent = max(math.frexp(size)[1] - 1, 1 - dtype.exponent_bias)
        units = round(math.ldexp(size, dtype.mantissa - exponent))
        code = units + ((exponent + dtype.exponent_bias - 1) << dtype.mantissa)
        code = code if code <= form.largest else form.overflow
    if not form.signed_zero and code in (0, top):
        return code
    return code | sign


def _float_literal(value: float, dtype: DType) -> str:
    if dtype.bits >= 32:
        value = ctypes.c_float(value).value if dtype.bits == 32 else value
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    code = encode(value, dtype)
    if dtype is ty.float16:
        return f"0xH{code:04X}"
    return str(code - (code >> (dtype.bits - 1) << dtype.bits))


@lru_cache(maxsize=4096)
def _literal(value: float | int | bool, dtype: DType, width: int, sign: float) -> str:
    if dtype.is_pointer:
        text = "null" if value == 0 else f"inttoptr (i64 {int(value)} to ptr)"
    elif dtype.is_float:
        text = _float_literal(float(value), dtype)
    elif dtype is ty.int1:
        text = "true" if int(value) & 1 else "false"
    else:
        half = 1 << (dtype.bits - 1)
        text = str((int(value) + half) % (2 * half) - half)
    return text if width == 1 else f"splat ({llvm_type(dtype)} {text})"


def literal(value: float | int | bool, dtype: DType, width: int = 1) -> str:
    """`value` as a constant of `width` equal lanes; integers wrap, floats round to nearest even."""
    # The sign keeps 0.0 and -0.0, which compare equal, apart in the cache.
    sign = math.copysign(1.0, value) if isinstance(value, float) else 1.0
    return _literal(value, dtype, width, sign)
