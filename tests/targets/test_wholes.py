"""Native scans, sorts, moves, counts and prints against the eager runner."""

from __future__ import annotations

from math import prod

import ml_dtypes
import numpy as np
import pytest
from native import run_eager, run_native

from tilewright.ir import types as t
from tilewright.ir.inst import Builder, Kernel, Param, Value
from tilewright.ir.types import Type, pointer_to
from tilewright.ir.verify import verify
from tilewright.ops import control, debug, dot, math, memory, program, reduce, shape
from tilewright.ops.rules import NUMPY, numpy_dtype
from tilewright.passes import pipeline
from tilewright.targets.cpu.launch import CPU

SHAPES = [(1,), (2,), (8,), (64,), (1, 4), (4, 1), (2, 16), (16, 2), (8, 8), (2, 4, 8), (4, 1, 2)]
FLOATS = [t.float16, t.bfloat16, t.float32, t.float64]
FP8 = [t.float8e5, t.float8e5b16, t.float8e4nv, t.float8e4b8]
INTS = [t.int8, t.int16, t.int32, t.int64, t.uint8, t.uint16, t.uint32, t.uint64]
ALL = [*FLOATS, *FP8, *INTS, t.int1]


class Writing:
    """A kernel being written: tiles come from arrays, results go to arrays."""

    def __init__(self) -> None:
        self.b = Builder()
        self.params: list[Param] = []
        self.arrays: list[np.ndarray] = []

    def emit(self, op, *operands, **attrs):
        return self.b.emit(op, *operands, **attrs)

    def number(self, value, dtype: t.DType = t.int32) -> Value:
        return self.emit(shape.constant, value=value, type=str(Type(dtype)))

    def array(self, array: np.ndarray, dtype: t.DType) -> Value:
        kind = Type(pointer_to(dtype))
        self.params.append(Param(f"p{len(self.params)}", kind))
        self.arrays.append(array)
        return self.b.block.add_param(kind)

    def places(self, pointer: Value, sizes: tuple[int, ...]) -> Value:
        """A tile of pointers to elements in a row."""
        size = pointer.type.dtype.element_ty.bytes
        if not sizes:
            return pointer
        offsets = None
        for d, n in enumerate(sizes):
            ones = tuple(n if k == d else 1 for k in range(len(sizes)))
            part = self.emit(shape.reshape, self.emit(shape.arange, start=0, end=n), shape=ones)
            step = self.emit(shape.splat, self.number(prod(sizes[d + 1 :])), shape=ones)
            part = self.emit(math.mul, part, step)
            part = self.emit(shape.broadcast, part, shape=sizes)
            offsets = part if offsets is None else self.emit(math.add, offsets, part)
        pointers = self.emit(shape.splat, pointer, shape=sizes)
        return self.emit(memory.offset, pointers, offsets, bytes=size)

    def tile(self, array: np.ndarray, dtype: t.DType) -> Value:
        return self.emit(memory.load, self.places(self.array(array, dtype), array.shape))

    def output(self, value: Value) -> None:
        kind = value.type
        dtype = t.int64 if kind.dtype.is_pointer else kind.dtype
        if kind.dtype.is_pointer:
            value = self.emit(math.bitcast, value, to="i64")
        held = np.dtype(np.uint8) if dtype is t.int1 else numpy_dtype(dtype)
        pointer = self.array(np.zeros(kind.shape, held), dtype)
        self.emit(memory.store, self.places(pointer, kind.shape), value)

    def kernel(self) -> Kernel:
        kernel = Kernel("k", self.params, self.b.block)
        verify(kernel)
        return kernel


def same(x: np.ndarray, y: np.ndarray, bitwise: bool = False) -> None:
    if bitwise or x.dtype.kind in "iub":
        assert x.tobytes() == y.tobytes(), f"\n{x}\n{y}"
        return
    np.testing.assert_array_equal(x.astype(np.float64), y.astype(np.float64))


def close(x: np.ndarray, y: np.ndarray) -> None:
    """Equal but for the order in which floats were summed; integers are equal."""
    if x.dtype.kind in "iub":
        return same(x, y)
    eps = float(ml_dtypes.finfo(x.dtype).eps)
    x, y = x.astype(np.float64), y.astype(np.float64)
    atol = 64 * eps * np.abs(x[np.isfinite(x)]).max(initial=0)
    np.testing.assert_allclose(y, x, rtol=64 * eps, atol=atol)


