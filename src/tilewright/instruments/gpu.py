"""What a GPU makes of a kernel: accesses of warps, banks, registers, and numbers that are none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SECTOR = 32  # bytes that memory moves at least


@dataclass(frozen=True, slots=True)
class WarpAccess:
    """How warps access global memory at one site.

    `vector` are the bytes that a lane moves at once and `limit` what keeps it from more ("apart":
    neighbours are not known to be consecutive, "aligned", "mask", or nothing). `gap` are the bytes
    from one lane to the next. `sectors` and `least_sectors` of one access follow from the layout,
    where strides that are not known (`known` is false) count as far apart; those `counted` are of
    all accesses of a launch.
    """

    file: str
    line: int
    expression: str
    kind: str
    argument: str
    dtype: str
    vector: int
    limit: str
    gap: int | None
    known: bool
    sectors: int
    least_sectors: int
    counted: tuple[int, int, int] | None = None  # accesses, sectors, least sectors

    @property
    def requests(self) -> int | None:
        return self.counted[0] if self.counted else None

    @property
    def per_request(self) -> float:
        """Sectors of an access: as counted, else by the layout."""
        if self.counted and self.counted[0]:
            return self.counted[1] / self.counted[0]
        return self.sectors

    @property
    def least_per_request(self) -> float:
        if self.counted and self.counted[0]:
            return self.counted[2] / self.counted[0]
        return self.least_sectors

    @property
    def excess(self) -> float:
        """Sectors over the fewest that could hold as much."""
        return self.per_request / self.least_per_request if self.least_per_request else 1.0


@dataclass(frozen=True, slots=True)
class SharedAccess:
    """How the operation at one place uses shared memory.

    `ways` are the most words of one bank that are asked for at once, of its stores and of its
    loads; `counted` accesses, the turns that they took, and those without conflicts.
    """

    file: str
    line: int
    expression: str
    op: str
    store_ways: int
    load_ways: int
    counted: tuple[int, int, int] | None = None

    @property
    def ways(self) -> int:
        return max(self.store_ways, self.load_ways)

    @property
    def conflicts(self) -> int | None:
        """Turns lost to conflicts."""
        return self.counted[1] - self.counted[2] if self.counted else None


@dataclass(frozen=True, slots=True)
class OddNumbers:
    """NaN and infinities that were read or written at a place, or made of numbers that are none.

    `kind` is "load", "store" or "value"; `program` and `element` (of the tile) say where first.
    """

    file: str
    line: int
    expression: str
    kind: str
    op: str
    argument: str
    nans: int
    infinities: int
    program: tuple[int, int, int]
    element: int


@dataclass(frozen=True, slots=True)
class GpuCode:
    """The code of a kernel for a GPU, or the `problem` why there is none; None is not known.

    `source` says where registers come from: "driver", "ptxas" or "". `occupancy` is the share of
    the warps of a multiprocessor that `programs` of them are, and `limit` what is used up first.
    `memory_read` and `memory_written` are the bytes of the different sectors that a launch touches.
    """

    arch: str
    warps: int
    shared: int
    source: str = ""
    registers: int | None = None
    spill_bytes: int | None = None
    programs: int | None = None
    occupancy: float | None = None
    limit: str | None = None
    processors: int | None = None
    problem: str | None = None
    memory_read: int | None = None
    memory_written: int | None = None
    accesses: tuple[WarpAccess, ...] = ()
    shared_accesses: tuple[SharedAccess, ...] = ()
    numbers: tuple[OddNumbers, ...] = field(default=())


def ways_of(record: dict[str, Any], kind: str) -> int:
    """The worst bank conflict of the loads or stores that a site makes."""
    return max([use["ways"] for use in record["uses"] if use["kind"] == kind], default=1)
