"""Modules of machine code: linking PTX, loading kernels, and what the driver says of them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tilewright.errors import InternalError, OutOfResources
from tilewright.targets.cuda.driver import RECORD_BYTES, Driver, driver, in_force
from tilewright.targets.cuda.symbols import Handle

LOG_BYTES = 1 << 14
STATIC_SHARED = 48 << 10  # more must be asked for, function by function
RELAXED = 2  # mode of stream capture

# Numbers of the driver's enumerations.
MAX_SHARED_ATTRIBUTE = 8
JIT_INFO, JIT_INFO_SIZE, JIT_ERROR, JIT_ERROR_SIZE, JIT_VERBOSE = 3, 4, 5, 6, 12
INPUT_PTX = 1
FUNCTION_FACTS = {"local": 3, "registers": 4, "max_threads": 0, "binary": 6}

# Functions by device, and the fault record, of kernels that are gone; appended by finalizers.
retired: list[tuple[dict[int, Function], int]] = []


@dataclass(frozen=True)
class Function:
    """A kernel in a loaded module, and what the assembler made of it."""

    handle: int
    module: int
    registers: int
    local: int  # bytes of a thread: registers that did not fit
    max_threads: int
    log: str


class JitLog:
    """The buffers that the driver's assembler writes its messages to."""

    def __init__(self) -> None:
        self.info = ctypes.create_string_buffer(LOG_BYTES)
        self.error = ctypes.create_string_buffer(LOG_BYTES)
        values = {
            JIT_INFO: ctypes.addressof(self.info),
            JIT_INFO_SIZE: LOG_BYTES,
            JIT_ERROR: ctypes.addressof(self.error),
            JIT_ERROR_SIZE: LOG_BYTES,
            JIT_VERBOSE: 1,
        }
        self.count = len(values)
        self.options = (ctypes.c_int * self.count)(*values)
        self.values = (Handle * self.count)(*values.values())

    @property
    def text(self) -> str:
        return self.info.value.decode(errors="replace")

    @property
    def errors(self) -> str:
        return self.error.value.decode(errors="replace")


def assembly_error(message: str, log: str) -> InternalError:
    return InternalError(f"the driver does not take the generated code: {message}\n{log.strip()}")


def link(found: Driver, ptx: bytes) -> tuple[bytes, str]:
    """Machine code for the current device, and what the assembler says."""
    log = JitLog()
    state = handle_of_link(found, log)
    try:
        text = ptx.rstrip(b"\0") + b"\0"
        status = found.library.cuLinkAddData_v2(
            state, INPUT_PTX, text, len(text), b"kernel.ptx", 0, None, None
        )
        out, size = Handle(), ctypes.c_size_t()
        status = status or found.library.cuLinkComplete(
            state, ctypes.byref(out), ctypes.byref(size)
        )
        if status:
            raise assembly_error(found.message(status), log.errors)
        return ctypes.string_at(out.value, size.value), log.text
    finally:
        found.library.cuLinkDestroy(state)


def handle_of_link(found: Driver, log: JitLog) -> Handle:
    state = Handle()
    found.call("cuLinkCreate_v2", log.count, log.options, log.values, ctypes.byref(state))
    return state


def load(found: Driver, image: bytes, name: str, shared: int) -> Function:
    """A kernel of a cubin, or of PTX, on the current device.

    Args:
        shared: The bytes of shared memory that one program takes.
    """
    log = JitLog()
    module = Handle()
    status = found.library.cuModuleLoadDataEx(
        ctypes.byref(module), image, log.count, log.options, log.values
    )
    if status:
        raise assembly_error(found.message(status), log.errors)
    function = found.handle("cuModuleGetFunction", module, name.encode())
    if shared > STATIC_SHARED:
        limit = found.device(found.current()).shared_limit
        if shared > limit:
            found.call("cuModuleUnload", module)
            raise OutOfResources(shared, limit, "shared memory")
        found.call("cuFuncSetAttribute", function, MAX_SHARED_ATTRIBUTE, shared)
    facts = {
        fact: found.number("cuFuncGetAttribute", attribute, function)
        for fact, attribute in FUNCTION_FACTS.items()
    }
    return Function(
        function, module.value, facts["registers"], facts["local"], facts["max_threads"],
        log.text,
    )  # fmt: skip


def facts(found: Driver, image: bytes, name: str) -> Function:
    """What the assembler made of a kernel, which is not loaded any more."""
    function = load(found, image, name, 0)
    unload(found, function)
    return function


def unload(found: Driver, function: Function) -> None:
    """Free a module, after what runs of it is over."""
    found.call("cuModuleUnload", function.module)


def unload_retired(found: Driver) -> None:
    """Unload what kernels that are gone have left."""
    while retired:
        functions, record = retired.pop()
        for device, function in functions.items():
            with in_force(device):
                unload(found, function)
        ctypes.memset(record, 0, RECORD_BYTES)
        found.free_records.append(record)


def occupancy(found: Driver, function: Function, threads: int, shared: int) -> int:
    """How many programs one multiprocessor holds at a time."""
    return found.number(
        "cuOccupancyMaxActiveBlocksPerMultiprocessor", function.handle, threads, shared
    )


@contextmanager
def any_time(stream: int) -> Iterator[None]:
    """Allow loading modules while a stream is being captured; otherwise old ones go first."""
    found = driver()
    if not found.is_capturing(stream):
        unload_retired(found)
        yield
        return
    mode = ctypes.c_int(RELAXED)
    found.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
    try:
        yield
    finally:
        found.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
