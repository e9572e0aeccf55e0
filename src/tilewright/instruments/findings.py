"""What checks of launches find, and the list that keeps each finding once."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import Loc, excerpt

MOST = 100  # of one list


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault: its kind, the kernel, argument and program, the place, and what happened."""

    kind: str  # race, undefined, view, overflow or nan
    kernel: str
    argument: str
    program: tuple[int, int, int]
    loc: Loc | None
    message: str

    def __str__(self) -> str:
        place = "" if self.loc is None else f" at {self.loc}"
        text = f"{self.kind}: {self.kernel}{place}: {self.message}"
        return text if self.loc is None else f"{text}\n{excerpt(self.loc)}"


@dataclass
class Findings:
    """The first finding of each kind at each place, in order."""

    items: list[Finding] = field(default_factory=list)
    known: set[tuple] = field(default_factory=set)

    def add(self, finding: Finding) -> None:
        key = (finding.kind, finding.kernel, finding.argument, finding.loc)
        if key not in self.known and len(self.items) < MOST:
            self.known.add(key)
            self.items.append(finding)

    def __iter__(self):
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)
