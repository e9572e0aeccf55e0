"""Loads that only products read run ahead of their loop, where the chip can copy by itself."""

from __future__ import annotations

import re
from contextlib import nullcontext

import numpy as np
import product_loops
import pytest
from launch_case import compare
from simulator import SimulatedTarget
from test_ptx import kernel_ir

import tilewright as tw
from tilewright.errors import OutOfBoundsError
from tilewright.targets import base
from tilewright.targets.cuda.arch import find
from tilewright.targets.cuda.lower import lower
from tilewright.targets.cuda.moving import part

CASES = list(product_loops.cases())


@pytest.fixture(params=[("sm_80", 4), ("sm_90a", 1), ("sm_75", 2)], ids=str)
def simulated(request, monkeypatch):
    target = SimulatedTarget(*request.param)
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


def copies(name: str, arch: str = "sm_80", stages: int = 3) -> int:
    """Asynchronous copies in the code of a case."""
    return lowered(name, arch, stages).count("cp.async.cg")


def lowered(name: str, arch: str, stages: int = 3, bounds: bool = False) -> str:
    """The code of a case."""
    case = next(c for c in CASES if c.name.startswith(name))
    arguments = dict(zip(case.kernel.arg_names, case.fresh(), strict=False)) | {
        k: v for k, v in case.constants.items() if k in case.kernel.arg_names
    }
    kernel = part(kernel_ir(case.kernel, arguments, {}))
    return lower(kernel, find(arch), stages=stages, bounds=bounds).text


def test_copies_are_written_once_before_the_loop_and_once_in_it():
    assert copies("matmul 64x128", stages=4) == copies("matmul 64x128", stages=2) > 0


@pytest.mark.parametrize("name", ["turned products 5 float16", "attention 64", "products of"])
def test_ahead(name):
    assert copies(name) > 0


def test_one_stage_and_old_chips_wait():
    assert copies("matmul 64x128", stages=1) == 0
    assert copies("matmul 64x128", arch="sm_75") == 0


def test_loads_from_where_the_loop_stores_stay_in_place():
    assert 0 < copies("products in place") < copies("products of states 6")


def shared_memory(target: str) -> np.ndarray:
    """In each turn the right tile is what the turn before has stored, through another argument."""
    x = np.concatenate([np.eye(32, dtype=np.float16)[None], np.zeros((6, 32, 32), np.float16)])
    y = np.concatenate([product_loops.random((1, 32, 32), np.float16), x[1:]])
    with tw.options(target=target):
        product_loops.states[(1,)](x[:1].repeat(6, 0), y, y[1:], 6, M=32, N=32)
    product_loops.states.forget()
    return y


@pytest.mark.parametrize("simulated", [("sm_80", 4), ("sm_90a", 1)], ids=str, indirect=True)
def test_arguments_that_share_memory_are_loaded_in_their_turn(simulated):
    want = shared_memory("eager")
    assert want[6].any()
    np.testing.assert_allclose(shared_memory("simulated"), want, rtol=1e-2)


def test_what_lies_outside_is_reported_once_it_is_due(simulated):
    x, y = np.ones((32, 96), np.float16), np.ones((95, 32), np.float16)
    out = np.zeros((32, 32), np.float32)
    with pytest.raises(OutOfBoundsError, match="load outside y"):
        product_loops.persistent[(1,)](x, y, out, 32, 96, M=32, N=32, K=32)
    product_loops.persistent.forget()


def test_indices_of_turns_that_do_not_come_are_not_read(simulated):
    x, y, out = np.ones((4, 32), np.float16), np.ones((1, 32, 32), np.float16), np.zeros((32, 32))
    rows, blocks = np.zeros((2, 32), np.int32), np.zeros(2, np.int64)
    size = {"M": 32, "N": 32, "K": 32}
    product_loops.gathered[(1,)](x, rows, y, blocks, out, 2, **size)
    for short in ([x, rows[:1], y, blocks], [x, rows, y, blocks[:1]], [x, rows + 4, y, blocks]):
        with pytest.raises(OutOfBoundsError, match="load outside (rows|blocks|x)"):
            product_loops.gathered[(1,)](*map(np.copy, short), out, 2, **size)
    product_loops.gathered.forget()


def test_rows_that_are_chosen_outside_are_reported(simulated):
    size = {"M": 32, "N": 32, "K": 32, "num_stages": 3}
    for far, fails in ((39, False), (40, True), (-1, True)):
        arguments = product_loops.chosen_rows(160, far=far)
        with pytest.raises(OutOfBoundsError) if fails else nullcontext():
            product_loops.chosen[(1,)](*arguments, **size)
    product_loops.chosen.forget()


def test_turns_of_chosen_rows_need_no_checks():
    assert "barrier.cta.red" in lowered("chosen rows 144", "sm_80", bounds=True)
    assert "barrier.cta.red" not in lowered("gathered products 6", "sm_80", bounds=True)


def test_other_accesses_of_turns_are_reported(simulated):
    x, y = np.ones((6, 32, 32), np.float16), np.ones((6, 32, 64), np.float16)
    for rows in (6, 5, 2):
        out = np.zeros((rows, 32, 64), np.float16)
        with nullcontext() if rows == 6 else pytest.raises(OutOfBoundsError, match="store outside"):
            product_loops.states[(1,)](x, y, out, 6, M=32, N=64)
    product_loops.states.forget()


def test_other_accesses_of_sure_turns_are_not_checked():
    text = lowered("products of states 6", "sm_80", bounds=True)
    sure, rest = re.split(r"^exit\d+:", text, flags=re.MULTILINE)[:2]
    written = r"st\.global\.v\d\.b32"
    assert len(re.findall(written, sure)) > 0
    assert len(re.findall(written, text)) == 3 * len(re.findall(written, sure))
