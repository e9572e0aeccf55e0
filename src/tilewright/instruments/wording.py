"""How reports spell places, sizes, times and numbers."""

from __future__ import annotations

import os


def shortened(expression: str) -> str:
    """A piece of source, cut to a length that a sentence can bear."""
    expression = " ".join(expression.split())
    return expression if len(expression) <= 40 else expression[:37] + "..."


def place(file: str, line: int) -> str:
    """`name.py:12`, without the folders."""
    return f"{os.path.basename(file)}:{line}"


def megabytes(count: int) -> str:
    """Bytes in decimal units, three significant digits or so: `33.6 MB`."""
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def plural(count: int, noun: str) -> str:
    """A number and its noun: `1 run`, `4,096 runs`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def duration(seconds: float) -> str:
    """A time in the unit that suits it: `33.6 us`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def percent(share: float) -> str:
    return "0" if share == 0 else f"{share:.1%}"
