"""LLVM IR text in nested scopes: what is invariant in a scope can be written outside it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class Scope:
    """The text of one region of control flow, and the label of the block it is in now."""

    __slots__ = ("label", "lines", "memo")

    def __init__(self, label: str):
        self.label = label
        self.lines: list[str] = []
        self.memo: list[tuple] = []  # what to forget when the scope closes


class Writer:
    """Appends instructions to the innermost scope, or to an outer one.

    The text of an inner scope joins its parent's when it closes, so what is written to the parent
    meanwhile stands before it: writing there hoists.
    """

    def __init__(self) -> None:
        self.scopes = [Scope("entry")]
        self.at = 0  # the depth being written to
        self.count = 0
        self.declared: dict[str, None] = {}
        self.allocas: list[str] = []

    def fresh(self, stem: str = "t") -> str:
        self.count += 1
        return f"%{stem}{self.count}"

    def new_label(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def write(self, line: str) -> None:
        self.scopes[self.at].lines.append("  " + line)

    def declare(self, text: str) -> None:
        self.declared.setdefault(text)

    @contextlib.contextmanager
    def outside(self, depth: int) -> Iterator[None]:
        """Write to the scope at `depth`."""
        before, self.at = self.at, depth
        try:
            yield
        finally:
            self.at = before

    def label(self, name: str) -> None:
        """Begin a block in the scope being written to."""
        scope = self.scopes[self.at]
        scope.lines.append(f"{name}:")
        scope.label = name

    @property
    def here(self) -> str:
        """The label of the block being written to, for phis."""
        return self.scopes[self.at].label

    def open(self, label: str) -> Scope:
        """Begin an inner scope whose first block will be `label`."""
        self.scopes.append(Scope(label))
        self.at = len(self.scopes) - 1
        return self.scopes[-1]

    def close(self) -> Scope:
        """End the innermost scope; the caller writes its text where it belongs."""
        scope = self.scopes.pop()
        self.at = len(self.scopes) - 1
        return scope

    def take(self, scope: Scope) -> None:
        """Append the text of a closed scope, whose first label the caller has written."""
        here = self.scopes[self.at]
        here.lines.extend(scope.lines)
        here.label = scope.label

    def alloca(self, type: str, count: int) -> str:
        """Aligned memory on the stack for the whole call."""
        name = self.fresh("buf")
        self.allocas.append(f"  {name} = alloca [{count} x {type}], align 64")
        return name
