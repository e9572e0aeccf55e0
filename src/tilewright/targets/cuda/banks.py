"""How the accesses of shared memory fall on its banks: what reports are told of each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.targets.cuda import f2
from tilewright.targets.cuda.layout import LANE_BITS, log2

WORD = 4
SERVED = 128  # bytes that shared memory serves in one turn


@dataclass(frozen=True, slots=True)
class SharedUse:
    """Accesses of shared memory that are written at one place of the code.

    `ways` are the words of one bank that a turn asks for (1: no conflicts), `bytes` what a lane
    moves at once; `requests` are accesses of warps, and `turns` what these take without conflicts.
    """

    kind: str  # "load" or "store"
    bytes: int
    ways: int
    requests: int
    turns: int

    @property
    def taken(self) -> int:
        """Turns with the conflicts."""
        return self.turns * self.ways


def shared_use(
    kind: str, lanes: Sequence[int], bytes: int, accesses: int, warps: int, idle: int = 0
) -> SharedUse:
    """Accesses whose address is a linear map of the lane's number.

    Args:
        lanes: what each bit of the lane's number adds to the address, in bytes.
        bytes: what a lane moves at once.
        accesses: how many each thread makes.
        warps: how many warps take part.
        idle: the bits of a lane's number of which one at least is set in lanes that do not.
    """
    unit = max(bytes, WORD)
    at_once = log2(SERVED // unit)
    phase = [c for k, c in enumerate(lanes[:at_once]) if not idle >> k & 1]
    later = [k for k in range(at_once, min(len(lanes), LANE_BITS)) if not idle >> k & 1]
    requests = accesses * warps
    return SharedUse(kind, bytes, bank_ways(phase, unit), requests, requests << len(later))


def bank_ways(columns: Sequence[int], unit: int) -> int:
    """How many words of one bank lanes ask for at once, by what their bits add in bytes."""
    places = [c // unit for c in columns]
    banks = SERVED // unit - 1
    return 1 << f2.rank(places) - f2.rank(p & banks for p in places)
