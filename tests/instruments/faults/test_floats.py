"""Planted faults in floats: sums that lose precision, and NaN that are dropped."""

import ml_dtypes
import numpy as np
from planted import Family, Fault, cases, change

rng = np.random.default_rng(14)

MEAN = """
@triton.jit
def mean(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + row * n + at, mask=at < n, other=0.0)
    tl.store(y_ptr + row, tl.sum(acc, axis=0) / n)
"""


def mean(k, dtype=np.float16, first=2048.0):
    n = 640
    x = np.full((2, n), 0.9, dtype)
    x[:, :2] = first
    k.mean[(2,)](x, np.empty(2, dtype), n, BLOCK=2)


means = Family(
    "mean", MEAN, mean,
    (
        Fault("in fp16", "precision", change("(BLOCK,), tl.float32", "(BLOCK,), tl.float16"),
              at="acc += tl.load", argument="y_ptr", says="add up in tl.float32"),
        Fault("in bf16", "precision", change("(BLOCK,), tl.float32", "(BLOCK,), tl.bfloat16"),
              at="acc += tl.load", run=lambda k: mean(k, ml_dtypes.bfloat16, 256.0)),
        Fault("one by one", "precision",
              change("acc = tl.zeros((BLOCK,), tl.float32)", "acc = tl.zeros((), tl.float16)",
                     "acc += tl.load", "acc += tl.sum(tl.load",
                     "other=0.0)", "other=0.0), axis=0)",
                     "tl.sum(acc, axis=0) / n", "acc / n"),
              at="acc += tl.sum"),
    ),
)  # fmt: skip
few = Family(
    "few terms in fp16", MEAN.replace("tl.float32", "tl.float16"), lambda k: mean(k, first=1.0), ()
)

RESIDUAL = """
@triton.jit
def residual(x_ptr, r_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    r = tl.load(r_ptr + at, mask=at < n)
    tl.store(y_ptr + at, 2.0 * (x + r) - x + r, mask=at < n)
"""


def residual(k):
    x, r = (rng.standard_normal(100).astype(ml_dtypes.bfloat16) for _ in range(2))
    k.residual[(4,)](x, r, np.empty_like(x), 100, BLOCK=32)


residuals = Family("residual", RESIDUAL, residual, ())

ROOTS = """
@triton.jit
def roots(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=1.0)
    y = tl.sqrt(tl.maximum(x, 0.0))
    tl.store(y_ptr + at, tl.minimum(tl.maximum(y, 0.0), 5.0), mask=at < n)
"""


def roots(k):
    x = rng.standard_normal(100).astype(np.float32)
    k.roots[(4,)](x, np.empty_like(x), 100, BLOCK=32)


clamped = Family(
    "roots", ROOTS, roots,
    (
        Fault("NaN that a maximum drops", "nan",
              change("tl.sqrt(tl.maximum(x, 0.0))", "tl.sqrt(x)"), argument="y_ptr",
              says="in place of which max"),
    ),
)  # fmt: skip
replaced = Family(
    "NaN that are replaced",
    ROOTS.replace("tl.sqrt(tl.maximum(x, 0.0))", "tl.where(x > 0, tl.sqrt(x), 0.0)"), roots, (),
)  # fmt: skip

BEST = """
@triton.jit
def best(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + at, mask=at < n, other=-1.0)
    y = tl.log(tl.maximum(x, 0.001))
    y = tl.where(at < n, y, float("-inf"))
    tl.store(y_ptr + row, tl.max(y, axis=0))
"""


def best(k):
    k.best[(3,)](
        rng.standard_normal((3, 100)).astype(np.float32), np.empty(3, np.float32), 100, 128
    )


bests = Family(
    "best", BEST, best,
    (
        Fault("NaN that a maximum of a row leaves out", "nan",
              change("tl.log(tl.maximum(x, 0.001))", "tl.log(x)"), argument="y_ptr",
              says="leaves out"),
    ),
)  # fmt: skip
# NaN of lanes masked off are left out on purpose.
masked_bests = Family(
    "best of what is there",
    BEST.replace("tl.log(tl.maximum(x, 0.001))", "tl.log(x)").replace(
        '    y = tl.where(at < n, y, float("-inf"))\n', ""
    ),
    lambda k: k.best[(3,)](rng.random((3, 100), np.float32) + 1, np.empty(3, np.float32), 100, 128),
    (),
)

test_twin, test_fault = cases(means, few, residuals, clamped, replaced, bests, masked_bests)
