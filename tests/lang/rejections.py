"""Kernels with mistakes, each with the whole text of the error that it must give."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from interpreted import compile_for, jit

from tilewright.errors import CompileError

CASES: list[Case] = []


@dataclass
class Case:
    """One mistake. Lines in the expected text count from the kernel's `def` line."""

    function: Callable
    expected: str
    arguments: dict[str, Any] = field(default_factory=dict)

    @property
    def found(self) -> str:
        """The text of the error that compiling gives."""
        try:
            compile_for(jit(self.function), **self.arguments)
        except CompileError as error:
            return self.relative(str(error))
        return "compiles"

    def relative(self, text: str) -> str:
        code = self.function.__code__
        first = code.co_firstlineno
        while not _line(code.co_filename, first).lstrip().startswith(("def ", "async def ")):
            first += 1
        text = re.sub(
            r"\S*/(\w+\.py):(\d+):", lambda m: f"{m[1]}:{int(m[2]) - first:+}:", text
        )
        return re.sub(r"\bline (\d+)", lambda m: f"line {int(m[1]) - first:+}", text)


def _line(file: str, number: int) -> str:
    with open(file) as lines:
        return lines.read().splitlines()[number - 1]


def rejects(expected: str, **arguments: Any) -> Callable:
    """Decorator: compiling the function for these arguments gives an error of this text."""

    def attach(function: Callable) -> Callable:
        CASES.append(Case(function, textwrap.dedent(expected).strip(), arguments))
        return function

    return attach
