# ruff: noqa: E501 - the texts of changes are lines of kernels
"""Planted faults in reductions, scans, counters, histograms and what programs do together."""

import numpy as np
from planted import Family, Fault, cases, change

rng = np.random.default_rng(2)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


SUMS = """
@triton.jit
def partial_sums(x_ptr, parts_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(parts_ptr + pid, tl.sum(x, axis=0))


@triton.jit
def total(parts_ptr, out_ptr, parts, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(parts_ptr + at, mask=at < parts, other=0.0)
    tl.store(out_ptr, tl.sum(x, axis=0))
"""


def sums(k, programs=4, parts=4):
    x = floats(120)
    buffer = np.empty(4, np.float32)
    k.partial_sums[(programs,)](x, buffer, x.size, BLOCK=32)
    k.total[(1,)](buffer, np.empty(1, np.float32), parts, BLOCK=8)


sums_family = Family(
    "two launches", SUMS, sums,
    (
        Fault("too few programs", "undefined", run=lambda k: sums(k, programs=3),
              at="x = tl.load(parts_ptr", argument="parts_ptr", program=(0, 0, 0)),
        Fault("too many parts", "bounds", run=lambda k: sums(k, parts=5),
              at="x = tl.load(parts_ptr", argument="parts_ptr"),
        Fault("all parts in one place", "race", change("parts_ptr + pid", "parts_ptr"),
              argument="parts_ptr", program=(1, 0, 0), also=("undefined",)),
        Fault("other=1", "masked", change("mask=at < n, other=0.0", "mask=at < n, other=1.0"),
              argument="x_ptr", program=(3, 0, 0)),
        Fault("no other", "masked", change("mask=at < n, other=0.0", "mask=at < n"),
              argument="x_ptr", program=(3, 0, 0)),
        Fault("block of another size", "race", change("at = pid * BLOCK", "at = pid * BLOCK // 2",
              "tl.store(parts_ptr + pid,", "tl.store(parts_ptr + pid // 2,"),
              at="tl.store(parts_ptr", argument="parts_ptr", also=("undefined",)),
    ),
)  # fmt: skip

LAST = """
@triton.jit
def total(x_ptr, parts_ptr, count_ptr, out_ptr, n, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(parts_ptr + pid, tl.sum(x, axis=0))
    done = tl.atomic_add(count_ptr, 1)
    if done == PROGRAMS - 1:
        p = tl.arange(0, BLOCK)
        parts = tl.load(parts_ptr + p, mask=p < PROGRAMS, other=0.0)
        tl.store(out_ptr, tl.sum(parts, axis=0))
"""


def last(k):
    x = floats(120)
    k.total[(4,)](x, np.empty(4, np.float32), np.zeros(1, np.int32), np.empty(1, np.float32),
                  x.size, PROGRAMS=4, BLOCK=32)  # fmt: skip


last_family = Family(
    "last one adds up", LAST, last,
    (
        Fault("last by its number", "race",
              change("done == PROGRAMS - 1", "pid == PROGRAMS - 1"), at="parts = tl.load(",
              argument="parts_ptr", program=(3, 0, 0)),
        Fault("relaxed counter", "race",
              change("tl.atomic_add(count_ptr, 1)", 'tl.atomic_add(count_ptr, 1, sem="relaxed")'),
              at="parts = tl.load(", argument="parts_ptr"),
        Fault("counts before it stores", "race",
              change("    tl.store(parts_ptr + pid, tl.sum(x, axis=0))\n    done = tl.atomic_add(count_ptr, 1)\n",
                     "    done = tl.atomic_add(count_ptr, 1)\n    tl.store(parts_ptr + pid, tl.sum(x, axis=0))\n"),
              at="parts = tl.load(", argument="parts_ptr"),
        Fault("counts one too early", "undefined",
              change("done == PROGRAMS - 1", "done == PROGRAMS - 2"), at="parts = tl.load(",
              argument="parts_ptr", program=(2, 0, 0), also=("race",)),
        Fault("counter without atomics", "race",
              change("done = tl.atomic_add(count_ptr, 1)",
                     "done = tl.load(count_ptr)\n    tl.store(count_ptr, done + 1)"),
              argument="count_ptr", program=(1, 0, 0), also=("race", "race")),
    ),
)  # fmt: skip

