"""Who is told of launches and compilations, besides the program that makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.runtime.autotune import Autotuner
    from tilewright.runtime.call import Call
    from tilewright.runtime.handle import CompiledKernel
    from tilewright.runtime.kernel import JITFunction
    from tilewright.runtime.tuned import Config


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch that is about to be made; `run` makes it and gives what it returns."""

    jit: JITFunction
    grid: Any
    arguments: dict[str, Any]
    options: dict[str, Any]
    run: Callable[[], Any]


class LaunchObserver:
    """Something that wants to see launches, or to take them over."""

    def define(self, jit: JITFunction) -> None:
        """A kernel or helper came to be."""

    def choose(
        self, tuner: Autotuner, key: tuple, args: tuple, kwargs: dict[str, Any]
    ) -> Config | None:
        """The configuration of a tuned launch, in place of the fastest."""

    def launch(self, launch: Launch) -> Any:
        """Do a launch, and give what it returns."""
        return launch.run()


# Innermost last; empty in ordinary use, which is all that the short way of a launch checks.
launch_observers: list[LaunchObserver] = []
# Called as (jit, call, None) before a kernel is compiled, and with the handle afterwards.
compile_observers: list[Callable[[JITFunction, Call, CompiledKernel | None], Any]] = []


@contextmanager
def observing(observer: LaunchObserver) -> Iterator[None]:
    """Launches inside are the observer's."""
    launch_observers.append(observer)
    try:
        yield
    finally:
        launch_observers.remove(observer)


@contextmanager
def unobserved() -> Iterator[None]:
    """Launches inside are nobody's business, e.g. the trials of a tuner."""
    observers = launch_observers[:]
    launch_observers.clear()
    try:
        yield
    finally:
        launch_observers[:0] = observers
