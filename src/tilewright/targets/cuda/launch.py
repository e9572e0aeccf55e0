"""Compiled kernels on GPUs: parameters packed into one buffer, launches, and faults they report."""

from __future__ import annotations

import atexit
import ctypes
import struct
import sys
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import (
    DeviceAssertError,
    LaunchError,
    Loc,
    OutOfBoundsError,
    TilewrightError,
    excerpt,
    out_of_bounds_message,
)
from tilewright.ir.types import Type, parse_type
from tilewright.targets.cuda import driver
from tilewright.targets.cuda.driver import Function

WARP = 32
GRID_LIMITS = ((1 << 31) - 1, (1 << 16) - 1, (1 << 16) - 1)
SLOTS = 3  # of a pointer: address, and the bounds of its storage
# A CUlaunchConfig: grid, block, shared memory, stream, no attributes; then the kernel's own
# parameters, the first ones being the fault record, the number of the launch and the counters.
HEAD = "@7I4xQQI4x"
OWN = "QIQ"
CONFIG_BYTES = struct.calcsize(HEAD)
EXTRA_POINTER, EXTRA_SIZE, EXTRA_END = 1, 2, 0
# The first word of a fault record: site + 1, the number of the launch, the program.
SITE_SHIFT, LAUNCH_SHIFT = 48, 31
LAUNCHES = 1 << 17  # numbers of launches, in turn
REMEMBERED = 256  # launches whose arguments a late report can name


class ParameterBuffer:
    """Memory for the parameters of one launch at a time, and what the driver is told of it."""

    __slots__ = ("memory", "address", "extra", "size", "extra_address")

    def __init__(self, size: int):
        self.memory = (ctypes.c_char * size)()
        self.address = ctypes.addressof(self.memory)
        self.size = ctypes.c_size_t(size - CONFIG_BYTES)
        self.extra = (ctypes.c_void_p * 5)(
            EXTRA_POINTER, self.address + CONFIG_BYTES, EXTRA_SIZE, ctypes.addressof(self.size),
            EXTRA_END,
        )  # fmt: skip
        self.extra_address = ctypes.addressof(self.extra)


