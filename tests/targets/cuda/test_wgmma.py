"""Products that warpgroups make, on chips that have them."""

from __future__ import annotations

import pytest
import warpgroup_cases
from launch_case import compare
from simulator import SimulatedTarget

import tilewright as tw
from tilewright.targets import base

CASES = list(warpgroup_cases.cases())


@pytest.fixture
def simulated(monkeypatch):
    target = SimulatedTarget("sm_90a", 4)
    monkeypatch.setitem(base.TARGETS, "simulated", lambda: target)
    with tw.options(target="simulated", cache=False):
        yield


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name.replace(" ", "-"))
def test_as_eager(case, simulated):
    with tw.options(target="eager"):
        want = case.run()
    case.kernel.forget()
    got = case.run()
    case.kernel.forget()
    compare(case, got, want)
