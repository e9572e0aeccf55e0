"""Modules that are loaded when something of them is first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


class Later:
    """Stands for a module in the modules that use it now and then."""

    __slots__ = ("_name",)

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)

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
        loaded = import_module(place)
        return getattr(loaded, inside) if inside else loaded

    return get
