# ruff: noqa: E501 - the texts of changes are lines of kernels
"""Planted faults in numbers: ranges of dtypes, undefined arithmetic, untrue promises, views."""

import numpy as np
from planted import Family, Fault, cases, change

rng = np.random.default_rng(4)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


QUANT = """
@triton.jit
def quantize(x_ptr, q_ptr, s_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
    top = tl.max(tl.abs(x), axis=0)
    scale = tl.maximum(top, 1e-6) / 127.0
    q = x / scale
    q = tl.where(q >= 0, q + 0.5, q - 0.5)
    q = tl.minimum(tl.maximum(q, -127.0), 127.0)
    tl.store(q_ptr + row * cols + at, q.to(tl.int8), mask=at < cols)
    tl.store(s_ptr + row, scale)


@triton.jit
def unpack(q_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    word = tl.load(q_ptr + at // 8, mask=at < n)
    y = (word >> (at % 8 * 4)) & 15
    tl.store(y_ptr + at, y.to(tl.float32) - 8.0, mask=at < n)
"""


def quantize(k):
    x = floats(3, 50) * 100
    x[1] = 0
    k.quantize[(3,)](x, np.empty((3, 50), np.int8), np.empty(3, np.float32), 50, BLOCK=64)
    words = rng.integers(-(2**31), 2**31, 12).astype(np.int32)
    k.unpack[(3,)](words, np.empty(96, np.float32), 96, BLOCK=32)


quantize_family = Family(
    "quantize", QUANT, quantize,
    (
        Fault("not cut to 127", "arithmetic",
              change("tl.maximum(top, 1e-6) / 127.0", "tl.maximum(top, 1e-6) / 200.0",
                     "    q = tl.minimum(tl.maximum(q, -127.0), 127.0)\n", ""),
              at="q.to(tl.int8)", argument="q_ptr", program=(0, 0, 0)),
        Fault("scale of 0", "nan",
              change("tl.maximum(top, 1e-6)", "top",
                     "    q = tl.minimum(tl.maximum(q, -127.0), 127.0)\n", ""),
              at="q = x / scale", argument="q_ptr", program=(1, 0, 0), also=("arithmetic",)),
        Fault("shifted too far", "arithmetic", change("at % 8 * 4", "at % 16 * 4"),
              at="y = (word", argument="y_ptr", program=(0, 0, 0)),
        Fault("words of 4 elements", "bounds", change("at // 8", "at // 4"), argument="q_ptr"),
        Fault("rows of q by the block", "race", change("q_ptr + row * cols", "q_ptr + row * (cols // 2)"),
              argument="q_ptr", program=(1, 0, 0)),
    ),
)  # fmt: skip

RANGES = """
@triton.jit
def mean_of_squares(x_ptr, out_ptr, count_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + at, mask=at < n, other=0.0)
    square = x.to(tl.float32) * x.to(tl.float32)
    total = tl.sum(square, axis=0)
    count = tl.load(count_ptr + row)
    mean = tl.where(count > 0, total / tl.maximum(count, 1), 0.0)
    tl.store(out_ptr + row, tl.log(1.0 + mean))


@triton.jit
def groups(x_ptr, out_ptr, size_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    size = tl.load(size_ptr)
    group = at // tl.maximum(size, 1)
    tl.atomic_add(out_ptr + group % 8, tl.load(x_ptr + at, mask=at < n, other=0.0), mask=at < n)
"""


def ranges(k, counts=(50, 0, 3), size=8):
    x = np.full((3, 50), 300, np.float16)
    x[1] = 0
    k.mean_of_squares[(3,)](x, np.empty(3, np.float32), np.array(counts, np.int32), 50, BLOCK=64)
    k.groups[(1,)](floats(50), np.zeros(8, np.float32), np.array([size], np.int32), 50, BLOCK=64)


ranges_family = Family(
    "ranges", RANGES, ranges,
    (
        Fault("squares in fp16", "inf",
              change("square = x.to(tl.float32) * x.to(tl.float32)", "square = x * x"),
              argument="out_ptr", program=(0, 0, 0)),
        Fault("count of 0", "nan",
              change("tl.where(count > 0, total / tl.maximum(count, 1), 0.0)", "total / count"),
              argument="out_ptr", program=(1, 0, 0)),
        Fault("logarithm of 0", "inf", change("tl.log(1.0 + mean)", "tl.log(mean)"),
              argument="out_ptr", program=(1, 0, 0)),
        Fault("logarithm of a negative number", "nan", change("tl.log(1.0 + mean)", "tl.log(-1.0 - mean)"),
              argument="out_ptr", program=(0, 0, 0)),
        Fault("exponential too large", "inf", change("tl.log(1.0 + mean)", "tl.exp(mean)"),
              argument="out_ptr", program=(0, 0, 0)),
        Fault("integer division by 0", "arithmetic", change("tl.maximum(size, 1)", "size"),
              run=lambda k: ranges(k, size=0)),
    ),
)  # fmt: skip

