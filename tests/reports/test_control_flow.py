"""Loops and branches as they are in reports."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
import tilewright.language as tl


@tilewright.jit
def count(out, low, high, step):
    turns = 0
    last = -1
    total = 0
    for i in range(low, high, step):
        turns += 1
        last = i
    for i in tl.range(low, high, step, num_stages=2):
        total += i
    tl.store(out, turns)
    tl.store(out + 1, last)
    tl.store(out + 2, total)


@pytest.mark.parametrize(
    "bounds",
    [
        (0, 10, 3),
        (0, 0, 1),
        (5, 2, 1),
        (10, 0, -1),
        (10, 0, -3),
        (-5, 5, 2),
        (0, -3, 1),
        (3, 9, -1),
    ],
)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_steps_that_only_the_launch_knows(target, bounds, dtype):
    """Native code took every such step to be positive."""
    out = np.zeros(3, np.int64)
    far = (1 << 40) * (dtype is np.int64)
    low, high, step = bounds
    count[(1,)](out, low + far, high + far, step)
    turns = list(range(low + far, high + far, step))
    assert out.tolist() == [len(turns), turns[-1] if turns else -1, sum(turns)]
