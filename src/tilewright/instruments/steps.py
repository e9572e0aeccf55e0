"""Step through a launch, or through some of its programs, with every check on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tilewright.errors import DeadlockError, KernelFault, OutOfBoundsError, TilewrightError
from tilewright.instruments.findings import Finding, Findings, Program
from tilewright.instruments.lock_order import LockOrder
from tilewright.instruments.native import Saved
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
from tilewright.targets import base

TICK = 256  # ops after which somebody may look at the clock
PATIENCE = 1 << 20  # rounds of a `while` loop
MOST_TOGETHER = 1024  # programs that a GPU may run at once
MOST_SAVED = 64 << 20  # bytes of the arrays of a launch that may be run again
KINDS = {OutOfBoundsError: "bounds", DeadlockError: "deadlock"}


MEMORY = frozenset({"race", "view", "undefined"})  # kinds of faults that accesses show


def step(call: Call, grid: Grid, findings: Findings) -> None:
    """Step through a launch with every check on."""
    Steps(call, grid, findings).run_all()


class Steps:
    """Steps through programs of a launch; of the kinds of faults in memory only some are sought."""

    def __init__(self, call: Call, grid: Grid, findings: Findings, memory: frozenset[str] = MEMORY):
        self.call, self.grid, self.findings = call, grid, findings
        self.total = grid[0] * grid[1] * grid[2]
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

    def run_all(self) -> None:
        """Run all programs."""
        self.run(None, Saved(writable_regions(self.call)) if self.may_meet else None)

    def run(self, order: Iterable[Program] | None, saved: Saved | None = None) -> None:
        """Run programs in an order.

        Those that wait where all others arrive too cannot be stepped through one by one; a launch
        of all programs is run natively instead, with the memory that was saved before.
        """
        try:
            self.run_each(order)
        except DeadlockError as error:
            is_met = saved is not None and self.locks.is_at_barrier
            if is_met and self.runs_at_once(saved):
                self.findings.remark(
                    f"{self.call.jit.__name__} was run natively, and checked only up to the loop "
                    f"at {error.loc} in which its first program waits for later ones: a GPU must "
                    "have room for all at once"
                )
                return
            self.tell(error)
            raise
        except KernelFault as error:
            self.tell(error)
            raise

    @property
    def may_meet(self) -> bool:
        """Whether programs may wait for each other in native code that runs several at once."""
        regions = writable_regions(self.call)
        size = sum(high - low for low, high in regions)
        return self.call.device == "cpu" and 1 < self.total <= MOST_TOGETHER and size <= MOST_SAVED

    def runs_at_once(self, saved: Saved) -> bool:
        """Run the launch natively, with the memory that it had; whether that ends."""
        saved.restore()
        call = self.call.on(base.find("cpu"))
        try:
            call.jit.entry(call).launch(self.grid, call.all_slots)
        except TilewrightError:
            return False
        return True

    def tell(self, error: KernelFault) -> None:
        """Report the fault that ended the launch."""
        if type(error) in KINDS:
            self.findings.add(stopped(KINDS[type(error)], self.call.jit.__name__, error))

    def run_each(self, order: Iterable[Program] | None) -> None:
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
        finally:
            self.races.settle()


def writable_regions(call: Call) -> set[tuple[int, int]]:
    """The memory that a launch may change, in pieces that do not overlap."""
    pointers = (x for x in call.leaves if x.type is not None and x.type.dtype.is_pointer)
    return set(regions([tuple(x.bounds) for x in pointers if x.is_writable]))


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
