"""`tilewright.testing` and the clock under it: what is called, what is returned, what is said."""

from __future__ import annotations

import csv
import inspect
import sys
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright import testing
from tilewright.errors import TilewrightError
from tilewright.runtime import bench_report, timing
from tilewright.runtime.timing import Timing, measure


class Clock:
    """A clock that stands still unless told to move."""

    def __init__(self):
        self.now = 0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(timing, "perf_counter_ns", clock)
    return clock


def calls_of(clock, *durations):
    """A function whose calls take these nanoseconds, the last one for ever."""
    left = list(durations)
    made = []

    def call():
        made.append(clock.now)
        clock.now += left.pop(0) if len(left) > 1 else left[0]

    return call, made


# measure


def test_the_first_call_is_apart(clock):
    fn, made = calls_of(clock, 5_000_000_000, 1_000_000)
    found = measure(fn, warmup_s=0.004, repeat_s=0.010)
    assert found.first == 5.0
    assert found.samples == (0.001,) * 10
    assert found.batch == 1
    assert len(made) == 1 + 4 + 10


def test_repeats_have_bounds(clock):
    fn, _ = calls_of(clock, 1_000_000_000)
    assert measure(fn, warmup_s=0, repeat_s=0, min_repeats=4).count == 4
    assert measure(fn, warmup_s=0, repeat_s=1e9, max_repeats=7).count == 7


def test_short_calls_are_batched(clock):
    fn, made = calls_of(clock, 1000)
    found = measure(fn, warmup_s=0, repeat_s=0.001)
    assert found.batch == 20
    assert found.samples == pytest.approx([1e-6] * 50)
    assert len(made) == 2 + 50 * 20


def test_what_runs_before_is_not_timed(clock):
    fn, made = calls_of(clock, 1000)
    prepared = []

    def before():
        prepared.append(clock.now)
        clock.now += 1_000_000

    found = measure(fn, warmup_s=0, repeat_s=0.010, before=before)
    assert found.batch == 1
    assert found.samples == (1e-6,) * found.count
    assert len(prepared) == len(made)
    assert all(b + 1_000_000 == m for b, m in zip(prepared, made))


def test_flushing_writes_other_memory(clock, monkeypatch):
    flushed = []
    add = np.add
    monkeypatch.setattr(np, "add", lambda *a, **k: (flushed.append(a[0].nbytes), add(*a, **k)))
    fn, _ = calls_of(clock, 1_000_000)
    found = measure(fn, warmup_s=0, repeat_s=0.003, min_repeats=3, flush=4096)
    assert flushed == [4096] * found.count


def test_statistics():
    found = Timing(9.0, (4.0, 1.0, 3.0, 2.0))
    assert (found.min, found.max, found.mean, found.median) == (1.0, 4.0, 2.5, 2.5)
    assert (found.count, found.quantile(0.25), found.quantile(1.0)) == (4, 1.75, 4.0)


# do_bench


def timed(monkeypatch, *samples):
    """`measure` replaced by one that gives these seconds; what it was asked."""
    asked = []

    def fake(fn, **options):
        asked.append(options)
        if options["before"] is not None:
            options["before"]()
        fn()
        return Timing(0.0, samples)

    monkeypatch.setattr(testing, "measure", fake)
    return asked


def test_do_bench_returns_milliseconds(monkeypatch):
    asked = timed(monkeypatch, 0.004, 0.001, 0.001, 0.002)
    results = {
        mode: testing.do_bench(lambda: None, return_mode=mode)
        for mode in ("mean", "median", "min", "max", "all")
    }
    assert results == {
        "mean": 2.0, "median": 1.5, "min": 1.0, "max": 4.0, "all": [4.0, 1.0, 1.0, 2.0],
    }  # fmt: skip
    assert testing.do_bench(lambda: None) == 2.0
    assert (asked[0]["warmup_s"], asked[0]["repeat_s"]) == (0.025, 0.1)
    testing.do_bench(lambda: None, 5, 7)
    assert (asked[-1]["warmup_s"], asked[-1]["repeat_s"]) == (0.005, 0.007)


