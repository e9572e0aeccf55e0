"""What runs of packages share: the two targets, and one torch thread."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

import tilewright

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(params=["cpu", "eager"])
def target(request):
    """Kernels run natively, and stepped in Python."""
    with tilewright.options(target=request.param):
        yield request.param


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Threads of torch that spin between operations would take the cores of the kernels."""
    if importlib.util.find_spec("torch") is None:
        return
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def pretend_cuda():
    """For packages that insist on a CUDA device."""
    pretend = importlib.import_module("tilewright.compat.pretend")
    pretend.start()
    yield
    pretend.stop()
