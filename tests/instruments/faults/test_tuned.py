"""Planted faults in autotuned kernels: every configuration is checked, and none leaves a trace."""

import numpy as np
from planted import Family, Fault, cases, change

rng = np.random.default_rng(16)

TOTAL = """
@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((32, 4), (128, 4), (64, 8))],
    key=["n"],
)
@triton.jit
def total(x_ptr, sum_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.atomic_add(sum_ptr, tl.sum(x, axis=0))
    tl.store(y_ptr + at, 2.0 * x, mask=at < n)
"""


def total(k, n=96, programs=None):
    x, y, sums = np.ones(n, np.float32), np.empty(n, np.float32), np.zeros(1, np.float32)
    k.total[lambda meta: (programs or -(-n // meta["BLOCK"]),)](x, sums, y, n)
    assert programs or float(sums[0]) == n
    y.sum()


totals = Family(
    "total", TOTAL, total,
    (
        # Blocks of 32 divide 96.
        Fault("no mask, in some configurations", "bounds",
              change("x_ptr + at, mask=at < n, other=0.0", "x_ptr + at"), argument="x_ptr"),
        Fault("no other", "masked", change("mask=at < n, other=0.0", "mask=at < n"),
              argument="x_ptr"),
        Fault("too few programs for the first", "unwritten", at="tl.store", argument="y_ptr",
              run=lambda k: total(k, programs=2)),
    ),
)  # fmt: skip

MEANS = """
@triton.autotune(
    configs=[triton.Config({"SPLIT": s}) for s in (1, 4)], key=["n"], reset_to_zero=["y_ptr"]
)
@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"] // args["SPLIT"])})
@triton.jit
def mean(x_ptr, y_ptr, n, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    part = tl.program_id(1)
    size = n // SPLIT
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + part * size + at, mask=at < size, other=0.0)
    tl.atomic_add(y_ptr + row, tl.sum(x, axis=0) / n)
"""


def mean(k):
    x, y = rng.standard_normal((5, 80)).astype(np.float32), np.zeros(5, np.float32)
    k.mean[lambda meta: (5, meta["SPLIT"])](x, y, 80)
    assert np.allclose(y, x.mean(1), atol=1e-5)


STORED = change("tl.atomic_add(y_ptr + row,", "tl.store(y_ptr + row,")
means = Family(
    "mean", MEANS, mean,
    (Fault("stored, where there are parts", "race", STORED, argument="y_ptr"),),
)  # fmt: skip

test_twin, test_fault = cases(totals, means)
