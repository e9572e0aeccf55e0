"""Counters compiled into code for CPUs count exactly what the eager runner touches."""

from __future__ import annotations

from collections import Counter
from typing import Any

import kernels as plain
import native
import numpy as np
import tiles
from eager_counts import EagerCounts
from hypothesis import HealthCheck, given, settings

from tilewright.ir.inst import Kernel
from tilewright.ir.rewrite import rebuild
from tilewright.passes import pipeline
from tilewright.targets.counting import ELEMENTS, MAP, MASKED, SITE_WORDS
from tilewright.targets.cpu.launch import CPU
from tilewright.targets.storage import HostStorage

some = settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def check(kernel: Kernel, grid: tuple, values: list[Any]) -> None:
    """Compare elements, lanes masked off and different elements, access by access."""
    kernel = pipeline.run(rebuild(kernel), pipeline.STANDARD)
    wanted = EagerCounts(kernel)
    native.run_eager(
        kernel, grid, [v.copy() if isinstance(v, np.ndarray) else v for v in values],
        observers=[wanted.see],
    )  # fmt: skip
    code = CPU.lower(kernel, bounds=True, counters=True)
    binary = CPU.load(CPU.assemble(code), code.metadata)
    sites = code.metadata["sites"]
    words, maps = np.zeros(SITE_WORDS * len(sites) + 1, np.int64), {}
    for number, site in enumerate(sites):
        if site["param"] >= 0:
            maps[number] = HostStorage(values[site["param"]].nbytes // site["bytes"])
            words[SITE_WORDS * number + MAP] = maps[number].address
    binary.launch((*grid, 1, 1)[:3], native.slots_of(values), 1, words.ctypes.data)
    elements, masked = Counter(), Counter()
    for number, site in enumerate(sites):
        if site["kind"] in ("load", "store", "atomic"):
            elements[site["line"]] = int(words[SITE_WORDS * number + ELEMENTS])
            masked[site["line"]] = int(words[SITE_WORDS * number + MASKED])
            if number in maps:
                touched = set(np.flatnonzero(maps[number].read()).tolist())
                assert touched == wanted.touched.get(site["line"], set()), site
    assert +elements == +wanted.elements
    assert masked == wanted.masked or +masked == +wanted.masked


@some
@given(case=tiles.kernels())
def test_random_tiles(case):
    check(case.kernel, tiles.GRID, case.fresh())


@some
@given(case=plain.kernels())
def test_random_kernels(case):
    check(case.kernel, plain.GRID, case.fresh())
