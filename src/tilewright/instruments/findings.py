"""What checks of launches find, and the list that keeps each finding once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tilewright.errors import Loc, excerpt

MOST = 100  # of one list
Program = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault: its kind, the kernel, argument and program, the place, and what happened.

    Kinds: bounds, race, undefined, unwritten, view, overflow, nan, inf, precision, masked,
    arithmetic, hint, assert and deadlock; docs/checks.md says what each means.
    """

    kind: str
    kernel: str
    argument: str
    program: Program
    loc: Loc | None
    message: str
    element: int | None = None  # of the argument, where the fault is about one
    other: Program | None = None  # of a race, the other program, and where its access stands
    other_loc: Loc | None = None

    def __str__(self) -> str:
        place = "" if self.loc is None else f" at {self.loc}"
        text = f"{self.kind}: {self.kernel}{place}: {self.message}"
        return text if self.loc is None else f"{text}\n{excerpt(self.loc)}"

    @property
    def key(self) -> tuple:
        """What findings share that are one fault; where a number ends up does not matter."""
        ends = self.kind in ("nan", "inf", "arithmetic", "precision")
        return (self.kind, self.kernel, "" if ends else self.argument, self.loc)


@dataclass
class Findings:
    """The first finding of each kind at each place, in order, and how often each was found."""

    items: list[Finding] = field(default_factory=list)
    counts: dict[tuple, int] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)  # on how it was looked at

    def add(self, finding: Finding) -> None:
        if finding.key not in self.counts and len(self.items) < MOST:
            self.items.append(finding)
        self.counts[finding.key] = self.counts.get(finding.key, 0) + 1

    def keep(self, kinds: set[str]) -> None:
        """Forget all but what is of these kinds."""
        self.items = [f for f in self.items if f.kind in kinds]
        self.counts = {f.key: self.counts[f.key] for f in self.items}

    def add_all(self, others: Findings) -> None:
        """Add what was found elsewhere."""
        for finding in others:
            self.add(finding)
            self.counts[finding.key] += others.count(finding) - 1
        for text in others.remarks:
            self.remark(text)

    def remark(self, text: str) -> None:
        """Note how a launch was looked at, once."""
        if text not in self.remarks:
            self.remarks.append(text)

    def count(self, finding: Finding) -> int:
        """How often it was found."""
        return self.counts[finding.key]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def text(self) -> str:
        """All of them, for people."""
        parts = []
        for finding in self.items:
            more = self.count(finding) - 1
            parts.append(str(finding) + (f"\n  found {more + 1} times" if more else ""))
        last = f"{len(self)} found" if self.items else "nothing found"
        return "\n".join([*parts, *self.remarks, last])

    def as_json(self) -> dict[str, Any]:
        """All of them, for machines (docs/json.md)."""
        found = [as_json(f, self.count(f)) for f in self.items]
        return {"schema": 1, "findings": found, "remarks": self.remarks}


def as_json(finding: Finding, count: int) -> dict[str, Any]:
    loc, other = finding.loc, finding.other_loc
    return {
        "kind": finding.kind,
        "kernel": finding.kernel,
        "argument": finding.argument or None,
        "program": list(finding.program),
        "file": None if loc is None else loc.file,
        "line": None if loc is None else loc.line,
        "col": None if loc is None else loc.col,
        "expression": None if loc is None else loc.text,
        "element": finding.element,
        "other_program": None if finding.other is None else list(finding.other),
        "other_file": None if other is None else other.file,
        "other_line": None if other is None else other.line,
        "count": count,
        "message": finding.message,
    }