EXTREMES = """
@triton.jit
def extremes(x_ptr, max_ptr, min_ptr, arg_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    high = tl.load(x_ptr + row * cols + at, mask=at < cols, other=float("-inf"))
    low = tl.load(x_ptr + row * cols + at, mask=at < cols, other=float("inf"))
    tl.store(max_ptr + row, tl.max(high, axis=0))
    tl.store(min_ptr + row, tl.min(low, axis=0))
    tl.store(arg_ptr + row, tl.argmax(high, axis=0))


@triton.jit
def running(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        best = tl.maximum(best, tl.load(x_ptr + at, mask=at < n, other=float("-inf")))
    tl.store(out_ptr, tl.max(best, axis=0))


@triton.jit
def top(x_ptr, out_ptr, cols, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=float("-inf"))
    x = tl.sort(x, descending=True)
    tl.store(out_ptr + row * K + at, x, mask=at < K)
"""


def extremes(k):
    x = -1 - np.abs(floats(3, 50))
    out = [np.empty(3, np.float32), np.empty(3, np.float32), np.empty(3, np.int32)]
    k.extremes[(3,)](x, *out, 50, BLOCK=64)
    k.running[(1,)](x, np.empty(1, np.float32), 150, BLOCK=64)
    k.top[(3,)](x, np.empty((3, 4), np.float32), 50, K=4, BLOCK=64)


HIGH = 'high = tl.load(x_ptr + row * cols + at, mask=at < cols, other=float("-inf"))'
extremes_family = Family(
    "extremes", EXTREMES, extremes,
    (
        Fault("maximum of 0", "masked", change(HIGH, HIGH.replace('float("-inf")', "0.0")),
              argument="x_ptr", program=(0, 0, 0)),
        Fault("no other", "masked", change(HIGH, HIGH.replace(', other=float("-inf")', "")),
              argument="x_ptr"),
        Fault("minimum of -inf", "masked",
              change('low = tl.load(x_ptr + row * cols + at, mask=at < cols, other=float("inf"))',
                     'low = tl.load(x_ptr + row * cols + at, mask=at < cols, other=float("-inf"))'),
              argument="x_ptr"),
        Fault("running maximum of 0", "masked",
              change('best = tl.maximum(best, tl.load(x_ptr + at, mask=at < n, other=float("-inf")))',
                     "best = tl.maximum(best, tl.load(x_ptr + at, mask=at < n, other=0.0))"),
              argument="x_ptr"),
        Fault("zeros among the top", "masked",
              change('    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=float("-inf"))\n    x = tl.sort',
                     "    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)\n    x = tl.sort"),
              argument="x_ptr"),
        Fault("mask <=", "bounds", change("mask=at < K", "mask=at <= K"), argument="out_ptr",
              program=(2, 0, 0), also=("race",)),
    ),
)  # fmt: skip

HISTOGRAM = """
@triton.jit
def count(x_ptr, bins_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0)
    tl.atomic_add(bins_ptr + x, 1, mask=inside)


@triton.jit
def private(x_ptr, bins_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside)
    counts = tl.histogram(x, BINS, mask=inside)
    tl.atomic_add(bins_ptr + tl.arange(0, BINS), counts)
"""


def histogram(k, top=16, bins=None):
    x = rng.integers(0, top, 120).astype(np.int32)
    x[:2] = (top - 1, 3)
    k.count[(4,)](x, np.zeros(16, np.int32) if bins is None else bins, 120, BINS=16, BLOCK=32)
    k.private[(4,)](x, np.zeros(16, np.int32), 120, BINS=16, BLOCK=32)


