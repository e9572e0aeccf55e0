"""The ledger: kernels and array operators of a run, in program order, with what each moved."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from statistics import median
from types import CodeType, FrameType, ModuleType
from typing import Any

from .torch_steps import torch_recorder
from .traffic import KernelRun, Operand, Region, Step

FOREIGN = ("numpy", "torch")
CHECKS = ("numpy.testing", "torch.testing")
RECORDERS = tuple(f"tilewright.instruments.{name}" for name in ("ledger", "watch", "torch_steps"))

_active: list[Ledger] = []


def active() -> Ledger | None:
    """The ledger that is recording now, if any."""
    return _active[-1] if _active and not _active[-1].is_paused else None


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's program; `call` tells one call of a function from another."""

    file: str
    line: int
    function: str
    call: tuple[CodeType, CodeType | None, int]


def user_place() -> Place | None:
    """The user's line that asked for the present work; None for a check or Tilewright's own."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        package = module.partition(".")[0]
        if module.startswith(CHECKS) or (package == "tilewright" and module not in RECORDERS):
            return None
        if package not in FOREIGN and module not in RECORDERS:
            return _place(frame)
        frame = frame.f_back
    return None


def _place(frame: FrameType) -> Place:
    code, caller = frame.f_code, frame.f_back
    call = (code, caller.f_code, caller.f_lineno) if caller else (code, None, 0)
    return Place(code.co_filename, frame.f_lineno, code.co_name, call)


@dataclass(slots=True)
class _OpenRegion:
    """Steps that still wait to learn whether the next one belongs to them."""

    place: Place
    steps: list[Step] = field(default_factory=list)

    def takes(self, place: Place, step: Step) -> bool:
        """Same call; but steps that only make data stand apart from those that use it."""
        if place.call != self.place.call:
            return False
        return any(s.read_bytes for s in self.steps) or not step.read_bytes


@dataclass(slots=True)
class _Repeated:
    """A region as often as it ran: the steps of its first call and every call's times."""

    region: Region
    seconds: list[list[float | None]]

    def close(self) -> Region:
        steps = tuple(
            replace(s, seconds=None if None in times else median(times))
            for s, times in zip(self.region.steps, zip(*self.seconds, strict=True), strict=True)
        )
        return replace(self.region, steps=steps, calls=len(self.seconds))


