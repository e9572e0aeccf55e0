"""Trials of an autotuned kernel: each run on the data of the launch, everything put back after."""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.runtime import arrays
from tilewright.runtime.call import ON_DEVICE
from tilewright.runtime.descriptor import TensorDescriptor
from tilewright.runtime.kernel import JITFunction
from tilewright.runtime.tuned import Config, Wrapper
from tilewright.targets import base

if TYPE_CHECKING:
    from tilewright.runtime.autotune import Autotuner

PLAIN = {int, float, bool, str, type(None)}  # what are no arrays


class Trial:
    """Runs of a kernel with one configuration, each on the data of the launch."""

    def __init__(self, tuner: Autotuner, config: Config, args: tuple, meta: dict[str, Any]):
        self.tuner = tuner
        self.config = config
        self.args = args
        self.kwargs = {**meta, **config.all_kwargs()}
        self.full = {**dict(zip(tuner.arg_names, args)), **self.kwargs}
        self.is_open = False  # a run began, and the user's hook after it is due
        if config.pre_hook is not None:
            config.pre_hook(self.full)  # which may change what is compiled, e.g. descriptors
        self.clock = None
        also = tuner.restore_value
        if not isinstance(tuner.fn, (JITFunction, Wrapper)):
            # A program's own, of which only `run` is known.
            self.saved = Saved((), (), self.full, also)
            return
        compilation = tuner.fn.warmup(*args, **self.kwargs).compilation
        target = base.find(compilation.target)
        self.clock = target.clock(target.place(device_of(self.full), 0), cold=True)
        self.saved = Saved(compilation.writes, compilation.reads, self.full, also)

    def before(self) -> None:
        """What comes before each run and is not timed, with the end of the run before."""
        self.close(None)
        self.saved.restore(in_place_only=True)
        if self.config.pre_hook is not None:
            self.config.pre_hook(self.full)
        self.tuner.pre_hook(self.full)
        self.is_open = True

    def run(self) -> None:
        self.tuner.fn.run(*self.args, **self.kwargs)

    def spent(self) -> int:
        """Run; the nanoseconds that it takes."""
        if self.clock is not None:
            return self.clock(self.run)
        begin = time.perf_counter_ns()
        self.run()
        return time.perf_counter_ns() - begin

    def close(self, failure: Exception | None) -> None:
        if self.is_open:
            self.is_open = False
            self.tuner.post_hook(self.full, exception=failure)

    def end(self, failure: Exception | None) -> None:
        """Put everything back."""
        self.close(failure)
        self.saved.restore()


class Saved:
    """The arguments that a kernel writes, as they were."""

    def __init__(
        self,
        writes: Iterable[str],
        reads: Container[str],
        arguments: dict[str, Any],
        also: Sequence[str],
    ):
        self.saved: list[tuple[Any, np.ndarray, bool]] = []
        done: set[int] = set()
        for path in (*writes, *also):
            value = item(arguments, path)
            if value is None or id(value) in done or arrays.kind(value, path) != "array":
                continue
            if arrays.pointer(value, path, arrays.device(value))[1:3] == arrays.UNKNOWN_EXTENT:
                continue  # only an address is known
            done.add(id(value))
            self.saved.append((value, arrays.snapshot(value, path), path in reads or path in also))

    def restore(self, in_place_only: bool = False) -> None:
        """Put the contents back; `in_place_only`: only of what the kernel reads as well."""
        for value, content, in_place in self.saved:
            if in_place or not in_place_only:
                arrays.restore(value, content)


def item(arguments: dict[str, Any], path: str) -> Any:
    """An argument, or an item of a tuple such as `x.1`."""
    name, *indices = path.split(".")
    value = arguments[name]
    for index in indices:
        value = value.base if isinstance(value, TensorDescriptor) else value[int(index)]
    return value


def clear(array: Any) -> None:
    """Fill an array with zeros."""
    if hasattr(array, "zero_"):
        array.zero_()
    else:
        array[...] = 0


def device_of(arguments: dict[str, Any]) -> str:
    """Where the first array is; the CPU when there is none."""
    for value in arguments.values():
        if value.__class__ not in PLAIN:
            array = value.base if isinstance(value, TensorDescriptor) else value
            if any(hasattr(array, name) for name in ON_DEVICE):
                return arrays.device(array)
    return "cpu"
