"""The values of arguments as the slots of native code hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

SLOTS = 3  # words of what is passed for an argument: its value, and the bounds of its storage


def rounded(values: Sequence[Any]) -> list[Any]:
    """The values with floats beyond fp32 as the infinities they round to."""
    out = []
    for value in values:
        if isinstance(value, float):
            with np.errstate(over="ignore"):
                value = float(np.float32(value))
        out.append(value)
    return out
