"""LLVM IR text of one kernel: what is computed once at the start, and the blocks that follow."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tilewright.targets.cuda.unread import without_unread

OFTEN = '!0 = !{!"branch_weights", i32 1000000, i32 1}'
RARELY = '!1 = !{!"branch_weights", i32 1, i32 1000000}'


class Writer:
    """Appends instructions to the block being written, or to the start of the kernel."""

    def __init__(self) -> None:
        self.start: list[str] = []
        self.second: tuple[int, list[str]] | None = None  # another start, and its place
        self.lines: list[str] = []
        self.rare: list[str] = []
        self.is_apart = False
        self.at_start = False
        self.here = "entry"  # the label of the block being written, for phis
        self.count = 0
        self.declared: dict[str, None] = {}

    def fresh(self, stem: str = "t") -> str:
        self.count += 1
        return f"%{stem}{self.count}"

    def new_label(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def write(self, line: str) -> None:
        start = self.start if self.second is None else self.second[1]
        (start if self.at_start else self.lines).append("  " + line)

    def value(self, text: str, stem: str = "t") -> str:
        """Write an instruction with a result; gives its name."""
        name = self.fresh(stem)
        self.write(f"{name} = {text}")
        return name

    def declare(self, text: str) -> None:
        self.declared.setdefault(text)

    def label(self, name: str) -> None:
        """Begin a block."""
        self.lines.append(f"{name}:")
        self.here = name

    def branch(self, label: str) -> None:
        self.write(f"br label %{label}")

    def branch_if(self, condition: str, yes: str, no: str) -> None:
        self.write(f"br i1 {condition}, label %{yes}, label %{no}")

    def branch_often(self, condition: str, often: str, rarely: str) -> None:
        """As `branch_if`, where the condition nearly always holds."""
        self.declare(OFTEN)
        self.write(f"br i1 {condition}, label %{often}, label %{rarely}, !prof !0")

    def reserve(self) -> int:
        """A place in the text that is filled in later."""
        self.lines.append("")
        return len(self.lines) - 1

    def fill(self, place: int, lines: list[str]) -> None:
        self.lines[place] = "\n".join("  " + line for line in lines)

    def start_anew(self) -> None:
        """From now on, what is computed once is computed here."""
        self.second = self.reserve(), []

    @contextlib.contextmanager
    def once(self) -> Iterator[None]:
        """Within, write to the start of the kernel, which all blocks can read."""
        before, self.at_start = self.at_start, True
        try:
            yield
        finally:
            self.at_start = before

    @contextlib.contextmanager
    def apart(self, label: str) -> Iterator[None]:
        """Within, write a block that is rarely run, behind all others."""
        lines, here, outer = self.lines, self.here, self.is_apart
        self.lines, self.is_apart = [], True
        self.label(label)
        try:
            yield
        finally:
            self.rare += self.lines
            self.lines, self.here, self.is_apart = lines, here, outer

    @contextlib.contextmanager
    def when(self, condition: str, rarely: bool = False) -> Iterator[None]:
        """Within, write what runs only in threads where the condition holds."""
        yes, join = self.new_label("then"), self.new_label("join")
        if rarely:
            self.declare(RARELY)
            self.write(f"br i1 {condition}, label %{yes}, label %{join}, !prof !1")
        else:
            self.branch_if(condition, yes, join)
        self.label(yes)
        yield
        self.branch(join)
        self.label(join)

    def text(self, head: str) -> str:
        """The module: declarations, then the one kernel that `head` opens."""
        if self.second is not None:
            place, start = self.second
            self.lines[place] = "\n".join(start)
        lines = ["entry:", *self.start, *self.lines, "  ret void", *self.rare]
        lines = without_unread("\n".join(lines).split("\n"))
        return "\n".join([*self.declared, head, *lines, "}", ""])