class Ledger:
    """Collects kernel runs and array steps while it is active: `with Ledger() as ledger: ...`.

    PyTorch operators are seen from the moment torch is imported, NumPy ones on arrays that
    `tilewright.instruments.watch.watch` returned. Identical launches and regions are one entry.
    """

    def __init__(self) -> None:
        self.count = 0
        self.uncounted: dict[str, int] = {}
        self._order: list[_Repeated | list[KernelRun]] = []
        self._open: _OpenRegion | None = None
        self._regions: dict[tuple, _Repeated] = {}
        self._kernels: dict[str, list[list[KernelRun]]] = {}
        self._defined: dict[tuple[str, str, int], None] = {}
        self._used: set[tuple[str, str, int]] = set()
        self._pauses = 0
        self._torch: Any = None
        self._finder: AfterImport | None = None

    def __enter__(self) -> Ledger:
        _active.append(self)
        if "torch" in sys.modules:
            self._watch_torch(sys.modules["torch"])
            return self
        self._finder = AfterImport("torch", self._watch_torch)
        sys.meta_path.insert(0, self._finder)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._torch is not None:
            self._torch.__exit__(None, None, None)
            self._torch = None
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        _active.remove(self)
        self._close_region()

    def _watch_torch(self, torch: ModuleType) -> None:
        if self._torch is None and self in _active:
            self._torch = torch_recorder(self)
            self._torch.__enter__()

    @property
    def is_paused(self) -> bool:
        return self._pauses > 0

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Record no array operators inside a with-block, e.g. while a launch is repeated."""
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1

    def define(self, name: str, file: str, line: int) -> None:
        """Note that a kernel exists."""
        self._defined[name, file, line] = None

    def add_helper(self, name: str, file: str, line: int) -> None:
        """Note that a function was used inside a kernel, so that it needs no launch of its own."""
        self._used.add((name, file, line))

    def add_kernel(self, run: KernelRun) -> None:
        """Add a launch; one with a known signature and the same counts only raises its count."""
        self._close_region()
        self.add_helper(run.name, run.file, run.line)
        known = self._kernels.setdefault(_signature(run), [])
        for entry in known:
            if not run.sites or not entry[0].sites or entry[0].sites == run.sites:
                entry[0] = _joined(entry[0], run)
                return
        entry = [run]
        known.append(entry)
        self._order.append(entry)

    def add_step(
        self,
        name: str,
        reads: Sequence[Operand],
        writes: Sequence[Operand],
        seconds: float | None,
        flops: int = 0,
        device: str = "cpu",
    ) -> None:
        """Add an array operator, at the user's line that asked for it."""
        place = None if self.is_paused else user_place()
        if place is None:
            return
        step = Step(
            name,
            sum(o.bytes for o in reads),
            sum(o.bytes for o in writes),
            sum(o.elements for o in reads),
            sum(o.elements for o in writes),
            seconds,
            place.file,
            place.line,
            tuple(o.shape for o in reads),
            tuple(o.shape for o in writes),
            writes[0].dtype if writes else "",
            flops,
            device,
        )
        if self._open is None or not self._open.takes(place, step):
            self._close_region()
            self._open = _OpenRegion(place)
        self._open.steps.append(step)
        self.count += 1

    def add_uncounted(self, name: str) -> None:
        """Note an operator whose traffic cannot be told, e.g. on sparse arrays."""
        if not self.is_paused:
            self.uncounted[name] = self.uncounted.get(name, 0) + 1

    def _close_region(self) -> None:
        if self._open is None:
            return
        place, steps = self._open.place, self._open.steps
        self._open = None
        period = _period([replace(s, seconds=None) for s in steps])
        calls = [steps[i : i + period] for i in range(0, len(steps), period)]
        first = tuple(calls[0])
        key = (place.function, *(replace(s, seconds=None) for s in first))
        known = self._regions.get(key)
        if known is None:
            region = Region(place.function, place.file, first[0].line, first)
            known = self._regions[key] = _Repeated(region, [])
            self._order.append(known)
        known.seconds.extend([s.seconds for s in call] for call in calls)

    @property
    def entries(self) -> list[Region | KernelRun]:
        """Regions and kernels in the order in which each first ran."""
        self._close_region()
        entries = [e.close() if isinstance(e, _Repeated) else e[0] for e in self._order]
        runs = [e for e in entries if isinstance(e, KernelRun)]
        alike = {name: [r for r in runs if r.name == name] for name in {r.name for r in runs}}
        return [
            replace(e, number=position(alike[e.name], e))
            if isinstance(e, KernelRun) and len(alike[e.name]) > 1
            else e
            for e in entries
        ]

    @property
    def kernels(self) -> list[KernelRun]:
        return [e for e in self.entries if isinstance(e, KernelRun)]

    @property
    def regions(self) -> list[Region]:
        return [e for e in self.entries if isinstance(e, Region)]

    @property
    def steps(self) -> list[Step]:
        """The steps of all regions, in order."""
        return [s for region in self.regions for s in region.steps]

    @property
    def never_launched(self) -> list[tuple[str, str, int]]:
        """Kernels (name, file, line) that were defined and neither launched nor used by one."""
        return [d for d in self._defined if d not in self._used]


def position(runs: Sequence[KernelRun], run: KernelRun) -> int:
    """Which of some runs one is, from 1."""
    return next(number for number, other in enumerate(runs, 1) if other is run)


class AfterImport(MetaPathFinder):
    """Calls `action(module)` once the module of that name has been imported."""

    def __init__(self, name: str, action: Callable[[ModuleType], None]):
        self.name = name
        self.action = action
        self._looking = False

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
        if fullname != self.name or self._looking:
            return None
        self._looking = True
        try:
            spec = find_spec(fullname)
        finally:
            self._looking = False
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self.action(module)

        spec.loader.exec_module = exec_module
        return spec


def _signature(run: KernelRun) -> str:
    """What launches share that are one entry; scalar values differ only through the counts."""
    arguments = [(a.name, a.kind, a.dtype, a.shape, a.strides) for a in run.arguments]
    meta = sorted((name, repr(value)) for name, value in run.meta.items())
    return repr((run.name, run.file, run.line, run.grid, run.target, meta, arguments))


def _joined(old: KernelRun, new: KernelRun) -> KernelRun:
    """Two launches as one entry: the first one's compile, whichever has counts and times."""
    counted = old if old.sites or not new.sites else new
    return replace(
        old,
        sites=counted.sites,
        flops=counted.flops,
        minimum_bytes=counted.minimum_bytes,
        gpu=counted.gpu,
        timing=old.timing if old.timing is not None else new.timing,
        launches=old.launches + new.launches,
    )


def _period(items: list[Step]) -> int:
    """The length of the shortest list that `items` repeats."""
    n = len(items)
    for length in range(1, n // 2 + 1):
        if n % length == 0 and items[length:] == items[:-length]:
            return length
    return n
