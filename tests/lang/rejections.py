"""Kernels with mistakes, and the whole texts of the errors that they must give."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interpreted import compile_for, jit

from tilewright.errors import CompileError

TITLE = "## "  # begins a case in the file of expected texts that stands beside the kernels

CASES: list[Case] = []


@dataclass
class Case:
    """One mistake. Line numbers in texts count from the kernel's `def`."""

    function: Callable
    arguments: dict[str, Any]

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def expected(self) -> str:
        """What stands about the case in the file of texts."""
        return expected_texts(Path(self.function.__code__.co_filename)).get(self.name, "")

    @property
    def found(self) -> str:
        """The text of the error that compiling gives."""
        try:
            compile_for(jit(self.function), **self.arguments)
        except CompileError as error:
            return self.relative(str(error))
        return "compiles"

    def relative(self, text: str) -> str:
        lines, first = inspect.getsourcelines(self.function)
        first += next(i for i, line in enumerate(lines) if line.startswith("def "))
        text = re.sub(r"\S*/(\w+\.py):(\d+):", lambda m: f"{m[1]}:{int(m[2]) - first:+}:", text)
        return re.sub(r"\bline (\d+)", lambda m: f"line {int(m[1]) - first:+}", text)


def expected_texts(kernels: Path) -> dict[str, str]:
    """By kernel, the texts in the file beside a file of kernels."""
    text = kernels.with_suffix(".txt").read_text()
    cases = (part.partition("\n") for part in text.split("\n" + TITLE)[1:])
    return {name: message.strip() for name, _, message in cases}


def rejects(**arguments: Any) -> Callable:
    """Decorator: compiling the function for these arguments is an error."""

    def attach(function: Callable) -> Callable:
        CASES.append(Case(function, arguments))
        return function

    return attach
