"""Time callables side by side: interleaved, each sample the best of a few short runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter_ns, process_time_ns, sleep
from typing import Any

SAMPLE_NS = 2_000_000  # shorter runs repeat the call: the clock of CPU time is not free to read
BEST_OF = 3  # the best of a few runs is what an interruption did not touch
ROUNDS = 9
ROW_NS = 8_000_000_000  # rows of long calls have fewer rounds
FEWEST_ROUNDS = 3
REST_S = 0.2  # OpenBLAS threads spin for 0.1 s after their work


@dataclass(frozen=True)
class Times:
    """Seconds of one call: the first one ever, then one figure for each round."""

    first: float
    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def spread(self) -> float:
        """Half the range of the samples, in parts of the median."""
        return (max(self.samples) - min(self.samples)) / 2 / self.median


def clock_for(threads: int) -> tuple[str, Callable[[], int]]:
    """CPU time for one thread: other programs do not count in it. The wall clock for several."""
    return ("cpu", process_time_ns) if threads == 1 else ("wall", perf_counter_ns)


def first_call(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds on the wall of one call, and its result."""
    start = perf_counter_ns()
    result = call()
    return (perf_counter_ns() - start) / 1e9, result


def interleaved(
    calls: Mapping[str, Callable[[], Any]],
    firsts: Mapping[str, float],
    clock: Callable[[], int],
    rest: float = 0,
) -> dict[str, Times]:
    """Times of all callables; every round runs each of them, so that all meet the same machine.

    A rest of some seconds before each turn lets the threads of the one before fall asleep.
    """
    counts, cost = {}, 0
    for name, call in calls.items():
        call()
        single = max(batch_ns(call, 1, clock), 100)
        counts[name] = max(1, SAMPLE_NS // single)
        cost += BEST_OF * counts[name] * single
    rounds = int(min(ROUNDS, max(FEWEST_ROUNDS, ROW_NS // cost)))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            count = counts[name]
            if rest:
                sleep(rest)
                call()
            best = min(batch_ns(call, count, clock) for _ in range(BEST_OF))
            samples[name].append(best / count / 1e9)
    return {name: Times(firsts[name], tuple(values)) for name, values in samples.items()}


def batch_ns(call: Callable[[], Any], count: int, clock: Callable[[], int]) -> int:
    start = clock()
    for _ in range(count):
        call()
    return clock() - start