class CudaBinary:
    """Machine code (or PTX) of a kernel; loaded on a device when first launched there."""

    def __init__(self, image: bytes, metadata: dict[str, Any]):
        self.image = image
        self.metadata = metadata
        self.name = metadata["name"]
        self.threads = WARP * metadata["num_warps"]
        self.shared = metadata["shared"]
        self.functions: dict[int, Function] = {}
        self.handles: dict[int, int] = {}
        types = [parse_type(text) for _, text in metadata["params"]]
        packer = struct.Struct(HEAD + OWN + "".join(map(slot_format, types)))
        self.pack, self.size = packer.pack_into, packer.size
        # Taken by a launch and given back, so that threads never share one.
        self.free: list[ParameterBuffer] = []
        self.record = 0
        self.word: Any = None  # the first word of the record
        self.count = 0
        self.history: list[tuple | None] = [None] * REMEMBERED
        self.run: Any = None  # the driver's launch
        self.waits = metadata["asserts"]

    # --- launching

    def launch(
        self, grid: tuple[int, int, int], values: Sequence[Any], team: int = 0, counters: int = 0
    ) -> None:
        """Run the grid on the current stream; returns before it is over.

        `values` are address, low and high of each pointer and the plain value of each scalar.

        Raises:
            OutOfBoundsError: a fault of this launch, if it is the first one or the kernel holds
                asserts; else of an earlier launch of the kernel.
        """
        device, stream = driver.current_stream()
        handle = self.handles.get(device)
        first = handle is None
        if first:
            handle = self.load(device)
        if self.word.value:
            raise self.fault()
        x, y, z = grid
        if y > GRID_LIMITS[1] or z > GRID_LIMITS[2]:
            raise self.grid_error(grid)
        number = self.count = (self.count + 1) % LAUNCHES
        self.history[number % REMEMBERED] = (grid, values)
        try:
            buffer = self.free.pop()
        except IndexError:
            buffer = ParameterBuffer(self.size)
        head = (x, y, z, self.threads, 1, 1, self.shared, stream, 0, 0)
        own = (self.record, number, counters)
        try:
            self.pack(buffer.memory, 0, *head, *own, *values)
        except (OverflowError, struct.error):
            self.pack(buffer.memory, 0, *head, *own, *self.rounded(values))
        status = self.run(buffer.address, handle, None, buffer.extra_address)
        self.free.append(buffer)
        if status:
            self.failed(status, device, grid, values, counters)
        elif first or self.waits:
            self.wait(stream)

    def failed(
        self, status: int, device: int, grid: tuple[int, int, int], values: Any, counters: int
    ) -> None:
        """Make the device's context current where that was amiss, else tell what was wrong."""
        found = driver.driver()
        if status in driver.INVALID_CONTEXT and not found.handle("cuCtxGetCurrent"):
            found.use(device)
            self.launch(grid, values, 0, counters)
            return
        raise LaunchError(f"{self.name}: the launch failed: {found.message(status)}")

    def load(self, device: int) -> int:
        """The driver's handle of the kernel on a device."""
        found = driver.driver()
        if not self.record:
            self.record = found.record()
            self.word = ctypes.c_uint64.from_address(self.record)
            self.run = found.launch_kernel
            if not live:
                atexit.register(tell_at_exit)
            live.add(self)
        found.use(device)
        function = found.load(self.image, self.metadata["entry"], self.shared)
        if function.max_threads < self.threads:
            raise LaunchError(
                f"{self.name}: {self.threads // WARP} warps need more registers than the device "
                f"has; take fewer warps, or maxnreg={65536 // self.threads}"
            )
        self.functions[device] = function
        self.handles[device] = function.handle
        return function.handle

    def wait(self, stream: int) -> None:
        """Wait for a launch and raise what it reports; a stream being captured is left alone."""
        found = driver.driver()
        if found.is_capturing(stream):
            return
        found.call("cuStreamSynchronize", stream)
        if self.word.value:
            raise self.fault()

    def grid_error(self, grid: tuple[int, int, int]) -> LaunchError:
        return LaunchError(
            f"{self.name}: the grid {grid} is too large for a GPU, which takes at most "
            f"{GRID_LIMITS}; put the large size first"
        )

    def rounded(self, values: Sequence[Any]) -> list[Any]:
        """The values with floats beyond fp32 as the infinities they round to."""
        out = []
        for value in values:
            if isinstance(value, float):
                with np.errstate(over="ignore"):
                    value = float(np.float32(value))
            out.append(value)
        return out

    # --- faults

    def check(self) -> None:
        """Raise what a launch that is over has reported.

        Raises:
            OutOfBoundsError: and the other faults of kernels.
        """
        if self.word is not None and self.word.value:
            raise self.fault()

    def fault(self) -> Exception:
        """The error that the record tells of; the record is cleared."""
        word, address = (ctypes.c_uint64 * 2).from_address(self.record)
        ctypes.memset(self.record, 0, driver.RECORD_BYTES)
        site = self.metadata["sites"][(word >> SITE_SHIFT) - 1]
        number = (word >> LAUNCH_SHIFT) % LAUNCHES
        linear = word % (1 << LAUNCH_SHIFT)
        age = (self.count - number) % LAUNCHES
        known = self.history[number % REMEMBERED] if age < REMEMBERED else None
        (x, y, _), values = known or ((1 << 31, 1, 1), None)
        program = (linear % x, linear // x % y, linear // (x * y))
        loc = site_loc(site)
        if site["kind"] == "assert":
            return DeviceAssertError(
                f"{self.name}: device_assert failed at {loc}: program {program}: "
                f"{site['message'] or 'the condition does not hold'}\n{excerpt(loc)}"
            )
        return OutOfBoundsError(self.bounds_message(address, site, program, loc, values))

    def bounds_message(
        self,
        address: int,
        site: dict[str, Any],
        program: tuple[int, int, int],
        loc: Loc,
        values: Sequence[Any] | None,
    ) -> str:
        number = site["param"]
        if values is None or number < 0:
            return (
                f"{self.name}: {site['kind']} outside its argument at {loc}: program {program} "
                f"touches address {address:#x}\n{excerpt(loc)}"
            )
        name = self.metadata["params"][number][0]
        position = sum(
            SLOTS if text.startswith("*") else 1 for _, text in self.metadata["params"][:number]
        )
        start, _, high = values[position : position + SLOTS]
        size = site["bytes"]
        element, elements = (address - start) // size, max(0, high - start) // size
        if 0 <= element < elements:  # only the end of a vector lies outside
            element = elements
        return out_of_bounds_message(
            self.name, site["kind"], name, loc, program, element, elements, 1
        )

    # --- what reports ask

    @property
    def entry(self) -> int:
        """The driver's handle on some device where the kernel is loaded, else 0."""
        return next(iter(self.handles.values()), 0)

    def facts(self) -> dict[str, int]:
        """Registers of a thread, words and bytes of them in memory, shared bytes of a program;
        multiprocessors, and the programs that each of them holds at a time."""
        device, _ = driver.current_stream()
        if device not in self.functions:
            self.load(device)
        function = self.functions[device]
        return {
            "n_regs": function.registers,
            "n_spills": function.local // 4,
            "spill_bytes": function.local,
            "shared": self.shared,
            "programs": driver.driver().occupancy(function, self.threads, self.shared),
            "processors": driver.driver().device(device).processors,
        }


live: weakref.WeakSet[CudaBinary] = weakref.WeakSet()


def check_all() -> None:
    """Wait for the current device and raise the first fault that any kernel has reported.

    Raises:
        OutOfBoundsError: and the other faults of kernels.
    """
    if live:
        driver.driver().synchronize()
    for binary in list(live):
        binary.check()


def tell_at_exit() -> None:
    """Print a fault that no later launch has raised."""
    try:
        check_all()
    except TilewrightError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")


def slot_format(kind: Type) -> str:
    """How `struct` writes the slots of a parameter; alignment is the native one."""
    dtype = kind.dtype
    if dtype.is_pointer:
        return "QQQ"
    if dtype.is_float:
        return "d" if dtype.bits == 64 else "f"
    code = {1: "b", 8: "b", 16: "h", 32: "i", 64: "q"}[dtype.bits]
    return code.upper() if dtype.kind == "uint" else code


def site_loc(site: dict[str, Any]) -> Loc:
    """Where an access stands in the user's source."""
    return Loc(
        site["file"], site["line"], site["col"], site["end_line"], site["end_col"], site["function"]
    )
