"""Every elementwise op in every dtype that its rule accepts: native code against NumPy."""

from __future__ import annotations

from typing import Any

import inputs
import native
import numpy as np
import pytest

from tilewright.codegen import mathlib
from tilewright.ir import types as t
from tilewright.ir.inst import Block, Builder, Kernel, Param, Value
from tilewright.ir.op import OPS, Op
from tilewright.ir.types import DType, Type
from tilewright.ops import math, memory, program, shape
from tilewright.ops.rules import numpy_dtype

CASES = [
    (op, dtypes, attrs)
    for op in inputs.ELEMENTWISE
    for dtypes, attrs in inputs.uses(op)
    if op.name != "offset"  # what it gives are addresses: every load and store checks it
]
WIDTHS = (64, 4, 2, 1, 0)  # elements of a tile; 0 are scalars
# A choice of what ops are made of, for tiles that do not fill a vector.
NARROW = {
    "add", "mul", "div", "idiv", "irem", "shl", "shr", "max", "min", "lt", "select", "abs", "neg",
    "fmod", "fma", "umulhi", "exp", "bit_not", "floor",
}  # fmt: skip


def name_of(case: tuple) -> str:
    op, dtypes, attrs = case
    extra = [f"{k}={v}" for k, v in attrs.items()]
    return "-".join([op.name, *[d.short for d in dtypes[-1:]], *extra])


def access(b: Builder, base: Value, dtype: DType, width: int) -> Value:
    """Pointers to this program's elements of an array."""
    pid = b.emit(program.program_id, axis=0)
    if not width:
        return b.emit(memory.offset, base, pid, bytes=dtype.bytes)
    size = b.emit(shape.constant, value=width, type="i32")
    first = b.emit(memory.offset, base, b.emit(math.mul, pid, size), bytes=dtype.bytes)
    line = b.emit(shape.arange, start=0, end=width)
    pointers = b.emit(shape.splat, first, shape=(width,))
    return b.emit(memory.offset, pointers, line, bytes=dtype.bytes)


def kernel_of(cases: list[tuple], width: int, uniform: int = -1) -> Kernel:
    """Loads operands, does each op, stores its results; one operand may be one number for all."""
    body = Block()
    b = Builder(body)
    params: list[Param] = []

    def pointer(dtype: DType) -> Value:
        params.append(Param(f"p{len(params)}", Type(t.pointer_to(dtype))))
        return body.add_param(params[-1].type)

    for op, dtypes, attrs in cases:
        xs = []
        for k, dtype in enumerate(dtypes):
            base = pointer(dtype)
            if k == uniform and width:
                one = b.emit(memory.load, access(b, base, dtype, 0))
                xs.append(b.emit(shape.splat, one, shape=(width,)))
            else:
                xs.append(b.emit(memory.load, access(b, base, dtype, width)))
        out = b.emit(op, *xs, **attrs)
        dtype = out.type.dtype
        b.emit(memory.store, access(b, pointer(dtype), dtype, width), out)
    return Kernel("table", params, body)


def check(cases: list[tuple], width: int, uniform: int = -1, limit: int = 1500) -> None:
    step = width or 1
    values: list[np.ndarray] = []
    expected = []
    count = 0
    for op, dtypes, attrs in cases:
        xs = inputs.operands(dtypes, limit)
        count = -(-len(xs[0]) // step) if not expected else count
        xs = [np.resize(x, count * step) for x in xs]
        given = list(xs)
        if uniform >= 0 and width and uniform < len(xs):
            xs[uniform] = np.resize(xs[uniform], count)
            given[uniform] = np.repeat(xs[uniform], step)
        with np.errstate(all="ignore"):
            want = np.asarray(op.eager(*given, **attrs))
        expected.append((op, dtypes, attrs, given, want, len(values) + len(xs)))
        values += [np.ascontiguousarray(x) for x in xs] + [np.zeros_like(want)]
    kernel = kernel_of(cases, width, uniform)
    fault = native.run_native(kernel, (count,), values)
    assert fault[0] == 0
    for op, dtypes, attrs, given, want, place in expected:
        compare(op, dtypes, attrs, given, values[place], want)


def compare(
    op: Op, dtypes: tuple, attrs: dict[str, Any], given: list, got: np.ndarray, want: np.ndarray
) -> None:
    """Bits decide, apart from which NaN it is and the sign of a zero that is an extreme."""
    bits = np.dtype(f"u{want.dtype.itemsize}")
    same = got.view(bits) == want.view(bits)
    dtype = op.rule(*[Type(d, ()) for d in dtypes], **attrs).dtype
    if dtype.is_float and dtype is not t.float8e4b15:
        x, y = got.astype(np.float64), want.astype(np.float64)
        same |= np.isnan(x) & np.isnan(y)
        if op.name in ("max", "min"):
            same |= (x == 0) & (y == 0)
        allowed = mathlib.ACCURACY.get(op.name, {}).get(dtype.name)
        if allowed is not None:
            same |= distance(got, want) <= allowed + 1
    for i in np.flatnonzero(~same)[:5]:
        print(op.name, attrs, [x[i] for x in given], "gives", got[i], "not", want[i])
    assert same.all()


def distance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How many floats lie between."""
    signed = np.dtype(f"i{x.dtype.itemsize}")
    top = np.iinfo(signed).min

    def rank(v: np.ndarray) -> np.ndarray:
        bits = v.view(signed)
        return np.where(bits < 0, top - bits, bits).astype(np.float64)

    return np.where(np.isfinite(x) & np.isfinite(y), np.abs(rank(x) - rank(y)), np.inf)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_tile(case):
    check([case], 64)
