"""How many programs a multiprocessor holds at a time, and what keeps it from more."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.targets.cuda.arch import Arch

REGISTERS = 1 << 16  # of a multiprocessor
PARTS = 4  # of a multiprocessor, each with its share of registers and warps
WARP_REGISTERS = 256  # registers are given to warps in such portions
SHARED_PORTION = 128
WARP = 32


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Programs of a multiprocessor at a time, the share of its warps, and what is used up first.

    `limit` is "registers", "shared memory", "warps" or "programs".
    """

    programs: int
    share: float
    limit: str


def occupancy(arch: Arch, warps: int, registers: int, shared: int) -> Occupancy:
    """By the tables of the architecture, for programs of so many warps.

    Args:
        registers: of a thread.
        shared: bytes of a program.
    """
    portions = -(-registers * WARP // WARP_REGISTERS) * WARP_REGISTERS
    by_registers = REGISTERS // PARTS // max(portions, 1) * PARTS // warps
    used = shared + arch.shared_reserved
    used = -(-used // SHARED_PORTION) * SHARED_PORTION
    limits = {
        "programs": arch.resident_programs,
        "warps": arch.resident_threads // (WARP * warps),
        "registers": by_registers,
        "shared memory": arch.processor_shared // used if used else arch.resident_programs,
    }
    limit = min(limits, key=limits.__getitem__)
    programs = limits[limit]
    return Occupancy(programs, programs * warps * WARP / arch.resident_threads, limit)