OFFSETS = """
@triton.jit
def pick(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    row = pid.to(tl.int64) * stride
    at = row + tl.arange(0, BLOCK)
    inside = (at >= 0) & (at < n)
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    tl.store(out_ptr + pid * BLOCK + tl.arange(0, BLOCK), x)


@triton.jit
def hashed(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    slot = (at * 1103515245 + 12345) & 63
    tl.store(out_ptr + at, tl.load(x_ptr + slot))
"""


def offsets(k, stride=1 << 30):
    x = floats(100)
    k.pick[(5,)](x, np.empty(160, np.float32), stride, 100, BLOCK=32)
    k.hashed[(1,)](x, np.empty(32, np.float32), BLOCK=32)


offsets_family = Family(
    "offsets", OFFSETS, offsets,
    (
        Fault("row in int32", "overflow", change("pid.to(tl.int64) * stride", "pid * stride"),
              argument="x_ptr", program=(4, 0, 0)),
        Fault("row cut to int32", "overflow",
              change("pid.to(tl.int64) * stride", "(pid.to(tl.int64) * stride).to(tl.int32)"),
              argument="x_ptr", program=(4, 0, 0)),
        Fault("offset that runs over without a mask", "overflow",
              change("pid.to(tl.int64) * stride", "(pid + 2) * stride",
                     "x_ptr + at, mask=inside, other=0.0", "x_ptr + at"),
              argument="x_ptr", program=(0, 0, 0), also=("bounds",)),
        Fault("index in int8", "overflow", change("slot = (at * 1103515245 + 12345) & 63",
                                                  "slot = at.to(tl.int8) * 5 + 0"),
              argument="x_ptr", at="slot = at.to", also=("bounds",)),
    ),
)  # fmt: skip

HINTS = """
@triton.jit
def copy(x_ptr, y_ptr, stride, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    tl.assume(stride >= 0)
    stride = tl.multiple_of(stride, 8)
    at = pid * BLOCK + tl.max_contiguous(tl.multiple_of(tl.arange(0, BLOCK), BLOCK), BLOCK)
    tl.device_assert(pid < 4, "too many programs")
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, x, mask=at < n)


@triton.jit
def wrapped(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.max_contiguous(tl.multiple_of(at % n, BLOCK), BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + row), mask=at < n)
"""


def hints(k, stride=16, grid=4):
    x = floats(100)
    k.copy[(grid,)](x, np.empty_like(x), stride, 100, BLOCK=32)
    k.wrapped[(4,)](x, np.empty_like(x), 100, BLOCK=32)


hints_family = Family(
    "hints", HINTS, hints,
    (
        Fault("stride is no multiple", "hint", run=lambda k: hints(k, 15), at="tl.multiple_of(stride",
              program=(0, 0, 0)),
        Fault("numbers that do not count up", "hint",
              change("tl.multiple_of(tl.arange(0, BLOCK), BLOCK)", "tl.arange(0, BLOCK) * 2"),
              at="tl.max_contiguous(tl.arange"),
        Fault("assumption", "assert", run=lambda k: hints(k, -8), at="tl.assume"),
        Fault("assertion", "assert", run=lambda k: hints(k, grid=5), at="tl.device_assert",
              program=(4, 0, 0), says="too many programs"),
        Fault("multiple of the row", "hint", change("tl.multiple_of(at % n, BLOCK)",
                                                    "tl.multiple_of((at + 1) % n, BLOCK)"),
              at="row = tl.max"),
    ),
)  # fmt: skip

VIEWS = """
@triton.jit
def double(x_ptr, y_ptr, rows, cols, stride, step, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + at * step, mask=at < cols)
    tl.store(y_ptr + row * cols + at, 2 * x, mask=at < cols)
"""


