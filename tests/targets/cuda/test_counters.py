"""Counters compiled into code for GPUs count exactly what the eager runner touches."""

from __future__ import annotations

from collections import Counter
from typing import Any

import cases
import kernels as plain
import native
import numpy as np
import pytest
import test_ptx
import tiles
from eager_counts import EagerCounts
from hypothesis import HealthCheck, given, settings
from simulator import SimulatedTarget

import tilewright as tw
from tilewright import language as tl
from tilewright.instruments.explain import explaining
from tilewright.instruments.ledger import Ledger
from tilewright.ir.inst import Kernel
from tilewright.ir.rewrite import rebuild
from tilewright.passes import pipeline
from tilewright.targets import base
from tilewright.targets.counting import ELEMENTS, FIRST, MAP, MASKED, NOWHERE, SITE_WORDS
from tilewright.targets.storage import HostStorage

ALL = [c for c in cases.all_cases() if "print" not in c.name]
some = settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


class Counted:
    """A kernel with counters, launched once on the simulator; words and maps by site."""

    def __init__(self, kernel: Kernel, grid: tuple, values: list[Any], num_warps: int):
        target = SimulatedTarget("sm_80", num_warps)
        code = target.lower(kernel, bounds=True, counters=True)
        self.sites = code.metadata["sites"]
        binary = target.load(target.assemble(code), code.metadata)
        words = np.zeros(SITE_WORDS * len(self.sites) + 1, np.int64)
        words[FIRST:-1:SITE_WORDS] = NOWHERE
        self.maps = {}
        for number, site in enumerate(self.sites):
            if site["param"] >= 0:
                self.maps[number] = HostStorage(values[site["param"]].nbytes // site["bytes"])
                words[SITE_WORDS * number + MAP] = self.maps[number].address
        binary.launch((*grid, 1, 1)[:3], native.slots_of(values), 0, words.ctypes.data)
        self.words = words

    def word(self, number: int, which: int) -> int:
        return int(self.words[SITE_WORDS * number + which])


def check(kernel: Kernel, grid: tuple, values: list[Any], num_warps: int) -> None:
    """Compare elements, lanes masked off and different elements, access by access."""
    wanted = EagerCounts(kernel)
    native.run_eager(
        kernel, grid, [v.copy() if isinstance(v, np.ndarray) else v for v in values],
        observers=[wanted.see],
    )  # fmt: skip
    found = Counted(kernel, grid, values, num_warps)
    elements, masked = Counter(), Counter()
    for number, site in enumerate(found.sites):
        if site["kind"] not in ("load", "store", "atomic"):
            continue
        key = site["line"]
        elements[key] = found.word(number, ELEMENTS)
        masked[key] = found.word(number, MASKED)
        if number in found.maps:
            touched = set(np.flatnonzero(found.maps[number].read()).tolist())
            assert touched == wanted.touched.get(key, set()), site
    assert +elements == +wanted.elements
    assert +masked == +wanted.masked


def optimized(kernel: Kernel) -> Kernel:
    return pipeline.run(rebuild(kernel), pipeline.STANDARD)


@pytest.mark.parametrize("num_warps", (1, 4))
@some
@given(case=tiles.kernels())
def test_random_tiles(num_warps, case):
    check(optimized(case.kernel), tiles.GRID, case.fresh(), num_warps)


@some
@given(case=plain.kernels())
def test_random_kernels(case):
    check(optimized(case.kernel), plain.GRID, case.fresh(), 2)


@pytest.mark.parametrize("number", range(0, len(ALL), 11), ids=lambda n: ALL[n].name)
def test_cases(number):
    case = ALL[number]
    kernel = test_ptx.kernel_of(case)
    arguments, _ = case.kernel.parameters.bind(case.fresh(), case.constants)
    check(kernel, case.grid, [arguments[p.name] for p in kernel.params], 4)


# --- what a report has


@pytest.fixture
def explained(monkeypatch):
    """`explained(run)`: the record of the one kernel that `run` launches."""
    target = SimulatedTarget("sm_80", 4)
    monkeypatch.setitem(base.TARGETS, "simulated", lambda: target)

    def explain(run):
        ledger = Ledger()
        with tw.options(target="simulated", cache=False), explaining(ledger), ledger:
            run()
        (kernel,) = ledger.kernels
        return kernel

    return explain


def aligned(n: int) -> np.ndarray:
    """Zeros that begin at the start of a sector."""
    memory = np.zeros(n + 8, np.float32)
    start = -memory.ctypes.data % 32 // 4
    return memory[start : start + n]


@tw.jit
def copy_kernel(x, y, n, step, first, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + first + i * step, mask=i < n), mask=i < n)


