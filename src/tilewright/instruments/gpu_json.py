"""What a GPU makes of a kernel as JSON: the keys that docs/json.md documents."""

from __future__ import annotations

from typing import Any

from .gpu import GpuCode, OddNumbers, SharedAccess, WarpAccess


def gpu_json(code: GpuCode) -> dict[str, Any]:
    """The code of one kernel."""
    return {
        "arch": code.arch,
        "warps": code.warps,
        "problem": code.problem,
        "shared_bytes": code.shared,
        "source": code.source or None,
        "registers": code.registers,
        "spill_bytes": code.spill_bytes,
        "programs_per_processor": code.programs,
        "occupancy": code.occupancy,
        "occupancy_limit": code.limit,
        "processors": code.processors,
        "memory_read_bytes": code.memory_read,
        "memory_written_bytes": code.memory_written,
        "accesses": [access_json(a) for a in code.accesses],
        "shared_accesses": [shared_json(s) for s in code.shared_accesses],
        "numbers": [numbers_json(n) for n in code.numbers],
    }


def access_json(a: WarpAccess) -> dict[str, Any]:
    requests, sectors, least = a.counted or (None, None, None)
    return {
        "file": a.file,
        "line": a.line,
        "expression": a.expression,
        "kind": a.kind,
        "argument": a.argument,
        "dtype": a.dtype,
        "vector_bytes": a.vector,
        "vector_limit": a.limit or None,
        "lane_gap": a.gap,
        "layout": {"sectors": a.sectors, "least_sectors": a.least_sectors, "known": a.known},
        "requests": requests,
        "sectors": sectors,
        "least_sectors": least,
        "sectors_per_request": a.per_request,
        "least_sectors_per_request": a.least_per_request,
    }


def shared_json(s: SharedAccess) -> dict[str, Any]:
    requests, turns, least = s.counted or (None, None, None)
    return {
        "file": s.file,
        "line": s.line,
        "expression": s.expression,
        "op": s.op,
        "store_ways": s.store_ways,
        "load_ways": s.load_ways,
        "requests": requests,
        "turns": turns,
        "least_turns": least,
        "conflicts": s.conflicts,
    }


def numbers_json(n: OddNumbers) -> dict[str, Any]:
    return {
        "file": n.file,
        "line": n.line,
        "expression": n.expression,
        "kind": n.kind,
        "op": n.op,
        "argument": n.argument,
        "nans": n.nans,
        "infinities": n.infinities,
        "first_program": list(n.program),
        "first_element": n.element,
    }