def check(writing: Writing, passes=(), bitwise: bool = False, same=same) -> None:
    """Native results are those of the eager runner."""
    kernel = writing.kernel()
    expected = [a.copy() for a in writing.arrays]
    found = [a.copy() for a in writing.arrays]
    run_eager(kernel, (1,), expected)
    assert run_native(pipeline.run(kernel, passes), (1,), found)[0] == 0
    for x, y in zip(expected, found, strict=True):
        same(x, y, bitwise) if bitwise else same(x, y)


def numbers(sizes, dtype: t.DType, seed: int = 0, special: bool = False) -> np.ndarray:
    """Random elements; with NaN and infinities among them if `special`."""
    rng = np.random.default_rng(seed + prod(sizes))
    held = np.dtype(np.uint8) if dtype is t.int1 else NUMPY[dtype]
    if dtype is t.int1:
        return rng.integers(0, 2, sizes).astype(held)
    if dtype.is_integer:
        top = 1 << dtype.bits - 1
        low, high = (-top, top - 1) if dtype.is_signed else (0, 2 * top - 1)
        return rng.integers(low, high, sizes, held, endpoint=True)
    out = rng.standard_normal(sizes).astype(np.float32)
    if special:
        chosen = rng.integers(0, 6, sizes)
        out[chosen == 0] = np.nan
        out[chosen == 1] = np.inf
    return out.astype(held)


# --- moves


MOVES = {
    "cat": lambda w, x, y: [w.emit(shape.cat, x, y)],
    "join": lambda w, x, y: [w.emit(shape.join, x, y)],
    "split": lambda w, x, y: w.emit(shape.split, w.emit(shape.join, x, y)),
    "flip": lambda w, x, y: [w.emit(shape.flip, x, axis=a) for a in range(len(x.type.shape))],
}


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_moves_of_every_shape(name, sizes):
    w = Writing()
    for dtype in (t.float32, t.int8):
        x, y = (w.tile(numbers(sizes, dtype, seed), dtype) for seed in (0, 1))
        for out in MOVES[name](w, x, y):
            w.output(out)
    check(w)


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_moves_of_every_dtype(name, dtype):
    w = Writing()
    x, y = (w.tile(numbers((4, 16), dtype, seed), dtype) for seed in (0, 1))
    for out in MOVES[name](w, x, y):
        w.output(out)
    check(w, bitwise=True)


def test_scalars_join_and_split_into_scalars():
    w = Writing()
    for dtype in (t.float32, t.bfloat16, t.int1, t.int64):
        x, y = (w.tile(numbers((), dtype, seed), dtype) for seed in (0, 1))
        for half in w.emit(shape.split, w.emit(shape.join, x, y)):
            w.output(half)
    check(w)


def test_a_half_that_is_a_scalar_is_waited_for():
    """What reads it does not join a nest that runs before the split."""
    w = Writing()
    x = w.tile(numbers((32,), t.float32), t.float32)
    pair = w.emit(shape.flip, w.tile(numbers((2,), t.float32), t.float32), axis=0)
    w.output(x)
    _, second = w.emit(shape.split, pair)
    w.output(w.emit(math.add, x, w.emit(shape.splat, second, shape=(32,))))
    check(w)


def test_pointers_move():
    w = Writing()
    data = np.arange(16, dtype=np.int32)
    pointers = w.places(w.array(data, t.int32), (16,))
    low, high = w.emit(shape.split, w.emit(shape.reshape, pointers, shape=(8, 2)))
    index = w.tile(np.array([3, 99, -5, 0], np.int32), t.int32)
    for moved in (low, w.emit(shape.flip, high, axis=0), w.emit(shape.gather, low, index, axis=0)):
        w.output(w.emit(memory.load, moved))
    w.output(w.emit(memory.load, w.emit(shape.cat, high, low)))
    check(w)


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("index_dtype", [t.int32, t.int64, t.int8, t.uint8], ids=str)
def test_gather(dtype, index_dtype):
    w = Writing()
    for source, sizes, axis in (((16,), (4,), 0), ((4, 8), (16, 8), 0), ((4, 8), (4, 2), 1),
                                ((2, 4, 8), (2, 1, 8), 1), ((1,), (8,), 0)):  # fmt: skip
        low = -40 if index_dtype.is_signed else 0
        rng = np.random.default_rng(1)
        index = rng.integers(low, 40, sizes).astype(NUMPY[index_dtype])
        x = w.tile(numbers(source, dtype), dtype)
        w.output(w.emit(shape.gather, x, w.tile(index, index_dtype), axis=axis))
    check(w, bitwise=True)