@pytest.mark.parametrize(
    ("step", "first", "sectors"),
    [(1, 0, 4), (1, 1, 5), (2, 0, 8), (4, 0, 16), (8, 0, 32), (16, 0, 32), (16, 5, 32)],
)
def test_sectors_of_a_strided_load(explained, step, first, sectors):
    """32 neighbours of 4 bytes lie in 4 sectors of 32 bytes, in 5 if they begin between two."""
    n = 1024
    x, y = aligned(n * step + 16), aligned(n)
    run = explained(lambda: copy_kernel[(n // 128,)](x, y, n, step, first, BLOCK=128))
    load, store = run.gpu.accesses
    assert load.counted == (n // 32, n // 32 * sectors, n // 32 * 4)
    assert store.counted == (n // 32, n // 32 * 4, n // 32 * 4)
    assert run.gpu.source == "" and run.gpu.registers is None


def test_a_masked_tail_makes_fewer_requests(explained):
    x, y = np.zeros(4096, np.float32), np.zeros(2048, np.float32)
    run = explained(lambda: copy_kernel[(2,)](x, y, 1030, 2, 0, BLOCK=1024))
    load, _ = run.gpu.accesses
    assert load.requests == 33
    assert [(s.elements, s.masked) for s in run.sites] == [(1030, 1018)] * 2
    assert run.least_bytes == 2 * 4 * 1030


def test_flops_are_those_of_the_cpu(explained):
    x, y = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    launch = lambda: scaled_kernel[(4,)](x, y, 1000, BLOCK=256)  # noqa: E731
    ledger = Ledger()
    with tw.options(target="cpu", cache=False), explaining(ledger), ledger:
        launch()
    assert explained(launch).flops == ledger.kernels[0].flops > 0


@tw.jit
def scaled_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n, other=1.0)
    total = 0.0
    for _ in range(3):
        total += tl.sum(value, axis=0)
    tl.store(y + i, tl.log(value) / total, mask=i < n)


def test_the_origin_of_a_nan(explained):
    x, y = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    x[300], x[700] = -1, np.nan
    run = explained(lambda: scaled_kernel[(4,)](x, y, 1000, BLOCK=256))
    found = {(n.kind, n.op): n for n in run.gpu.numbers}
    assert set(found) == {("load", "load"), ("value", "log"), ("store", "store")}
    log = found["value", "log"]
    assert (log.nans, log.infinities, log.program, log.element) == (1, 0, (1, 0, 0), 44)
    assert found["load", "load"].nans == 1
    assert found["load", "load"].program == (2, 0, 0)
    assert found["store", "store"].nans == 1 + 256  # the sum spreads what was read


def test_the_origin_of_an_infinity(explained):
    x, y = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    x[5] = 0
    run = explained(lambda: scaled_kernel[(4,)](x, y, 1000, BLOCK=256))
    assert [(n.kind, n.op, n.infinities) for n in run.gpu.numbers] == [
        ("value", "log", 1),
        ("store", "store", 1),
    ]


@tw.jit
def overflowing_kernel(x, y, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    value = tl.load(x + i * N + j)
    product = tl.dot(value, value)
    tl.store(y + i * N + j, product + tl.sum(value, axis=1)[:, None])


def test_sums_and_products_that_overflow(explained):
    x, y = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32)
    x[3, :], x[4, 7], x[5, 5] = 3e38, np.inf, 1e30
    run = explained(lambda: overflowing_kernel[(1,)](x, y, N=16))
    found = {n.op: n for n in run.gpu.numbers}
    assert found["load"].infinities == 1
    # The sums of rows are what the product is added to: row 3 overflows there.
    assert (found["reduce"].infinities, found["reduce"].element) == (1, 3)
    # 1e30 squared; and the infinity times 0, in its row and its column.
    assert (found["dot"].infinities, found["dot"].nans) == (1, 15 + 15)


@tw.jit
def turning_kernel(x, y, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    value = tl.load(x + i * N + j)
    k, m = tl.arange(0, N)[:, None], tl.arange(0, M)[None, :]
    tl.store(y + k * M + m, tl.trans(value))


def test_exchanges_are_reported_at_their_line(explained):
    x, y = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
    run = explained(lambda: turning_kernel[(2,)](x, y, M=64, N=64))
    (shared,) = run.gpu.shared_accesses
    assert shared.line == run.gpu.accesses[1].line
    assert shared.ways == 1 and shared.conflicts == 0
    requests, turns, least = shared.counted
    # Each of 2 programs stores and loads 16 KiB, which is 128 turns of 128 bytes each time.
    assert turns == least == 2 * 2 * 128
    assert 0 < requests <= turns
