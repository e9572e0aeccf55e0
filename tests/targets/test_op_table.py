"""Every elementwise op in every dtype that its rule accepts: native code against NumPy."""

from __future__ import annotations

from typing import Any

import inputs
import native
import numpy as np
import pytest

from tilewright.codegen import llvm, mathlib
from tilewright.ir import types as t
from tilewright.ir.inst import Block, Builder, Kernel, Param, Value
from tilewright.ir.op import Op
from tilewright.ir.types import DType, Type
from tilewright.ops import math, memory, program, shape

CASES = [
    (op, dtypes, attrs)
    for op in inputs.ELEMENTWISE
    for dtypes, attrs in inputs.uses(op)
    if op.name != "offset"  # what it gives are addresses: every load and store checks it
]
WIDTHS = (4, 2, 1, 0)  # elements of narrow tiles; 0 are scalars
DTYPES = {d: [c for c in CASES if c[1][-1] is d] for d in t.SCALARS}
LEVELS = [x for x in llvm.LEVELS.get(llvm.host_machine().arch, {}) if x != "avx512"]


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


def check(
    cases: list[tuple], width: int, uniform: int = -1, limit: int = 1500, features: str = ""
) -> None:
    """Compare the ops of these cases, all in one kernel of tiles of this width."""
    step = width or 1
    values: list[np.ndarray] = []
    expected = []
    chosen = [inputs.operands(dtypes, limit) for _, dtypes, _ in cases]
    count = -(-max(len(xs[0]) for xs in chosen) // step)
    for (op, dtypes, attrs), xs in zip(cases, chosen, strict=True):
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
    fault = native.run_native(kernel, (count,), values, features)
    assert fault[0] == 0
    for op, dtypes, attrs, given, want, place in expected:
        compare(op, dtypes, attrs, given, values[place], want)


def compare(
    op: Op, dtypes: tuple, attrs: dict[str, Any], given: list, got: np.ndarray, want: np.ndarray,
    target: str = "",
) -> None:  # fmt: skip
    """Bits decide, apart from which NaN it is and the sign of a zero that is an extreme."""
    bits = np.dtype(f"u{want.dtype.itemsize}")
    same = got.view(bits) == want.view(bits)
    if attrs.get("to") == "f8e4b15" and dtypes[0].is_float:
        same |= np.isnan(given[0].astype(np.float64)) & ((got.view(bits) ^ want.view(bits)) == 128)
    dtype = op.rule(*[Type(d, ()) for d in dtypes], **attrs).dtype
    if dtype.is_float and dtype is not t.float8e4b15:
        x, y = got.astype(np.float64), want.astype(np.float64)
        same |= np.isnan(x) & np.isnan(y)
        if op.name in ("max", "min"):
            same |= (x == 0) & (y == 0)
        allowed = mathlib.accuracy(op.name, dtype.name, target)
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


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_narrow_tiles_and_scalars(dtype, width):
    check(DTYPES[dtype], width, limit=200)


@pytest.mark.parametrize("uniform", (0, 1, 2))
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_operand_the_same_everywhere(dtype, uniform):
    check([c for c in DTYPES[dtype] if len(c[1]) > uniform], 64, uniform, limit=200)


@pytest.mark.parametrize("features", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_lesser_machines(dtype, features):
    check(DTYPES[dtype], 64, limit=300, features=features)
