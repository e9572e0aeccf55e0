"""Compiled kernels on GPUs: parameters packed into one buffer, launches, and faults they report."""

from __future__ import annotations

import atexit
import ctypes
import struct
import sys
import threading
import weakref
from collections.abc import Sequence
from typing import Any, NoReturn

from tilewright.errors import (
    DeviceAssertError,
    InternalError,
    LaunchError,
    Loc,
    OutOfBoundsError,
    OutOfResources,
    TilewrightError,
    excerpt,
    out_of_bounds_message,
)
from tilewright.ir.types import parse_type
from tilewright.targets.cuda import driver, fastcall, modules, streams
from tilewright.targets.cuda.fastcall import (
    CONFIG_BYTES,
    EXTRA_END,
    EXTRA_POINTER,
    EXTRA_SIZE,
    GRID_LIMITS,
    LARGE_GRID,
    LAUNCHES,
    NO_STREAM,
)
from tilewright.targets.cuda.history import History
from tilewright.targets.cuda.modules import Function
from tilewright.targets.places import place_loc
from tilewright.targets.values import SLOTS, rounded

WARP = 32
# The first word of a fault record: site + 1, the number of the launch, the program.
SITE_SHIFT, LAUNCH_SHIFT = 48, 31


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
        self.history = History([parse_type(text) for _, text in metadata["params"]])
        # Taken by a launch and given back, so that threads never share one.
        self.free: list[ParameterBuffer] = []
        self.record = 0
        self.word: Any = None  # the first word of the record
        self.run: Any = None  # the driver's launch
        self.waits = metadata["asserts"]
        self.loading = threading.Lock()

    def __del__(self) -> None:
        functions = getattr(self, "functions", None)
        if functions and not self.history.is_captured and not sys.is_finalizing():
            modules.retired.append((functions, self.record))

    # --- launching

    def launch(
        self, grid: tuple[int, int, int], values: Sequence[Any], place: int = -1, counters: int = 0
    ) -> None:
        """Run the grid on the current stream; returns before it is over.

        `values` are address, low and high of each pointer and the plain value of each scalar.

        Raises:
            OutOfBoundsError: a fault of this launch, if it is the first one or the kernel holds
                asserts; else of an earlier launch of the kernel.
        """
        device, stream = streams.current_stream()
        if place < 0 or place == device:
            self.launch_on(device, stream, grid, values, counters)
        else:
            with driver.in_force(place):
                self.launch_on(place, streams.stream_of(place), grid, values, counters)

    def launch_on(
        self,
        device: int,
        stream: int,
        grid: tuple[int, int, int],
        values: Sequence[Any],
        counters: int,
    ) -> None:
        """Run the grid on a stream of the device whose context is current."""
        handle = self.handles.get(device)
        first = handle is None
        if first:
            handle = self.load(device, stream)
        if self.word.value:
            raise self.fault()
        x, y, z = grid
        if y > GRID_LIMITS[1] or z > GRID_LIMITS[2]:
            raise self.grid_error(grid)
        try:
            buffer = self.free.pop()
        except IndexError:
            buffer = ParameterBuffer(self.history.size)
        number = self.history.next()
        head = (x, y, z, self.threads, 1, 1, self.shared, stream, 0, 0)
        own = (self.record, number, counters)
        pack = self.history.pack_into
        try:
            pack(buffer.memory, 0, *head, *own, *values)
        except (OverflowError, struct.error):
            pack(buffer.memory, 0, *head, *own, *rounded(values))
        self.history.remember(number, buffer.address)
        if stream and not self.history.is_captured and driver.driver().is_capturing(stream):
            self.history.note_capture()
        status = self.run(buffer.address, handle, None, buffer.extra_address)
        if status in driver.INVALID_CONTEXT and not driver.driver().handle("cuCtxGetCurrent"):
            driver.driver().use(device)  # this thread had none
            status = self.run(buffer.address, handle, None, buffer.extra_address)
        self.free.append(buffer)
        if status:
            raise self.launch_error(status)
        if first or self.waits:
            self.wait(stream)

    def launch_error(self, status: int) -> LaunchError:
        message = driver.driver().message(status)
        return LaunchError(f"{self.name}: the launch failed: {message}")

    def plan(self, place: int, taken: Sequence[int]) -> list[int] | None:
        """What a native launcher must know, as `fastcall.PLAN` tells; None when it may not
        launch this."""
        if self.waits or not fastcall.is_connected():
            return None
        if len(taken) != len(self.history.places):
            raise InternalError(f"{self.name}: code and launch take other arguments")
        device = streams.current_stream()[0] if place < 0 else place
        if device not in self.handles:
            return None
        pairs = [word for pair in zip(taken, self.history.places, strict=True) for word in pair]
        return [
            self.handles[device], driver.driver().contexts[device], self.record,
            self.history.address, device, self.threads, self.shared,
            self.history.size, self.history.row_bytes, len(taken), *pairs,
        ]  # fmt: skip

    def stopped(self, block: int, status: int) -> NoReturn:
        """Raise what was wrong with a launch by the native launcher, whose block is there."""
        if status == LARGE_GRID:
            raise self.grid_error(tuple((ctypes.c_uint32 * 3).from_address(block)))
        if status == NO_STREAM:
            raise LaunchError(f"{self.name}: torch gives no stream of the device")
        raise self.launch_error(status)

    def load(self, device: int, stream: int) -> int:
        """The driver's handle of the kernel on a device; some stream of it is in force."""
        driver.driver().use(device)
        with self.loading, modules.any_time(stream):
            if device not in self.handles:
                self.load_module(device)
        return self.handles[device]

    def load_module(self, device: int) -> None:
        found = driver.driver()
        if not self.record:
            self.record = found.record()
            self.word = ctypes.c_uint64.from_address(self.record)
            self.run = found.launch_kernel
            if not live:
                atexit.register(tell_at_exit)
            live.add(self)
        function = modules.load(found, self.image, self.metadata["entry"], self.shared)
        if function.max_threads < self.threads:
            modules.unload(found, function)
            raise OutOfResources(self.threads, function.max_threads, "threads, by their registers")
        self.functions[device] = function
        self.handles[device] = function.handle

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
        (x, y, _), values = self.history.find(number) or ((1 << 31, 1, 1), None)
        program = (linear % x, linear // x % y, linear // (x * y))
        loc = place_loc(site)
        if site["kind"] == "assert":
            return DeviceAssertError(
                f"{self.name}: device-side assert failed at {loc}: program {program}: "
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
        outside = -element if element < 0 else element - elements + 1
        return out_of_bounds_message(
            self.name, site["kind"], name, loc, program, element, elements, outside
        )

    # --- what reports ask

    @property
    def entry(self) -> int:
        """The driver's handle on some device where the kernel is loaded, else 0."""
        return next(iter(self.handles.values()), 0)

    def facts(self) -> dict[str, int]:
        """Registers of a thread, words and bytes of them in memory, shared bytes of a program;
        multiprocessors, and the programs that each of them holds at a time."""
        device, stream = streams.current_stream()
        if device not in self.functions:
            self.load(device, stream)
        function = self.functions[device]
        return {
            "n_regs": function.registers,
            "n_spills": function.local // 4,
            "spill_bytes": function.local,
            "max_threads": function.max_threads,
            "shared": self.shared,
            "programs": modules.occupancy(driver.driver(), function, self.threads, self.shared),
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
