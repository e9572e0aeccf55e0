"""Whether what `tl.multiple_of` and its like promise of a tile is true of its numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.eager.machine import Tile

NAMES = {"multiple": "multiple_of", "contiguous": "max_contiguous", "constant": "max_constancy"}


def broken(x: Tile, attrs: dict[str, Any]) -> str:
    """What of a promise is not true, in words; empty if all is, or if it is about pointers."""
    if not x.type.dtype.is_integer:
        return ""
    data = x.data.astype(np.int64)
    for kind, sizes in attrs.items():
        for axis, size in enumerate(sizes):
            bad = RULES[kind](data if data.shape else data[None], axis, size)
            if bad is not None:
                where = f" along dimension {axis}" if len(sizes) > 1 else ""
                return f"tl.{NAMES[kind]}({size}){where} is not true of {bad}"
    return ""


def multiple(data: np.ndarray, axis: int, size: int) -> str | None:
    """The first number of each run of neighbours that count up must be a multiple."""
    rows = np.moveaxis(data, axis, -1)
    first = np.ones(rows.shape, bool)
    first[..., 1:] = rows[..., 1:] != rows[..., :-1] + 1
    bad = first & (rows % size != 0) if size > 0 else np.zeros_like(first)
    return str(rows[bad][0]) if bad.any() else None


def contiguous(data: np.ndarray, axis: int, size: int) -> str | None:
    """Numbers must count up in groups; `% n`, which starts again at 0, may end a run."""
    rows = np.moveaxis(data, axis, -1)
    before, after = rows[..., :-1], rows[..., 1:]
    inner = np.arange(1, rows.shape[-1]) % max(1, size) != 0
    return pair(before, after, inner & (after != before + 1) & (after != 0))


def constant(data: np.ndarray, axis: int, size: int) -> str | None:
    rows = np.moveaxis(data, axis, -1)
    before, after = rows[..., :-1], rows[..., 1:]
    inner = np.arange(1, rows.shape[-1]) % max(1, size) != 0
    return pair(before, after, inner & (after != before))


def pair(before: np.ndarray, after: np.ndarray, bad: np.ndarray) -> str | None:
    return f"{before[bad][0]}, {after[bad][0]}" if bad.any() else None


RULES = {"multiple": multiple, "contiguous": contiguous, "constant": constant}
