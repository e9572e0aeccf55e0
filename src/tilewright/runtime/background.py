"""Compiling in the threads of an executor, while the program goes on."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future


class AsyncCompileMode:
    """Within this context `warmup` hands its compilation to an executor.

    At the end all of them are done; with `ignore_errors` those that failed are forgotten.
    """

    def __init__(self, executor: Executor, *, ignore_errors: bool = False):
        self.executor = executor
        self.ignore_errors = ignore_errors
        self.kernels: dict[Hashable, FutureKernel] = {}

    def submit(self, key: Hashable, compile: Callable, finish: Callable) -> FutureKernel:
        """What `compile` will give, as `finish` makes it a kernel; once for each key."""
        if key not in self.kernels:
            self.kernels[key] = FutureKernel(finish, self.executor.submit(compile))
        return self.kernels[key]

    def __enter__(self) -> AsyncCompileMode:
        if active.get() is not None:
            raise RuntimeError("Another AsyncCompileMode is already active")
        active.set(self)
        return self

    def __exit__(self, *_: Any) -> None:
        active.set(None)
        for kernel in self.kernels.values():
            kernel.result(self.ignore_errors)


class FutureKernel:
    """A kernel that is being compiled."""

    def __init__(self, finish: Callable[[Any], Any], future: Future):
        self.finish = finish
        self.future = future
        self.kernel: Any = None

    def result(self, ignore_errors: bool = False) -> Any:
        """The compiled kernel, when it is done; None for one that failed, if that may be."""
        if self.kernel is None:
            try:
                compilation = self.future.result()
            except Exception:
                if ignore_errors:
                    return None
                raise
            self.kernel = self.finish(compilation)
        return self.kernel


active: ContextVar[AsyncCompileMode | None] = ContextVar("active", default=None)


def pending(key: Hashable) -> FutureKernel | None:
    """The kernel of a key, where the executor was given it."""
    mode = active.get()
    return None if mode is None else mode.kernels.get(key)
