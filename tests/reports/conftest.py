"""Each kernel here runs stepped, natively, and on a GPU where there is one."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.runtime.descriptor import TensorDescriptor
from tilewright.runtime.observers import Launch, LaunchObserver, observing

TARGETS = ["eager", pytest.param("cpu", marks=pytest.mark.cpu)]
TARGETS += [pytest.param("cuda", marks=pytest.mark.cuda)]
DEVICE = "cuda"


@pytest.fixture(params=TARGETS)
def target(request):
    yield from chosen(request.param)


@pytest.fixture(params=TARGETS[:2])
def host_target(request):
    """For kernels that are given addresses of this computer's memory, or that are tuned."""
    yield from chosen(request.param)


@pytest.fixture(params=TARGETS[1:])
def native_target(request):
    """For kernels whose programs wait for later ones, which stepping does not start."""
    yield from chosen(request.param)


def chosen(name):
    """The name, with launches going to that target."""
    with tilewright.options(target=name):
        if name != "cuda":
            yield name
            return
        with observing(OnGpu(pytest.importorskip("torch"))):
            yield name


class OnGpu(LaunchObserver):
    """Does launches on copies of the arrays' memory on a GPU, and copies it back."""

    def __init__(self, torch: Any):
        self.torch = torch

    def launch(self, launch: Launch) -> Any:
        held: dict[int, tuple] = {}
        given = {name: self.moved(value, held) for name, value in launch.arguments.items()}
        out = launch.jit.direct(launch.grid, given, launch.options)
        for base, host, there in held.values():
            if base.flags.writeable:
                host[:] = there.cpu().numpy()
        return out

    def moved(self, value: Any, held: dict[int, tuple]) -> Any:
        if isinstance(value, np.ndarray):
            return self.tensor(value, held)
        if isinstance(value, TensorDescriptor):
            base = self.moved(value.base, held)
            return TensorDescriptor(base, value.shape, value.strides, value.block_shape)
        if isinstance(value, tuple):
            items = [self.moved(v, held) for v in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        return value

    def tensor(self, array: np.ndarray, held: dict[int, tuple]) -> Any:
        """What lies from the first element of an array on, in the copy of its memory."""
        base = array
        while isinstance(base.base, np.ndarray):
            base = base.base
        dtype = getattr(self.torch, array.dtype.name)
        if not array.size:
            return self.torch.zeros(0, dtype=dtype, device=DEVICE)
        if id(base) not in held:
            memory = (ctypes.c_uint8 * base.nbytes).from_address(base.ctypes.data)
            host = np.ctypeslib.as_array(memory)
            there = self.torch.from_numpy(host.copy()).to(DEVICE)
            held[id(base)] = base, host, there
        there = held[id(base)][2][array.ctypes.data - base.ctypes.data :]
        return there[: there.numel() // array.itemsize * array.itemsize].view(dtype)
