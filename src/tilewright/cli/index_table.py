"""The table of program ids, offsets and mask of one-dimensional blocking."""

from __future__ import annotations

from ..errors import TilewrightError

SHOWN_LANES = 8
SHOWN_PROGRAMS = 8
GAP = "..."


class IndexTableError(TilewrightError, ValueError):
    """A size that no grid can have."""


def index_table(n: int, block: int) -> str:
    """For every program instance over `n` elements: its offsets, its mask, the lanes that work.

    Long tables lose their middle; the totals below always count everything.

    Raises:
        IndexTableError: for a negative size or a block of less than one lane.
    """
    if n < 0:
        raise IndexTableError(f"n is a number of elements, 0 or more, not {n}")
    if block < 1:
        raise IndexTableError(f"block is a number of lanes, 1 or more, not {block}")
    grid = -(-n // block)
    rows = [["pid", "start", "offsets", "mask", "lanes at work"]]
    for pid in _ends(grid, SHOWN_PROGRAMS):
        rows.append([GAP] * 5 if pid is None else _row(pid, n, block))
    lines = [
        f"n = {n}, block = {block}: grid = cdiv({n}, {block}) = {grid}",
        f"offsets = pid * {block} + arange(0, {block})",
        f"mask = offsets < {n}",
    ]
    if block & (block - 1):
        lines.append(f"(tl.arange takes powers of two only; {block} is none)")
    lines += ["", *aligned(rows), "", _total(n, block, grid)]
    return "\n".join(lines) + "\n"


def _row(pid: int, n: int, block: int) -> list[str]:
    start = pid * block
    lanes = _ends(block, SHOWN_LANES)
    width = len(str(start + block - 1))
    offsets = [GAP if lane is None else str(start + lane).rjust(width) for lane in lanes]
    mask = [GAP if lane is None else str(int(start + lane < n)) for lane in lanes]
    return [str(pid), str(start), " ".join(offsets), " ".join(mask), _working(n - start, block)]


def _working(left: int, block: int) -> str:
    """Which lanes have an element, when `left` elements are left for this program."""
    active = min(left, block)
    span = "0" if active == 1 else f"0-{active - 1}"
    return f"{span} ({active} of {block})" if active < block else f"{span} (all)"


def _total(n: int, block: int, grid: int) -> str:
    lanes = grid * block
    share = (lanes - n) / lanes if lanes else 0.0
    return f"{lanes} lanes, {n} at work, {lanes - n} masked off ({share:.1%})"


def _ends(count: int, shown: int) -> list[int | None]:
    """All of `range(count)`, or its two ends around a None."""
    if count <= shown + 1:
        return list(range(count))
    half = shown // 2
    return [*range(half), None, *range(count - half, count)]


def aligned(rows: list[list[str]]) -> list[str]:
    """Columns side by side, numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if i < 3 else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
