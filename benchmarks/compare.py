"""Compare two result files of `run.py`: what became faster or slower, beyond the spread."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

from case import OURS

Rows = dict[tuple[str, str, int], dict[str, Any]]


def read(path: Path) -> tuple[dict[str, Any], Rows]:
    """The machine's record, and the rows by name, size and threads."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    about = next(r for r in records if r["kind"] == "machine")
    rows = {(r["name"], r["size"], r["threads"]): r for r in records if r["kind"] == "row"}
    return about, rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    options = parser.parse_args()
    (before_machine, before), (after_machine, after) = read(options.before), read(options.after)
    for key in ("cpu", "cores", "python", "versions", "commit"):
        if before_machine[key] != after_machine[key]:
            print(f"{key}: {before_machine[key]} -> {after_machine[key]}")
    print(f"{'kernel':28} {'size':26} {'before ms':>10} {'after ms':>10} {'faster x':>8} {'+-':>5}")
    ratios = []
    for key in (key for key in before if key in after):
        ratio, spread = compared(before[key], after[key])
        ratios.append(ratio)
        old, new = (rows[key]["peers"][OURS]["median"] * 1e3 for rows in (before, after))
        mark = "  " if abs(ratio - 1) <= spread else "+ " if ratio > 1 else "- "
        print(f"{mark}{key[0]:26} {key[1]:26} {old:10.4f} {new:10.4f} {ratio:8.2f} {spread:5.0%}")
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"geometric mean of {len(ratios)}: {mean:.3f}")


def compared(before: dict[str, Any], after: dict[str, Any]) -> tuple[float, float]:
    """How many times faster, and the spread of that: both files' spreads together."""
    old, new = before["peers"][OURS], after["peers"][OURS]
    return old["median"] / new["median"], math.hypot(old["spread"], new["spread"])


if __name__ == "__main__":
    main()
