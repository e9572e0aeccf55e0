"""Matrix product of tiles."""

from __future__ import annotations

import numpy as np

from tilewright.errors import want
from tilewright.ir import types as t
from tilewright.ir.op import op

PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")
OPERANDS = (
    t.int8, t.uint8, t.float8e5, t.float8e4nv, t.float8e4b8, t.float8e5b16, t.float8e4b15,
    t.float16, t.bfloat16, t.float32, t.float64,
)  # fmt: skip
SUMS = (t.float32, t.float16, t.float64, t.bfloat16)  # of floats of up to 32 bits


def round_tf32(x):
    """fp32 rounded to the 10 mantissa bits of TF32, ties away, as `cvt.rna.tf32`."""
    bits = x.view(np.int32)
    rounded = (bits + 0x1000 & ~0x1FFF).astype(np.int32).view(np.float32)
    return np.where(np.isfinite(x), rounded, x)


def product(x, y, acc, precision="ieee"):
    if x.dtype.kind in "iu":
        return np.matmul(x.astype(np.int32), y.astype(np.int32)) + acc
    if precision == "tf32" and x.dtype == np.float32:
        x, y = round_tf32(x), round_tf32(y)
    wide = np.matmul(x.astype(np.float64), y.astype(np.float64))
    return (wide + acc.astype(np.float64)).astype(acc.dtype)


@op(eager=product, flops=2)
def dot(x, y, acc, precision="ieee"):
    """x @ y + acc; the last two dimensions are the matrices', a third one counts them."""
    want(
        len(x.shape) == len(y.shape) and len(x.shape) in (2, 3),
        f"both operands must be 2-D or both 3-D, got {x} and {y}",
    )
    want(x.dtype in OPERANDS, f"cannot multiply {x}; operands are int8, fp8, fp16, bf16, fp32")
    both_fp8 = x.dtype.is_fp8() and y.dtype.is_fp8()
    want(x.dtype is y.dtype or both_fp8, f"operands differ: {x} and {y}; cast one of them")
    want(
        x.shape[-1] == y.shape[-2] and x.shape[:-2] == y.shape[:-2],
        f"inner sizes differ: {x} has {x.shape[-1]} columns, {y} has {y.shape[-2]} rows",
    )
    want(precision in PRECISIONS, f"no input_precision {precision!r}; one of {PRECISIONS}")
    shape = (*x.shape[:-1], y.shape[-1])
    want(acc.shape == shape, f"the accumulator must have shape {list(shape)}, got {acc}")
    sums = (t.int32,) if x.dtype.is_integer else (t.float64,) if x.dtype is t.float64 else SUMS
    want(
        acc.dtype in sums,
        f"cannot accumulate {x} @ {y} in {acc.dtype}; it is summed in "
        f"{' or '.join(str(d) for d in sums if d is not t.bfloat16)}",
    )
    return acc
