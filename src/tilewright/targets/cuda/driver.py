"""The CUDA driver through ctypes, loaded when first used: devices, modules, launches, memory."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from tilewright.errors import InternalError, LaunchError, OutOfResources

LIBRARIES = ("libcuda.so.1", "libcuda.so", "nvcuda.dll")
LOG_BYTES = 1 << 14
STATIC_SHARED = 48 << 10  # more must be asked for, function by function
RECORD_BYTES = 64  # of the record in which a kernel reports a fault
RECORDS = 1024  # in one piece of memory
HOST_PORTABLE_MAPPED = 3
RELAXED = 2  # mode of stream capture
DEVICE_ORDINAL = 9  # attribute of an address

# Numbers of the driver's enumerations.
INVALID_CONTEXT = {201, 400, 709}
CAPTURE_IMPLICIT = 906  # of the default stream, while one that waits for it is captured
MAX_SHARED_ATTRIBUTE = 8
JIT_INFO, JIT_INFO_SIZE, JIT_ERROR, JIT_ERROR_SIZE, JIT_VERBOSE = 3, 4, 5, 6, 12
INPUT_PTX = 1
FUNCTION_FACTS = {"local": 3, "registers": 4, "max_threads": 0, "binary": 6}
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

Handle = ctypes.c_void_p
SIGNATURES: dict[str, tuple] = {
    "cuInit": (ctypes.c_uint,),
    "cuDriverGetVersion": (ctypes.POINTER(ctypes.c_int),),
    "cuDeviceGetCount": (ctypes.POINTER(ctypes.c_int),),
    "cuDeviceGet": (ctypes.POINTER(ctypes.c_int), ctypes.c_int),
    "cuDeviceGetName": (ctypes.c_char_p, ctypes.c_int, ctypes.c_int),
    "cuDeviceGetAttribute": (ctypes.POINTER(ctypes.c_int), ctypes.c_int, ctypes.c_int),
    "cuDeviceTotalMem_v2": (ctypes.POINTER(ctypes.c_size_t), ctypes.c_int),
    "cuDevicePrimaryCtxRetain": (ctypes.POINTER(Handle), ctypes.c_int),
    "cuCtxGetCurrent": (ctypes.POINTER(Handle),),
    "cuCtxSetCurrent": (Handle,),
    "cuCtxGetDevice": (ctypes.POINTER(ctypes.c_int),),
    "cuCtxSynchronize": (),
    "cuModuleLoadDataEx": (
        ctypes.POINTER(Handle),
        ctypes.c_char_p,
        ctypes.c_uint,
        ctypes.POINTER(ctypes.c_int),
        ctypes.POINTER(Handle),
    ),
    "cuModuleUnload": (Handle,),
    "cuModuleGetFunction": (ctypes.POINTER(Handle), Handle, ctypes.c_char_p),
    "cuFuncGetAttribute": (ctypes.POINTER(ctypes.c_int), ctypes.c_int, Handle),
    "cuFuncSetAttribute": (Handle, ctypes.c_int, ctypes.c_int),
    "cuLinkCreate_v2": (
        ctypes.c_uint,
        ctypes.POINTER(ctypes.c_int),
        ctypes.POINTER(Handle),
        ctypes.POINTER(Handle),
    ),
    "cuLinkAddData_v2": (
        Handle,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_char_p,
        ctypes.c_uint,
        Handle,
        Handle,
    ),
    "cuLinkComplete": (Handle, ctypes.POINTER(Handle), ctypes.POINTER(ctypes.c_size_t)),
    "cuLinkDestroy": (Handle,),
    "cuLaunchKernelEx": (Handle, Handle, Handle, Handle),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (
        ctypes.POINTER(ctypes.c_int),
        Handle,
        ctypes.c_int,
        ctypes.c_size_t,
    ),
    "cuMemAlloc_v2": (ctypes.POINTER(ctypes.c_uint64), ctypes.c_size_t),
    "cuMemFree_v2": (ctypes.c_uint64,),
    "cuMemHostAlloc": (ctypes.POINTER(Handle), ctypes.c_size_t, ctypes.c_uint),
    "cuMemcpyHtoD_v2": (ctypes.c_uint64, Handle, ctypes.c_size_t),
    "cuMemcpyDtoH_v2": (Handle, ctypes.c_uint64, ctypes.c_size_t),
    "cuMemcpyDtoD_v2": (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t),
    "cuMemGetInfo_v2": (ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)),
    "cuMemsetD8_v2": (ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t),
    "cuPointerGetAttribute": (Handle, ctypes.c_int, ctypes.c_uint64),
    "cuMemsetD8Async": (ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, Handle),
    "cuStreamCreate": (ctypes.POINTER(Handle), ctypes.c_uint),
    "cuStreamDestroy_v2": (Handle,),
    "cuStreamSynchronize": (Handle,),
    "cuStreamIsCapturing": (Handle, ctypes.POINTER(ctypes.c_int)),
    "cuThreadExchangeStreamCaptureMode": (ctypes.POINTER(ctypes.c_int),),
    "cuEventCreate": (ctypes.POINTER(Handle), ctypes.c_uint),
    "cuEventDestroy_v2": (Handle,),
    "cuEventRecord": (Handle, Handle),
    "cuEventSynchronize": (Handle,),
    "cuEventElapsedTime": (ctypes.POINTER(ctypes.c_float), Handle, Handle),
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


@dataclass(frozen=True)
class Function:
    """A kernel in a loaded module, and what the assembler made of it."""

    handle: int
    module: int
    registers: int
    local: int  # bytes of a thread: registers that did not fit
    max_threads: int
    log: str


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

    # --- modules

    def link(self, ptx: bytes) -> tuple[bytes, str]:
        """Machine code for the current device, and what the assembler says."""
        log = JitLog()
        state = self.handle_of_link(log)
        try:
            text = ptx.rstrip(b"\0") + b"\0"
            status = self.library.cuLinkAddData_v2(
                state, INPUT_PTX, text, len(text), b"kernel.ptx", 0, None, None
            )
            out, size = Handle(), ctypes.c_size_t()
            status = status or self.library.cuLinkComplete(
                state, ctypes.byref(out), ctypes.byref(size)
            )
            if status:
                raise assembly_error(self.message(status), log.errors)
            return ctypes.string_at(out.value, size.value), log.text
        finally:
            self.library.cuLinkDestroy(state)

    def handle_of_link(self, log: JitLog) -> Handle:
        state = Handle()
        self.call("cuLinkCreate_v2", log.count, log.options, log.values, ctypes.byref(state))
        return state

    def load(self, image: bytes, name: str, shared: int) -> Function:
        """A kernel of a cubin, or of PTX, on the current device.

        Args:
            shared: The bytes of shared memory that one program takes.
        """
        log = JitLog()
        module = Handle()
        status = self.library.cuModuleLoadDataEx(
            ctypes.byref(module), image, log.count, log.options, log.values
        )
        if status:
            raise assembly_error(self.message(status), log.errors)
        function = self.handle("cuModuleGetFunction", module, name.encode())
        if shared > STATIC_SHARED:
            limit = self.device(self.current()).shared_limit
            if shared > limit:
                self.call("cuModuleUnload", module)
                raise OutOfResources(shared, limit, "shared memory")
            self.call("cuFuncSetAttribute", function, MAX_SHARED_ATTRIBUTE, shared)
        facts = {
            fact: self.number("cuFuncGetAttribute", attribute, function)
            for fact, attribute in FUNCTION_FACTS.items()
        }
        return Function(
            function, module.value, facts["registers"], facts["local"], facts["max_threads"],
            log.text,
        )  # fmt: skip

    def registers(self, image: bytes, name: str) -> int:
        """How many registers a thread of a kernel takes."""
        function = self.load(image, name, 0)
        self.unload(function)
        return function.registers

    def unload(self, function: Function) -> None:
        """Free a module, after what runs of it is over."""
        self.call("cuModuleUnload", function.module)

    def unload_retired(self) -> None:
        """Unload what kernels that are gone have left."""
        while retired:
            functions, record = retired.pop()
            for device, function in functions.items():
                with in_force(device):
                    self.unload(function)
            ctypes.memset(record, 0, RECORD_BYTES)
            self.free_records.append(record)

    def occupancy(self, function: Function, threads: int, shared: int) -> int:
        """How many programs one multiprocessor holds at a time."""
        return self.number(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor", function.handle, threads, shared
        )

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


class Event:
    """A point in the work of a stream."""

    def __init__(self) -> None:
        self.handle = driver().handle("cuEventCreate", 0)

    def record(self, stream: int = 0) -> None:
        driver().call("cuEventRecord", self.handle, stream)

    def synchronize(self) -> None:
        driver().call("cuEventSynchronize", self.handle)

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from here to `end`, both of which are over."""
        out = ctypes.c_float()
        driver().call("cuEventElapsedTime", ctypes.byref(out), self.handle, end.handle)
        return out.value

    def close(self) -> None:
        driver().call("cuEventDestroy_v2", self.handle)


