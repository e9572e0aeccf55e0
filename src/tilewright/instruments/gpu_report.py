"""What a GPU makes of a kernel as text: a line on its code, and tables of its accesses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .gpu import GpuCode, SharedAccess, WarpAccess
from .wording import place, plural

ACCESS_HEADER = ("site", "access", "argument", "lane", "each", "least", "requests", "sectors")
SHARED_HEADER = ("site", "shared memory of", "stores", "loads", "requests", "turns", "conflicts")
COUNTED = {"requests", "sectors", "turns", "conflicts"}


def code_line(code: GpuCode) -> str:
    """Registers, shared memory and occupancy."""
    if code.problem is not None:
        return f"{code.arch}: none, for {code.problem}"
    parts = [plural(code.warps, "warp") + " a program"]
    if code.registers is not None:
        spilled = f" and {plural(code.spill_bytes, 'byte')} in memory" if code.spill_bytes else ""
        parts.append(f"{plural(code.registers, 'register')}{spilled} a thread")
    parts.append(plural(code.shared, "byte") + " of shared memory")
    line = f"{code.arch}: {', '.join(parts)}"
    if code.occupancy is None:
        return line
    return (
        f"{line}; {plural(code.programs, 'program')} on a multiprocessor at a time, "
        f"{code.occupancy:.0%} of its warps, limited by {code.limit}"
    )


def memory_line(code: GpuCode) -> str:
    """What memory must move, in whole sectors."""
    return (
        f"{code.memory_read:,} bytes of sectors read, {code.memory_written:,} written, if caches "
        "serve every repeat"
    )


def without_counts(header: Sequence[str], rows: Sequence[tuple]) -> tuple[tuple, list[tuple]]:
    """A table without the columns that stay empty where no launch was counted."""
    kept = [k for k, name in enumerate(header) if name not in COUNTED or any(r[k] for r in rows)]
    return tuple(header[k] for k in kept), [tuple(row[k] for k in kept) for row in rows]


def access_rows(code: GpuCode) -> Iterator[tuple[str, ...]]:
    """One row for each access of global memory."""
    for a in code.accesses:
        yield (
            place(a.file, a.line),
            " ".join(a.expression.split()),
            a.argument,
            f"{a.vector} B",
            ("" if a.counted or a.known else "at most ") + f"{a.per_request:.4g}",
            f"{a.least_per_request:.4g}",
            *counted_cells(a),
        )


def shared_rows(code: GpuCode) -> Iterator[tuple[str, ...]]:
    """One row for each operation that goes through shared memory."""
    for s in code.shared_accesses:
        conflicts = "" if s.conflicts is None else f"{s.conflicts:,}"
        yield (
            place(s.file, s.line),
            s.op,
            f"{s.store_ways}-way",
            f"{s.load_ways}-way",
            *counted_cells(s),
            conflicts,
        )


def counted_cells(thing: WarpAccess | SharedAccess) -> tuple[str, str]:
    """Accesses of warps and what they took, in a launch that was counted."""
    if thing.counted is None:
        return "", ""
    return f"{thing.counted[0]:,}", f"{thing.counted[1]:,}"


ACCESS_NOTE = (
    "lane: what a lane moves at once; each: sectors of 32 bytes that an access of a warp touches; "
    "least: the fewest that could hold as much"
)
SHARED_NOTE = "words of one bank that are asked for at once: 1-way has no conflicts"
