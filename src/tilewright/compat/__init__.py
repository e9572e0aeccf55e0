"""Stand in for `triton`: after `install()`, `import triton` gives Tilewright in this process."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import tilewright
from tilewright.errors import TilewrightError

NAME = "triton"
# Modules of Triton, and the modules that stand in for them.
MODULES = {
    "triton": "tilewright",
    "triton.language": "tilewright.language",
    "triton.testing": "tilewright.testing",
    "triton.errors": "tilewright.errors",
    "triton.runtime": "tilewright.runtime",
    "triton.runtime.jit": "tilewright.runtime.kernel",
    "triton.runtime.autotuner": "tilewright.runtime.autotune",
    "triton.runtime.cache": "tilewright.runtime.cache",
    "triton.runtime.driver": "tilewright.runtime.driver",
    "triton.runtime.errors": "tilewright.compat.errors",
    "triton.runtime.build": "tilewright.compat.build",
    "triton.runtime._async_compile": "tilewright.runtime.background",
    "triton.runtime._allocation": "tilewright.runtime.host",
    "triton.runtime.interpreter": "tilewright.compat.interpreter",
    "triton.compiler": "tilewright.compat.compiler",
    "triton.compiler.compiler": "tilewright.compat.compiler",
    "triton.compiler.errors": "tilewright.compat.errors",
    "triton.compiler.code_generator": "tilewright.compat.code_generator",
    "triton.backends": "tilewright.compat.backends",
    "triton.backends.compiler": "tilewright.compat.backends_compiler",
    "triton.backends.driver": "tilewright.compat.backends_driver",
    "triton.language.extra.cuda.gdc": "tilewright.language.extra.cuda",
    "triton.language.extra.cuda.utils": "tilewright.language.extra.cuda",
    "triton.language.extra.hip.utils": "tilewright.language.extra.hip",
    "triton.backends.nvidia": "tilewright.compat.backends_nvidia",
    "triton.backends.nvidia.compiler": "tilewright.compat.backends_nvidia",
    "triton.backends.nvidia.driver": "tilewright.compat.backends_nvidia",
    "triton.tools": "tilewright.compat.tools",
    "triton.tools.tensor_descriptor": "tilewright.runtime.descriptor",
    "triton.tools.mxfp": "tilewright.compat.mxfp",
    "triton.tools.ragged_tma": "tilewright.compat.ragged_tma",
    "triton.knobs": "tilewright.compat.knobs",
    "triton.profiler": "tilewright.compat.profiler",
    "triton._utils": "tilewright.compat.internals",
    "triton._internal_testing": "tilewright.compat.internal_testing",
}
# Has Gluon's names and no more (`tilewright.compat.gluon`).
EXPERIMENTAL = "triton.experimental"
# Names that modules of ours have only for programs written for Triton.
EXTRA = {
    "tilewright": "tilewright.compat.package_names",
    "tilewright.runtime.kernel": "tilewright.compat.jit_names",
    "tilewright.runtime.autotune": "tilewright.compat.autotuner_names",
    "tilewright.runtime.cache": "tilewright.compat.cache_names",
    "tilewright.errors": "tilewright.compat.error_names",
    "tilewright.runtime.host": "tilewright.compat.allocation_names",
    "tilewright.testing": "tilewright.compat.testing_names",
}


# Needs PyTorch, so it is loaded only when asked for.
PRETENCE = "tilewright.compat.pretend"


class StandInError(TilewrightError, ImportError):
    """The stand-in cannot be what was asked for."""


class Loader(importlib.abc.Loader):
    """Gives a module that exists already under a second name."""

    def __init__(self, target: str):
        self.target = target
        self.spec: Any = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.target)
        self.spec = module.__spec__
        extra = EXTRA.get(self.target)
        if extra is not None:
            add_names(module, importlib.import_module(extra))
        return module

    def exec_module(self, module: ModuleType) -> None:
        """The module was executed under its own name, which stays its name."""
        module.__spec__ = self.spec


def add_names(module: ModuleType, extra: ModuleType) -> None:
    for name in extra.__all__:
        if not hasattr(module, name):
            setattr(module, name, getattr(extra, name))


class Finder(importlib.abc.MetaPathFinder):
    """Answers for `triton` and everything under it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != NAME and not name.startswith(f"{NAME}."):
            return None
        if name == EXPERIMENTAL or f"{name}.".startswith(f"{EXPERIMENTAL}.gluon."):
            return importlib.import_module("tilewright.compat.gluon").spec(name)
        target_name = MODULES.get(name) or language_module(name)
        if target_name is None:
            raise ModuleNotFoundError(
                f"no module {name!r}: Tilewright stands in for triton and has no such part",
                name=name,
            )
        return importlib.machinery.ModuleSpec(name, Loader(target_name))


class Parts:
    """`__getattr__` of a module: as in Triton's packages, their modules are there without being
    imported."""

    def __init__(self, module: ModuleType, parent: str):
        self.module = module.__name__
        self.parent = parent
        self.otherwise = vars(module).get("__getattr__")

    def __call__(self, name: str) -> Any:
        full = f"{self.parent}.{name}"
        if (full in MODULES or full == EXPERIMENTAL) and is_installed():
            return importlib.import_module(full)
        if self.otherwise is not None:
            return self.otherwise(name)
        raise AttributeError(f"module {self.module!r} has no attribute {name!r}")


def language_module(name: str) -> str | None:
    """`triton.language.x` is `tilewright.language.x`, where that exists."""
    prefix = f"{NAME}.language."
    if not name.startswith(prefix):
        return None
    own = "tilewright.language." + name.removeprefix(prefix)
    try:
        importlib.import_module(own)
    except ModuleNotFoundError:
        return None
    return own


_finder = Finder()


def is_installed() -> bool:
    """Whether `import triton` gives Tilewright now."""
    return _finder in sys.meta_path


def install(*, pretend_cuda: bool = False) -> None:
    """Make `import triton` give Tilewright, whether or not a real Triton is installed.

    With `pretend_cuda`, PyTorch answers for a CUDA device that is not there while tensors stay
    on the CPU, for programs that insist on one (docs/packages.md says what is faked).

    Raises:
        StandInError: when the real one was imported before.
    """
    if pretend_cuda:
        importlib.import_module(PRETENCE).start()
    if is_installed():
        return
    real = sys.modules.get(NAME)
    if real is not None and real is not tilewright:
        raise StandInError(
            f"triton was imported already, from {getattr(real, '__file__', 'somewhere')}; call "
            "tilewright.compat.install() first, or start the program with `tilewright run`"
        )
    sys.meta_path.insert(0, _finder)
    sys.modules[NAME] = tilewright
    for module, extra in EXTRA.items():
        add_names(importlib.import_module(module), importlib.import_module(extra))
    for parent in {name.rpartition(".")[0] for name in MODULES} & MODULES.keys():
        module = importlib.import_module(MODULES[parent])
        if not isinstance(vars(module).get("__getattr__"), Parts):
            module.__getattr__ = Parts(module, parent)


def uninstall() -> None:
    """Let `import triton` mean what it did before; what was imported meanwhile stays."""
    pretence = sys.modules.get(PRETENCE)
    if pretence is not None:
        pretence.stop()
    if not is_installed():
        return
    sys.meta_path.remove(_finder)
    for name in [n for n in sys.modules if n == NAME or n.startswith(f"{NAME}.")]:
        del sys.modules[name]
