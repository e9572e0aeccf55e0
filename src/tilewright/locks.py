"""Locks that do not stay taken in a child that was forked while another thread held them."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_all: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """A reentrant lock around what is whole at any moment: a forked child finds it free."""

    def __init__(self) -> None:
        self.renew()
        _all.add(self)

    def renew(self) -> None:
        self._lock = threading.RLock()
        self._held: list[Any] = []  # by the thread inside, as often as it entered

    def __enter__(self) -> None:
        lock = self._lock
        lock.acquire()
        self._held.append(lock)

    def __exit__(self, *_: Any) -> None:
        if self._held:  # else the thread inside has forked, and this is the child
            self._held.pop().release()


def fork_outside(lock: Any) -> None:
    """Have forks wait until a lock is free, which is around foreign code with locks of its own."""
    if hasattr(os, "register_at_fork"):
        release = lock.release
        os.register_at_fork(before=lock.acquire, after_in_parent=release, after_in_child=release)


def _renew_all() -> None:
    for lock in list(_all):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
