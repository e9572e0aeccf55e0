"""Tuning: which configurations are tried, on what data, and what is kept of it."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright import Config
from tilewright.errors import CompileTimeAssertionFailure
from tilewright.runtime.autotune import Autotuner, OutOfResources
from tilewright.runtime.observers import LaunchObserver, observing
from tilewright.runtime.tuned import Heuristics

CPU = pytest.param("cpu", marks=pytest.mark.cpu)


@pytest.fixture(params=["eager", CPU])
def target(request):
    with tilewright.options(target=request.param):
        yield request.param


@pytest.fixture
def cpu():
    with tilewright.options(target="cpu"):
        yield


def grid(meta):
    return (tilewright.cdiv(meta["n"], meta["BLOCK"]),)


def increment(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


def configs(*blocks):
    return [Config({"BLOCK": b}) for b in blocks]


def quick(call, quantiles):
    """A measurement that runs once and takes no time."""
    call()
    return [1.0, 1.0, 1.0]


def tuned(fn=increment, blocks=(16, 32, 64), key=("n",), **options):
    return tilewright.autotune(configs(*blocks), key=list(key), **options)(tilewright.jit(fn))


def test_in_place(target):
    kernel = tuned(warmup=0, rep=0)
    x = np.zeros(100, np.float32)
    kernel[grid](x, 100)
    np.testing.assert_array_equal(x, 1)
    kernel[grid](x, 100)
    np.testing.assert_array_equal(x, 2)
    assert kernel.best_config in kernel.configs
    assert kernel.nargs is None


@pytest.mark.cpu
def test_atomics_and_views(cpu):
    @tilewright.autotune(configs(16, 64), key=[], warmup=0, rep=0)
    @tilewright.jit
    def count(pair, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.atomic_add(pair[0], tl.sum((i < n).to(tl.int32), 0))

    total = np.array([5, 7, 9], np.int32)
    count[grid]((total[1:], 3), 100)
    np.testing.assert_array_equal(total, [5, 107, 9])


@pytest.mark.cpu
def test_key(cpu):
    tried = []

    def bench(call, quantiles):
        tried.append(1)
        return quick(call, quantiles)

    kernel = tuned(do_bench=bench)
    x, y = np.zeros(100, np.float32), np.zeros(100, np.float64)
    for array, n in ((x, 100), (x, 100), (x, 50), (y, 100), (x, 50)):
        kernel[grid](array, n)
    assert len(tried) == 9
    assert list(kernel.cache) == [(100, "float32"), (50, "float32"), (100, "float64")]


@pytest.mark.cpu
def test_warps_mean_nothing(cpu):
    tried = []

    def bench(call, quantiles):
        tried.append(1)
        return quick(call, quantiles)

    many = [Config({"BLOCK": b}, num_warps=w, num_stages=s) for b in (16, 32) for w in (1, 2)
            for s in (1, 2)]  # fmt: skip
    kernel = tilewright.autotune(many, key=["n"], do_bench=bench)(tilewright.jit(increment))
    kernel[grid](np.zeros(64, np.float32), 64)
    assert len(tried) == len(kernel.configs_timings) == 2


@pytest.mark.cpu
def test_fastest_is_taken(cpu):
    times = iter([[3.0, 3, 3], [1.0, 1, 1], [2.0, 2, 2]])
    kernel = tuned(do_bench=lambda call, quantiles: next(times))
    kernel[grid](np.zeros(64, np.float32), 64)
    assert kernel.best_config.kwargs == {"BLOCK": 32}
    assert str(kernel.best_config) == (
        "BLOCK: 32, num_warps: 4, num_stages: 3, num_ctas: 1, maxnreg: None"
    )


@pytest.mark.cpu
def test_configurations_that_fail(cpu):
    def picky(x, n, BLOCK: tl.constexpr):
        tl.static_assert(BLOCK == 32, "only 32")
        tl.store(x, n)

    kernel = tuned(picky, do_bench=quick)
    kernel[grid](np.zeros(64, np.float32), 64)
    assert kernel.best_config.kwargs == {"BLOCK": 32}
    with pytest.raises(CompileTimeAssertionFailure, match="only 32"):
        tuned(picky, blocks=(16, 64))[grid](np.zeros(64, np.float32), 64)
    # Programs that choose among the trials themselves are told that it takes for ever.
    config = Config({"BLOCK": 64})
    assert kernel._bench(np.zeros(64, np.float32), 64, grid=grid, config=config) == [np.inf] * 3

    def too_big(call, quantiles):
        raise OutOfResources(200, 100, "shared memory")

    with pytest.raises(OutOfResources, match="shared memory, Required: 200, Hardware limit: 100"):
        tuned(do_bench=too_big)[grid](np.zeros(64, np.float32), 64)


@pytest.mark.cpu
def test_conflicting_names(cpu):
    with pytest.raises(ValueError, match="Conflicting meta-parameters: BLOCK"):
        tuned()[(1,)](np.zeros(64, np.float32), 64, BLOCK=16)


@pytest.mark.cpu
def test_pruning(cpu):
    asked = []

    def early(configs, nargs, **kwargs):
        asked.append((nargs["n"], sorted(kwargs)))
        return [c for c in configs if c.kwargs["BLOCK"] > 16]

    def cost(x, n, BLOCK, **options):
        return BLOCK

    kernel = tuned(
        blocks=(16, 32, 64, 128),
        do_bench=quick,
        prune_configs_by={"early_config_prune": early, "perf_model": cost, "top_k": 0.5},
    )
    kernel[grid](np.zeros(64, np.float32), 64)
    assert [c.kwargs["BLOCK"] for c in kernel.configs_timings] == [32, 64]
    assert asked == [(64, ["grid", "warmup"])]
    with pytest.raises(tilewright.TilewrightError, match="No valid autotuner configs"):
        tuned(prune_configs_by={"early_config_prune": lambda c, n, **k: []})[grid](
            np.zeros(64, np.float32), 64
        )


@pytest.mark.cpu
def test_hooks(cpu):
    events = []
    first = Config({"BLOCK": 16}, pre_hook=lambda args: events.append(args["BLOCK"]))
    second = Config({"BLOCK": 32}, pre_hook=lambda args: events.append(args["BLOCK"]))

    def before(args, reset_only=False):
        events.append("reset" if reset_only else "before")

    def after(args, exception=None):
        events.append(exception)

    kernel = tilewright.autotune(
        [first, second], key=[], pre_hook=before, post_hook=after, do_bench=quick
    )(tilewright.jit(increment))
    kernel[grid](np.zeros(64, np.float32), 64)
    once = [16, 16, "before", None, 32, 32, "before", None]
    assert events == [*once, "reset", 16]


@pytest.mark.cpu
def test_reset_to_zero(cpu):
    kernel = tuned(reset_to_zero=["x"], warmup=0, rep=0)
    x = np.full(64, 5, np.float32)
    kernel[grid](x, 64)
    np.testing.assert_array_equal(x, 1)


@pytest.mark.cpu
def test_subclasses_with_hooks_of_their_own(cpu):
    class Restoring(Autotuner):
        """Restores by copying before each run and writing back after it."""

        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            assert not self.user_defined_pre_hook
            self.pre_hook = self.copy
            self.post_hook = self.put_back

        def copy(self, arguments, reset_only=False):
            if not reset_only:
                self.kept = arguments["x"].copy()

        def put_back(self, arguments, exception):
            arguments["x"][:] = self.kept

    fn = tilewright.jit(increment)
    kernel = Restoring(fn, fn.arg_names, configs(16, 32), ["n"], None, None, warmup=1, rep=1)
    x = np.zeros(100, np.float32)
    kernel[grid](x, 100)
    np.testing.assert_array_equal(x, 1)


@pytest.mark.cpu
def test_kept_on_disk(cpu):
    def fn(x, n, BLOCK: tl.constexpr):
        tl.store(x + tl.program_id(0), BLOCK)

    times = iter([[3.0, 3, 3], [1.0, 1, 1]])
    first = tuned(fn, (16, 32), cache_results=True, do_bench=lambda call, quantiles: next(times))
    first[grid](np.zeros(64, np.float32), 64)

    def never(call, quantiles):
        raise AssertionError

    second = tuned(fn, (16, 32), cache_results=True, do_bench=never)
    second[grid](np.zeros(64, np.float32), 64)
    assert first.best_config == second.best_config == Config({"BLOCK": 32})


@pytest.mark.cpu
def test_trials_are_not_observed(cpu):
    seen = []

    class Observer(LaunchObserver):
        def launch(self, launch):
            seen.append(launch.arguments["BLOCK"])
            return launch.run()

    kernel = tuned(warmup=0, rep=0)
    with observing(Observer()):
        kernel[grid](np.zeros(64, np.float32), 64)
    assert seen == [kernel.best_config.kwargs["BLOCK"]]


@pytest.mark.cpu
def test_printing(cpu, monkeypatch, capsys):
    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "1")
    kernel = tuned(do_bench=quick)
    kernel[grid](np.zeros(64, np.float32), 64)
    kernel[grid](np.zeros(64, np.float32), 64)
    text = capsys.readouterr().out
    assert text.count("Triton autotuning for function increment") == 1
    assert "best config selected: BLOCK: 16" in text


def test_unused_key_names():
    with pytest.warns(UserWarning, match=r"key names \['m'\], which are no parameters"):
        tuned(key=["m"])


def test_heuristics(target):
    values = {"EVEN": lambda args: args["n"] % args["BLOCK"] == 0, "TWICE": lambda a: a["EVEN"] * 2}

    def fn(x, n, EVEN: tl.constexpr, TWICE: tl.constexpr, BLOCK: tl.constexpr):
        tl.store(x + tl.program_id(0), 10 * EVEN + TWICE)

    outside = tilewright.heuristics(values)(tuned_late(fn))
    inside = tilewright.autotune(configs(16, 32), key=["n"], do_bench=quick)(
        tilewright.heuristics(values)(tilewright.jit(fn))
    )
    plain = tilewright.heuristics(values)(tilewright.jit(fn))
    x = np.zeros(4, np.int32)
    plain[(1,)](x, 64, BLOCK=16)
    assert x[0] == 12
    inside[grid](x, 64)
    np.testing.assert_array_equal(x[:2], 12)
    outside[(3,)](x[1:], 60, BLOCK=16)
    np.testing.assert_array_equal(x, [12, 0, 0, 0])
    assert isinstance(outside, Heuristics)
    assert isinstance(inside, Autotuner)
    assert inside.base_fn is outside.base_fn is fn
    assert inside.kernel.fn is fn
    assert inside.__name__ == "fn"


def tuned_late(fn):
    return tilewright.autotune([Config({})], key=[])(tilewright.jit(fn))


@pytest.mark.cpu
def test_warmup(cpu):
    kernel = tuned()
    handles = kernel.warmup(np.dtype(np.float32), 64, grid=(1,))
    assert [h.compilation.constants["BLOCK"] for h in handles] == [16, 32, 64]


def test_config_equality():
    assert Config({"A": 1}) == Config({"A": 1})
    assert hash(Config({"A": 1})) == hash(Config({"A": 1}))
    assert Config({"A": 1}) != Config({"A": 1}, num_warps=8)
    assert Config({"A": 1}).all_kwargs() == {
        "A": 1, "num_warps": 4, "num_stages": 3, "num_ctas": 1,
    }  # fmt: skip


@tilewright.autotune(configs=configs(8, 16, 32), key=["n"])
@tilewright.jit
def wide_blocks_only(x, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK > 8)
    tl.store(x, BLOCK)


def test_configurations_that_no_compiler_takes_are_skipped(target):
    x = np.zeros(1, np.int32)
    wide_blocks_only.cache.clear()
    wide_blocks_only[(1,)](x, 1)
    assert x[0] in ((16,) if target == "eager" else (16, 32))
    assert len(wide_blocks_only.cache) == 1
