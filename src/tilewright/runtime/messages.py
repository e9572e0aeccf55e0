"""The words in which a launch refuses an argument."""

from __future__ import annotations

from typing import Any

from tilewright.errors import LaunchError

ACCEPTED = (
    "a kernel takes arrays (torch, NumPy, CuPy, anything with DLPack or an array interface), "
    "ints, floats, bools and None"
)


def label(name: str) -> str:
    """The start of a message about an argument."""
    return f"argument {name!r}" if name else "argument"


def type_of(value: Any) -> str:
    """The type of a value as its user knows it."""
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__name__}"


def elsewhere(name: str, found: str, wanted: str) -> LaunchError:
    """The error for an array on another device than the launch."""
    return LaunchError(
        f"{label(name)}: is on {found}, the launch runs on {wanted}; move it there first"
    )
