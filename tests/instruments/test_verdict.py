"""Which steps are set beside which kernel."""

import numpy as np
import pytest
from softmax_records import naive_softmax, softmax_run

from tilewright.instruments.ledger import Ledger
from tilewright.instruments.verdict import compare
from tilewright.instruments.watch import watch
from tilewright.instruments.wording import megabytes


def compared(function, **changes):
    with Ledger() as ledger:
        function(watch(np.ones((4, 8), np.float32)))
        ledger.add_kernel(softmax_run(4, 8, **changes))
        ledger.add_kernel(softmax_run(16, 8))
    return compare(ledger)


def test_steps_of_the_same_shapes_stand_beside_the_kernel():
    (found,) = compared(lambda x: naive_softmax(np, x))
    assert found.kernel.grid == (4,)
    assert found.bytes_ratio == (8 * 32 + 4 * 4) / 64
    assert found.measured_speedup > 0


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(axis=1),
        lambda x: np.zeros_like(x),
        lambda x: watch(np.ones((4, 1), np.float32)) + watch(np.ones((1, 8), np.float32)),
    ],
)
def test_steps_of_other_shapes_do_not(function):
    assert compared(function) == []


@pytest.mark.parametrize("changes", [{"target": "cuda"}, {"timing": None}])
def test_times_of_other_machines_are_not_compared(changes):
    (found,) = compared(lambda x: naive_softmax(np, x), **changes)
    assert found.measured_speedup is None


def test_sizes_in_words():
    assert [megabytes(n) for n in (12, 33_554_432, 2 * 10**9)] == ["12 bytes", "33.6 MB", "2.0 GB"]