histogram_family = Family(
    "histogram", HISTOGRAM, histogram,
    (
        Fault("value without a bin", "bounds", run=lambda k: histogram(k, 17),
              at="tl.atomic_add(bins_ptr + x", argument="bins_ptr", program=(0, 0, 0)),
        Fault("load, add, store", "race",
              change("tl.atomic_add(bins_ptr + x, 1, mask=inside)",
                     "tl.store(bins_ptr + x, tl.load(bins_ptr + x, mask=inside) + 1, mask=inside)"),
              argument="bins_ptr"),
        Fault("bins in empty memory", "undefined", at="tl.atomic_add(bins_ptr + x",
              run=lambda k: histogram(k, bins=np.empty(16, np.int32)), argument="bins_ptr"),
        Fault("counts masked lanes", "masked",
              change("tl.histogram(x, BINS, mask=inside)", "tl.histogram(x, BINS)"),
              at="x = tl.load(x_ptr + at, mask=inside)", argument="x_ptr", program=(3, 0, 0),
              also=("masked",)),
        Fault("counts are stored", "race",
              change("tl.atomic_add(bins_ptr + tl.arange(0, BINS), counts)",
                     "tl.store(bins_ptr + tl.arange(0, BINS), counts)"), argument="bins_ptr"),
    ),
)  # fmt: skip

SCAN = """
@triton.jit
def sums(x_ptr, y_ptr, ends_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, tl.cumsum(x, axis=0), mask=at < n)
    tl.store(ends_ptr + pid, tl.sum(x, axis=0))


@triton.jit
def add_before(y_ptr, ends_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    before = 0.0
    for i in range(0, pid):
        before += tl.load(ends_ptr + i)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(y_ptr + at, y + before, mask=at < n)


@triton.jit
def chained(x_ptr, y_ptr, ends_ptr, flags_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    before = 0.0
    if pid > 0:
        while tl.load(flags_ptr + pid - 1, volatile=True) == 0:
            pass
        before = tl.load(ends_ptr + pid - 1)
    tl.store(ends_ptr + pid, before + tl.sum(x, axis=0))
    tl.debug_barrier()
    tl.atomic_xchg(flags_ptr + pid, 1)
    tl.store(y_ptr + at, before + tl.cumsum(x, axis=0), mask=at < n)
"""


def scan(k):
    x, y, ends = floats(120), np.empty(120, np.float32), np.empty(4, np.float32)
    k.sums[(4,)](x, y, ends, 120, BLOCK=32)
    k.add_before[(4,)](y, ends, 120, BLOCK=32)
    k.chained[(4,)](x, y, ends, np.zeros(4, np.int32), 120, BLOCK=32)


scan_family = Family(
    "scan", SCAN, scan,
    (
        Fault("ends in one launch", "race",
              change("tl.store(ends_ptr + pid, tl.sum(x, axis=0))",
                     "tl.store(ends_ptr + pid, tl.sum(x, axis=0) + tl.load(ends_ptr + pid - 1, mask=pid > 0, other=0.0))"),
              argument="ends_ptr", program=(1, 0, 0)),
        Fault("one end too many", "bounds", change("range(0, pid)", "range(0, pid + 2)"),
              at="before += ", argument="ends_ptr", program=(3, 0, 0)),
        Fault("waits for itself", "deadlock",
              change("flags_ptr + pid - 1, volatile", "flags_ptr + pid, volatile"),
              at="while tl.load"),
        Fault("flag before the end", "race",
              change("    tl.store(ends_ptr + pid, before + tl.sum(x, axis=0))\n    tl.debug_barrier()\n    tl.atomic_xchg(flags_ptr + pid, 1)\n",
                     "    tl.atomic_xchg(flags_ptr + pid, 1)\n    tl.store(ends_ptr + pid, before + tl.sum(x, axis=0))\n"),
              at="before = tl.load(ends_ptr", argument="ends_ptr", program=(2, 0, 0)),
        Fault("flag is stored", "race",
              change("tl.atomic_xchg(flags_ptr + pid, 1)", "tl.store(flags_ptr + pid, 1)"),
              at="while tl.load", argument="flags_ptr", also=("race",)),
    ),
)  # fmt: skip

