"""Occupancy by the tables of architectures: figures of NVIDIA's calculator."""

from __future__ import annotations

import pytest

from tilewright.targets.cuda.arch import find
from tilewright.targets.cuda.occupancy import occupancy


@pytest.mark.parametrize(
    ("arch", "warps", "registers", "shared", "programs", "limit"),
    [
        ("sm_90a", 4, 32, 0, 16, "warps"),
        ("sm_90a", 4, 44, 0, 10, "registers"),
        ("sm_90a", 8, 54, 64, 4, "registers"),
        ("sm_90a", 8, 150, 16 << 10, 1, "registers"),
        ("sm_90a", 1, 32, 0, 32, "programs"),
        ("sm_90a", 4, 32, 100 << 10, 2, "shared memory"),
        ("sm_80", 4, 128, 0, 4, "registers"),
        ("sm_86", 4, 32, 0, 12, "warps"),
        ("sm_75", 4, 64, 32 << 10, 2, "shared memory"),
    ],
)
def test_occupancy(arch, warps, registers, shared, programs, limit):
    found = occupancy(find(arch), warps, registers, shared)
    assert (found.programs, found.limit) == (programs, limit)
    assert found.share == programs * warps * 32 / find(arch).resident_threads
