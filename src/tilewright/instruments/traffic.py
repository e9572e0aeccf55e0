"""The records of data movement: access sites, kernel runs, array steps and regions of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal, Protocol

from ..ir.types import PUBLIC_NAMES
from .gpu import GpuCode
from .index import Table

SHORT_NAMES = {public: name for name, public in PUBLIC_NAMES.items()}
FLOATS = ("fp8", "fp16", "bf16", "fp32", "fp64")


class Timing(Protocol):
    """What a record needs of a measured time: the median in seconds, and of how many runs."""

    median: float
    repeats: int


@dataclass(frozen=True, slots=True)
class ArgumentInfo:
    """One argument of a launch; `kind` is "pointer", "scalar" or "constexpr"."""

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    value: Any = None


@dataclass(frozen=True, slots=True)
class Site:
    """What one load, store or atomic in the source moved over all program instances.

    `elements` and `bytes` count what active lanes asked for, `unique_bytes` the different bytes
    among them, `masked` the lanes that were switched off.
    """

    kernel: str
    file: str
    line: int
    col: int
    expression: str
    kind: Literal["load", "store", "atomic"]
    argument: str
    dtype: str
    elements: int
    bytes: int
    unique_bytes: int
    masked: int

    @property
    def masked_share(self) -> float:
        """Lanes switched off, of all lanes."""
        lanes = self.elements + self.masked
        return self.masked / lanes if lanes else 0.0

    @property
    def reload(self) -> float:
        """How often each byte was asked for, on average; 0 when none was."""
        return self.bytes / self.unique_bytes if self.unique_bytes else 0.0

    @property
    def read_bytes(self) -> int:
        return 0 if self.kind == "store" else self.bytes

    @property
    def write_bytes(self) -> int:
        return 0 if self.kind == "load" else self.bytes

    @property
    def read_elements(self) -> int:
        return 0 if self.kind == "store" else self.elements

    @property
    def write_elements(self) -> int:
        return 0 if self.kind == "load" else self.elements


class Movement:
    """Something that reads and writes bytes and elements, and what both come to."""

    __slots__ = ()

    @property
    def total_bytes(self) -> int:
        """Bytes asked for; an atomic both reads and writes its bytes."""
        return self.read_bytes + self.write_bytes

    @property
    def elements(self) -> int:
        return self.read_elements + self.write_elements


class Sum(Movement):
    """What moves as much as its `parts` do."""

    __slots__ = ()

    @property
    def read_bytes(self) -> int:
        return sum(s.read_bytes for s in self.parts)

    @property
    def write_bytes(self) -> int:
        return sum(s.write_bytes for s in self.parts)

    @property
    def read_elements(self) -> int:
        return sum(s.read_elements for s in self.parts)

    @property
    def write_elements(self) -> int:
        return sum(s.write_elements for s in self.parts)


@dataclass(frozen=True, slots=True)
class KernelRun(Sum):
    """The launches of one kernel with one signature: compiling, run time, and traffic of a launch.

    `compile_s` maps a stage to seconds; `minimum_bytes` maps an argument to the different bytes
    read from it and written to it; `gpu` tells of the code where that is for a GPU; `touched`
    what some programs touch, where that was asked for; `number` counts, from 1, kernels of one
    name that were launched in several ways.
    """

    name: str
    file: str
    line: int
    grid: tuple[int, ...]
    programs: int
    arguments: list[ArgumentInfo]
    meta: dict[str, Any]
    compile_s: dict[str, float]
    from_cache: bool
    timing: Timing | None
    target: str
    sites: list[Site]
    flops: int
    minimum_bytes: dict[str, tuple[int, int]] = field(default_factory=dict)
    launches: int = 1
    gpu: GpuCode | None = None
    touched: Table | None = None
    number: int = 0

    @property
    def title(self) -> str:
        """Its name, that no other of a report has."""
        return f"{self.name} ({self.number})" if self.number else self.name

    @property
    def parts(self) -> list[Site]:
        return self.sites

    @property
    def least_bytes(self) -> int:
        """Each byte that the kernel uses read once, each byte that it produces written once."""
        return sum(read + written for read, written in self.minimum_bytes.values())

    @property
    def over_least(self) -> float | None:
        """Total bytes over the least possible."""
        return self.total_bytes / self.least_bytes if self.least_bytes else None

    @property
    def flop_per_byte(self) -> float | None:
        return self.flops / self.total_bytes if self.total_bytes else None

    @property
    def seconds(self) -> float | None:
        return self.timing.median if self.timing is not None else None

    @property
    def compile_seconds(self) -> float:
        return sum(self.compile_s.values())

    @property
    def effective_gbps(self) -> float | None:
        """Bytes asked for over the median run time, in 1e9 bytes a second."""
        if not self.seconds or not self.sites:
            return None
        return self.total_bytes / self.seconds / 1e9

    @property
    def gflops(self) -> float | None:
        """Arithmetic over the median run time, in 1e9 operations a second."""
        return self.flops / self.seconds / 1e9 if self.seconds and self.flops else None

    @property
    def masked_share(self) -> float:
        """Lanes switched off, of all lanes of all sites."""
        masked = sum(s.masked for s in self.sites)
        lanes = masked + sum(s.elements for s in self.sites)
        return masked / lanes if lanes else 0.0

    @property
    def compute_dtype(self) -> str:
        """The floating dtype that most bytes have; fp32 when there is none."""
        weight: dict[str, int] = {}
        for s in self.sites:
            if s.dtype.startswith(FLOATS):
                weight[s.dtype] = weight.get(s.dtype, 0) + s.bytes
        return max(weight, key=weight.__getitem__) if weight else "fp32"

    def argument_shapes(self, side: Literal["read", "written"]) -> list[tuple[int, ...]]:
        """Shapes of the array arguments that the kernel reads, or writes."""
        index = 0 if side == "read" else 1
        used = {name for name, counts in self.minimum_bytes.items() if counts[index]}
        return [a.shape for a in self.arguments if a.name in used and a.shape is not None]


@dataclass(frozen=True, slots=True)
class Operand:
    """An array that a step reads or writes: its shape, and the elements in memory it stands for."""

    shape: tuple[int, ...]
    elements: int
    bytes: int
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Step(Movement):
    """One array operator run beside the kernels, and what it moved.

    `shapes` are those of its inputs, `dtype` that of its first output; `seconds` is None when the
    time was not measured; `flops` counts matrix products and the like, not elementwise work;
    `device` is the kind of device that did it, as `KernelRun.target`.
    """

    name: str
    read_bytes: int
    write_bytes: int
    read_elements: int
    write_elements: int
    seconds: float | None
    file: str
    line: int
    shapes: tuple[tuple[int, ...], ...] = ()
    output_shapes: tuple[tuple[int, ...], ...] = ()
    dtype: str = ""
    flops: int = 0
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class Region(Sum):
    """Consecutive steps of one call of a function; `calls` counts its repetitions.

    The seconds of its steps are medians over the calls.
    """

    name: str
    file: str
    line: int
    steps: tuple[Step, ...]
    calls: int = 1

    @property
    def parts(self) -> tuple[Step, ...]:
        return self.steps

    @property
    def flops(self) -> int:
        return sum(s.flops for s in self.steps)

    @property
    def device(self) -> str | None:
        """What did all of its steps; None where that differs."""
        devices = {s.device for s in self.steps}
        return devices.pop() if len(devices) == 1 else None

    @property
    def seconds(self) -> float | None:
        """Time of the steps of one call, if all were measured."""
        times = [s.seconds for s in self.steps if s.seconds is not None]
        return sum(times) if len(times) == len(self.steps) else None


def unique_elements(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements in memory behind a view: an axis of stride 0 counts once, overlaps once."""
    if prod(shape) == 0:
        return 0
    axes = [(n, abs(stride)) for n, stride in zip(shape, strides, strict=True) if stride]
    extent = 1 + sum((n - 1) * stride for n, stride in axes)
    return min(prod(n for n, _ in axes), extent)


def dtype_name(name: str) -> str:
    """The dtype of an array library in Triton's spelling: `float32` is `fp32`."""
    return SHORT_NAMES.get(name, name)
