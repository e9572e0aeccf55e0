"""What is said of code for a GPU: sentences, tables, JSON, and code for a GPU that is not there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from softmax_records import FILE, site, softmax_run

import tilewright as tw
from tilewright import language as tl
from tilewright.instruments import report
from tilewright.instruments.advice import advice
from tilewright.instruments.explain import explaining
from tilewright.instruments.gpu import GpuCode, OddNumbers, SharedAccess, WarpAccess
from tilewright.instruments.ledger import Ledger
from tilewright.targets import base
from tilewright.targets.cuda import assembler


def access(**changes):
    values = {
        "file": FILE, "line": 12, "expression": "tl.load(x + i * step)", "kind": "load",
        "argument": "x", "dtype": "fp32", "vector": 4, "limit": "", "gap": 32, "known": True,
        "sectors": 32, "least_sectors": 4, "counted": (100, 3200, 400),
    }  # fmt: skip
    return WarpAccess(**{**values, **changes})


def code(**changes):
    values = {
        "arch": "sm_90a", "warps": 4, "shared": 0, "source": "driver", "registers": 32,
        "spill_bytes": 0, "programs": 16, "occupancy": 1.0, "limit": "warps", "processors": 132,
        "memory_read": 3200, "memory_written": 0,
    }  # fmt: skip
    return GpuCode(**{**values, **changes})


def sentences(changes, **run):
    return [r.sentence for r in advice(softmax_run(target="cuda", gpu=code(**changes), **run))]


def test_nothing_is_said_of_good_code():
    fine = access(gap=4, sectors=4, counted=(100, 400, 400))
    assert sentences({"accesses": (fine,)}) == []
    assert advice(softmax_run()) == []


def test_a_strided_access():
    assert sentences({"accesses": (access(),)}) == [
        "softmax.py:12, tl.load(x + i * step): an access of a warp touches 32 sectors of 32 bytes "
        "where 4 could hold its elements. Neighbouring lanes are 32 bytes apart: let the tile run "
        "along the dimension in which x is contiguous, and turn it with tl.trans if it is wanted "
        "otherwise."
    ]


def test_accesses_whose_places_are_not_known_and_that_are_not_aligned():
    (unknown,) = sentences({"accesses": (access(gap=None, known=False),)})
    assert "Where lanes go in x is not known when compiling" in unknown
    (shifted,) = sentences({"accesses": (access(gap=4, counted=(100, 520, 400)),)})
    assert "touches 5.2 sectors" in shifted
    assert "pad the row stride of x" in shifted


def test_narrow_accesses():
    fine = {"gap": 2, "counted": (100, 200, 200), "dtype": "fp16", "vector": 2}
    (mask,) = sentences({"accesses": (access(**fine, limit="mask"),)})
    assert "a lane moves 2 bytes at once instead of 16, for its mask may end at any" in mask
    (address,) = sentences({"accesses": (access(**fine, limit="aligned"),)})
    assert "its address is not known to be a multiple of 16 bytes" in address


def test_banks_registers_and_occupancy():
    shared = SharedAccess(FILE, 14, "tl.trans(x)", "permute", 1, 8, (10, 80, 10))
    (banks,) = sentences({"shared_accesses": (shared,)})
    assert banks.startswith(
        "softmax.py:14, tl.trans(x): permute goes through shared memory, and its loads ask for 8 "
        "words of one bank at once (70 turns of a launch lost)."
    )
    (spills,) = sentences({"spill_bytes": 64, "registers": 255})
    assert spills == (
        "softmax_kernel keeps 64 bytes of each thread in memory, for its 255 registers do not "
        "suffice: take smaller blocks, or num_warps=8."
    )
    (full,) = sentences({"programs": 2, "occupancy": 0.125, "limit": "shared memory"})
    assert full == (
        "softmax_kernel fills 12% of the warps of a multiprocessor (2 programs of 4 warps), "
        "limited by its shared memory: smaller blocks take less shared memory."
    )
    (few,) = sentences({}, programs=32)
    assert "has 32 programs, so 100 of 132 multiprocessors are idle" in few


def test_many_updates_of_one_element():
    (many,) = sentences({}, sites=[site("atomic", bytes=4000, unique_bytes=40, argument="bins")])
    assert "each element of bins is updated 100 times" in many


def test_where_a_nan_comes_from():
    stored = OddNumbers(FILE, 20, "tl.store(y, z)", "store", "store", "y", 5, 0, (1, 0, 0), 3)
    made = OddNumbers(FILE, 18, "x / s", "value", "div", "?", 5, 0, (1, 0, 0), 3)
    other = OddNumbers(FILE, 17, "tl.exp(x)", "value", "exp", "?", 0, 2, (0, 0, 0), 1)
    assert sentences({"numbers": (other, made, stored)}) == [
        "softmax.py:20, tl.store(y, z): stores 5 NaN in y, first in program (1, 0, 0). Where such "
        "come from: softmax.py:18, x / s, where div makes 5 NaN of numbers that are none (first "
        "in program (1, 0, 0), element 3 of the tile)."
    ]
    assert sentences({"numbers": (made, other)}) == []  # nothing of it is stored


@pytest.fixture
def ledger():
    shared = SharedAccess(FILE, 14, "tl.trans(x)", "permute", 1, 2, (10, 20, 10))
    odd = OddNumbers(FILE, 20, "tl.store(y, z)", "store", "store", "y", 1, 0, (0, 0, 0), 0)
    made = code(accesses=(access(),), shared_accesses=(shared,), numbers=(odd,))
    with Ledger() as ledger:
        ledger.add_kernel(softmax_run(target="cuda", gpu=made))
    return ledger


def test_text(ledger):
    text = " ".join(report.text(ledger).split())
    for part in (
        "sm_90a: 4 warps a program, 32 registers a thread, 0 bytes of shared memory; 16 programs "
        "on a multiprocessor at a time, 100% of its warps, limited by warps",
        "3,200 bytes of sectors read, 0 written",
        "tl.load(x + i * step) x 4 B 32 4 100 3,200",
        "permute 1-way 2-way 10 20 10",
    ):
        assert part in text


def test_json(ledger):
    (kernel,) = report.as_json(ledger)["kernels"]
    (one,) = kernel["gpu"]["accesses"]
    assert (one["requests"], one["sectors"], one["least_sectors"]) == (100, 3200, 400)
    assert one["sectors_per_request"] == 32
    assert kernel["gpu"]["shared_accesses"][0]["conflicts"] == 10
    assert [a["about"] for a in kernel["advice"]] == ["numbers", "coalescing", "banks"]


def test_every_key_is_documented(ledger):
    from test_report import DOCUMENT, keys

    text = DOCUMENT.read_text()
    found = keys(report.as_json(ledger)["kernels"])
    assert [k for k in sorted(found) if f"`{k}`" not in text] == []


@tw.jit
def columns_kernel(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i * 64 + tl.program_id(0)))


def test_code_for_a_gpu_that_is_not_there(monkeypatch):
    monkeypatch.setattr(assembler, "programs", tuple)
    x, y = np.zeros((128, 64), np.float32), np.zeros(128, np.float32)
    ledger = Ledger()
    with tw.options(target="cpu"), explaining(ledger, arch="sm_80"):
        columns_kernel[(1,)](x, y, N=128)
    (run,) = ledger.kernels
    assert run.target == "cpu" and run.gpu.arch == "sm_80"
    load, store = run.gpu.accesses
    assert (load.per_request, load.least_per_request, load.gap) == (32, 4, 256)
    assert (store.per_request, store.vector) == (4, 4)
    assert run.gpu.registers is None and run.gpu.occupancy is None
    assert [r.about for r in advice(run)] == ["coalescing"]
    assert "at most" not in report.text(ledger)
    unknown = replace(run.gpu, accesses=(replace(load, known=False),))
    ledger = Ledger()
    ledger.add_kernel(replace(run, gpu=unknown))
    assert "at most 32" in report.text(ledger)


@tw.jit
def large_kernel(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.gather(tl.load(x + i), tl.load(y + i), 0))


def test_code_that_a_gpu_cannot_have():
    x, y = np.zeros(32768, np.int32), np.zeros(32768, np.int32)
    ledger = Ledger()
    with tw.options(target="cpu"), explaining(ledger, arch="sm_75"):
        large_kernel[(1,)](x, y, N=32768)
    (run,) = ledger.kernels
    assert run.sites and advice(run) == []
    assert "131072 bytes of shared memory, sm_75 has 65536" in run.gpu.problem
    assert "sm_75: none, for the kernel needs" in " ".join(report.text(ledger).split())


def test_launches_that_are_recorded_are_left_alone(monkeypatch):
    x, y = np.zeros((128, 64), np.float32), np.zeros(128, np.float32)
    ledger = Ledger()
    target = base.find("cpu")
    monkeypatch.setattr(type(target), "is_recording", lambda self, place=-1: True)
    with tw.options(target="cpu"), explaining(ledger):
        columns_kernel[(1,)](x, y, N=128)
    assert ledger.kernels == []
