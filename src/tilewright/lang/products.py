"""Matrix products of tiles, also of block-scaled formats."""

from __future__ import annotations

from typing import Any

from tilewright.errors import want
from tilewright.ir import types as t
from tilewright.ir.op import emit
from tilewright.ir.types import DType, Type
from tilewright.lang import arithmetic as a
from tilewright.lang.builtin import builtin, public
from tilewright.lang.conversion import as_dtype, cast_function
from tilewright.lang.promote import cast_to, constant, expand_to, to_tensor
from tilewright.lang.shapes import expand_dims, interleave, reshape, trans
from tilewright.lang.tensor import method, tensor
from tilewright.ops import dot as d


def result_dtype(x: DType, out_dtype: DType) -> DType:
    """The dtype of a product that has no accumulator."""
    if x.is_integer:
        return t.int32
    want(
        out_dtype is not t.bfloat16,
        "out_dtype cannot be bfloat16; take float32 and cast with .to(tl.bfloat16)",
    )
    if x is t.float64:
        return t.float64
    return t.float32 if x in (t.float32, t.bfloat16) else out_dtype


def precision_of(x: DType, input_precision: Any, allow_tf32: Any) -> dict[str, str]:
    """The precision attribute; only fp32 operands have a choice. Without one targets may choose:
    tensor cores take tf32, as Triton has it, everything else multiplies fp32.
    """
    want(
        input_precision is None or allow_tf32 is None,
        "give input_precision or allow_tf32, not both",
    )
    if input_precision is None and allow_tf32 is None:
        return {} if x is t.float32 else {"precision": "ieee"}
    if input_precision is None:
        input_precision = "tf32" if allow_tf32 else "ieee"
    want(isinstance(input_precision, str), f"no input_precision {input_precision!r}")
    name = input_precision.lower()
    want(name in d.PRECISIONS, f"no input_precision {input_precision!r}; one of {d.PRECISIONS}")
    return {"precision": name if x is t.float32 else "ieee"}


@method("__matmul__", "dot")
@public(d.dot)
def dot(
    input: Any,
    other: Any,
    acc: Any = None,
    input_precision: Any = None,
    allow_tf32: Any = None,
    max_num_imprecise_acc: Any = None,
    out_dtype: Any = t.float32,
) -> tensor:
    """Matrix product of two tiles, added to acc if there is one."""
    x, y = to_tensor(input), to_tensor(other)
    if t.float8e4b15 in (x.dtype, y.dtype):
        x, y = cast_to(x, t.float16), cast_to(y, t.float16)
    attrs = precision_of(x.dtype, input_precision, allow_tf32)
    want(
        len(x.shape) >= 2 and len(y.shape) >= 2,
        f"dot needs matrices, got {x.handle.type} and {y.handle.type}",
    )
    if x.dtype.is_fp8() and max_num_imprecise_acc is not None:
        want(
            max_num_imprecise_acc <= x.shape[-1],
            f"max_num_imprecise_acc ({max_num_imprecise_acc}) must be <= K ({x.shape[-1]})",
        )
    if acc is None:
        dtype = result_dtype(x.dtype, as_dtype(out_dtype))
        acc = constant(0, Type(dtype, (*x.shape[:-1], y.shape[-1])))
    return tensor(emit(d.dot, x.handle, y.handle, to_tensor(acc).handle, **attrs))


# --- block-scaled formats

FORMATS = {
    "e5m2": t.float8e5,
    "e4m3": t.float8e4nv,
    "bf16": t.bfloat16,
    "fp16": t.float16,
}
E2M1_UNIT = 2.0**14  # what the exponents of fp16 and of e2m1 differ by


def decode_e2m1(code: tensor) -> tensor:
    """4-bit floats, in the lower bits of uint8, as fp32: by way of fp16 with their few bits."""
    code = cast_to(code, t.int16)
    bits = ((code & 8) << 12) | ((code & 7) << 9)
    return cast_to(cast_function(bits, t.float16, bitcast=True), t.float32) * E2M1_UNIT


def decode(x: Any, form: str, axis: int) -> tensor:
    """An operand as fp32; two 4-bit floats in a byte lie next to each other along the axis."""
    x = to_tensor(x)
    if form == "e2m1":
        want(x.dtype is t.uint8, f"e2m1 is packed in uint8, got {x.handle.type}")
        across = axis != len(x.shape) - 1
        x = trans(x) if across else x
        x = interleave(decode_e2m1(x & 15), decode_e2m1(x >> 4))
        return trans(x) if across else x
    want(form in FORMATS, f"no format {form!r}; one of e2m1, {', '.join(FORMATS)}")
    held = FORMATS[form]
    if x.dtype != held:
        want(
            x.dtype.kind == "uint" and x.dtype.bits == held.bits,
            f"{form} is held in {held} or uint{held.bits}, got {x.handle.type}",
        )
        x = cast_function(x, held, bitcast=True)
    return cast_to(x, t.float32)


def scale_up(x: tensor, scale: Any) -> tensor:
    """Groups along the last dimension, multiplied with powers of two given by their exponents."""
    if scale is None:
        return x
    scale = to_tensor(scale)
    want(scale.dtype is t.uint8, f"scales are exponents in uint8, got {scale.handle.type}")
    group = x.shape[-1] // max(1, scale.shape[-1])
    want(
        scale.shape[:-1] == x.shape[:-1] and group * scale.shape[-1] == x.shape[-1],
        f"scales {scale.handle.type} do not divide {x.handle.type} into groups",
    )
    code = cast_to(scale, t.int32)
    bits = a.where(code == 255, 0x7FC00000, a.where(code == 0, 1 << 22, code << 23))
    factor = expand_dims(cast_function(bits, t.float32, bitcast=True), -1)
    return x * reshape(expand_to(factor, (*scale.shape, group)), x.shape)


@builtin
def dot_scaled(
    lhs: Any,
    lhs_scale: Any,
    lhs_format: str,
    rhs: Any,
    rhs_scale: Any,
    rhs_format: str,
    acc: Any = None,
    fast_math: bool = False,
    lhs_k_pack: bool = True,
    rhs_k_pack: bool = True,
    out_dtype: Any = t.float32,
) -> tensor:
    """Matrix product of tiles in microscaling formats.

    Scaled, these are numbers of bf16; with fp16, whose numbers are not, all is fp32.
    """
    want(as_dtype(out_dtype) is t.float32, "dot_scaled gives float32 only")
    rank = len(to_tensor(lhs).shape)
    last, before = rank - 1, rank - 2
    x = decode(lhs, lhs_format, last if lhs_k_pack else before)
    y = decode(rhs, rhs_format, before if rhs_k_pack else last)
    x = scale_up(x, lhs_scale)
    y = trans(scale_up(trans(y), rhs_scale)) if rhs_scale is not None else y
    if "fp16" not in (lhs_format, rhs_format):
        return dot(cast_to(x, t.bfloat16), cast_to(y, t.bfloat16), acc)
    return dot(x, y, acc, "ieee")
