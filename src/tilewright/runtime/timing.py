"""Measure how long a call takes: the first call apart, then repeats with their spread."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from time import perf_counter_ns
from typing import Any

import numpy as np

SHORT_NS = 20_000  # calls shorter than this are timed in batches: reading the clock takes 0.1 us
MAX_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds a call took: the first one, and each of the repeats in the order they ran.

    Where calls were batched, a sample is the mean of one batch of `batch` calls.
    """

    first: float
    samples: tuple[float, ...]
    batch: int = 1

    @property
    def count(self) -> int:
        return len(self.samples)

    @property
    def min(self) -> float:
        return min(self.samples)

    @property
    def max(self) -> float:
        return max(self.samples)

    @property
    def mean(self) -> float:
        return sum(self.samples) / len(self.samples)

    @property
    def median(self) -> float:
        return self.quantile(0.5)

    def quantile(self, q: float) -> float:
        """The value below which a share `q` of the samples lies, interpolated linearly."""
        return float(np.quantile(self.samples, q))


def measure(
    fn: Callable[[], Any],
    *,
    warmup_s: float = 0.025,
    repeat_s: float = 0.1,
    min_repeats: int = 5,
    max_repeats: int = 10_000,
    flush: int | None = None,
    before: Callable[[], Any] | None = None,
    clock: Callable[[Callable[[], Any]], int] | None = None,
) -> Timing:
    """Time calls of `fn` for about `warmup_s + repeat_s` seconds beside the first call.

    `before` runs untimed before each call, the first included. `flush` is a number of bytes
    of other memory to write, untimed, before each repeat, so that caches start cold. `clock` is
    what gives the nanoseconds of a call for work that is not done on this computer.
    """
    prepare = _preparation(before, flush)
    first = _time_batch(fn, before, 1, clock)
    single = _warm_up(fn, before, warmup_s, clock)
    batch = 1
    if prepare is None and single < SHORT_NS and clock is None:
        batch = min(MAX_BATCH, ceil(SHORT_NS / max(single, 1)))
    end = perf_counter_ns() + int(repeat_s * 1e9)
    samples = []
    while len(samples) < max_repeats:
        samples.append(_time_batch(fn, prepare, batch, clock) / batch / 1e9)
        if len(samples) >= min_repeats and perf_counter_ns() >= end:
            break
    return Timing(first / 1e9, tuple(samples), batch)


def measure_calls(
    fn: Callable[[], Any], warmups: int, repeats: int, before: Callable[[], Any] | None = None
) -> Timing:
    """Time so many calls of `fn`, each by itself, after a first one and so many more."""
    first, *times = [_time_batch(fn, before, 1, None) for _ in range(1 + warmups + repeats)]
    return Timing(first / 1e9, tuple(t / 1e9 for t in times[warmups:]))


def _time_batch(
    fn: Callable[[], Any], prepare: Callable[[], Any] | None, count: int, clock: Callable | None
) -> int:
    """Nanoseconds of `count` calls after one untimed preparation."""
    if prepare is not None:
        prepare()
    if clock is not None:
        return clock(fn)
    calls = itertools.repeat(None, count)
    start = perf_counter_ns()
    for _ in calls:
        fn()
    return perf_counter_ns() - start


def _warm_up(
    fn: Callable[[], Any], before: Callable[[], Any] | None, seconds: float, clock: Callable | None
) -> int:
    """Call at least once and until the time is over; the shortest call in nanoseconds."""
    end = perf_counter_ns() + int(seconds * 1e9)
    shortest = _time_batch(fn, before, 1, clock)
    while perf_counter_ns() < end:
        shortest = min(shortest, _time_batch(fn, before, 1, clock))
    return shortest


def _preparation(before: Callable[[], Any] | None, flush: int | None) -> Callable[[], Any] | None:
    """What to do, untimed, before each repeat; None for nothing."""
    if not flush:
        return before
    memory = np.zeros(flush, np.uint8)

    def prepare() -> None:
        if before is not None:
            before()
        np.add(memory, 1, out=memory)

    return prepare
