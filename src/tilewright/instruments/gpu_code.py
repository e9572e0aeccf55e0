"""Gather what is known of a kernel's code for a GPU: by its layouts, its machine code, a launch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.errors import UnsupportedError
from tilewright.instruments.counting import ACCESSES, Counting
from tilewright.instruments.gpu import GpuCode, OddNumbers, SharedAccess, WarpAccess, ways_of
from tilewright.runtime.call import Call
from tilewright.runtime.compile import make_ir
from tilewright.runtime.grid import Grid
from tilewright.runtime.handle import CompiledKernel
from tilewright.targets.counting import (
    FIRST,
    INFINITIES,
    LEAST_UNITS,
    NANS,
    REQUESTS,
    UNITS,
)
from tilewright.targets.cuda import arch as arches
from tilewright.targets.cuda.assembler import assembled_facts
from tilewright.targets.cuda.occupancy import occupancy
from tilewright.targets.cuda.target import CudaTarget, warps_of

ELEMENT_BITS = 32  # of the word FIRST; the program is above


def measured(handle: CompiledKernel, counters: Counting, grid: Grid) -> GpuCode | None:
    """Of code that ran on a GPU; None for that of other targets."""
    metadata = handle.compilation.metadata
    if "arch" not in metadata:
        return None
    code = Gathering(metadata, counters.records, counters, grid).code()
    code = replace(
        code,
        memory_read=counters.sector_bytes(("load", "atomic")),
        memory_written=counters.sector_bytes(("store", "atomic")),
    )
    facts = handle.facts
    if not facts:
        return code
    code = replace(code, source="driver", processors=facts["processors"])
    return with_registers(code, facts["n_regs"], facts["spill_bytes"], facts["programs"])


def static(call: Call, arch: str) -> GpuCode:
    """Of code for an architecture that need not be there."""
    target = CudaTarget(arch)
    request = call.on(target).request()
    kernel, _ = make_ir(request, {})
    try:
        lowered = target.lower(kernel, bounds=request.bounds, counters=False)
    except UnsupportedError as error:
        return GpuCode(target.arch(), warps_of(request.options), 0, problem=error.message)
    code = Gathering(lowered.metadata, lowered.metadata["sites"]).code()
    facts = assembled_facts(target.assembly(lowered.text), target.arch())
    if facts is None:
        return code
    return with_registers(replace(code, source="ptxas"), facts["registers"], facts["spill_bytes"])


def with_registers(
    code: GpuCode, registers: int, spill_bytes: int, programs: int | None = None
) -> GpuCode:
    """With what the assembler made of it, and the occupancy that follows."""
    found = occupancy(arches.find(code.arch), code.warps, registers, code.shared)
    share = found.share
    if programs is not None and found.programs:
        share = share * programs / found.programs
    return replace(
        code,
        registers=registers,
        spill_bytes=spill_bytes,
        programs=found.programs if programs is None else programs,
        occupancy=share,
        limit=found.limit,
    )


class Gathering:
    """The sites of one kernel, with what a launch has counted if there was one."""

    def __init__(
        self,
        metadata: dict[str, Any],
        records: list[dict[str, Any]],
        counters: Counting | None = None,
        grid: Grid = (1, 1, 1),
    ):
        self.metadata = metadata
        self.records = records
        self.counters = counters
        self.grid = grid

    def code(self) -> GpuCode:
        numbered = list(enumerate(self.records))
        return GpuCode(
            arch=self.metadata["arch"],
            warps=self.metadata["num_warps"],
            shared=self.metadata["shared"],
            accesses=tuple(self.access(n, r) for n, r in numbered if r["kind"] in ACCESSES),
            shared_accesses=tuple(
                self.shared_access(n, r) for n, r in numbered if r["kind"] == "shared"
            ),
            numbers=tuple(self.numbers(n, r) for n, r in numbered if self.is_odd(n)),
        )

    def argument(self, record: dict[str, Any]) -> str:
        param = record["param"]
        return self.metadata["params"][param][0] if param >= 0 else "?"

    def counted(self, number: int) -> tuple[int, int, int] | None:
        """Accesses of warps, the units that they took, and the fewest that could do."""
        if self.counters is None:
            return None
        word = self.counters.word
        return word(number, REQUESTS), word(number, UNITS), word(number, LEAST_UNITS)

    def access(self, number: int, record: dict[str, Any]) -> WarpAccess:
        return WarpAccess(
            file=record["file"],
            line=record["line"],
            expression=record["expression"],
            kind=record["kind"],
            argument=self.argument(record),
            dtype=record["dtype"],
            vector=record["vector"],
            limit=record["limit"],
            gap=record["gap"],
            known=record["known"],
            sectors=record["sectors"],
            least_sectors=record["least_sectors"],
            counted=self.counted(number),
        )

    def shared_access(self, number: int, record: dict[str, Any]) -> SharedAccess:
        return SharedAccess(
            file=record["file"],
            line=record["line"],
            expression=record["expression"],
            op=record["op"],
            store_ways=ways_of(record, "store"),
            load_ways=ways_of(record, "load"),
            counted=self.counted(number),
        )

    def is_odd(self, number: int) -> bool:
        if self.counters is None:
            return False
        return bool(self.counters.word(number, NANS) or self.counters.word(number, INFINITIES))

    def numbers(self, number: int, record: dict[str, Any]) -> OddNumbers:
        word, (x, y, _) = self.counters.word, self.grid
        first = word(number, FIRST)
        program = first >> ELEMENT_BITS
        return OddNumbers(
            file=record["file"],
            line=record["line"],
            expression=record["expression"],
            kind=record["kind"],
            op=record["op"],
            argument=self.argument(record),
            nans=word(number, NANS),
            infinities=word(number, INFINITIES),
            program=(program % x, program // x % y, program // (x * y)),
            element=first & (1 << ELEMENT_BITS) - 1,
        )
