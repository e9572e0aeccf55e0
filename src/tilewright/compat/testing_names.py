"""What `triton.testing` has beside our own names."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilewright.testing import SUMMARIES


def _summarize_statistics(
    times: Sequence[float], quantiles: Sequence[float] | None, return_mode: str
) -> Any:
    """What `do_bench` makes of its times."""
    if quantiles is None:
        return SUMMARIES[return_mode](times)
    found = [float(value) for value in np.quantile(times, quantiles)]
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


__all__ = ["_summarize_statistics", "cuda_graph_without_gc"]
