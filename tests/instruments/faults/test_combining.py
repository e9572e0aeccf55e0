"""Planted faults in combining functions, scans and counts that masked lanes sway."""

import numpy as np
from planted import Family, Fault, cases, change

rng = np.random.default_rng(11)
OTHER = "mask=at < n, other="


def rows(k, x=None, width=1, dtype=np.float32):
    x = rng.standard_normal((3, 20)) if x is None else x
    k.rows[(3,)](x.astype(dtype), np.empty((3, width), dtype), 20, BLOCK=32)


def below_zero(k, width=20):
    rows(k, -np.abs(rng.standard_normal((3, 20))) - 1, width)


PRODUCT = """
@triton.jit
def times(a, b):
    return a * b


@triton.jit
def rows(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n + at, mask=at < n, other=1.0)
    tl.store(out_ptr + tl.program_id(0), tl.reduce(x, 0, times))
"""
product = Family(
    "product", PRODUCT, rows,
    (
        Fault("other=0", "masked", change(OTHER + "1.0", OTHER + "0.0"), argument="x_ptr",
              says="changes the reduction"),
    ),
)  # fmt: skip

LOGS = """
@triton.jit
def add_logs(a, b):
    m = tl.maximum(a, b)
    return m + tl.log(tl.exp(a - m) + tl.exp(b - m))


@triton.jit
def rows(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n + at, mask=at < n, other=-1e30)
    tl.store(out_ptr + tl.program_id(0), tl.reduce(x, 0, add_logs))
"""
logs = Family(
    "logsumexp", LOGS, rows,
    (
        Fault("other=0", "masked", change(OTHER + "-1e30", OTHER + "0.0"), argument="x_ptr"),
        Fault("-inf minus -inf", "nan", change(OTHER + "-1e30", OTHER + 'float("-inf")'),
              at="tl.store(out_ptr", also=("masked",)),
    ),
)  # fmt: skip

WELFORD = """
@triton.jit
def merge(m1, s1, w1, m2, s2, w2):
    d = m2 - m1
    w = w1 + w2
    f = tl.where(w == 0.0, 0.0, w2 / w)
    return m1 + d * f, s1 + s2 + d * d * w1 * f, w


@triton.jit
def rows(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + at, mask=at < n, other=0.0)
    weight = (at < n).to(tl.float32)
    mean, square, count = tl.reduce((x, tl.zeros_like(x), weight), 0, merge)
    tl.store(out_ptr + 2 * row, mean)
    tl.store(out_ptr + 2 * row + 1, square / count)
"""
welford = Family(
    "welford", WELFORD, lambda k: rows(k, width=2),
    (
        Fault("weights of masked lanes", "masked",
              change("(at < n).to(tl.float32)", "tl.full((BLOCK,), 1.0, tl.float32)"),
              at="x = tl.load", argument="x_ptr"),
    ),
)  # fmt: skip

FROM_THE_END = """
@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def rows(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + at, mask=at < n, other=float("-inf"))
    y = tl.associative_scan(x, 0, larger, reverse=True)
    z = tl.cumsum(tl.where(at < n, x, 0.0), 0, reverse=True)
    tl.store(out_ptr + row * n + at, y + z, mask=at < n)
"""
from_the_end = Family(
    "scan from the end", FROM_THE_END, below_zero,
    (
        Fault("maximum of 0", "masked", change('float("-inf")', "0.0"), argument="x_ptr",
              says="changes the scan"),
        Fault("sum of -inf", "masked", change("tl.where(at < n, x, 0.0)", "tl.exp(x) + 1.0"),
              at="x = tl.load", says="what is computed from other=-inf"),
    ),
)  # fmt: skip
# Forwards, what lanes at the end hold is seen by no lane that is stored.
forwards = Family(
    "scan forwards", FROM_THE_END.replace(", reverse=True", "").replace('float("-inf")', "1.0"),
    below_zero, (),
)  # fmt: skip

COUNTS = """
@triton.jit
def rows(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + at, mask=at < n, other=0)
    tl.store(out_ptr + row * 8 + tl.arange(0, 8), tl.histogram(x, 8, mask=at < n))
"""


def counts(k):
    rows(k, rng.integers(0, 8, (3, 20)), 8, np.int32)


histogram = Family(
    "counts", COUNTS, counts,
    (
        Fault("without the mask", "masked",
              change("tl.histogram(x, 8, mask=at < n)", "tl.histogram(x, 8)"),
              at="x = tl.load", argument="x_ptr", says="changes the counts"),
    ),
)  # fmt: skip
outside = Family(
    "counts of what is no bin",
    COUNTS.replace(", mask=at < n))", "))").replace("other=0", "other=8"), counts, (),
)  # fmt: skip

TOTAL = """
@triton.jit
def rows(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + at, mask=at < n, other=0)
    tl.store(out_ptr + row, tl.sum(x.to(tl.int64), axis=0) // n)
    tl.store(out_ptr + row, tl.sum(x.to(tl.uint32) * 2654435761, axis=0) // 65536)
"""
total = Family(
    "total", TOTAL, lambda k: rows(k, np.full((3, 20), 1 << 30), 1, np.int32),
    (
        Fault("in int32", "overflow", change("tl.sum(x.to(tl.int64), axis=0)", "tl.sum(x, axis=0)"),
              argument="out_ptr", says="a sum in int32 ran over"),
    ),
)  # fmt: skip
corrected = Family(
    "counts of which the masked are taken away",
    COUNTS.replace(", mask=at < n))", ") - tl.where(tl.arange(0, 8) == 0, BLOCK - n, 0))"),
    counts, (),
)  # fmt: skip

test_twin, test_fault = cases(
    product, logs, welford, from_the_end, forwards, histogram, outside, corrected, total
)
