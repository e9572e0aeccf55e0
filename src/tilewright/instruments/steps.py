"""Step through a launch, or through some of its programs, with every check on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tilewright.errors import DeadlockError, KernelFault, OutOfBoundsError
from tilewright.instruments.findings import Finding, Findings, Program
from tilewright.instruments.lock_order import LockOrder
from tilewright.instruments.origins import Origins
from tilewright.instruments.races import Races
from tilewright.instruments.shadow import regions
from tilewright.instruments.threads import WARP, Cells, Threads
from tilewright.instruments.unwritten import Unwritten
from tilewright.instruments.views import Views, views
from tilewright.ir.op import Op
from tilewright.ops import debug
from tilewright.runtime.call import Call
from tilewright.runtime.grid import Grid
from tilewright.runtime.handle import DEFAULTS

TICK = 256  # ops after which somebody may look at the clock
PATIENCE = 1 << 20  # rounds of a `while` loop
KINDS = {OutOfBoundsError: "bounds", DeadlockError: "deadlock"}


MEMORY = frozenset({"race", "view", "undefined"})  # kinds of faults that accesses show


def step(call: Call, grid: Grid, findings: Findings) -> None:
    """Step through a launch with every check on."""
    Steps(call, grid, findings).run()


class Steps:
    """Steps through programs of a launch; of the kinds of faults in memory only some are sought."""

    def __init__(self, call: Call, grid: Grid, findings: Findings, memory: frozenset[str] = MEMORY):
        self.call, self.grid, self.findings = call, grid, findings
        self.has_printed = False
        self.ops = 0
        self.tick: Callable[[], None] | None = None  # called now and then
        self.patience = PATIENCE
        self.machines: list[Origins] = []
        name = call.jit.__name__
        self.races = Races(name, findings.add, spans(call), lambda: self.machines[0].attrs)
        self.races.threads = threads_of(call)
        self.locks = LockOrder()
        self.observers: list[Any] = []
        if "race" in memory:
            self.observers.append(self.races)
        if "view" in memory:
            self.observers.append(Views(name, findings, views(call)))
        cells = [Cells(*x) for x in spans(call)]
        waits = self.races.releases.barrier
        self.threads = Threads(name, findings, cells, threads_of(call), waits)
        self.observers.append(self.threads)
        self.unwritten = Unwritten(name, findings) if "undefined" in memory else None
        if self.unwritten is not None:
            self.observers.append(self.unwritten)

    def run(self, order: Iterable[Program] | None = None) -> None:
        """Run all programs, or those of an order."""
        steps = self

        class Checked(Origins):
            report = staticmethod(self.findings.add)
            unwritten, locks = self.unwritten, self.locks
            most_turns = self.patience

            def __init__(self, *args: Any, **kwargs: Any):
                super().__init__(*args, **kwargs)
                steps.machines.append(self)

            def emit(self, op: Op, *operands: Any, **attrs: Any) -> Any:
                steps.has_printed = steps.has_printed or op is debug.device_print
                steps.ops += 1
                if steps.tick is not None and steps.ops % TICK == 0:
                    steps.tick()
                out = super().emit(op, *operands, **attrs)
                steps.threads.after(op, operands, attrs)
                return out

        try:
            self.call.run_eager(self.grid, self.observers, machine=Checked, debug=True, order=order)
        except KernelFault as error:
            if type(error) in KINDS:
                name = self.call.jit.__name__
                self.findings.add(stopped(KINDS[type(error)], name, error))
            raise
        finally:
            self.races.settle()


def spans(call: Call) -> list[tuple[int, int]]:
    """The memory that a launch may touch, in pieces that do not overlap."""
    pointers = (x for x in call.leaves if x.type is not None and x.type.dtype.is_pointer)
    return regions([tuple(x.bounds) for x in pointers])


def threads_of(call: Call) -> int:
    """How many threads a program has on a GPU."""
    return WARP * int(call.options.get("num_warps") or DEFAULTS["num_warps"])


def stopped(kind: str, kernel: str, error: KernelFault) -> Finding:
    """The fault that ended a launch."""
    text = str(error).splitlines()[0].removeprefix(f"{kernel}: ")
    text = text.replace(f" at {error.loc}", "", 1)
    if kind == "bounds":
        text = f"{text}; mask what lies outside, or check the grid and the strides"
    return Finding(kind, kernel, error.argument, error.program, error.loc, text, error.element)