def test_do_bench_quantiles(monkeypatch):
    timed(monkeypatch, 0.001, 0.002, 0.003)
    assert testing.do_bench(lambda: None, quantiles=[0.5, 0.0, 1.0]) == [2.0, 1.0, 3.0]
    assert testing.do_bench(lambda: None, quantiles=[0.5]) == 2.0
    assert testing.do_bench_cudagraph(lambda: None, quantiles=(0.5, 1.0)) == [2.0, 3.0]
    assert testing.do_bench_cudagraph(lambda: None, return_mode="max") == 3.0


def test_do_bench_drops_gradients(monkeypatch):
    timed(monkeypatch, 0.001)
    tensor = SimpleNamespace(grad=1)
    seen = []
    testing.do_bench(lambda: seen.append(tensor.grad), grad_to_none=[tensor])
    assert seen == [None]


def test_do_bench_waits_for_a_gpu_in_use(monkeypatch):
    timed(monkeypatch, 0.001)
    waits = []
    cuda = SimpleNamespace(is_initialized=lambda: True, synchronize=lambda: waits.append(1))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    testing.do_bench(lambda: None)
    assert waits == [1]
    cuda.is_initialized = lambda: False
    testing.do_bench(lambda: None)
    assert waits == [1]


def test_do_bench_for_real():
    times = testing.do_bench(lambda: sum(range(1000)), warmup=1, rep=5, return_mode="all")
    assert len(times) >= testing.MIN_REPEATS
    assert all(0 < ms < 1000 for ms in times)
    with pytest.raises(ValueError, match="return_mode is one of min, max, mean, median, all"):
        testing.do_bench(lambda: None, return_mode="mode")


def test_signatures_are_those_of_triton():
    def names(fn):
        return {p.name: p.default for p in inspect.signature(fn).parameters.values()}

    missing = inspect.Parameter.empty
    rest = {"grad_to_none": None, "quantiles": None, "return_mode": "mean"}
    newer = {"n_warmup": None, "n_repeat": None}
    assert names(testing.do_bench) == {"fn": missing, "warmup": 25, "rep": 100, **rest, **newer}
    assert names(testing.do_bench_cudagraph) == {"fn": missing, "rep": 20, **rest}
    assert names(testing.assert_close) == {
        "x": missing, "y": missing, "atol": None, "rtol": None, "err_msg": "",
    }  # fmt: skip


# Comparing


def message_of(*args, **options):
    with pytest.raises(AssertionError) as caught:
        testing.assert_close(*args, **options)
    return str(caught.value)


def test_assert_close_names_the_worst():
    x = np.zeros((3, 4), np.float32)
    y = x.copy()
    y[1, 2], y[2, 0] = 0.5, -2.0
    assert message_of(x, y, err_msg="after the kernel") == (
        "after the kernel\n"
        "2 of 12 elements differ (shape (3, 4), atol=0.01, rtol=0.0)\n"
        "  worst at (2, 0): 0.0 is not close to -2.0, they are 2 apart, 0.01 is allowed"
    )


def test_tolerances():
    testing.assert_close(1.0, 1.0099)
    message_of(1.0, 1.0101)
    testing.assert_close([100.0], [101.0], atol=0, rtol=0.01)
    message_of([101.0], [100.0], atol=0, rtol=0.0099)
    asked = []
    message_of(np.zeros(2, np.float16), np.ones(2), atol=lambda dtype: asked.append(dtype) or 0.5)
    assert asked == [np.float16]
    testing.assert_close([0.0], [1.0], atol=1.0, rtol=lambda dtype: 0.0)


def test_values_that_are_no_numbers():
    inf, nan = np.inf, np.nan
    testing.assert_close([nan, inf, -inf], [nan, inf, -inf])
    testing.assert_close(nan, nan)
    for x, y in ((nan, 1.0), (1.0, nan), (inf, 1.0), (1.0, inf), (inf, -inf), (nan, inf)):
        assert "1 of 2 elements differ" in message_of([x, 0.0], [y, 0.0], rtol=0.5)
        assert "worst at (0,)" in message_of([x, 0.0], [y, 9.0], rtol=0.5)


