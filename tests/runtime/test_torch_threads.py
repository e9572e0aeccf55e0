"""Launches take no more threads than torch was told to use, in Python and natively."""

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.runtime.settings import current
from tilewright.targets.cpu import threads

torch = pytest.importorskip("torch")


@tw.jit
def fill_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), 1.0)


@pytest.fixture
def torch_count(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.delenv("TILEWRIGHT_THREADS", raising=False)
    monkeypatch.setattr(threads, "core_count", lambda: 8)
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("make", [np.zeros, torch.zeros], ids=["numpy", "torch"])
def test_launches_follow_torch(torch_count, make):
    x = make(64)
    for count in (3, 1, 3, 2):
        torch_count(count)
        assert current().team == count
        for _ in range(20):  # by then the native launcher does them
            fill_kernel[(4,)](x, BLOCK=16)
        places = {entry.settings.number: entry.place for entry in fill_kernel.entries.values()}
        assert places[current().number] == count
        assert [int(a) for a in x] == [1] * 64


def test_no_more_than_the_cores(torch_count):
    torch_count(12)
    assert current().team == 8


def test_the_setting_comes_first(torch_count):
    torch_count(2)
    with tw.options(threads=5):
        assert current().team == 5
    assert current().team == 2


def test_native_launchers_can_ask_torch(torch_count):
    assert threads.torch_counter() or not threads.is_native()
