"""The element dtypes of array libraries, as dtypes of the tile language."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tilewright.ir import types as ir

NUMPY_DTYPES = {
    np.dtype(np.bool_): ir.int1,
    np.dtype(np.int8): ir.int8, np.dtype(np.int16): ir.int16,
    np.dtype(np.int32): ir.int32, np.dtype(np.int64): ir.int64,
    np.dtype(np.uint8): ir.uint8, np.dtype(np.uint16): ir.uint16,
    np.dtype(np.uint32): ir.uint32, np.dtype(np.uint64): ir.uint64,
    np.dtype(np.float16): ir.float16, np.dtype(np.float32): ir.float32,
    np.dtype(np.float64): ir.float64, np.dtype(ml_dtypes.bfloat16): ir.bfloat16,
    np.dtype(ml_dtypes.float8_e5m2): ir.float8e5,
    np.dtype(ml_dtypes.float8_e5m2fnuz): ir.float8e5b16,
    np.dtype(ml_dtypes.float8_e4m3fn): ir.float8e4nv,
    np.dtype(ml_dtypes.float8_e4m3fnuz): ir.float8e4b8,
}  # fmt: skip
# torch spells every one of these as NumPy does.
TORCH_DTYPES = {f"torch.{dtype.name}": found for dtype, found in NUMPY_DTYPES.items()}
DTYPE_NAMES = {
    **{dtype.name: found for dtype, found in NUMPY_DTYPES.items()},
    **{d.name: d for d in ir.SCALARS},
    **{public: ir.BY_NAME[name] for name, public in ir.PUBLIC_NAMES.items()},
}


def named_dtype(dtype: Any) -> ir.DType | None:
    """The dtype that a dtype of any library spells, or None when no kernel can hold it."""
    if isinstance(dtype, ir.DType):
        return dtype if dtype in ir.SCALARS else None
    text = str(dtype)
    if text.startswith("torch."):  # torch.int1 is not what Triton calls int1
        return TORCH_DTYPES.get(text)
    return DTYPE_NAMES.get(text.rpartition(".")[2])


def dtype_advice(dtype: Any) -> str:
    """What to do about elements of a dtype that no kernel can hold."""
    text = str(dtype)
    if "complex" in text:
        return "there are no complex tiles; pass the real view, e.g. torch.view_as_real(x)"
    return "a kernel takes bool, 8 to 64 bit integers, fp8, fp16, bf16, fp32 and fp64"
