"""`triton.profiler`: scopes are accepted and nothing is recorded; `tilewright explain` measures."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from tilewright.compat.unsupported import unsupported

start = unsupported("triton.profiler.start", "use `tilewright explain`, which counts and measures")


def activate(session: int | None = None) -> None:
    """Nothing is recorded."""


def deactivate(session: int | None = None, flushing: bool = False) -> None:
    """Nothing is recorded."""


def finalize(session: int | None = None, *_: Any, **__: Any) -> None:
    """Nothing was recorded."""


@contextmanager
def scope(name: str, metrics: dict[str, Any] | None = None) -> Any:
    """A part of the program under a name."""
    yield
