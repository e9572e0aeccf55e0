"""`triton.backends.compiler`: what code is made for, and what is asked of its maker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tilewright.runtime.compile import toolchain
from tilewright.runtime.cpu_driver import GPUTarget
from tilewright.runtime.handle import DEFAULTS


class BaseBackend:
    """What programs ask of a back end; code is made by the targets themselves."""

    binary_ext = "asm"

    def __init__(self, target: GPUTarget):
        self.target = target

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend in ("cpu", "cuda")

    def hash(self) -> str:
        """The state of the compiler and what it compiles for."""
        return f"{toolchain()}-{self.target.backend}-{self.target.arch}"

    def parse_options(self, options: dict[str, Any]) -> SimpleNamespace:
        """Launch options, with what is taken for those that are left out."""
        return SimpleNamespace(**{**DEFAULTS, **options})


def make_backend(target: GPUTarget) -> BaseBackend:
    return BaseBackend(target)


class Language:
    """The kinds of sources of a kernel."""

    TRITON = 0
    GLUON = 1


__all__ = ["BaseBackend", "GPUTarget", "Language", "make_backend"]
