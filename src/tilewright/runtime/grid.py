"""How many program instances a launch has, from whatever the user wrote in the brackets."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from tilewright.errors import LaunchError

MAX_PROGRAMS = (1 << 31) - 1
EXPECTED = "a grid is an int, one to three ints, or a function of the arguments that gives them"

Grid = tuple[int, int, int]


def sizes(grid: Any, name: str) -> Grid:
    """The three sizes of a grid.

    Raises:
        LaunchError: for anything that is not one to three whole numbers of at least 0.
    """
    kind = grid.__class__
    if kind is tuple or kind is list:
        count = len(grid)
        if count == 1:
            (x,) = grid
            y = z = 1
        elif count == 2:
            x, y = grid
            z = 1
        elif count == 3:
            x, y, z = grid
        else:
            raise LaunchError(f"{name}: the grid {grid!r} has {count} sizes; {EXPECTED}")
        plain = x.__class__ is int and y.__class__ is int and z.__class__ is int
    else:
        x, y, z, plain = grid, 1, 1, kind is int
    if plain and x >= 0 and y >= 0 and z >= 0 and x * y * z <= MAX_PROGRAMS:
        return x, y, z
    return checked(grid, name)


def checked(grid: Any, name: str) -> Grid:
    """The same for sizes of other types, and the errors."""
    if isinstance(grid, str) or not isinstance(grid, Iterable) or getattr(grid, "ndim", 1) == 0:
        grid = (grid,)
    found = tuple(grid)
    if not 1 <= len(found) <= 3:
        raise LaunchError(f"{name}: the grid {found!r} has {len(found)} sizes; {EXPECTED}")
    whole = []
    for size in found:
        try:
            if isinstance(size, bool):
                raise TypeError
            whole.append(operator.index(size))
        except TypeError:
            kind = type(size).__name__
            hint = " (write // or triton.cdiv, not /)" if isinstance(size, float) else ""
            raise LaunchError(
                f"{name}: the grid {found!r} holds {size!r}, a {kind}{hint}; {EXPECTED}"
            ) from None
    x, y, z = (*whole, 1, 1)[:3]
    if min(whole) < 0:
        raise LaunchError(f"{name}: the grid {tuple(whole)} has a negative size; {EXPECTED}")
    if x * y * z > MAX_PROGRAMS:
        raise LaunchError(
            f"{name}: the grid {tuple(whole)} has {x * y * z} programs, at most {MAX_PROGRAMS}; "
            "give each program more work"
        )
    return x, y, z
