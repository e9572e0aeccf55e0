"""`triton.compiler`: compile a kernel for types given by name, without arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.compat import code_generator, errors
from tilewright.compat.backends_compiler import make_backend
from tilewright.compat.errors import CompilationError
from tilewright.compat.ttir import Module
from tilewright.compat.unsupported import unsupported_class
from tilewright.errors import UnsupportedError
from tilewright.ir import types as ir
from tilewright.ir.types import Type, pointer_to
from tilewright.later import later
from tilewright.runtime import driver
from tilewright.runtime.compile import Request, compile_kernel, front_ir
from tilewright.runtime.handle import CompiledKernel
from tilewright.runtime.kernel import JITFunction
from tilewright.runtime.signature import SPELLINGS
from tilewright.targets import base

cuda = later("tilewright.targets.cuda.target")
arches = later("tilewright.targets.cuda.arch")

__path__: list[str] = []


class ASTSource:
    """A kernel with the types of its arguments by name, and the values of its constants."""

    def __init__(
        self,
        fn: JITFunction,
        signature: Mapping[Any, str],
        constexprs: Mapping[Any, Any] | None = None,
        attrs: Mapping[Any, Any] | None = None,
    ):
        self.fn = fn
        self.name = fn.__name__
        names = fn.arg_names
        self.signature = {named(k, names): v for k, v in signature.items()}
        self.constants = {named(k, names): v for k, v in (constexprs or {}).items()}
        self.attrs = dict(attrs or {})

    def hash(self) -> str:
        return f"{self.fn.cache_key}-{sorted(self.signature.items())}-{self.constants}"

    def types(self) -> dict[str, Type]:
        """The types of the arguments that are passed at run time."""
        found = {k: v for k, v in self.signature.items() if k not in self.constants}
        return {name: spelled(text) for name, text in found.items() if text != "constexpr"}

    def make_ir(
        self, target: Any, options: Any, codegen_fns: Any, module_map: Any, context: Any
    ) -> Module:
        """What the kernel reads and writes, for whoever walks over Triton's IR."""
        request = Request(self.fn, self.types(), self.constants, {}, base.find("cpu"))
        return Module(front_ir(request))

    def facts(self) -> dict[str, int]:
        """What the arguments are multiples of."""
        names = self.fn.arg_names
        return {
            named(key, names): value
            for key, pairs in self.attrs.items()
            for what, value in pairs
            if what == "tt.divisibility"
        }


def named(key: Any, names: list[str]) -> str:
    """A parameter's name, also by its position or a path of one position."""
    if isinstance(key, tuple):
        (key,) = key
    return names[key] if isinstance(key, int) else key


def spelled(text: str) -> Type:
    """The type that a signature spells, e.g. `*fp32` or `i32`."""
    if text.startswith("*"):
        const = text.startswith("*k")
        return Type(pointer_to(spelled(text[1 + const :]).dtype, const))
    if text not in SPELLINGS:
        raise UnsupportedError(f"no type {text!r} in a kernel's signature")
    return Type(SPELLINGS[text])


def chosen(target: Any) -> base.Target:
    """The CPU when no target is given; a GPU by its architecture needs none at hand."""
    if target is None:
        return base.find("cpu")
    if target.backend == "cuda" and isinstance(target.arch, int):
        return cuda.CudaTarget(arches.of_capability(target.arch).name)
    return base.find(target.backend)


def compile(src: Any, target: Any = None, options: dict[str, Any] | None = None) -> CompiledKernel:
    """Compile a kernel for the target, the CPU when none is given."""
    if not isinstance(src, ASTSource):
        raise UnsupportedError(
            f"triton.compile takes an ASTSource here, got {type(src).__name__}: there is no "
            "textual IR of Triton's to compile"
        )
    options = dict(options or {})
    found = chosen(target)
    request = Request(
        src.fn, src.types(), src.constants, src.facts(), found,
        {k: v for k, v in options.items() if k in found.options}, bool(options.get("debug")),
    )  # fmt: skip
    return CompiledKernel(src.fn, compile_kernel(request), options)


def max_shared_mem(device: Any) -> int:
    """The bytes of shared memory that a program may have."""
    return driver.active.utils.get_device_properties(device)["max_shared_mem"]


class LazyDict(dict):
    """A dictionary of what is known about a launch, for hooks."""

    def get(self, key: Any = None, default: Any = None) -> Any:
        return dict(self) if key is None else super().get(key, default)


class IRSource(unsupported_class("triton.compiler.IRSource", "there is no IR of Triton's here")):
    """A kernel in Triton's own IR."""


__all__ = [
    "ASTSource", "CompilationError", "CompiledKernel", "IRSource", "LazyDict", "code_generator",
    "compile", "errors", "ir", "make_backend", "max_shared_mem",
]  # fmt: skip
