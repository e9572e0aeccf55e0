"""Planted faults in loops that then do not end."""

import numpy as np
from planted import Family, Fault, cases, change

rng = np.random.default_rng(12)

SUM = """
@triton.jit
def total(x_ptr, out_ptr, n):
    i = 0
    s = 0.0
    while i < n:
        for j in range(2):
            s += tl.load(x_ptr + i)
        tl.store(out_ptr, s)
        i += 1
"""


def total(k):
    k.total[(1,)](np.ones(10, np.float32), np.zeros(1, np.float32), 10)


sums = Family(
    "sum", SUM, total,
    (
        Fault("step of 0", "deadlock", change("i += 1", "i += 0"), at="while i < n",
              says="is in a loop that does not end"),
        Fault("step forgotten, with another name", "deadlock", change("i += 1", "j = i + 1"),
              at="while i < n"),
        Fault("back and forth", "deadlock", change("i += 1", "i = 1 - i"), at="while i < n"),
        Fault("backwards", "bounds", change("i += 1", "i -= 1"), at="s += tl.load",
              argument="x_ptr"),
    ),
)  # fmt: skip

SEARCH = """
@triton.jit
def search(x_ptr, wanted_ptr, out_ptr, n):
    wanted = tl.load(wanted_ptr + tl.program_id(0))
    low = 0
    high = n
    while low < high:
        middle = (low + high) // 2
        if tl.load(x_ptr + middle) < wanted:
            low = middle + 1
        else:
            high = middle
    tl.store(out_ptr + tl.program_id(0), low)
"""


def search(k):
    x = np.sort(rng.standard_normal(100).astype(np.float32))
    k.search[(5,)](x, x[10:15].copy(), np.empty(5, np.int32), 100)


binary = Family(
    "binary search", SEARCH, search,
    (
        Fault("low stays", "deadlock", change("low = middle + 1", "low = middle"),
              at="while low < high"),
        Fault("one round too many", "deadlock", change("low < high", "low <= high")),
    ),
)  # fmt: skip

test_twin, test_fault = cases(sums, binary)