def view(k, x=None, cols=20, stride=None, step=None):
    x = floats(6, 50)[1:5, 10:30] if x is None else x
    strides = [s // 4 for s in x.strides]
    stride, step = stride or strides[0], step or strides[1]
    k.double[(4,)](x, np.empty((4, 20), np.float32), 4, cols, stride, step, BLOCK=32)


views_family = Family(
    "views", VIEWS, view,
    (
        Fault("column past a slice", "view", change("at * step, mask=at < cols", "at * step, mask=at <= cols"),
              argument="x_ptr", program=(0, 0, 0)),
        Fault("stride of a dense array", "view", run=lambda k: view(k, stride=20), at="x = tl.load",
              argument="x_ptr"),
        Fault("step not used", "view", at="x = tl.load", argument="x_ptr", program=(0, 0, 0),
              run=lambda k: view(k, floats(4, 40)[:, ::2], step=1)),
        Fault("expanded rows written", "race", change("y_ptr + row * cols", "y_ptr + row * 0"),
              argument="y_ptr", program=(1, 0, 0)),
        Fault("transposed without its strides", "view", at="x = tl.load", argument="x_ptr",
              run=lambda k: view(k, floats(40, 4)[:20].T, stride=20, step=1, cols=20),
              change=change("row * stride + at * step", "row * stride + at * step * 2")),
    ),
)  # fmt: skip

WIDTHS = """
@triton.jit
def bits(x_ptr, y_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    words = x_ptr.to(tl.pointer_type(tl.int32))
    low = tl.load(words + at)
    tl.store(y_ptr + at, low)


@triton.jit
def halves(x_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    if pid == 0:
        tl.store(x_ptr + at, at.to(tl.float32) + 1.0)
    else:
        small = x_ptr.to(tl.pointer_type(tl.float16))
        tl.store(small + 2 * BLOCK + at, at.to(tl.float16))
"""


def widths(k):
    x = floats(64)
    k.bits[(2,)](x, np.empty(64, np.int32), BLOCK=32)
    k.halves[(2,)](floats(64), BLOCK=32)


widths_family = Family(
    "widths", WIDTHS, widths,
    (
        Fault("halves of the same words", "race", change("small + 2 * BLOCK + at", "small + at"),
              argument="x_ptr", program=(1, 0, 0)),
        Fault("one byte too far", "race",
              change("small + 2 * BLOCK + at", "small + 2 * BLOCK - 1 + at"), argument="x_ptr",
              program=(1, 0, 0)),
        Fault("twice the words", "bounds", change("words + at", "words + 2 * at + 1"),
              argument="x_ptr", program=(1, 0, 0)),
    ),
)  # fmt: skip

HALF = """
@triton.jit
def rms(x_ptr, y_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + at, mask=at < n, other=0.0)
    wide = x.to(tl.float32)
    scale = tl.rsqrt((tl.sum(wide * wide, axis=0) / n).to(tl.float32) + eps)
    y = wide * scale
    gate = 1.0 / (1.0 + tl.exp(-50.0 * y))
    tl.store(y_ptr + row * n + at, y * gate, mask=at < n)
"""


def half(k):
    x = (floats(3, 50) * 100).astype(np.float16)
    k.rms[(3,)](x, np.empty_like(x), 50, 1e-6, BLOCK=64)


half_family = Family(
    "half", HALF, half,
    (
        Fault("squares in fp16", "inf", change("wide = x.to(tl.float32)", "wide = x"),
              at="tl.sum(wide * wide", argument="y_ptr", program=(0, 0, 0), also=("inf",)),
        Fault("mean in fp16", "inf", change("tl.sum(wide * wide, axis=0)", "tl.sum(wide * wide, axis=0).to(tl.float16)"),
              argument="y_ptr", program=(0, 0, 0)),
    ),
)  # fmt: skip

BYTES = """
@triton.jit
def residual(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    y = tl.load(y_ptr + at, mask=at < n, other=0)
    total = x.to(tl.int32) + y
    total = tl.minimum(tl.maximum(total, -128), 127)
    tl.store(out_ptr + at, total.to(tl.int8), mask=at < n)


@triton.jit
def rotate(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.gather(x, (at + 3) % BLOCK, axis=0))


@triton.jit
def column(x_ptr, out_ptr, rows, stride):
    row = tl.program_id(0).to(tl.int64)
    tl.store(out_ptr + row, tl.load(x_ptr + row * stride))
"""


def small(k):
    x = np.array([100, -100, 7, 0], np.int8)
    k.residual[(1,)](x, np.array([50, -50, 1, 2], np.int8), np.empty(4, np.int8), 4, BLOCK=8)
    k.rotate[(1,)](floats(8), np.empty(8, np.float32), BLOCK=8)
    far = np.zeros((1 << 31) + 4096, np.int8)  # of which nothing is touched, so it takes no memory
    k.column[(3,)](far, np.empty(3, np.int8), 3, 1 << 30)


bytes_family = Family(
    "bytes", BYTES, small,
    (
        Fault("sum in int8", "overflow", change("total = x.to(tl.int32) + y", "total = x + y"),
              argument="out_ptr", program=(0, 0, 0)),
        Fault("gather past the end", "arithmetic", change("(at + 3) % BLOCK", "at + 3"),
              at="tl.gather(x", argument="out_ptr", says="element 8 of 8"),
        Fault("row in int32", "overflow", change("tl.program_id(0).to(tl.int64)", "tl.program_id(0)"),
              at="row * stride", argument="x_ptr", program=(2, 0, 0), also=("bounds",)),
    ),
)  # fmt: skip

test_twin, test_fault = cases(
    half_family,
    bytes_family,
    quantize_family,
    ranges_family,
    offsets_family,
    hints_family,
    views_family,
    widths_family,
)
