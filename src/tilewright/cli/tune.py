"""`tilewright tune`: what autotuning tried in a script, and what it chose."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any

import click

from tilewright.cli.run import check_file
from tilewright.cli.script import run_to_end
from tilewright.instruments.wording import duration, plural
from tilewright.runtime.autotune import Autotuner, Config, tune_observers

MILLI = 1e-3


@dataclass(frozen=True, slots=True)
class Tuning:
    """One key of one kernel: the times of its configurations in ms (median, quantiles)."""

    kernel: str
    key: tuple
    chosen: Config
    is_known: bool
    seconds: float
    timings: dict[Config, Any]
    failures: dict[Config, Exception]


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("target", metavar="FILE")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def tune(target: str, args: tuple[str, ...]) -> None:
    """Run a script and list what `@triton.autotune` tried.

    For each kernel and key: the configurations, the fastest first, with the median time of a
    launch, the quantiles 0.2 and 0.8, and how much slower than the fastest; those that could not
    be compiled with the reason.
    """
    check_file(target)
    found: list[Tuning] = []

    def note(tuner: Autotuner, key: tuple, chosen: Config, is_known: bool) -> None:
        timings = {} if is_known else dict(tuner.configs_timings or {})
        failures = {} if is_known else dict(tuner.failures)
        seconds = 0.0 if is_known else tuner.bench_time
        name = tuner.__name__
        found.append(Tuning(name, key, chosen, is_known, seconds, timings, failures))

    tune_observers.append(note)
    try:
        status = run_to_end(target, args)
    finally:
        tune_observers.remove(note)
    sys.stdout.flush()
    if not found:
        click.echo("no kernel with @triton.autotune and more than one configuration was launched")
    for tuning in found:
        click.echo("\n".join(lines(tuning)))
    sys.exit(status)


def lines(tuning: Tuning) -> Iterator[str]:
    """The report of one key."""
    about = ", ".join(map(str, tuning.key))
    if tuning.is_known:
        yield f"{tuning.kernel} ({about}): {tuning.chosen}, known from another process"
        return
    count = plural(len(tuning.timings), "configuration")
    yield f"{tuning.kernel} ({about}): {count} in {duration(tuning.seconds)}"
    times = {config: quantiles(timing) for config, timing in tuning.timings.items()}
    best = times[tuning.chosen][0]
    width = max(len(str(config)) for config in times)
    for config, (median, *spread) in sorted(times.items(), key=lambda item: item[1][0]):
        mark = ">" if config == tuning.chosen else " "
        if not isfinite(median):
            reason = str(tuning.failures.get(config, "no time")).splitlines()[0]
            yield f"{mark} {str(config):{width}}  failed: {reason}"
            continue
        between = f"  {' to '.join(duration(q * MILLI) for q in spread)}" if spread else ""
        ratio = f"{median / best:.2f}x" if best else ""
        yield f"{mark} {str(config):{width}}  {duration(median * MILLI):>9}  {ratio:>6}{between}"


def quantiles(timing: Any) -> list[float]:
    """Times in ms: the median, and what else was measured."""
    return list(timing) if isinstance(timing, (list, tuple)) else [timing]
