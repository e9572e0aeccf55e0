"""What `triton.testing` has beside our own names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean, median
from typing import Any

import numpy as np


def _quantile(a: Sequence[float], q: Sequence[float]) -> list[float]:
    """Quantiles of numbers, interpolated."""
    return [float(np.quantile(np.asarray(a, np.float64), x)) for x in q]


def _summarize_statistics(
    times: Sequence[float], quantiles: Sequence[float] | None, return_mode: str
) -> Any:
    """Measured times as `do_bench` returns them."""
    times = [float(t) for t in times]
    if quantiles is not None:
        found = _quantile(times, quantiles)
        return found[0] if len(found) == 1 else found
    if return_mode == "all":
        return times
    return {"min": min, "max": max, "mean": mean, "median": median}[return_mode](times)


def cuda_memcheck(**_: Any) -> Callable:
    """Decorator: Triton runs the test under a tool that looks for bad accesses.

    Here every launch checks its accesses.
    """
    return lambda test: test


__all__ = ["_quantile", "_summarize_statistics", "cuda_memcheck"]
