"""Eager PyTorch operators in the ledger: exact counts by operator."""

from types import SimpleNamespace

import numpy as np
import pytest

from tilewright.instruments.ledger import Ledger
from tilewright.instruments.torch_steps import Watch

torch = pytest.importorskip("torch")
M, N = 4096, 1024
MN = M * N


def naive(x):
    m = x.amax(dim=1, keepdim=True)
    z = x - m
    e = torch.exp(z)
    s = e.sum(dim=1, keepdim=True)
    return e / s


def counted(function):
    with Ledger() as ledger:
        function()
    return [(s.name, s.read_elements, s.write_elements) for s in ledger.steps]


def test_naive_softmax():
    x = torch.randn(M, N)
    with Ledger() as ledger:
        y = naive(x)
    steps = [(s.name, s.read_elements, s.write_elements) for s in ledger.steps]
    assert steps == [
        ("amax", MN, M),
        ("sub", MN + M, MN),
        ("exp", MN, MN),
        ("sum", MN, M),
        ("div", MN + M, MN),
    ]
    (region,) = ledger.regions
    assert (region.name, region.total_bytes) == ("naive", 134_283_264)
    assert region.file == __file__
    assert all(s.seconds > 0 and s.dtype == "fp32" for s in region.steps)
    assert torch.equal(y, naive(x))


def test_max_over_a_dimension_counts_its_indices():
    x = torch.randn(8, 16)
    with Ledger() as ledger:
        x.max(dim=1)
    (step,) = ledger.steps
    assert (step.write_elements, step.write_bytes) == (16, 8 * 4 + 8 * 8)


def test_a_composite_is_one_step():
    x = torch.randn(8, 16)
    assert counted(lambda: torch.softmax(x, 1)) == [("_softmax", 128, 128)]


def test_views_and_empty_cost_nothing():
    x = torch.randn(8, 16)

    def views():
        x.t(), x[None], x[:, 1:], x.view(-1), x.expand(3, 8, 16), x.detach()
        torch.empty_like(x), torch.empty(4), x.sum().shape
        x[0, 0].item()
        x.t().reshape(-1)

    assert counted(views) == [("sum", 128, 1), ("clone", 128, 128)]


def test_broadcast_inputs_count_what_is_in_memory():
    x, row = torch.randn(8, 16), torch.randn(1, 16)
    assert counted(lambda: x + row.expand(8, 16)) == [("add", 144, 128)]


def test_in_place_out_and_overwriting():
    x, y = torch.randn(8, 16), torch.randn(8, 16)

    def updates():
        x.add_(y)
        torch.mul(x, 2, out=y)
        y.zero_()
        y.copy_(x)

    assert counted(updates) == [
        ("add", 256, 128),
        ("mul", 128, 128),
        ("zero", 0, 128),
        ("copy", 128, 128),
    ]


def test_shape_only_and_the_same_tensor_twice():
    x = torch.randn(8, 16)
    assert counted(lambda: torch.zeros_like(x)) == [("zeros_like", 0, 128)]
    assert counted(lambda: x * x) == [("mul", 128, 128)]


def test_a_gather_reads_what_it_returns():
    table, index = torch.randn(1000, 16), torch.tensor([3, 5])
    assert counted(lambda: table[index]) == [("index", 34, 32)]


def test_matrix_products_have_flops():
    a, b = torch.randn(8, 16), torch.randn(16, 4)
    with Ledger() as ledger:
        a @ b
    assert ledger.steps[0].flops == 2 * 8 * 16 * 4


def test_checks_and_sparse_arrays():
    x = torch.eye(4)
    with Ledger() as ledger:
        assert torch.allclose(x, x)
        torch.testing.assert_close(x, x)
        x.to_sparse()
    assert "add" not in {s.name for s in ledger.steps}
    assert "allclose" not in {s.name for s in ledger.steps}
    assert ledger.uncounted


def test_making_inputs_stands_apart():
    def script():
        x = torch.zeros(4, 8)
        return x + 1

    with Ledger() as ledger:
        script()
    assert [[s.name for s in r.steps] for r in ledger.regions] == [["zeros"], ["add"]]


def test_numpy_and_torch_in_one_ledger():
    from_numpy = torch.from_numpy(np.ones(4, np.float32))
    assert counted(lambda: from_numpy + 1) == [("add", 4, 4)]


class Ticks:
    """What torch.cuda gives for a GPU whose clock moves by 2 ms with each event."""

    now = 0

    class Event:
        def __init__(self, enable_timing):
            self.at = None

        def record(self):
            Ticks.now += 2
            self.at = Ticks.now

        def synchronize(self):
            assert self.at is not None

        def elapsed_time(self, end):
            return end.at - self.at

    @staticmethod
    def is_initialized():
        return True

    @staticmethod
    def is_current_stream_capturing():
        return False


def test_work_on_a_gpu_is_timed_by_its_clock_but_for_the_first_call():
    module, operator = SimpleNamespace(cuda=Ticks), object()

    def seconds(devices):
        watch = Watch(module, operator)
        watch.stop()
        return watch.seconds(devices)

    assert seconds({"cuda"}) is None
    assert seconds({"cuda"}) == 2e-3
    assert seconds({"cpu", "cuda"}) is None
    assert 0 < seconds({"cpu"}) < 1
