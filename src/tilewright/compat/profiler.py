"""`triton.profiler`: scopes are accepted and nothing is recorded; `tilewright explain` measures."""

from __future__ import annotations

from collections.abc import Callable
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


def enter_scope(name: str, *_: Any, **__: Any) -> int:
    """Begin a part of the program under a name."""
    return 0


def exit_scope(*_: Any, **__: Any) -> int:
    """End it."""
    return 0


enter_state, exit_state = enter_scope, exit_scope


def profile(func: Callable | None = None, **_: Any) -> Callable:
    """Decorator: Triton records what the function launches; here nothing is recorded."""
    return profile if func is None else func


@contextmanager
def scope(name: str, metrics: dict[str, Any] | None = None) -> Any:
    """A part of the program under a name."""
    yield


cpu_timed_scope = state = scope
DEFAULT_PROFILE_NAME = "proton"
