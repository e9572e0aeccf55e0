"""Stand-ins for what Tilewright does not have: each raises an error that names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from tilewright.errors import UnsupportedError


def unsupported(name: str, reason: str) -> Callable:
    """A function that raises an error with its full name and the reason."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise UnsupportedError(f"{name} is not supported: {reason}")

    refuse.__name__ = name.rpartition(".")[2]
    return refuse


def unsupported_class(name: str, reason: str) -> type:
    """A class that cannot be instantiated, for `isinstance` checks and subclasses."""
    return type(name.rpartition(".")[2], (), {"__init__": unsupported(name, reason)})
