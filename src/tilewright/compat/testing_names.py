"""What `triton.testing` has beside our own names."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilewright.testing import SUMMARIES


def _quantile(a: Sequence[float], q: Sequence[float]) -> list[float]:
    """Quantiles of numbers, interpolated."""
    return [float(np.quantile(np.asarray(a, np.float64), x)) for x in q]


def _summarize_statistics(
    times: Sequence[float], quantiles: Sequence[float] | None, return_mode: str
) -> Any:
    """Measured times as `do_bench` returns them."""
    times = [float(t) for t in times]
    if quantiles is None:
        return SUMMARIES[return_mode](times)
    found = _quantile(times, quantiles)
    return found[0] if len(found) == 1 else found


@contextmanager
def cuda_graph_without_gc(*args: Any, **kwargs: Any) -> Iterator[None]:
    """Record a graph of a GPU's work while no garbage is collected."""
    import torch

    enabled = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.graph(*args, **kwargs):
            yield
    finally:
        if enabled:
            gc.enable()


def cuda_memcheck(**_: Any) -> Callable:
    """Decorator: Triton runs the test under a tool that looks for bad accesses.

    Here every launch checks its accesses.
    """
    return lambda test: test


__all__ = ["_quantile", "_summarize_statistics", "cuda_graph_without_gc", "cuda_memcheck"]
