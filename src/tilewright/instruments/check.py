"""Run launches under all checks, and keep what they find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tilewright.errors import DeadlockError, KernelFault, OutOfBoundsError
from tilewright.instruments.findings import Finding, Findings
from tilewright.instruments.origins import Origins
from tilewright.instruments.outputs import watching
from tilewright.instruments.poison import poisoned
from tilewright.instruments.races import Races
from tilewright.instruments.shadow import regions
from tilewright.instruments.unwritten import Unwritten
from tilewright.instruments.views import Views, views
from tilewright.runtime.call import Call
from tilewright.runtime.handle import SteppedKernel
from tilewright.runtime.kernel import JITFunction, launch_observers
from tilewright.runtime.settings import current

KINDS = {OutOfBoundsError: "bounds", DeadlockError: "deadlock"}


class Checker:
    """Takes launches over and runs them with every check on."""

    def __init__(self, findings: Findings):
        self.findings = findings

    def define(self, jit: JITFunction) -> None:
        """Nothing is noted of a kernel before it is launched."""

    def launch(
        self,
        jit: JITFunction,
        grid: Any,
        arguments: dict[str, Any],
        options: dict[str, Any],
        run: Callable[[], Any],
    ) -> Any:
        call = jit.prepare(arguments, options, current().on("eager"))
        step(call, call.grid(grid), self.findings)
        return SteppedKernel(jit, call.types, call.constants, options)


def step(call: Call, grid: tuple[int, int, int], findings: Findings) -> None:
    """Step through a launch with every check on."""
    name = call.jit.__name__
    machines: list[Origins] = []
    new = Unwritten(name, findings)

    class Checked(Origins):
        report = staticmethod(findings.add)
        unwritten = new

        def __init__(self, *args: Any, **kwargs: Any):
            super().__init__(*args, **kwargs)
            machines.append(self)

    races = Races(name, findings.add, spans(call), lambda: machines[0].attrs)
    observers = (races, Views(name, findings, views(call)), new)
    try:
        call.run_eager(grid, observers, machine=Checked, debug=True)
    except KernelFault as error:
        if type(error) in KINDS:
            findings.add(stopped(KINDS[type(error)], name, error))
        raise
    finally:
        races.settle()


def spans(call: Call) -> list[tuple[int, int]]:
    """The memory that a launch may touch, in pieces that do not overlap."""
    pointers = (x for x in call.leaves if x.type is not None and x.type.dtype.is_pointer)
    return regions([tuple(x.bounds) for x in pointers])


def stopped(kind: str, kernel: str, error: KernelFault) -> Finding:
    """The fault that ended a launch."""
    text = str(error).splitlines()[0].removeprefix(f"{kernel}: ")
    return Finding(kind, kernel, error.argument, error.program, error.loc, text, error.element)


@contextmanager
def checking() -> Iterator[Findings]:
    """Launches inside are stepped through under all checks; gives the list of what they find.

    Arrays that `np.empty` and `torch.empty` make inside hold a pattern, so that reads of it show.
    """
    findings = Findings()
    checker = Checker(findings)
    launch_observers.append(checker)
    try:
        with poisoned(), watching(findings):
            yield findings
    finally:
        launch_observers.remove(checker)
