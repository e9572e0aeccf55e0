"""A launch whose result eager mode says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Case:
    """A launch; `exact` results must be equal to the bit, others close."""

    name: str
    kernel: Any
    grid: tuple[int, ...]
    arguments: list[Any]
    constants: dict[str, Any] = field(default_factory=dict)
    tolerance: float = 0.0

    def fresh(self) -> list[Any]:
        return [a.copy() if isinstance(a, np.ndarray) else a for a in self.arguments]

    def run(self) -> list[np.ndarray]:
        """Launch by the settings in force; gives the arrays afterwards."""
        arguments = self.fresh()
        self.kernel[self.grid](*arguments, **self.constants)
        return [a for a in arguments if isinstance(a, np.ndarray)]


def compare(case: Case, got: list[np.ndarray], want: list[np.ndarray]) -> None:
    """Raise AssertionError where results differ."""
    for x, y in zip(got, want, strict=True):
        if case.tolerance and y.dtype.kind not in "iub":
            np.testing.assert_allclose(
                x.astype(np.float64), y.astype(np.float64), rtol=case.tolerance, atol=case.tolerance
            )
        else:
            np.testing.assert_array_equal(x, y)


def random(shape: Any, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(max(info.min, -1000), min(info.max, 1000), shape).astype(dtype)
    return rng.standard_normal(shape).astype(np.float32).astype(dtype)
