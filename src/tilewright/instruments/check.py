"""Run launches under all checks: races, unwritten memory, views, offsets that run over, NaN."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..eager.memory import Touch
from ..ir.op import Op
from ..runtime import arrays
from ..runtime.call import Call
from ..runtime.exports import extent
from ..runtime.handle import SteppedKernel
from ..runtime.kernel import JITFunction, launch_observers
from ..runtime.settings import current
from .findings import Finding, Findings
from .origins import Origins
from .poison import PATTERN, poisoned, starts
from .races import Races


class Checker:
    """Takes launches over and steps through them with every check on."""

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
        name = jit.__name__
        races = Races(name, self.findings.add)
        machine = type("CheckedMachine", (Origins,), {"report": staticmethod(self.findings.add)})
        observers = (races, Views(name, self.findings, views(call)), Unwritten(name, self.findings))
        call.run_eager(call.grid(grid), observers, machine=machine)
        races.settle()
        return SteppedKernel(jit, call.types, call.constants, options)


def views(call: Call) -> dict[str, tuple[int, int]]:
    """Of each array argument that is a view of more memory, the bytes that it spans itself."""
    out = {}
    for leaf in call.leaves:
        if leaf.type is None or not leaf.type.dtype.is_pointer:
            continue
        a = arrays.describe(leaf.original, leaf.name)
        if a.shape is None or a.strides is None:
            continue
        size = a.dtype.bytes
        low, high = extent(a.address, a.shape, tuple(s * size for s in a.strides), size)
        if (low, high) != (a.low, a.high):
            out[leaf.name] = (low, high)
    return out


@dataclass
class Views:
    """Reports accesses beyond a view that stay inside the memory it is a view of."""

    kernel: str
    findings: Findings
    spans: dict[str, tuple[int, int]]

    def __call__(self, op: Op, touch: Touch) -> None:
        for place in touch.places:
            buffer = place.buffer
            if buffer is None or buffer.name not in self.spans:
                continue
            low, high = self.spans[buffer.name]
            at = place.offsets + buffer.low
            outside = (at < low) | (at + touch.dtype.bytes > high)
            if outside.any():
                element = int(at[outside][0] - buffer.address) // buffer.dtype.bytes
                self.findings.add(
                    Finding(
                        "view", self.kernel, buffer.name, touch.program, touch.loc,
                        f"{touch.kind} of element {element} by program {touch.program} lies "
                        f"outside of {buffer.name}, which spans "
                        f"{(high - low) // buffer.dtype.bytes} elements, but inside of the memory "
                        "that it is a view of",
                    )
                )  # fmt: skip


@dataclass
class Unwritten:
    """Reports reads of memory that nobody wrote since it was allocated as empty."""

    kernel: str
    findings: Findings

    def __call__(self, op: Op, touch: Touch) -> None:
        if touch.kind == "store":
            return
        for place in touch.places:
            buffer = place.buffer
            if buffer is None or buffer.low not in starts or buffer.bytes.size < PATTERN.size:
                continue
            words = buffer.bytes[: buffer.bytes.size // 4 * 4].reshape(-1, 4)
            at = np.minimum(place.offsets // 4, len(words) - 1)
            bad = (words[at] == PATTERN).all(axis=1)
            if bad.any():
                offset = int(place.offsets[bad][0]) + buffer.low - buffer.address
                self.findings.add(
                    Finding(
                        "undefined", self.kernel, buffer.name, touch.program, touch.loc,
                        f"{touch.kind} of element {offset // buffer.dtype.bytes} of "
                        f"{buffer.name} by program {touch.program}: nobody has written it since "
                        "it was allocated as empty",
                    )
                )  # fmt: skip


@contextmanager
def checking() -> Iterator[Findings]:
    """Launches inside are stepped through under all checks; gives the list of what they find.

    Arrays that `np.empty` and `torch.empty` make inside hold a pattern, so that reads of it show.
    """
    findings = Findings()
    checker = Checker(findings)
    launch_observers.append(checker)
    try:
        with poisoned():
            yield findings
    finally:
        launch_observers.remove(checker)
