"""Passes do not change what a kernel does: random kernels run before and after."""

from __future__ import annotations

import kernels as fuzz
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tilewright.eager.machine import Scalar
from tilewright.eager.run import run_ir
from tilewright.ir import types as t
from tilewright.ir.rewrite import drop_dead, rebuild
from tilewright.ir.text import parse_kernel, print_kernel
from tilewright.ir.verify import verify
from tilewright.ops import math
from tilewright.passes import pipeline
from tilewright.passes.carried import drop_carried
from tilewright.passes.carry import carry_scalars
from tilewright.passes.fold import fold
from tilewright.passes.licm import licm
from tilewright.passes.masks import drop_true_masks

LISTS = {
    "standard": pipeline.STANDARD,
    "fold": [fold],
    "licm": [licm],
    "carry_scalars": [carry_scalars],
    "drop_carried": [drop_carried],
    "drop_true_masks": [drop_true_masks],
    "drop_dead": [drop_dead],
    "text": [lambda kernel: parse_kernel(print_kernel(kernel))],
}
slow = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def run(kernel, arguments):
    values = [
        x if not isinstance(x, int) else Scalar(t.int32, x) for x in fuzz.buffers(kernel, arguments)
    ]
    run_ir(kernel, fuzz.GRID, values)
    return arguments


def check_meaning(case, passes):
    verify(case.kernel)
    before = run(rebuild(case.kernel), case.fresh())
    changed = pipeline.run(rebuild(case.kernel), passes, verify=True)
    after = run(changed, case.fresh())
    for param, x, y in zip(case.kernel.params, before, after, strict=True):
        np.testing.assert_array_equal(x, y, err_msg=param.name)


@pytest.mark.parametrize("name", LISTS)
@slow
@given(case=fuzz.kernels())
def test_same_results(name, case):
    check_meaning(case, LISTS[name])


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
def test_a_wrong_pass_is_noticed():
    """The check itself can fail: the smaller instead of the larger shows in the results."""

    def wrong(kernel):
        def rule(b, inst, operands):
            return b.emit(math.min, *operands) if inst.op is math.max else None

        return rebuild(kernel, rule)

    @settings(slow, phases=[Phase.generate], report_multiple_bugs=False)
    @given(case=fuzz.kernels())
    def check(case):
        check_meaning(case, [wrong])

    with pytest.raises(AssertionError):
        check()
