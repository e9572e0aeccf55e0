"""`triton.experimental`: names of Gluon, so that programs with kernels in it can be imported."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, NoReturn

import tilewright
from tilewright import language
from tilewright.errors import UnsupportedError
from tilewright.runtime.kernel import JITFunction


class GluonFunction(JITFunction):
    """A kernel in Gluon: defined like any other, and refused where it is launched."""

    def __getitem__(self, grid: Any) -> Callable:
        return partial(self.run, grid=grid)

    def run(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise UnsupportedError(
            f"{self.__name__} is a Gluon kernel, which spells out the layouts and barriers of one "
            "GPU; Tilewright runs kernels in triton.language"
        )

    warmup = run


def jit(fn: Callable | None = None, **options: Any) -> Any:
    """Gluon's decorator; takes the options of `triton.jit`."""
    return partial(GluonFunction, **options) if fn is None else GluonFunction(fn, **options)


class Absent:
    """A name that means something in Gluon only: a layout, a barrier, an instruction.

    Programs make layouts before they launch, so what is made of one is one.
    """

    def __init__(self, name: str):
        self.__name__ = name

    def __repr__(self) -> str:
        return f"<{self.__name__}, which Tilewright does not have>"

    def __getattr__(self, name: str) -> Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Absent:
        return self

    __getitem__ = __or__ = __ror__ = __call__

    def __mro_entries__(self, bases: tuple) -> tuple:
        return ()


PACKAGES = {"gluon", "language", "nvidia", "amd", "ampere", "hopper", "blackwell"}
GIVEN = {"jit": jit, "constexpr_function": tilewright.constexpr_function}


class Module(ModuleType):
    """A module under `triton.experimental`: `triton.language` where it has the name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or ".gluon" not in self.__name__ and name != "gluon":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if name in PACKAGES:
            return importlib.import_module(f"{self.__name__}.{name}")
        if name in GIVEN:
            return GIVEN[name]
        if ".language" in self.__name__ and hasattr(language, name):
            return getattr(language, name)
        return Absent(f"{self.__name__}.{name}")


class Loader(importlib.abc.Loader):
    """Makes the modules, which are packages all."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing in it."""


def spec(name: str) -> importlib.machinery.ModuleSpec:
    return importlib.machinery.ModuleSpec(name, Loader(), is_package=True)
