"""The libraries that kernels are compared with, each of them optional."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np


def optional(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


torch = optional("torch")
numba = optional("numba")
prange = range if numba is None else numba.prange
THREADS = int(os.environ.get("TILEWRIGHT_THREADS", 0)) or len(os.sched_getaffinity(0))
if torch is not None:
    torch.set_num_threads(THREADS)
    torch.set_grad_enabled(False)


def tensor(x: np.ndarray) -> Any:
    """A torch tensor of the same memory; None without torch."""
    if torch is None:
        return None
    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)


def compiled(function: Callable) -> Callable:
    """`torch.compile`, or what says that there is no torch."""
    if torch is None:
        return function
    return torch.compile(function, dynamic=False)


def looped(function: Callable) -> Callable | None:
    """Loops compiled by numba, over several threads where there are several; None without it.

    Fast math lets it turn sums into vector code, which is what a user after speed would ask for.
    """
    if numba is None:
        return None
    return numba.njit(parallel=THREADS > 1, fastmath=True)(function)


def present(**calls: Callable | None) -> dict[str, Callable]:
    """The callables of the peers that are installed."""
    missing = {"torch", "compile"} if torch is None else set()
    if numba is None:
        missing.add("numba")
    return {peer: call for peer, call in calls.items() if peer not in missing and call is not None}
