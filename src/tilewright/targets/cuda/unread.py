"""Leave out of a kernel's text what nothing reads: LLVM takes most of its time for such code."""

from __future__ import annotations

import re
from collections import Counter

NAME = re.compile(r"%[\w.]+")
HARMLESS = re.compile(r"  (%[\w.]+) = (?!call|load|atomicrmw|cmpxchg|phi)")


def without_unread(lines: list[str]) -> list[str]:
    """The lines of a kernel, one instruction each, without those whose results are not used."""
    names = [NAME.findall(line) for line in lines]
    uses = Counter(name for found in names for name in found)
    kept = []
    for line, found in zip(reversed(lines), reversed(names), strict=True):
        match = HARMLESS.match(line)
        if match is not None and uses[match[1]] == 1:
            uses.subtract(found)
        else:
            kept.append(line)
    kept.reverse()
    return kept
