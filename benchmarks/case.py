"""What a benchmark case is: inputs, one callable for each peer, a reference, bytes and flops."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
OURS = "tilewright"


@dataclass(frozen=True)
class Run:
    """A case that is ready to be timed.

    Every callable does the whole work and gives its results. `reference` gives what they are in
    float64 (or exactly), `tolerance` how far off they may be.
    """

    calls: Mapping[str, Callable[[], Any]]  # by peer
    reference: Callable[[], Any]
    tolerance: float = 1e-5
    roof: Callable[[], None] | None = None  # the same memory traffic and nothing else, one thread


@dataclass(frozen=True)
class Case:
    """One row of the table. `bytes` and `flops` are the least that the operation needs."""

    name: str
    size: str
    make: Callable[[], Run]
    bytes: int
    flops: int = 0

    @property
    def label(self) -> str:
        return f"{self.name} {self.size}"


def example(name: str) -> ModuleType:
    """A module of `examples/`, under its own name."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def normal(*shape: int, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    """Random numbers, whose memory begins on a cache line."""
    values = np.random.default_rng(seed).standard_normal(shape, np.float32)
    out = empty(*shape, dtype=dtype)
    out[...] = values
    return out


def empty(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Zeroed memory that begins on a cache line, as torch's does, and is mapped already."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 64, np.uint8)
    raw.fill(0)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype).reshape(shape)


def check(who: str, result: Any, expected: list[np.ndarray], tolerance: float) -> None:
    """Raise AssertionError unless the results are those expected."""
    found = as_arrays(result)
    assert len(found) == len(expected), f"{who} gives {len(found)} results"
    for x, y in zip(found, expected):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance, err_msg=who)


def as_arrays(result: Any) -> list[np.ndarray]:
    """Results of any library as arrays that NumPy computes with."""
    if not isinstance(result, (tuple, list)):
        result = (result,)
    return [as_array(x) for x in result]


def as_array(x: Any) -> np.ndarray:
    if hasattr(x, "detach"):
        x = x.detach()
        x = (x.double() if x.is_floating_point() else x).numpy()
    x = np.asarray(x)
    return x if x.dtype.kind in "iu" else x.astype(np.float64)