def test_gather_with_a_computed_index():
    w = Writing()
    x = w.tile(numbers((32,), t.float32), t.float32)
    lanes = w.emit(shape.arange, start=0, end=32)
    three = w.emit(shape.splat, w.number(3), shape=(32,))
    index = w.emit(math.bit_xor, lanes, three)
    w.output(w.emit(shape.gather, w.emit(math.add, x, x), index, axis=0))
    check(w)


# --- scans


@pytest.mark.parametrize("sizes", [*SHAPES, (1024,), (4, 64)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_of_every_shape(sizes, reverse):
    w = Writing()
    x = w.tile(numbers(sizes, t.float32), t.float32)
    for axis in range(len(sizes)):
        w.output(w.emit(reduce.scan, x, axis=axis, combine="add", reverse=reverse))
    check(w, same=close)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS], ids=str)
@pytest.mark.parametrize("combine", ["add", "mul", "max", "min"])
def test_scan_of_every_dtype(dtype, combine):
    w = Writing()
    x = w.tile(numbers((8, 16), dtype, special=combine in ("max", "min")), dtype)
    for axis in (0, 1):
        w.output(w.emit(reduce.scan, x, axis=axis, combine=combine))
    check(w, same=close if combine in ("add", "mul") else same)


@pytest.mark.parametrize("combine", ["bit_and", "bit_or", "bit_xor"])
def test_scan_of_bits(combine):
    w = Writing()
    for dtype in (t.int1, t.int32):
        x = w.tile(numbers((4, 32), dtype), dtype)
        for axis in (0, 1):
            w.output(w.emit(reduce.scan, x, axis=axis, combine=combine, reverse=True))
    check(w)


def recurrence(w: Writing, dtype: t.DType):
    """(a, b) then (c, d) gives (a * c, b * c + d): associative, but not commutative."""
    inner = Builder()
    a, b, c, d = (inner.block.add_param(Type(dtype)) for _ in range(4))
    first = inner.emit(math.mul, a, c)
    second = inner.emit(math.add, inner.emit(math.mul, b, c), d)
    inner.emit(control.yield_, first, second)
    return inner.block


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_of_pairs(dtype, reverse):
    w = Writing()
    for sizes in ((64,), (8, 16), (2, 8, 4)):
        x, y = (w.tile(numbers(sizes, dtype, seed), dtype) for seed in (0, 1))
        for axis in range(len(sizes)):
            outs = w.emit(
                reduce.scan, x, y, axis=axis, reverse=reverse, region=recurrence(w, dtype)
            )
            for out in outs:
                w.output(out)
    check(w, same=close)


def test_a_scan_in_a_chain():
    """Of a computed value, then used together with it, twice."""
    w = Writing()
    x = w.tile(numbers((64,), t.float32), t.float32)
    y = w.emit(math.mul, x, w.emit(math.add, x, x))
    total = w.emit(reduce.scan, y, axis=0, combine="add")
    again = w.emit(reduce.scan, w.emit(math.sub, total, y), axis=0, combine="max", reverse=True)
    w.output(w.emit(math.add, again, total))
    check(w, pipeline.STANDARD, same=close)


# --- sorts


