"""All cases, in the order of the table, and how a command line picks some of them."""

from __future__ import annotations

from collections.abc import Sequence

from case import Case
from cases import attention, elementwise, flat, loops, moves, products, rows

PARTS = (elementwise, rows, loops, flat, moves, products, attention)
CASES = [case for part in PARTS for case in part.CASES]


def chosen(words: Sequence[str]) -> list[Case]:
    """The cases whose label has any of the words in it; all of them without words."""
    if not words:
        return CASES
    found = [case for case in CASES if any(word in case.label for word in words)]
    if not found:
        names = sorted({case.name for case in CASES})
        raise SystemExit(f"no case has {' or '.join(words)} in its name; there are: {names}")
    return found
