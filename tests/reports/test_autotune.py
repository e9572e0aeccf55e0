"""Tuned kernels do the same in eager mode, where nothing is measured."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright import Config, autotune
from tilewright.errors import TilewrightError
from tilewright.runtime.autotune import tune_observers


def only_small(configs, arguments, **_):
    return [c for c in configs if c.kwargs["B"] <= arguments["n"]]


def none(configs, arguments, **_):
    return []


def tuned(**options):
    @autotune([Config({"B": b}) for b in (256, 16, 32)], key=["n"], **options)
    @tilewright.jit
    def add_up(x, out, used, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.atomic_add(out, tl.sum(tl.load(x + i, i < n, 0.0)))
        tl.store(used, B)

    return add_up


def launch(kernel, n=100, **more):
    x, out, used = np.ones(n, np.float32), np.full(1, 7, np.float32), np.zeros(1, np.int32)
    kernel[lambda meta: (-(-n // meta["B"]),)](x, out, used, n, **more)
    return out[0], used[0]


def test_pruning(host_target):
    total, block = launch(tuned(prune_configs_by={"early_config_prune": only_small}))
    assert (total, block in (16, 32)) == (107, True)
    with pytest.raises(TilewrightError, match="No valid autotuner configs after pruning"):
        launch(tuned(prune_configs_by={"early_config_prune": none}))


def test_reset_to_zero_comes_before_the_first_launch_of_a_key(host_target):
    kernel = tuned(reset_to_zero=["out"])
    assert [launch(kernel)[0], launch(kernel)[0], launch(kernel, 90)[0]] == [100, 107, 90]


def test_a_tuned_symbol_cannot_be_passed(host_target):
    with pytest.raises(ValueError, match="Conflicting meta-parameters: B"):
        launch(tuned(), B=16)


def test_one_that_is_left_is_not_timed(host_target):
    def refuse(call, quantiles):
        raise AssertionError("timed")

    prune = {"early_config_prune": lambda configs, arguments, **_: configs[1:2]}
    kernel = tuned(prune_configs_by=prune, do_bench=refuse)
    told = []
    tune_observers.append(lambda *of: told.append(of))
    try:
        assert launch(kernel) == (107, 16) and not told
    finally:
        tune_observers.pop()
    assert kernel.best_config.kwargs == {"B": 16}


def test_a_kernel_of_which_only_run_is_known(host_target):
    launched = []

    class Kernel:
        fn = staticmethod(lambda: None)

        def run(self, **given):
            launched.append(given["B"])

    def time(call, quantiles):
        call()
        return [launched[-1]] * 3

    tuner = tilewright.Autotuner(
        Kernel(), arg_names=[], configs=[Config({"B": b}) for b in (3, 2, 5)], key=[], do_bench=time
    )
    tuner.run()
    assert launched == ([3, 2, 5, 2] if host_target == "cpu" else [3])
