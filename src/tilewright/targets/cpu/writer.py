"""LLVM IR text in nested scopes: what is invariant in a scope can be written outside it."""

from __future__ import annotations

import re
from typing import Any

# Instructions that give the same wherever they stand.
PURE = {
    "add", "and", "ashr", "bitcast", "extractelement", "fadd", "fcmp", "fdiv", "fmul", "fneg",
    "fpext", "fptosi", "fptoui", "fptrunc", "fsub", "getelementptr", "icmp", "insertelement",
    "inttoptr", "lshr", "mul", "or", "ptrtoint", "sdiv", "select", "sext", "shl", "shufflevector",
    "sitofp", "srem", "sub", "trunc", "udiv", "uitofp", "urem", "xor", "zext",
}  # fmt: skip
TARGETS = re.compile(r"label %([\w.]+)")


class Scope:
    """The text of one region of control flow, and the label of the block it is in now."""

    __slots__ = ("known", "label", "lines", "memo")

    def __init__(self, label: str):
        self.label = label
        self.lines: list[str] = []
        self.memo: list[tuple] = []  # what to forget when the scope closes
        self.known: dict[str, tuple[str, str]] = {}  # instruction: its result and its block


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
        # By block: those that surely ran before it, as far as that is known, and itself.
        self.before: dict[str, frozenset[str]] = {"entry": frozenset({"entry"})}

    def fresh(self, stem: str = "t") -> str:
        self.count += 1
        return f"%{stem}{self.count}"

    def new_label(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def write(self, line: str) -> None:
        self.scopes[self.at].lines.append("  " + line)
        if line.startswith("br "):
            here = self.before[self.here]
            for target in TARGETS.findall(line):
                self.before[target] = self.before.get(target, here) & here

    def define(self, text: str) -> str:
        """The result of an instruction: a new one, or what an equal one gave that ran before."""
        pure = text.partition(" ")[0] in PURE
        if pure:
            for scope in self.scopes[: self.at + 1]:
                name, block = scope.known.get(text, ("", ""))
                if name and block in self.before[scope.label]:
                    return name
        name = self.fresh()
        self.write(f"{name} = {text}")
        if pure:
            self.scopes[self.at].known[text] = (name, self.here)
        return name

    def declare(self, text: str) -> None:
        self.declared.setdefault(text)

    def fill(self, place: str, byte: int, size: int | str) -> None:
        """Write `size` equal bytes at the pointer `place` (`align 64 %x` where that is known)."""
        self.declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        self.write(f"call void @llvm.memset.p0.i64(ptr {place}, i8 {byte}, i64 {size}, i1 false)")

    def outside(self, depth: int) -> _Outside:
        """`with w.outside(depth):` writes to the scope at `depth`."""
        return _Outside(self, depth)

    def label(self, name: str) -> None:
        """Begin a block in the scope being written to."""
        scope = self.scopes[self.at]
        scope.lines.append(f"{name}:")
        scope.label = name
        self.before[name] = self.before.get(name, frozenset()) | {name}

    @property
    def here(self) -> str:
        """The label of the block being written to, for phis."""
        return self.scopes[self.at].label

    def open(self, label: str) -> Scope:
        """Begin an inner scope whose first block will be `label`."""
        self.before[label] = self.before[self.scopes[-1].label] | {label}
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


class _Outside:
    """A context; hundreds are entered for each kernel, so it is not made by a generator."""

    __slots__ = ("before", "depth", "writer")

    def __init__(self, writer: Writer, depth: int):
        self.writer = writer
        self.depth = depth

    def __enter__(self) -> None:
        self.before, self.writer.at = self.writer.at, self.depth

    def __exit__(self, *exc: Any) -> None:
        self.writer.at = self.before
