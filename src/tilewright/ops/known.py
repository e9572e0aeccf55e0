"""What elementwise ops give for numbers that are known while a kernel is compiled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.ir import types as t
from tilewright.ir.op import Op
from tilewright.ir.types import DType
from tilewright.ops import math
from tilewright.ops.rules import numpy_dtype

Number = int | float | bool

# NumPy's other operations on bool are not those of a one-bit integer.
ON_BOOLEANS = {
    math.bit_and, math.bit_or, math.bit_xor, math.bit_not, math.select, math.cast,
    math.eq, math.ne,
}  # fmt: skip


def evaluate(
    op: Op, dtypes: Sequence[DType], numbers: Sequence[Number], attrs: dict, result: DType
) -> Number | None:
    """What an elementwise op gives for numbers, or None where that cannot be written down."""
    if result.is_pointer or t.float8e4b15 in (*dtypes, result):
        return None
    if t.int1 in dtypes and op not in ON_BOOLEANS:
        return None
    arrays = [
        np.asarray([x]).astype(numpy_dtype(d)) if d.is_float else np.array([x], numpy_dtype(d))
        for x, d in zip(numbers, dtypes, strict=True)
    ]
    with np.errstate(all="ignore"):
        found = np.asarray(op.eager(*arrays, **attrs))
    if found.dtype != numpy_dtype(result) or found.shape != (1,):
        return None
    if result.is_integer:
        return found[0].item()
    value = float(found[0])
    return None if value != value else value  # a constant has no NaN payload
