"""Planted faults that leave a part of an output unwritten, which the program then reads."""

import numpy as np
import pytest
from planted import Family, Fault, cases, change

import tilewright

rng = np.random.default_rng(5)

SCALE = """
@triton.jit
def scale(x_ptr, y_ptr, rows, cols, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    at = m[:, None] * cols + n[None, :]
    inside = (m[:, None] < rows) & (n[None, :] < cols)
    tl.store(y_ptr + at, 2.0 * tl.load(x_ptr + at, mask=inside), mask=inside)
"""


def scale(k, grid=(3, 2), read=lambda x, y: np.allclose(y, 2 * x)):
    x = rng.standard_normal((40, 24)).astype(np.float32)
    y = np.empty_like(x)
    k.scale[grid](x, y, 40, 24, BM=16, BN=16)
    read(x, y)


def torch_scale(k, grid=(3, 2), read=lambda x, y: (y - 2 * x).abs().max()):
    torch = pytest.importorskip("torch")
    x = torch.randn(40, 24)
    y = torch.empty_like(x)
    k.scale[grid](x, y, 40, 24, BM=16, BN=16)
    read(x, y)


FAULTS = (
    Fault("too few rows of programs", "unwritten", run=lambda k: scale(k, (2, 2)), at="tl.store",
          argument="y_ptr", says="192 of 960 elements"),
    Fault("grid of one axis", "unwritten", run=lambda k: scale(k, (3,)), at="tl.store",
          argument="y_ptr", says="the first is element 16"),
    Fault("mask one too short", "unwritten", change("n[None, :] < cols", "n[None, :] < cols - 1"),
          at="tl.store", argument="y_ptr", says="40 of 960"),
    Fault("programs that write the same", "unwritten",
          change("n = tl.program_id(1) * BN", "n = tl.program_id(1) * 8"), at="tl.store",
          argument="y_ptr", run=lambda k: scale(k, (3, 1))),
    Fault("read by an operator", "unwritten", at="tl.store", argument="y_ptr",
          run=lambda k: scale(k, (2, 2), lambda x, y: abs(y - 2 * x).max())),
    Fault("read by an assertion", "unwritten", at="tl.store", argument="y_ptr",
          run=lambda k: scale(k, (2, 2), lambda x, y: np.testing.assert_array_equal(y, y))),
    Fault("one element read", "unwritten", at="tl.store", argument="y_ptr",
          run=lambda k: scale(k, (2, 2), lambda x, y: float(y[39, 23]))),
    Fault("read after a cast", "unwritten", at="tl.store", argument="y_ptr", says="192 of 960",
          run=lambda k: scale(k, (2, 2), lambda x, y: y.astype(np.float64).sum())),
    Fault("read after a copy", "unwritten", at="tl.store", argument="y_ptr", says="element 24",
          run=lambda k: scale(k, (2, 2), lambda x, y: y[31:].copy().sum())),
)  # fmt: skip

family = Family("scale", SCALE, scale, FAULTS)
rows_only = Family(
    "rows read", SCALE, lambda k: scale(k, (2, 2), lambda x, y: np.allclose(y[:32], 2 * x[:32])), ()
)
filled = Family("filled", SCALE, lambda k: scale(k, (2, 2), lambda x, y: y.fill(0) or y.sum()), ())
torch_family = Family(
    "torch", SCALE, torch_scale,
    (
        Fault("too few rows", "unwritten", run=lambda k: torch_scale(k, (2, 2)), at="tl.store",
              argument="y_ptr", says="192 of 960"),
        Fault("an item", "unwritten", at="tl.store", argument="y_ptr",
              run=lambda k: torch_scale(k, (2, 2), lambda x, y: y[39, 23].item())),
        Fault("after a cast", "unwritten", at="tl.store", argument="y_ptr", says="192 of 960",
              run=lambda k: torch_scale(k, (2, 2), lambda x, y: y.double().sum())),
        Fault("after a copy", "unwritten", at="tl.store", argument="y_ptr",
              run=lambda k: torch_scale(k, (2, 2), lambda x, y: y.t().contiguous().sum())),
        Fault("as an array", "unwritten", at="tl.store", argument="y_ptr",
              run=lambda k: torch_scale(k, (2, 2), lambda x, y: y[30:].numpy().sum())),
        Fault("as text", "unwritten", at="tl.store", argument="y_ptr",
              run=lambda k: torch_scale(k, (2, 2), lambda x, y: str(y))),
        Fault("as a list", "unwritten", at="tl.store", argument="y_ptr",
              run=lambda k: torch_scale(k, (2, 2), lambda x, y: y.tolist())),
    ),
)  # fmt: skip
BRANCH = """
@triton.jit
def copy(x_ptr, y_ptr, n, wanted, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    if wanted > 0:
        tl.store(y_ptr + at, x, mask=at < n)
"""


def copy(k, grid=(4,), n=100, wanted=1, read=lambda y: y.sum()):
    y = np.empty(100, np.float32)
    k.copy[grid](np.ones(100, np.float32), y, n, wanted, BLOCK=32)
    read(y)


never = Family(
    "never written", BRANCH, copy,
    (
        Fault("no programs", "unwritten", run=lambda k: copy(k, grid=(0,)), at="tl.store",
              argument="y_ptr", says="100 of 100"),
        Fault("no elements", "unwritten", run=lambda k: copy(k, n=0), at="tl.store"),
        Fault("branch not taken", "unwritten", run=lambda k: copy(k, wanted=0), at="tl.store"),
        Fault("mask that is never on", "unwritten",
              change("x, mask=at < n", "x, mask=at > n + 99")),
    ),
)  # fmt: skip


def on_the_cpu(k):
    with tilewright.options(target="cpu"):
        copy(k, n=0)


on_a_target = Family(
    "never written, on a target", BRANCH, copy,
    (Fault("no elements", "unwritten", run=on_the_cpu, at="tl.store", argument="y_ptr"),),
)  # fmt: skip
not_wanted = Family(
    "never written, nor read", BRANCH, lambda k: copy(k, wanted=0, read=lambda y: y.shape), ()
)
torch_rows = Family(
    "torch rows", SCALE,
    lambda k: torch_scale(k, (2, 2), lambda x, y: y.clone()[:32].sum() + y[:32].sum()), (),
)  # fmt: skip

LARGER = """
@triton.jit
def larger(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n, other=0.0) > 0.5, mask=at < n)
"""


def larger(k, make=lambda n, dtype: np.empty(n, dtype), grid=4):
    y = make(100, bool)
    k.larger[(grid,)](np.ones(100, np.float32), y, 100, BLOCK=32)
    y.sum()


def torch_larger(k, grid=4):
    torch = pytest.importorskip("torch")
    larger(k, lambda n, dtype: torch.empty(n, dtype=torch.bool), grid)


bools = Family(
    "booleans", LARGER, larger,
    (
        Fault("too few programs", "unwritten", at="tl.store", run=lambda k: larger(k, grid=3)),
        Fault("too few for torch", "unwritten", at="tl.store", run=lambda k: torch_larger(k, 3)),
    ),
)  # fmt: skip
torch_bools = Family("booleans of torch", LARGER, torch_larger, ())

test_twin, test_fault = cases(
    family,
    rows_only,
    filled,
    torch_family,
    torch_rows,
    never,
    on_a_target,
    not_wanted,
    bools,
    torch_bools,
)
