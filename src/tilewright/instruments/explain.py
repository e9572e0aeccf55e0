"""Take over launches: count what each moves, time it, and enter both into the ledger."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tilewright.instruments import gpu_code
from tilewright.instruments.counting import Counting
from tilewright.instruments.index import index
from tilewright.instruments.ledger import Ledger
from tilewright.instruments.traffic import ArgumentInfo, KernelRun
from tilewright.ir.types import DType
from tilewright.passes import pipeline
from tilewright.runtime import arrays
from tilewright.runtime.call import Call
from tilewright.runtime.closure import scan
from tilewright.runtime.compile import Compilation
from tilewright.runtime.entry import Entry
from tilewright.runtime.grid import Grid
from tilewright.runtime.kernel import JITFunction
from tilewright.runtime.observers import Launch, LaunchObserver, observing
from tilewright.runtime.signature import Leaf
from tilewright.runtime.timing import measure

REPEAT_SECONDS = 0.1
MAX_REPEATS = 100
PASS_NAMES = frozenset(p.__name__ for p in pipeline.STANDARD)


@dataclass(frozen=True, slots=True)
class RunTime:
    """The median of the timed repeats, in seconds."""

    median: float
    repeats: int


class Explainer(LaunchObserver):
    """An observer of launches. Each launch has its effect exactly once.

    Of the kernels that are never launched, those of the file `script` are worth a word. With
    `arch`, records of what does not run on a GPU tell of the code for that architecture; with
    `touches`, those of the CPU tell what some programs touch.
    """

    def __init__(
        self,
        ledger: Ledger,
        script: str | None = None,
        arch: str | None = None,
        touches: bool = False,
    ):
        self.ledger = ledger
        self.arch = arch
        self.touches = touches
        self.script = None if script is None else os.path.realpath(script)
        self.seen: dict[tuple, KernelRun] = {}

    def define(self, jit: JITFunction) -> None:
        code = jit.fn.__code__
        if self.script in (None, os.path.realpath(code.co_filename)):
            self.ledger.define(jit.__name__, code.co_filename, code.co_firstlineno)

    def launch(self, launch: Launch) -> Any:
        jit = launch.jit
        call = jit.prepare(launch.arguments, launch.options)
        if call.target is None or call.target.is_recording(place_of(call)):
            return launch.run()
        sizes = call.grid(launch.grid)
        key = (jit, call.key, sizes, shapes_of(call))
        if key in self.seen or 0 in sizes:
            with self.ledger.paused():
                handle = launch.run()
            if key in self.seen:
                self.ledger.add_kernel(self.seen[key])
            return handle
        functions = [jit, *scan(jit, *call.constants.values()).functions]
        for code in (function.fn.__code__ for function in functions):
            self.ledger.add_helper(code.co_name, code.co_filename, code.co_firstlineno)
        with self.ledger.paused():
            entry = jit.entry(call)
            entry.check_writable(call.writable)
            touched = index(call, sizes) if self.touches and call.target.name == "cpu" else None
            record = replace(examine(call, entry, sizes, self.arch), touched=touched)
        self.seen[key] = again(record)
        self.ledger.add_kernel(record)
        return entry.handle


def place_of(call: Call) -> int:
    """Where the launch will be."""
    return call.target.place(call.device, call.settings.team)


def again(run: KernelRun) -> KernelRun:
    """The record of one more launch of the same kind."""
    return KernelRun(
        run.name, run.file, run.line, run.grid, run.programs, run.arguments, run.meta,
        {}, run.from_cache, None, run.target, [], 0,
    )  # fmt: skip


@contextmanager
def explaining(
    ledger: Ledger, script: str | None = None, arch: str | None = None, touches: bool = False
) -> Iterator[None]:
    """Launches inside are counted and timed, see `Explainer`."""
    explainer = Explainer(ledger, script, arch, touches)
    with observing(explainer):
        yield


def array_leaves(call: Call) -> list[Leaf]:
    return [leaf for leaf in call.leaves if leaf.type is not None and leaf.type.dtype.is_pointer]


def shapes_of(call: Call) -> tuple:
    return tuple(tuple(getattr(leaf.original, "shape", ())) for leaf in array_leaves(call))


def examine(call: Call, entry: Entry, grid: Grid, arch: str | None = None) -> KernelRun:
    """Time a launch on its own arguments, then do it once with the counters on."""
    compilation = entry.handle.compilation
    timing = timed(call, entry, grid)
    counted = call.compile(counters=True)
    counters = Counting(call, counted, entry.place)
    counted.binary.launch(grid, call.slots, entry.place, counters.address)
    counters.read()
    gpu = gpu_code.measured(entry.handle, counters, grid)
    if gpu is None and arch is not None:
        gpu = gpu_code.static(call, arch)
    code = call.jit.fn.__code__
    return KernelRun(
        name=call.jit.__name__,
        file=code.co_filename,
        line=code.co_firstlineno,
        grid=tuple(grid),
        programs=grid[0] * grid[1] * grid[2],
        arguments=[argument_info(call, name) for name in call.arguments],
        meta=meta_of(call),
        compile_s=stages(compilation.times),
        from_cache=compilation.from_cache,
        timing=timing,
        target=compilation.target,
        sites=counters.sites(),
        flops=counters.flops,
        minimum_bytes=counters.minimum(),
        gpu=gpu,
    )


def stages(times: dict[str, float]) -> dict[str, float]:
    """Compile times in seconds with all passes as one stage."""
    out: dict[str, float] = {}
    for name, seconds in times.items():
        stage = "passes" if name in PASS_NAMES else name
        out[stage] = out.get(stage, 0.0) + seconds
    out.pop("key", None)
    return out


def timed(call: Call, entry: Entry, grid: Grid) -> RunTime:
    """Repeat the launch; what it both reads and writes is put back before each."""
    compilation = entry.handle.compilation
    changing = {
        leaf.name: leaf.original
        for leaf in array_leaves(call)
        if leaf.name in compilation.writes
        and (leaf.name in compilation.reads or is_atomic(compilation, leaf.name))
    }
    saved = {name: arrays.snapshot(value, name) for name, value in changing.items()}

    def restore() -> None:
        for name, value in changing.items():
            arrays.restore(value, saved[name], name)

    slots = call.all_slots
    timing = measure(
        lambda: entry.launch(grid, slots),
        warmup_s=0.01,
        repeat_s=REPEAT_SECONDS,
        min_repeats=3,
        max_repeats=MAX_REPEATS,
        before=restore if changing else None,
        clock=call.target.clock(entry.place),
    )
    restore()
    return RunTime(timing.median, timing.count * timing.batch)


def is_atomic(compilation: Compilation, name: str) -> bool:
    """Whether a kernel changes an argument by atomics."""
    names = [p[0] for p in compilation.metadata["params"]]
    return any(
        site["kind"] == "atomic" and (site["param"] < 0 or names[site["param"]] == name)
        for site in compilation.sites
    )


def argument_info(call: Call, name: str) -> ArgumentInfo:
    """What a report says of an argument."""
    value = call.arguments[name]
    tree = call.trees[name]
    if isinstance(tree, Leaf) and tree.type is not None and tree.type.dtype.is_pointer:
        known = arrays.describe(value, name)
        shape = tuple(known.shape) if known.shape is not None else None
        strides = tuple(known.strides) if known.strides is not None else None
        return ArgumentInfo(name, "pointer", tree.type.dtype.element_ty.name, shape, strides)
    if isinstance(tree, Leaf) and tree.type is not None:
        return ArgumentInfo(name, "scalar", tree.type.dtype.name, value=plain(value))
    kind = "constexpr" if name in call.jit.constexpr_names else "scalar"
    return ArgumentInfo(name, kind, type(value).__name__, value=plain(value))


def plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    if isinstance(value, (bool, int, float, str, type(None))):
        return value
    if isinstance(value, DType):
        return value.name
    return getattr(value, "__name__", None) or str(value)


def meta_of(call: Call) -> dict[str, Any]:
    """The constexpr arguments and the launch options."""
    names = call.jit.constexpr_names
    out = {name: plain(v) for name, v in call.arguments.items() if name in names}
    out.update({name: plain(v) for name, v in call.options.items()})
    return out
