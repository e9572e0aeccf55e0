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

    def load_dialects(self, context: Any) -> None:
        """There is no IR of Triton's to load."""

    def get_codegen_implementation(self, options: Any) -> dict[str, Any]:
        """Nothing: targets generate code by themselves."""
        return {}

    def get_module_map(self) -> dict[str, Any]:
        """No module of the language is another one on this target."""
        return {}

    @staticmethod
    def get_arg_specialization(arg: Any, kind: str, **_: Any) -> str:
        """What is known of an argument beyond its type."""
        return ""

    @staticmethod
    def parse_attr(text: str) -> list[Any]:
        """The attributes that such knowledge stands for."""
        return []

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