def assembly_error(message: str, log: str) -> InternalError:
    return InternalError(f"the driver does not take the generated code: {message}\n{log.strip()}")


def open_library() -> ctypes.CDLL:
    for name in LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise LaunchError(
        "no NVIDIA driver is installed here (libcuda.so.1 is not found); run on the CPU, "
        "e.g. with x.cpu() or TILEWRIGHT_TARGET=cpu"
    )


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


# --- whose device and stream are in force


def torch_cuda() -> Any:
    """torch's bindings, when this process has made use of a GPU through them."""
    torch = sys.modules.get("torch")
    bindings = getattr(torch, "_C", None)
    if bindings is None or not hasattr(bindings, "_cuda_getCurrentRawStream"):
        return None
    return bindings if torch.cuda.is_initialized() else None


def stream_reader() -> Callable[[], tuple[int, int]] | None:
    """What gives (device, stream) in force in torch; None when torch uses no GPU."""
    bindings = torch_cuda()
    if bindings is None:
        return None
    device, stream = bindings._cuda_getDevice, bindings._cuda_getCurrentRawStream

    def read() -> tuple[int, int]:
        number = device()
        return number, stream(number)

    return read


def stream_of(device: int) -> int:
    """The stream of a device, which may not be the current one, in force in torch."""
    bindings = torch_cuda()
    return 0 if bindings is None else bindings._cuda_getCurrentRawStream(device)


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


@contextmanager
def any_time(stream: int) -> Iterator[None]:
    """Allow loading modules while a stream is being captured; otherwise old ones go first."""
    found = driver()
    if not found.is_capturing(stream):
        found.unload_retired()
        yield
        return
    mode = ctypes.c_int(RELAXED)
    found.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
    try:
        yield
    finally:
        found.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))


# Functions by device, and the fault record, of kernels that are gone; appended by finalizers.
retired: list[tuple[dict[int, Function], int]] = []
_reader: list[Callable[[], tuple[int, int]]] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reader.clear)


def current_stream() -> tuple[int, int]:
    """The device and the stream that the user's array library has made current."""
    if _reader:
        return _reader[0]()
    driver()  # or there is none to be had
    found = stream_reader()
    if found is not None:
        _reader.append(found)
        return found()
    cupy = sys.modules.get("cupy")
    if cupy is not None and hasattr(cupy, "cuda"):
        return cupy.cuda.Device().id, cupy.cuda.get_current_stream().ptr
    return driver().current(), 0