@pytest.mark.parametrize("sizes", [*SHAPES, (1024,), (4, 128), (128, 4)], ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_sort_of_every_shape(sizes, descending):
    w = Writing()
    for dtype in (t.float32, t.int64, t.int16):
        x = w.tile(numbers(sizes, dtype, special=True), dtype)
        for axis in range(len(sizes)):
            w.output(w.emit(reduce.sort, x, axis=axis, descending=descending))
    check(w)


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_sort_of_every_dtype(dtype, descending):
    w = Writing()
    for sizes in ((256,), (4, 16)):
        x = w.tile(numbers(sizes, dtype, special=True), dtype)
        for axis in range(len(sizes)):
            w.output(w.emit(reduce.sort, x, axis=axis, descending=descending))
    check(w)


def test_sort_of_infinities_and_nans_of_both_signs():
    w = Writing()
    values = [np.nan, -np.nan, np.inf, -np.inf, 1, -1, 3e38, -3e38] * 4
    for dtype in (t.float32, t.float64, t.bfloat16, t.float16, *FP8):
        with np.errstate(over="ignore"):
            x = w.tile(np.array(values).astype(NUMPY[dtype]), dtype)
        w.output(w.emit(reduce.sort, x, axis=0, descending=False))
        w.output(w.emit(reduce.sort, x, axis=0, descending=True))
    check(w)


def test_sort_then_gather_then_reduce():
    w = Writing()
    x = w.tile(numbers((64,), t.float32), t.float32)
    ordered = w.emit(reduce.sort, w.emit(math.neg, x), axis=0, descending=False)
    lanes = w.emit(shape.arange, start=0, end=64)
    index = w.emit(math.sub, w.emit(shape.splat, w.number(40), shape=(64,)), lanes)
    picked = w.emit(shape.gather, ordered, index, axis=0)
    w.output(picked)
    w.output(w.emit(reduce.reduce, picked, axis=0, combine="max"))
    check(w, pipeline.STANDARD)


# --- counting


@pytest.mark.parametrize("dtype", [d for d in INTS if d is not t.uint64] + [t.int1], ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_histogram(dtype, masked):
    w = Writing()
    for size, bins in ((256, 16), (64, 128), (8, 1)):
        x = numbers((size,), dtype)
        x = x if dtype is t.int1 else (x % 20).astype(x.dtype)
        operands = [w.tile(x, dtype)]
        if masked:
            operands.append(w.tile(numbers((size,), t.int1, 5), t.int1))
        w.output(w.emit(reduce.histogram, *operands, bins=bins))
    check(w)


# --- inside control flow, and after other whole-tile ops


def test_in_a_loop_with_carried_tiles():
    w = Writing()
    x = w.tile(numbers((4, 8), t.float32), t.float32)
    low, high, step = (w.number(n) for n in (0, 3, 1))
    body = Builder()
    i = body.block.add_param(Type(t.int32))
    held = body.block.add_param(x.type)
    number = body.emit(shape.splat, body.emit(math.cast, i, to="f32"), shape=(4, 8))
    scanned = body.emit(reduce.scan, body.emit(math.add, held, number), axis=1, combine="add")
    ordered = body.emit(reduce.sort, scanned, axis=0, descending=True)
    turned = body.emit(shape.flip, ordered, axis=1)
    body.emit(control.yield_, body.emit(math.sub, turned, held))
    out = w.emit(control.for_, low, high, step, x, region=[body.block])
    w.output(out[0] if isinstance(out, tuple) else out)
    check(w, same=close)


def test_in_a_branch():
    w = Writing()
    x = w.tile(numbers((16,), t.float32), t.float32)
    chosen = w.tile(np.array(1, np.uint8), t.int1)
    arms = []
    for axis_op in (lambda b: b.emit(shape.flip, x, axis=0),
                    lambda b: b.emit(reduce.sort, x, axis=0, descending=False)):  # fmt: skip
        arm = Builder()
        arm.emit(control.yield_, axis_op(arm))
        arms.append(arm.block)
    out = w.emit(control.if_, chosen, types=(str(x.type),), region=arms)
    w.output(out[0] if isinstance(out, tuple) else out)
    check(w)


@pytest.mark.parametrize("dtype", [t.float16, t.bfloat16, t.float32], ids=str)
def test_after_sums_and_products_that_are_kept_wide(dtype):
    w = Writing()
    x = w.tile(numbers((16, 16), dtype), dtype)
    rows = w.emit(reduce.reduce, x, axis=1, combine="max")
    pairs = w.emit(shape.join, rows, w.emit(shape.flip, rows, axis=0))
    w.output(pairs)
    small = w.tile((numbers((16, 16), t.int8) % 4).astype(NUMPY[dtype]), dtype)
    zero = w.emit(shape.constant, value=0.0, type=str(Type(t.float32, (16, 16))))
    product = w.emit(dot.dot, small, small, zero)
    total = w.emit(reduce.reduce, w.emit(math.cast, product, to=dtype.short), axis=0, combine="add")
    for out in (
        w.emit(reduce.sort, total, axis=0, descending=False),
        w.emit(reduce.scan, product, axis=0, combine="add"),
        w.emit(shape.cat, total, total),
        w.emit(shape.gather, total, w.emit(shape.arange, start=4, end=12), axis=0),
        w.emit(shape.flip, product, axis=1),
    ):
        w.output(out)
    check(w, pipeline.STANDARD)


# --- extremes


@pytest.mark.parametrize("dtype", FLOATS + FP8, ids=str)
@pytest.mark.parametrize("combine", ["max", "min"])
@pytest.mark.parametrize("axis", [0, 1])
def test_extremes_of_rows_with_nan(dtype, combine, axis):
    w = Writing()
    x = np.full((4, 64), np.nan)
    x[1, 5] = -np.inf if combine == "max" else np.inf
    x[2, 63] = -2
    x[3] = np.linspace(-3, 3, 64)
    x[3, ::3] = np.nan
    x = x if axis == 1 else np.ascontiguousarray(x.T)
    tile = w.tile(x.astype(NUMPY[dtype]), dtype)
    w.output(w.emit(reduce.reduce, tile, axis=axis, combine=combine))
    check(w)


# --- printing


def printing(kind: str):
    """A kernel of two programs that prints; with the arrays that it reads."""
    w = Writing()
    pid = w.emit(program.program_id, axis=0)
    x = w.tile(numbers((2, 4), t.float32), t.float32)
    half = w.tile(numbers((16,), t.bfloat16), t.bfloat16)
    flags = w.tile(numbers((4,), t.int1), t.int1)
    whole = w.tile(numbers((2048,), t.int16), t.int16)
    hex = kind == "hex"
    w.emit(debug.device_print, pid, prefix="pid is: ", hex=hex)
    w.emit(debug.device_print, w.emit(math.add, x, x), half, prefix='a "b" \\ %d ü', hex=hex)
    w.emit(debug.device_print, flags, whole, prefix="", hex=hex)
    total = w.emit(reduce.reduce, half, axis=0, combine="add")
    w.emit(debug.device_print, total, w.emit(math.gt, pid, w.number(0)), prefix="t", hex=hex)
    w.emit(debug.device_print, prefix="only words")
    rows = w.tile(numbers((4, 4), t.float16), t.float16)
    w.emit(debug.device_print, w.emit(reduce.reduce, rows, axis=0, combine="add"), hex=hex)
    return w.kernel(), w.arrays


@pytest.mark.parametrize("kind", ["plain", "hex"])
def test_prints_are_those_of_eager(kind, capsys):
    kernel, arrays = printing(kind)
    run_eager(kernel, (2,), arrays)
    expected = capsys.readouterr().out
    launch(kernel, (2, 1, 1), arrays, 1)
    assert capsys.readouterr().out == expected
    assert expected.count("\n") == 12


def test_lines_of_many_threads_stay_whole(capsys):
    w = Writing()
    pid = w.emit(program.program_id, axis=1)
    w.emit(debug.device_print, w.emit(shape.splat, pid, shape=(64,)), prefix="row")
    launch(w.kernel(), (2, 64, 1), [], 4)
    lines = capsys.readouterr().out.splitlines()
    expected = [
        f"pid ({x}, {y}, 0) row " + " ".join(str(np.full(64, y)).split())
        for y in range(64)
        for x in range(2)
    ]
    assert sorted(lines) == sorted(expected)


def launch(kernel: Kernel, grid: tuple[int, int, int], arrays: list, team: int) -> None:
    """Run a kernel as the CPU target does."""
    code = CPU.lower(kernel, bounds=True, counters=False)
    binary = CPU.load(CPU.assemble(code), code.metadata)
    values = []
    for a in arrays:
        start = a.ctypes.data
        values += [start, start, start + a.nbytes]
    binary.launch(grid, values, team)
