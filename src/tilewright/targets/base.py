"""What a target is to the runtime, and the table of targets, each loaded when first used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tilewright.errors import LaunchError
from tilewright.ir.inst import Kernel
from tilewright.later import later
from tilewright.targets.storage import Storage


@dataclass(frozen=True, slots=True)
class Code:
    """A lowered kernel: text for the assembler, and what to keep beside the machine code."""

    text: str
    metadata: dict[str, Any]  # JSON: all that `Target.load` and reports need
    parts: tuple[str, ...] = ()  # of the text: what is compiled apart; the rest recurs in kernels


class Binary(Protocol):
    """Machine code of one kernel that can be launched; `free` of it is the caller's reference."""

    metadata: dict[str, Any]
    recompile: Callable[..., Binary]  # set by who compiled it: the same with more options

    def launch(
        self, grid: tuple[int, int, int], values: Sequence[Any], place: int, counters: int = 0
    ) -> None:
        """Run the grid. `values` are, parameter by parameter, what the target's slots hold;
        `place` is what `Target.place` said.

        Raises:
            OutOfBoundsError: and other faults of the kernel, at the user's line.
        """


# keep(name, make): the bytes that `make` gives, or gave to another process with the same name.
Keep = Callable[[str, Callable[[], bytes]], bytes]


@dataclass(frozen=True)
class ShortcutSpec:
    """What a native launcher of one kernel must know. Lists and `settings` are read anew at each
    launch; when one of `quiet` has items, or a watched value is another, it is Python's turn."""

    names: tuple[str, ...]  # of the parameters
    defaults: tuple[Any, ...]
    missing: Any  # the default of a parameter that has none
    constexprs: tuple[bool, ...]
    specialized: tuple[bool, ...]  # on the value 1
    aligned: tuple[bool, ...]  # on what addresses and numbers are multiples of
    fallback: Callable  # the launch in Python: (grid, *args, **kwargs)
    sizes: Callable[[Any], tuple[int, int, int]]  # of a grid
    quiet: tuple[list, ...]
    # Their number, a list and what should be in it, a function of no arguments (its address, or 0)
    # and what it should give, then (dictionary, key, value) of each thing they were read from;
    # empty when they are not known.
    settings: list
    watched: list[tuple[dict, str, Any]]


class Shortcut(Protocol):
    """A native launcher of one kernel, which does the launches it has learnt."""

    call: Callable  # (grid, *args, **kwargs)

    def learn(
        self,
        values: Sequence[Any],
        options: dict[str, Any],
        fixed: Sequence[bool],
        settings: int,
        binary: Any,
        place: int,
        result: Any,
    ) -> None:
        """Do launches like this one from now on, if that can be.

        `fixed` tells which values are the same constants wherever they are the same objects.
        """

    def clear(self) -> None:
        """Forget what was learnt."""


class Target(Protocol):
    """One kind of machine: what it wants to know of arguments, and how code for it is made."""

    name: str
    devices: str  # what the names of the devices begin with whose arrays it takes
    facts: frozenset[str]  # of "one" and "divisible": what arguments are specialised on
    options: frozenset[str]  # launch options that change the code

    def arch(self) -> str:
        """The machine in a word."""

    def identity(self) -> str:
        """The machine and the compiler below us, as a part of cache keys."""

    def lower(self, kernel: Kernel, *, bounds: bool, counters: bool) -> Code:
        """The kernel as LLVM IR."""

    def assemble(self, code: Code) -> bytes:
        """Machine code of a lowered kernel."""

    def assembly(self, text: str) -> str:
        """The machine code as a person reads it."""

    def load(self, object_bytes: bytes, metadata: dict[str, Any]) -> Binary:
        """Make machine code ready to be launched in this process."""

    def prepare(self, keep: Keep) -> None:
        """Get ready for kernels, before the first is compiled; what is made is best kept."""

    def place(self, device: str, team: int) -> int:
        """What of the machine a launch takes, for arrays on `device`: so many threads of a CPU, a
        GPU by its number, or -1 for the one that is current."""

    def shortcut(self, spec: ShortcutSpec) -> Shortcut | None:
        """A native launcher for a kernel; None where there is none."""

    # --- what instruments ask

    def storage(self, size: int, place: int = -1) -> Storage:
        """So many bytes where kernels at a place can reach them."""

    def room(self, place: int = -1) -> int:
        """How many bytes of storage may be taken there."""

    def is_recording(self, place: int = -1) -> bool:
        """Whether launches are put down for later instead of being done."""

    def clock(
        self, place: int = -1, cold: bool = False
    ) -> Callable[[Callable[[], Any]], int] | None:
        """What gives the nanoseconds of the launches in a call, with `cold` caches of the device;
        None: this computer's clock."""


cpu = later("tilewright.targets.cpu.launch")
cuda = later("tilewright.targets.cuda.target")
TARGETS = {"cpu": lambda: cpu.CPU, "cuda": lambda: cuda.CUDA}


def find(name: str) -> Target:
    """The target of that name.

    Raises:
        LaunchError: when there is none.
    """
    if name not in TARGETS:
        raise LaunchError(f"no target {name!r}; targets are eager, {', '.join(TARGETS)}")
    return TARGETS[name]()


def for_device(device: str) -> Target:
    """The target that takes arrays of a device such as "cpu" or "cuda:0".

    Raises:
        LaunchError: for arrays that no target takes.
    """
    kind = device.partition(":")[0]
    if kind not in TARGETS:
        raise LaunchError(
            f"no kernel can run on arrays of device {device!r}; move them to "
            f"{' or '.join(TARGETS)}, e.g. with x.cpu()"
        )
    return find(kind)