def test_integers_are_compared_exactly():
    message_of(2**60, 2**60 + 1, atol=0)
    testing.assert_close(2**60, 2**60 + 1, atol=1)
    message_of(np.array([5], np.uint8), np.array([7], np.uint8), atol=1)
    extremes = np.array([-(2**63), 2**63 - 1])
    assert "1.84467e+19 apart" in message_of(extremes, extremes[::-1])
    testing.assert_close(np.array([True, False]), np.array([1, 0]))
    message_of(np.array([True, False]), np.array([True, True]))


@given(st.lists(st.floats(width=32), min_size=1), st.floats(0, 1e3), st.floats(0, 1))
def test_assert_close_agrees_with_numpy(values, atol, rtol):
    x = np.array(values, np.float32)
    y = np.roll(x, 1)
    if np.allclose(x.astype(float), y.astype(float), rtol, atol, equal_nan=True):
        testing.assert_close(x, y, atol, rtol)
    else:
        message_of(x, y, atol, rtol)


def test_shapes():
    assert message_of(np.zeros((2, 3)), np.zeros((3, 2))) == "shapes differ: (2, 3) and (3, 2)"
    testing.assert_close(np.ones((2, 3)), 1.0)
    assert "1 of 2 elements" in message_of([1.0, 2.0], 1.0)
    testing.assert_close(np.empty(0), np.empty(0))
    assert message_of(np.empty(0), np.empty(2)) == "shapes differ: (0,) and (2,)"


def test_small_floats_and_complex():
    x = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    testing.assert_close(x, [1.0, 2.0])
    message_of(x.astype(ml_dtypes.float8_e5m2), [1.0, 2.5])
    testing.assert_close(np.array([1 + 1j]), np.array([1 + 1.001j]))
    message_of(np.array([1 + 1j]), np.array([1 - 1j]))


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    x = torch.ones(3, 2, requires_grad=True)
    for dtype in (torch.bfloat16, torch.float16, torch.float8_e5m2, torch.int64, torch.float64):
        testing.assert_close(x, torch.ones(3, 2).to(dtype))
        testing.assert_close(x.to(dtype).t(), np.ones((2, 3)))
        assert "worst at (1, 0)" in message_of(x, torch.tensor([[1, 1], [3, 1], [1, 1]]).to(dtype))
    assert testing.allclose(x, x + 0.005)


def test_assert_almost_equal():
    testing.assert_almost_equal([1.0, 2.0], [1.014, 2.0])
    with pytest.raises(AssertionError, match="note\n1 of 2 elements differ"):
        testing.assert_almost_equal([1.0, 2.0], [1.014, 2.0], decimal=3, err_msg="note")


def test_allclose():
    x = np.array([100.0, 0.0])
    assert testing.allclose(x, x + [0.0, 0.9])
    assert not testing.allclose(x, x + [0.0, 1.1])
    assert testing.allclose(x, x + [0.0, 1.1], tol=0.02)
    assert testing.allclose(np.zeros(2), np.zeros(2))
    assert not testing.allclose(x, np.array([100.0, np.nan]))
    assert not testing.allclose(x, np.zeros(3))
    with pytest.raises(TypeError, match="arrays of one dtype, got float64, float32"):
        testing.allclose(x, x.astype(np.float32))


# Reports


def bench(**changes):
    options = {
        "x_names": ["N"], "x_vals": [2, 4], "line_arg": "provider", "line_vals": ["a", "b"],
        "line_names": ["Ours", "Theirs"], "plot_name": "speed", "args": {"M": 10},
    }  # fmt: skip
    return testing.Benchmark(**{**options, **changes})


@pytest.fixture
def without(monkeypatch):
    """Make a module look as if it were not installed."""
    return lambda *names: [monkeypatch.setitem(sys.modules, name, None) for name in names]


def test_run_calls_every_point(capsys):
    calls = []

    @testing.perf_report(bench())
    def run(M, N, provider, extra):
        calls.append((M, N, provider, extra))
        return float(N) if provider == "a" else (N * 2.0, 1.0, 9.0)

    assert run.run(extra=5) is None
    assert calls == [(10, 2, "a", 5), (10, 2, "b", 5), (10, 4, "a", 5), (10, 4, "b", 5)]
    assert capsys.readouterr().out == ""
    run.run(print_data=True, diff_col=True, extra=5)
    assert capsys.readouterr().out == (
        "speed:\n"
        "   N      Ours    Theirs      Diff\n"
        "0  2  2.000000  4.000000  2.000000\n"
        "1  4  4.000000  8.000000  4.000000\n"
    )


