"""Modules that are loaded when something of them is first used."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from tilewright.locks import fork_outside

# A child that is forked during an import could never finish it.
_loading = threading.RLock()
fork_outside(_loading)


def load(name: str) -> Any:
    """The module of that name."""
    if name in sys.modules:
        return import_module(name)  # which waits until another thread has it whole
    with _loading:
        return import_module(name)


class Later:
    """Stands for a module in the modules that use it now and then."""

    __slots__ = ("_name",)

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(load(self._name), name)

    def __repr__(self) -> str:
        return f"<{self._name}, when it is used>"


def later(name: str) -> Any:
    """The module of that name, loaded at the first use of something in it."""
    return Later(name)


def attributes(module: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a module for names that stand elsewhere: a module, or `module:name`."""

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        place, _, inside = places[name].partition(":")
        loaded = load(place)
        return getattr(loaded, inside) if inside else loaded

    return get
