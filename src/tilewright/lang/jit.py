"""A Python function that is a kernel or a helper of kernels, before anything is compiled."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import cached_property
from typing import Any

from tilewright.errors import OutsideKernelError
from tilewright.ir.op import has_machine, machine
from tilewright.lang.constexpr import constexpr
from tilewright.lang.source import Source, read_source


class JITCallable:
    """What `@triton.jit` makes of a function; `runtime` adds launching."""

    def __init__(self, fn: Callable):
        self.fn = fn
        self.__name__ = fn.__name__
        self.__qualname__ = fn.__qualname__
        self.__module__ = fn.__module__
        self.__doc__ = fn.__doc__
        self.__globals__ = fn.__globals__
        self.__wrapped__ = fn
        self._given: str | None = None  # a text that stands in for what the file says
        self._source: Source | None = None

    @property
    def source(self) -> Source:
        """The function as it was written, parsed once."""
        if self._source is None:
            self._source = read_source(self.fn, self._given)
        return self._source

    @property
    def src(self) -> str:
        """The text of the function from its `def` on."""
        text = self.source.text
        start = re.search(r"^def\s+\w+\s*\(", text, re.MULTILINE)
        return text[start.start() :] if start else text

    def _unsafe_update_src(self, text: str) -> None:
        """Compile this text in place of what the function's file says."""
        self._given = text
        self._source = None

    def get_capture_scope(self) -> dict[str, Any]:
        """The names from outside that the function may read, and what they are now."""
        return self.__globals__ | inspect.getclosurevars(self.fn).nonlocals

    @cached_property
    def raw_src(self) -> list[str]:
        """The lines of the function, decorators included."""
        return inspect.getsourcelines(self.fn)[0]

    @cached_property
    def starting_line_number(self) -> int:
        """The line of the file in which the function begins, decorators included."""
        return self.fn.__code__.co_firstlineno

    @cached_property
    def def_file_line_number(self) -> int:
        """The line of the file in which `def` stands."""
        return self.source.loc(self.source.node).line

    @cached_property
    def def_file_col_number(self) -> int:
        """The column of `def`, counted from 1."""
        return self.source.loc(self.source.node).col + 1

    @cached_property
    def python_signature(self) -> inspect.Signature:
        return inspect.signature(self.fn)

    @cached_property
    def arg_names(self) -> list[str]:
        return list(self.python_signature.parameters)

    @cached_property
    def constexpr_names(self) -> frozenset[str]:
        """The parameters annotated as constexpr."""
        out = set()
        for name, parameter in self.python_signature.parameters.items():
            note = parameter.annotation
            text = note if isinstance(note, str) else getattr(note, "__name__", "")
            if note is constexpr or text.split(".")[-1].split("[")[0] == "constexpr":
                out.add(name)
        return frozenset(out)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method of an aggregate, the instance is the first argument."""
        if instance is None:
            return self
        return BoundJIT(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call from inside a kernel; from outside there is no grid to launch."""
        if not has_machine():
            raise OutsideKernelError(
                "Cannot call @triton.jit'd outside of the scope of a kernel: launch it as "
                f"{self.__name__}[grid](...), or call it from another kernel"
            )
        return machine().call(self, args, kwargs)


class BoundJIT:
    """A JITCallable found on an instance."""

    def __init__(self, function: JITCallable, instance: Any):
        self.function = function
        self.instance = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self.instance, *args, **kwargs)
