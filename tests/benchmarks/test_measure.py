"""The clockwork of the benchmarks, on a clock that the test moves."""

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def modules(monkeypatch):
    """`measure` and `compare`, which find each other beside the scripts."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import compare
    import measure

    yield measure, compare
    for name in ("measure", "compare", "case"):
        sys.modules.pop(name, None)


class Clock:
    """Nanoseconds that pass only when a call takes them."""

    def __init__(self):
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def call(self, log: list, name: str, nanoseconds: int):
        def run():
            log.append(name)
            self.now += nanoseconds

        return run


def test_calls_take_turns_and_keep_their_times(modules):
    measure, _ = modules
    clock, log = Clock(), []
    calls = {"a": clock.call(log, "a", 3_000_000), "b": clock.call(log, "b", 1_500_000)}
    times = measure.interleaved(calls, {"a": 0.5, "b": 0.25}, clock)
    assert times["a"].median == pytest.approx(3e-3)
    assert times["b"].median == pytest.approx(1.5e-3)
    assert times["a"].spread == 0
    assert times["a"].first == 0.5
    assert log[:4] == ["a", "a", "b", "b"]  # once to warm up, once to see how long it takes
    assert log[4:10] == ["a"] * 3 + ["b"] * 3  # a round: the best of three each


def test_short_calls_are_timed_in_batches(modules):
    measure, _ = modules
    clock, log = Clock(), []
    times = measure.interleaved({"a": clock.call(log, "a", 1000)}, {"a": 0}, clock)
    assert times["a"].median == pytest.approx(1e-6)
    assert len(log) > 9 * 3 * 1000


def test_rows_are_compared_with_the_spread_of_both(modules):
    _, compare = modules
    before = {"peers": {"tilewright": {"median": 2.0, "spread": 0.03}}}
    after = {"peers": {"tilewright": {"median": 1.0, "spread": 0.04}}}
    assert compare.compared(before, after) == (2.0, pytest.approx(0.05))
