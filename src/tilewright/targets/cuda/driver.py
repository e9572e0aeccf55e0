"""The CUDA driver, loaded when first used: calls, devices, contexts, memory."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from tilewright.errors import LaunchError
from tilewright.targets.cuda.symbols import SIGNATURES, Handle, open_library

RECORD_BYTES = 64  # of the record in which a kernel reports a fault
RECORDS = 1024  # in one piece of memory
HOST_PORTABLE_MAPPED = 3
DEVICE_ORDINAL = 9  # attribute of an address

# Numbers of the driver's enumerations.
INVALID_CONTEXT = {201, 400, 709}
CAPTURE_IMPLICIT = 906  # of the default stream, while one that waits for it is captured
DEVICE_FACTS = {
    "major": 75,
    "minor": 76,
    "processors": 16,
    "shared_limit": 97,
    "registers": 82,
    "warp_size": 10,
    "clock_khz": 13,
    "memory_clock_khz": 36,
    "bus_bits": 37,
    "l2_bytes": 38,
}


@dataclass(frozen=True)
class Device:
    """What a GPU is; sizes in bytes."""

    number: int
    name: str
    memory: int
    major: int
    minor: int
    processors: int
    shared_limit: int  # of one program
    registers: int  # of one multiprocessor
    warp_size: int
    clock_khz: int
    memory_clock_khz: int
    bus_bits: int
    l2_bytes: int

    @property
    def capability(self) -> int:
        """As in sm_90: 90."""
        return self.major * 10 + self.minor


class Driver:
    """The driver library of this process."""

    def __init__(self) -> None:
        self.library = open_library()
        self.process = os.getpid()
        for name, types in SIGNATURES.items():
            getattr(self.library, name).argtypes = types
        status = self.library.cuInit(0)
        if status:
            raise LaunchError(f"no NVIDIA GPU can be used here: {self.message(status)}")
        self.count = self.number("cuDeviceGetCount")
        if not self.count:
            raise LaunchError("no NVIDIA GPU is visible here (CUDA_VISIBLE_DEVICES may hide them)")
        self.version = self.number("cuDriverGetVersion")
        self.contexts: dict[int, int] = {}
        self.devices: dict[int, Device] = {}
        self.free_records: list[int] = []
        self.launch_kernel = self.library.cuLaunchKernelEx

    # --- calling

    def message(self, status: int) -> str:
        """What the driver says of an error code."""
        text = ctypes.c_char_p()
        self.library.cuGetErrorString(status, ctypes.byref(text))
        return f"CUDA error {status}, {(text.value or b'unknown').decode()}"

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver.

        Raises:
            LaunchError: with the driver's message.
        """
        status = getattr(self.library, name)(*arguments)
        if status:
            raise LaunchError(f"{name}: {self.message(status)}")

    def number(self, name: str, *arguments: Any) -> int:
        """What a function of the driver writes to its first argument, an int."""
        out = ctypes.c_int()
        self.call(name, ctypes.byref(out), *arguments)
        return out.value

    def handle(self, name: str, *arguments: Any) -> int:
        """The same for a handle."""
        out = Handle()
        self.call(name, ctypes.byref(out), *arguments)
        return out.value or 0

    # --- devices and contexts

    def device(self, number: int) -> Device:
        if number not in self.devices:
            if not 0 <= number < self.count:
                raise LaunchError(f"there is no device cuda:{number}, there are {self.count}")
            name = ctypes.create_string_buffer(256)
            self.call("cuDeviceGetName", name, len(name), number)
            memory = ctypes.c_size_t()
            self.call("cuDeviceTotalMem_v2", ctypes.byref(memory), number)
            facts = {
                fact: self.number("cuDeviceGetAttribute", attribute, number)
                for fact, attribute in DEVICE_FACTS.items()
            }
            self.devices[number] = Device(number, name.value.decode(), memory.value, **facts)
        return self.devices[number]

    def use(self, number: int) -> None:
        """Make the primary context of a device, which torch and CuPy use too, this thread's."""
        if number not in self.contexts:
            self.contexts[number] = self.handle("cuDevicePrimaryCtxRetain", number)
        self.call("cuCtxSetCurrent", self.contexts[number])

    def current(self) -> int:
        """The device of this thread's context; 0, which becomes it, when there is none."""
        if self.handle("cuCtxGetCurrent"):
            return self.number("cuCtxGetDevice")
        self.use(0)
        return 0

    def synchronize(self) -> None:
        """Wait for all work of this thread's device."""
        self.call("cuCtxSynchronize")

    def is_capturing(self, stream: int) -> bool:
        """Whether launches on a stream are recorded in a graph instead of run."""
        out = ctypes.c_int()
        status = self.library.cuStreamIsCapturing(stream, ctypes.byref(out))
        if status and status != CAPTURE_IMPLICIT:
            raise LaunchError(f"cuStreamIsCapturing: {self.message(status)}")
        return bool(status or out.value)

    # --- memory

    def allocate(self, size: int) -> int:
        """Memory of the current device."""
        out = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(out), max(1, size))
        return out.value

    def free(self, address: int) -> None:
        self.call("cuMemFree_v2", address)

    def write(self, address: int, data: bytes | int, size: int = 0) -> None:
        """Copy to the device: bytes, or `size` of them from an address of the host."""
        self.call("cuMemcpyHtoD_v2", address, data, size or len(data))

    def read(self, address: int, size: int) -> bytes:
        """Copy from the device, after all work before."""
        out = ctypes.create_string_buffer(size)
        self.read_to(out, address, size)
        return out.raw

    def read_to(self, out: Any, address: int, size: int) -> None:
        """The same to a buffer or an address of the host."""
        self.call("cuMemcpyDtoH_v2", out, address, size)

    def copy(self, to: int, address: int, size: int) -> None:
        """Copy within the memory of the device."""
        self.call("cuMemcpyDtoD_v2", to, address, size)

    def free_memory(self) -> int:
        """Bytes of the current device that nobody has taken."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def fill(self, address: int, byte: int, size: int) -> None:
        self.call("cuMemsetD8_v2", address, byte, size)

    def host_memory(self, size: int) -> int:
        """Memory of the host that all devices see at the same address; it is never freed."""
        out = Handle()
        self.call("cuMemHostAlloc", ctypes.byref(out), size, HOST_PORTABLE_MAPPED)
        ctypes.memset(out.value, 0, size)
        return out.value

    def record(self) -> int:
        """The address of a record for faults, zeroed."""
        if not self.free_records:
            base = self.host_memory(RECORD_BYTES * RECORDS)
            self.free_records = [base + RECORD_BYTES * k for k in range(RECORDS)]
        return self.free_records.pop()


@cache
def process_driver() -> Driver:
    return Driver()


def driver() -> Driver:
    """The driver, initialised.

    Raises:
        LaunchError: when there is none, no GPU, or this process was forked from one that used it.
    """
    found = process_driver()
    if found.process != os.getpid():
        raise LaunchError(
            "CUDA was used before this process was forked from its parent, and cannot be used "
            'here; start processes with multiprocessing\'s "spawn" method'
        )
    return found


def is_available() -> bool:
    """Whether there are a driver and a GPU."""
    try:
        driver()
    except LaunchError:
        return False
    return True


def device_of(address: int) -> int:
    """The number of the GPU in whose memory an address is; 0 when that is not known."""
    if not is_available() or driver().count == 1:
        return 0
    out = ctypes.c_int()
    status = driver().library.cuPointerGetAttribute(ctypes.byref(out), DEVICE_ORDINAL, address)
    return 0 if status else out.value


@contextmanager
def in_force(device: int) -> Iterator[None]:
    """Make a device's context current inside."""
    found = driver()
    before = found.handle("cuCtxGetCurrent")
    found.use(device)
    try:
        yield
    finally:
        found.call("cuCtxSetCurrent", before)
