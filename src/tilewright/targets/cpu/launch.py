"""The CPU as a target: lowering, object code, and launches on the thread pool."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

from tilewright import config
from tilewright.codegen import llvm
from tilewright.errors import (
    DeadlockError,
    DeviceAssertError,
    InternalError,
    Loc,
    OutOfBoundsError,
    excerpt,
    out_of_bounds_message,
)
from tilewright.ir.inst import Kernel
from tilewright.ir.types import Type, parse_type
from tilewright.later import later
from tilewright.targets.base import Code, Keep, Shortcut, ShortcutSpec
from tilewright.targets.cpu import threads
from tilewright.targets.places import place_loc
from tilewright.targets.storage import HostStorage
from tilewright.targets.values import SLOTS, rounded

fastcall = later("tilewright.targets.cpu.fastcall")
# Half of what a launch from the disk cache would import.
lowering = later("tilewright.targets.cpu.lower")
prints = later("tilewright.targets.cpu.prints")
shortcuts = later("tilewright.targets.fastcall.shortcut")

STATE_WORDS = 16  # the launch's state: 8 words of the pool, then the record of a fault
MOST_STORAGE = 4 << 30  # bytes that instruments may take
HEAD_SLOTS = 6  # before the parameters: pointer to the state, grid, pointer to counters, reserved
TAKEN, SITE, PROGRAM, ADDRESS, STRIDE, COUNT = range(8, 14)  # words of the fault record
SHARED = -1  # in place of a site: arguments share memory, and nothing was done
RUN = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
CHUNKS_PER_THREAD = 6  # so that threads which finish early find work left


class CpuTarget:
    """Native code on all cores of this computer."""

    name = "cpu"
    devices = "cpu"
    facts = frozenset({"one"})
    options = frozenset({"debug"})

    def __init__(self) -> None:
        self.keep: Keep = lambda name, make: make()
        self.routines: dict[tuple[str, str], bytes] = {}  # object code by text and machine

    def machine(self) -> llvm.Machine:
        """The computer that code is made for, by the setting `features` a lesser one."""
        return llvm.host_machine(config.get("features"))

    def arch(self) -> str:
        return self.machine().cpu

    def identity(self) -> str:
        machine = self.machine()
        return f"{machine.triple} {machine.cpu} {machine.features} LLVM {llvm.llvm_version()}"

    def lower(self, kernel: Kernel, *, bounds: bool, counters: bool) -> Code:
        lowered = lowering.lower(kernel, self.machine(), bounds=bounds, counters=counters)
        metadata = {
            "name": kernel.name,
            "entry": lowered.entry,
            "params": [[p.name, str(p.type)] for p in kernel.params],
            "sites": list(lowered.sites),
            "imports": list(lowered.imports),
            "waits": lowered.waits,
            "few": lowered.few,
            "alone_until": lowered.alone_until,
            "level": lowered.level,
            "checks": lowered.checks,
        }
        return Code(lowered.text, json.loads(json.dumps(metadata)), lowered.parts)

    def assemble(self, code: Code) -> bytes:
        own, *shared = code.parts
        made = llvm.compile_object(own, self.machine(), codegen_level=code.metadata["level"])
        return join([made.bytes, *map(self.routine, shared)])

    def routine(self, text: str) -> bytes:
        """Object code that kernels share."""
        identity = self.identity()
        if (text, identity) not in self.routines:
            name = hashlib.sha256(f"{identity}\n{text}".encode()).hexdigest()
            made = self.keep(
                f"routine {name}", lambda: llvm.compile_object(text, self.machine()).bytes
            )
            self.routines[text, identity] = made
        return self.routines[text, identity]

    def assembly(self, text: str) -> str:
        return llvm.emit_assembly(text, self.machine())

    def load(self, object_bytes: bytes, metadata: dict[str, Any]) -> CpuBinary:
        imports = {name: import_address(name) for name in metadata["imports"]}
        own, *shared = split(object_bytes)
        library = llvm.Library.load(own, [metadata["entry"]], imports, beside=shared)
        return CpuBinary(library, metadata)

    def prepare(self, keep: Keep) -> None:
        """Start the thread pool."""
        self.keep = keep
        llvm.recall_host(keep)
        threads.start(keep(f"pool {self.host()}", threads.compile_pool))

    def place(self, device: str, team: int) -> int:
        """How many threads a launch takes."""
        return team

    def shortcut(self, spec: ShortcutSpec) -> Shortcut | None:
        """A native launcher for a kernel; None where there is none."""
        ending = fastcall.ending(STATE_WORDS, HEAD_SLOTS)

        def object_bytes() -> bytes:
            return self.keep(f"launcher {self.host()}", lambda: shortcuts.compile_launcher(ending))

        return fastcall.shortcut(spec, CpuBinary.stopped, ending, object_bytes)

    def storage(self, size: int, place: int = -1) -> HostStorage:
        return HostStorage(size)

    def room(self, place: int = -1) -> int:
        return MOST_STORAGE

    def is_recording(self, place: int = -1) -> bool:
        return False

    def clock(self, place: int = -1, cold: bool = False) -> None:
        """Launches are over when they return."""

    def host(self) -> str:
        """This computer, whatever lesser one kernels are compiled for."""
        return f"{llvm.host_machine()} LLVM {llvm.llvm_version()}"


def import_address(name: str) -> int:
    """Where a function is that native code calls."""
    return prints.print_address() if name == "tw_print" else threads.address(name)


def join(objects: Sequence[bytes]) -> bytes:
    """Several object files as one."""
    sizes = struct.pack(f"<{len(objects) + 1}Q", len(objects), *map(len, objects))
    return b"".join([sizes, *objects])


def split(data: bytes) -> list[bytes]:
    """What `join` put together."""
    (count,) = struct.unpack_from("<Q", data)
    sizes = struct.unpack_from(f"<{count}Q", data, 8)
    ends = itertools.accumulate(sizes, initial=8 * (count + 1))
    return [data[begin:end] for begin, end in itertools.pairwise(ends)]


class ArgumentBlock:
    """Memory that one launch at a time passes to native code: its state, then the arguments."""

    __slots__ = ("memory", "state", "args")

    def __init__(self, slots: int):
        self.memory = (ctypes.c_int64 * (STATE_WORDS + slots))()
        self.state = ctypes.addressof(self.memory)
        self.args = self.state + 8 * STATE_WORDS


class CpuBinary:
    """Machine code in memory, and blocks of arguments that wait for the next launch."""

    def __init__(self, library: llvm.Library, metadata: dict[str, Any]):
        self.library = library
        self.metadata = metadata
        self.entry = library.address(metadata["entry"])
        self.waits = metadata["waits"]  # whether programs may wait for each other
        self.few = metadata["few"]
        self.alone_until = metadata["alone_until"]
        types = [parse_type(text) for _, text in metadata["params"]]
        self.slots = HEAD_SLOTS + SLOTS * len(types)
        self.layout = "<6q" + "".join(map(slot_format, types))
        self.pack = struct.Struct(self.layout).pack_into
        # Compiles the kernel anew with other options, and the code for arguments that share memory.
        self.recompile: Callable[..., CpuBinary] | None = None
        self.careful: CpuBinary | None = None
        self.team = 1  # of the last launch
        # Taken by a launch and given back, so that threads and signal handlers never share one.
        self.free: list[ArgumentBlock] = []
        threads.start()

    def launch(
        self, grid: tuple[int, int, int], values: Sequence[Any], team: int, counters: int = 0
    ) -> None:
        """Run the grid on up to `team` threads.

        `values` are address, low and high of each pointer and the plain value of each scalar.
        """
        x, y, z = grid
        total = x * y * z
        try:
            block = self.free.pop()
        except IndexError:
            block = ArgumentBlock(self.slots)
        memory = block.memory
        try:
            self.pack(memory, 8 * STATE_WORDS, block.state, x, y, z, counters, 0, *values)
        except OverflowError:
            self.pack(memory, 8 * STATE_WORDS, block.state, x, y, z, counters, 0, *rounded(values))
        self.run(block, total, team)
        self.free.append(block)

    def launch_part(
        self,
        grid: tuple[int, int, int],
        values: Sequence[Any],
        programs: range,
        counters: int = 0,
    ) -> tuple[int, int] | None:
        """Run some programs, one after the other; gives the site and program of a fault."""
        block = ArgumentBlock(self.slots)
        held = rounded(values)
        self.pack(block.memory, 8 * STATE_WORDS, block.state, *grid, counters, 0, *held)
        RUN(self.entry)(programs.start, programs.stop, block.args)
        words = block.memory
        return (words[SITE], words[PROGRAM]) if words[TAKEN] else None

    def run(self, block: ArgumentBlock, total: int, team: int) -> None:
        """Run so many programs with the arguments of a block."""
        used = self.useful(team)
        chunk = -1 if self.waits else -(-total // (used * CHUNKS_PER_THREAD))
        if threads.parallel(self.entry, block.args, total, chunk, used if total > self.few else 1):
            self.mend(block.memory, team)

    def useful(self, team: int) -> int:
        """How many threads to begin with where `team` are wanted: one, if that is faster, but
        more where programs may wait for each other."""
        if self.waits:
            return max(team, 2)
        return 1 if team <= self.alone_until else team

    def mend(self, words: Any, team: int) -> None:
        """Run again what did not begin, since arguments share memory; or raise what happened."""
        if not (words[TAKEN] and words[SITE] == SHARED) or self.recompile is None:
            raise self.fault(words)
        if self.careful is None:
            self.careful = self.recompile(shared=True)
        block = ArgumentBlock(self.slots)
        block.memory[STATE_WORDS:] = words[STATE_WORDS : STATE_WORDS + self.slots]
        block.memory[STATE_WORDS] = block.state
        x, y, z = words[STATE_WORDS + 1 : STATE_WORDS + 4]
        self.careful.run(block, x * y * z, team)

    def plan(self, team: int, taken: Sequence[int]) -> list[int]:
        """What a native launcher must know, as `fastcall.PLAN` tells."""
        if HEAD_SLOTS + SLOTS * len(taken) != self.slots:
            raise InternalError(f"{self.metadata['name']}: code and launch take other arguments")
        self.team = team
        parts = 0 if self.waits else CHUNKS_PER_THREAD
        return [self.entry, self.useful(team), parts, self.few, len(taken), *taken]

    def stopped(self, state: int, status: int) -> None:
        """Mend a launch by the native launcher, whose state is at an address, or raise."""
        if status == threads.INTERRUPTED:
            threads.raise_interrupt(state + 8 * STATE_WORDS)
        self.mend((ctypes.c_int64 * (STATE_WORDS + self.slots)).from_address(state), self.team)

    def fault(self, words: Any) -> Exception:
        """The error that the state of a launch tells of."""
        if not words[TAKEN]:
            return InternalError(f"{self.metadata['name']}: a launch stopped without a reason")
        site = self.metadata["sites"][words[SITE]]
        x, y = words[STATE_WORDS + 1], words[STATE_WORDS + 2]
        number = words[PROGRAM]
        program = (number % x, number // x % y, number // (x * y))
        loc = place_loc(site)
        if site["kind"] == "assert":
            return DeviceAssertError(
                f"{self.metadata['name']}: device-side assert failed at {loc}: program {program}: "
                f"{site.get('message') or 'the condition does not hold'}\n{excerpt(loc)}"
            )
        if site["kind"] == "wait":
            return DeadlockError(self.deadlock_message(words, program, loc))
        number = site["param"]
        name = self.metadata["params"][number][0] if number >= 0 else ""
        return OutOfBoundsError(self.bounds_message(words, site, program, loc)).at(
            program, loc, name
        )

    def deadlock_message(self, words: Any, program: tuple[int, int, int], loc: Loc) -> str:
        running, unstarted = words[COUNT], words[ADDRESS]
        x, y, z = words[STATE_WORDS + 1 :][:3]
        total = x * y * z
        if unstarted < 0:  # one thread, which runs them in order
            unstarted = total - 1 - words[PROGRAM]
        advice = ""
        if not self.waits:
            advice = "\nit waits for a lock that nobody holds; locks must be free before a launch"
        elif unstarted:
            most = max(running, threads.MOST_TOGETHER)
            advice = (
                f"\n{unstarted} of {total} programs have not started: the CPU runs {running} at a "
                f"time here; for programs that need all others to run at once, "
                f"launch at most {most} programs"
            )
        elif running > 1:
            advice = f"\nall {running} programs that have not ended wait"
        return (
            f"{self.metadata['name']}: program {program} waits at {loc} for a value that no "
            f"running program will write\n{excerpt(loc)}{advice}"
        )

    def bounds_message(
        self, words: Any, site: dict[str, Any], program: tuple[int, int, int], loc: Loc
    ) -> str:
        size = site["bytes"]
        number = site["param"]
        name, start, low, high = "its argument", 0, 0, 0
        if number >= 0:
            name = self.metadata["params"][number][0]
            start, low, high = words[STATE_WORDS + HEAD_SLOTS + SLOTS * number :][:SLOTS]
        row = (words[ADDRESS], words[STRIDE], words[COUNT])
        address, outside = first_outside(*row, size, low, high)
        return out_of_bounds_message(
            self.metadata["name"], site["kind"], name, loc, program,
            (address - start) // size, max(0, high - start) // size, outside,
        )  # fmt: skip


def first_outside(
    address: int, stride: int, count: int, size: int, low: int, high: int
) -> tuple[int, int]:
    """The first address of a row outside [low, high), and how many elements it reaches out."""
    last = address + stride * (count - 1)
    if low <= address <= high - size:
        room = high - size - address if stride > 0 else address - low
        address += (room // abs(stride) + 1) * stride
    if address < low:
        return address, -(-(low - min(address, last)) // size)
    past = max(address, last) + size - high
    return max(address, high), -(-past // size)


def slot_format(kind: Type) -> str:
    """How `struct` writes the three slots of a parameter."""
    dtype = kind.dtype
    if dtype.is_pointer:
        return "QQQ"
    if dtype.is_float:
        return "d16x" if dtype.bits == 64 else "f20x"
    return "Q16x" if dtype.kind == "uint" else "q16x"


CPU = CpuTarget()