def test_x_values_for_several_names(capsys):
    def run(M, N, provider):
        return M * 100.0 + N if provider == "a" else None

    shapes = bench(x_names=["M", "N"], x_vals=[(1, 2), 3], args={})
    testing.Mark(run, [shapes]).run(print_data=True)
    assert capsys.readouterr().out.splitlines()[2:] == [
        "0  1  2  102.000000     nan",
        "1  3  3  303.000000     nan",
    ]
    with pytest.raises(ValueError, match=r"speed: x_names has 2 names, got \(1, 2, 3\)"):
        testing.Mark(run, bench(x_names=["M", "N"], x_vals=[(1, 2, 3)], args={})).run()


def test_saving_without_matplotlib(tmp_path, without):
    without("matplotlib", "matplotlib.pyplot")
    mark = testing.Mark(lambda M, N, provider: N / 3, [bench(), bench(plot_name="a<b")])
    with pytest.warns(UserWarning, match="plots need matplotlib: pip install matplotlib"):
        mark.run(save_path=str(tmp_path / "new"), save_precision=3)
    with open(tmp_path / "new" / "speed.csv", newline="") as stream:
        assert list(csv.reader(stream)) == [
            ["N", "Ours", "Theirs"], ["2", "0.667", "0.667"], ["4", "1.333", "1.333"],
        ]  # fmt: skip
    page = (tmp_path / "new" / "results.html").read_text()
    assert "<h2>speed</h2>" in page
    assert "a&lt;b" in page
    assert "<img" not in page


def test_saving_with_matplotlib(tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    matplotlib.use("Agg")
    styled = bench(styles=[("red", "-"), ("blue", "--")], x_log=True, y_log=True, ylabel="GB/s")
    run = testing.Mark(lambda M, N, provider: (N, N - 1, N + 1), [styled, bench(plot_name="two")])
    run.run(save_path=tmp_path)
    assert (tmp_path / "speed.png").read_bytes().startswith(b"\x89PNG")
    assert '<img src="two.png"' in (tmp_path / "results.html").read_text()


def test_what_was_done_is_saved_when_a_later_one_fails(tmp_path, without):
    without("matplotlib", "matplotlib.pyplot")
    good, bad = bench(), bench(plot_name="bad", args={"M": 0})
    mark = testing.Mark(lambda M, N, provider: N / M, [good, bad])
    with pytest.warns(UserWarning), pytest.raises(ZeroDivisionError):
        mark.run(save_path=tmp_path)
    assert "<h2>speed</h2>" in (tmp_path / "results.html").read_text()


def test_data_frames(without):
    mark = testing.Mark(lambda M, N, provider: N * 1.0, bench())
    frames = SimpleNamespace(DataFrame=lambda rows, columns: (columns, rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pandas", frames)
        expected = (["N", "Ours", "Theirs"], [[2, 2.0, 2.0], [4, 4.0, 4.0]])
        assert mark.run(return_df=True) == expected
        assert testing.Mark(mark.fn, [bench()]).run(return_df=True) == [expected]
    without("pandas")
    with pytest.raises(TilewrightError) as caught:
        mark.run(return_df=True)
    assert str(caught.value) == (
        "return_df=True needs pandas, which is not installed: pip install pandas"
    )


def test_a_table_of_nothing():
    assert bench_report.format_table(bench_report.Results(["N", "Ours"])) == "  N  Ours"


def test_figures_of_a_gpu_are_refused():
    for call in (
        lambda: testing.nvsmi(["clocks.sm"]),
        lambda: testing.set_gpu_clock(),
        lambda: testing.get_dram_gbps(),
        lambda: testing.get_max_tensorcore_tflops(None, 1.0),
        lambda: testing.get_max_simd_tflops(None, 1.0),
    ):
        with pytest.raises(TilewrightError, match=r"is not available: it .* of a GPU, and "):
            call()


def test_numbers_of_calls():
    calls = []
    found = testing.do_bench(lambda: calls.append(1), n_warmup=3, n_repeat=7, return_mode="all")
    assert (len(calls), len(found)) == (1 + 3 + 7, 7)