MAXIMUM = """
@triton.jit
def maximum(x_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    best = tl.max(tl.load(x_ptr + pid * BLOCK + tl.arange(0, BLOCK)), axis=0)
    old = tl.load(out_ptr)
    while old < best:
        seen = tl.atomic_cas(out_ptr, old, best)
        old = tl.where(seen == old, best, seen)
"""


def maximum(k):
    x = np.sort(rng.integers(0, 1000, 64)).astype(np.int32)
    k.maximum[(4,)](x, np.zeros(1, np.int32), BLOCK=16)


maximum_family = Family(
    "compare and swap", MAXIMUM, maximum,
    (
        Fault("plain store", "race",
              change("        seen = tl.atomic_cas(out_ptr, old, best)\n        old = tl.where(seen == old, best, seen)",
                     "        tl.store(out_ptr, best)\n        old = best"),
              at="tl.store(out_ptr, best)", argument="out_ptr", program=(1, 0, 0),
              also=("race",)),
        Fault("a tile of it", "race",
              change("old = tl.load(out_ptr)", "old = tl.max(tl.load(out_ptr + tl.arange(0, 1)), axis=0)"),
              argument="out_ptr", also=("race",)),
    ),
)  # fmt: skip

SHARED = """
@triton.jit
def normalize(x_ptr, y_ptr, weight_ptr, total_ptr, count_ptr, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at) * tl.load(weight_ptr + tl.arange(0, BLOCK))
    tl.atomic_add(total_ptr, tl.sum(x, axis=0))
    if tl.atomic_add(count_ptr, 1) == PROGRAMS - 1:
        total = tl.load(total_ptr)
        for p in range(PROGRAMS):
            y = tl.load(x_ptr + p * BLOCK + tl.arange(0, BLOCK)) / total
            tl.store(y_ptr + p * BLOCK + tl.arange(0, BLOCK), y)
        first = tl.load(weight_ptr + tl.arange(0, BLOCK))
        tl.store(weight_ptr + tl.arange(0, BLOCK), first / total)
"""


def shared(k):
    x = np.abs(floats(64)) + 1
    weight = np.abs(floats(16)) + 1
    k.normalize[(4,)](x, np.empty_like(x), weight, np.zeros(1, np.float32), np.zeros(1, np.int32),
                      PROGRAMS=4, BLOCK=16)  # fmt: skip


shared_family = Family(
    "shared total", SHARED, shared,
    (
        Fault("total before all have added", "race",
              change("    if tl.atomic_add(count_ptr, 1) == PROGRAMS - 1:\n        total", "    if True:\n        total",
                     "for p in range(PROGRAMS)", "for p in range(pid, pid + 1)"),
              at="tl.atomic_add(total_ptr", argument="total_ptr", program=(1, 0, 0),
              says="load by program (0, 0, 0)", also=("race",) * 4),
        Fault("weights changed at once", "race",
              change("tl.atomic_add(count_ptr, 1)", 'tl.atomic_add(count_ptr, 1, sem="relaxed")',
                     "tl.sum(x, axis=0))\n    if", 'tl.sum(x, axis=0), sem="relaxed")\n    if'),
              at="tl.store(weight_ptr", argument="weight_ptr", program=(3, 0, 0), also=("race",)),
        Fault("sum without atomics", "race",
              change("tl.atomic_add(total_ptr, tl.sum(x, axis=0))",
                     "tl.store(total_ptr, tl.load(total_ptr) + tl.sum(x, axis=0))"),
              argument="total_ptr", also=("race",)),
    ),
)  # fmt: skip

test_twin, test_fault = cases(
    shared_family,
    maximum_family,
    sums_family,
    last_family,
    extremes_family,
    histogram_family,
    scan_family,
)
