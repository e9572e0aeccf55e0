"""Run launches under all checks, and keep what they find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tilewright.errors import LaunchError
from tilewright.instruments import passed, screen, steps
from tilewright.instruments.findings import Findings
from tilewright.instruments.outputs import watching
from tilewright.instruments.poison import poisoned
from tilewright.instruments.trials import Trials
from tilewright.runtime.autotune import Autotuner
from tilewright.runtime.call import Call
from tilewright.runtime.grid import Grid
from tilewright.runtime.handle import SteppedKernel
from tilewright.runtime.observers import Launch, LaunchObserver, observing
from tilewright.runtime.settings import current

ENGINES = {"native": screen.look, "stepped": steps.step}


class Checker(LaunchObserver):
    """Takes launches over and runs them with every check on."""

    def __init__(self, findings: Findings, look: Callable[[Call, Grid, Findings], None]):
        self.findings = findings
        self.look = look
        self.trials = Trials()

    def choose(self, tuner: Autotuner, key: tuple, args: tuple, kwargs: dict[str, Any]) -> Any:
        return self.trials.choose(tuner, key, args, kwargs)

    def launch(self, launch: Launch) -> Any:
        jit, options = launch.jit, launch.options
        call = jit.prepare(launch.arguments, options, current().on("eager"))
        sizes = call.grid(launch.grid)
        passed.note(call)
        if 0 not in sizes:
            self.trials.look(call, lambda: self.look(call, sizes, self.findings))
        return SteppedKernel(jit, call.types, call.constants, options)


@contextmanager
def checking(engine: str = "native") -> Iterator[Findings]:
    """Launches inside run under all checks; gives the list of what they find.

    Short ones are stepped through in Python; others run as checked native code, and programs that
    it tells of are stepped through. With the engine "stepped" all programs of all launches are.
    Arrays that `np.empty` and `torch.empty` make inside hold a pattern, so that reads of it show.
    """
    if engine not in ENGINES:
        raise LaunchError(f"checks run on the engine {' or '.join(ENGINES)}, got {engine!r}")
    findings = Findings()
    checker = Checker(findings, ENGINES[engine])
    with observing(checker), poisoned(), watching(findings):
        yield findings
