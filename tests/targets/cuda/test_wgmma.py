"""Products that warpgroups make, on chips that have them."""

from __future__ import annotations

import re

import numpy as np
import product_loops
import pytest
import warpgroup_cases
from launch_case import Case, compare, random
from simulator import SimulatedTarget
from test_ptx import assemble, facts_of, kernel_ir, needs_ptxas

import tilewright as tw
from tilewright.errors import OutOfBoundsError
from tilewright.ir.inst import Kernel
from tilewright.targets import base
from tilewright.targets.cuda.arch import find
from tilewright.targets.cuda.lower import lower
from tilewright.targets.cuda.target import CudaTarget

CASES = list(warpgroup_cases.cases())
# Of the many single products a part; tools/gpu_check.py runs all of them.
TRIED = [case for k, case in enumerate(CASES) if k % 3 == 0 or not case.name.startswith("single")]
WAITS = re.compile(r"wgmma\.wait_group\.sync\.aligned (\d)")


@pytest.fixture
def simulated(monkeypatch):
    target = SimulatedTarget("sm_90a", 4)
    monkeypatch.setitem(base.TARGETS, "simulated", lambda: target)
    with tw.options(target="simulated", cache=False):
        yield


@pytest.mark.parametrize("case", TRIED, ids=lambda c: c.name.replace(" ", "-"))
def test_as_eager(case, simulated):
    with tw.options(target="eager"):
        want = case.run()
    case.kernel.forget()
    got = case.run()
    case.kernel.forget()
    compare(case, got, want)


def kernel_of(case: Case) -> Kernel:
    names = case.kernel.arg_names
    arguments = dict(zip(names, case.fresh(), strict=False))
    arguments |= {k: v for k, v in case.constants.items() if k in names}
    options = {k: v for k, v in case.constants.items() if k not in names}
    kernel = kernel_ir(case.kernel, arguments, options)
    kernel.meta["options"] = options
    return kernel


def named(name: str) -> Kernel:
    return kernel_of(next(case for case in CASES if case.name.startswith(name)))


def text_of(kernel: Kernel, **options) -> str:
    warps = kernel.meta["options"]["num_warps"]
    return lower(kernel, find("sm_90a"), num_warps=warps, **options).text


@needs_ptxas
@pytest.mark.parametrize("number", range(0, len(CASES), 8), ids=lambda n: CASES[n].name)
def test_the_assembler_has_no_complaints(number, tmp_path):
    target = CudaTarget("sm_90a")
    text = target.lower(kernel_of(CASES[number]), bounds=True, counters=False).text
    assert "wgmma.mma_async" in text and "mma.sync" not in text
    facts_of(assemble(target.assembly(text), "sm_90a", tmp_path))


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        ("matmul 136x280", ["1", "0"]),  # goes on into the next turn; once more after the loop
        ("rows times rows 4 int8", ["1", "0"]),
        ("quantized", ["1", "0"]),  # its weights are kept in two places
        ("turned products 4", ["0"]),  # the sum is multiplied by the number of the turn
        ("attention 64x160", ["0", "0"]),  # the second product waits for the first of the next turn
        ("single nnl", ["0"]),
    ],
)
def test_when_products_are_waited_for(name, waits):
    assert WAITS.findall(text_of(named(name), bounds=False)) == waits


def test_turns_without_a_doubt_have_a_loop_of_their_own():
    plain, checked = (text_of(named("matmul 136x280"), bounds=b) for b in (False, True))
    counts = [
        [text.count(what) for text in (plain, checked)] for what in ("commit_group", "16, $3")
    ]
    assert counts[0] == [1, 2]  # products
    assert counts[1][1] < 4 * counts[1][0]  # copies: twice before and in the second loop


def test_attention_keeps_weights_in_registers():
    text = text_of(named("attention 64x160"), bounds=False)
    lefts = re.findall(r"mma_async\S+ \{[^}]*\}, (\S)", text)
    assert lefts == ["$"] * 4 + ["{"] * 4


def test_small_products_and_few_registers_go_without():
    kernel = named("matmul 136x280")
    assert "wgmma" not in text_of(kernel, max_registers=128)
    assert "wgmma" in text_of(kernel, max_registers=168)
    assert "wgmma" not in lower(kernel, find("sm_80"), num_warps=8).text
    assert "wgmma" not in lower(kernel, find("sm_90a"), num_warps=2).text


def test_loops_ask_once_whether_copies_lie_inside():
    """What is looked at in each turn is apart from the loop."""
    text = text_of(named("matmul 72x88"))
    assert re.search(r"br i1 %\w+, label %join\d+, label %look\d+, !prof !0", text)


@pytest.mark.parametrize("missing", [1, 2, 7])
def test_the_turn_that_goes_outside_is_told(missing, simulated):
    """Whole rows of the right operand are missing at its end, in the last turns."""
    x, y = random((64, 160), np.float16), random((160 - 32 * missing // 2, 64), np.float16)
    out = np.zeros((64, 64), np.float32)
    with pytest.raises(OutOfBoundsError, match="load outside y"):
        product_loops.matmul[(1, 1)](x, y, out, 64, 64, 160, M=64, N=64, K=32, num_warps=4)
    product_loops.matmul.forget()
