"""A driver without a GPU: it keeps what it is told; tensors of the CPU pass for its own."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

from tilewright.runtime import arrays, compile
from tilewright.targets.cuda import driver, fastcall, launch, modules, streams, symbols
from tilewright.targets.fastcall.layouts import LAYOUT, Layouts

CAPABILITY = {75: 9, 76: 0, 16: 132, 97: 227 << 10, 82: 1 << 16, 10: 32}
KERNEL_FACTS = {3: 8, 4: 40, 0: 1024, 6: 90}
CONTEXTS = 0xC000  # and the number of the device


class Launch(NamedTuple):
    """What the driver was told of one launch."""

    function: int
    grid: tuple[int, int, int]
    threads: int
    shared: int
    stream: int
    device: int
    number: int  # of the launch, as the kernel is told
    params: bytes  # of the user's


class FakeLibrary:
    """The functions of libcuda.so, with the state of a driver for two devices."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self.current: dict[int, int | None] = {}  # contexts by thread
        self.loaded: dict[int, int] = {}  # modules, and the device of each
        self.status = 0  # of launches
        self.capturing: set[int] = set()
        self.memory: list[Any] = []
        self.places: dict[int, int] = {}  # devices by address
        self.numbers = 0
        for name, types in symbols.SIGNATURES.items():
            setattr(self, name, self.function(name, types))
        self.cuGetErrorString = self.function(
            "cuGetErrorString", (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p))
        )

    def function(self, name: str, types: tuple) -> Any:
        body = getattr(self, f"do_{name}", lambda *_: 0)
        return ctypes.CFUNCTYPE(ctypes.c_int, *types)(lambda *args: body(*args) or 0)

    def number(self) -> int:
        self.numbers += 1
        return 0x1000 + 16 * self.numbers

    def context(self) -> int | None:
        return self.current.get(threading.get_ident())

    @staticmethod
    def do_cuGetErrorString(status, out):
        out[0] = b"what went wrong"

    @staticmethod
    def do_cuDeviceGetCount(out):
        out[0] = 2

    @staticmethod
    def do_cuDriverGetVersion(out):
        out[0] = 99999

    @staticmethod
    def do_cuDeviceGetAttribute(out, attribute, device):
        out[0] = CAPABILITY.get(attribute, 1)

    @staticmethod
    def do_cuDevicePrimaryCtxRetain(out, device):
        out[0] = CONTEXTS + device

    def do_cuCtxGetCurrent(self, out):
        out[0] = self.context()

    def do_cuCtxSetCurrent(self, context):
        self.current[threading.get_ident()] = context

    def do_cuCtxGetDevice(self, out):
        out[0] = self.context() - CONTEXTS

    def do_cuLinkCreate_v2(self, count, options, values, out):
        out[0] = 1

    def do_cuLinkComplete(self, state, out, size):
        image = ctypes.create_string_buffer(b"cubin")
        self.memory.append(image)
        out[0], size[0] = ctypes.addressof(image), len(image)

    def do_cuModuleLoadDataEx(self, out, image, count, options, values):
        out[0] = number = self.number()
        self.loaded[number] = self.context() - CONTEXTS

    def do_cuModuleUnload(self, module):
        assert self.loaded.pop(module) == self.context() - CONTEXTS

    def do_cuModuleGetFunction(self, out, module, name):
        out[0] = module + 1

    @staticmethod
    def do_cuFuncGetAttribute(out, attribute, function):
        out[0] = KERNEL_FACTS[attribute]

    @staticmethod
    def do_cuOccupancyMaxActiveBlocksPerMultiprocessor(out, function, threads, shared):
        out[0] = 12

    def do_cuMemHostAlloc(self, out, size, flags):
        memory = ctypes.create_string_buffer(size)
        self.memory.append(memory)
        out[0] = ctypes.addressof(memory)

    def do_cuPointerGetAttribute(self, out, attribute, address):
        ctypes.c_int32.from_address(out).value = self.places[address]

    def do_cuStreamIsCapturing(self, stream, out):
        if self.context() is None:
            return 201
        out[0] = int((stream or 0) in self.capturing)
        return 0

    def do_cuLaunchKernelEx(self, config, function, params, extra):
        if self.context() is None:
            return 201
        if self.status:
            return self.status
        words = (ctypes.c_uint32 * 7).from_address(config)
        stream, attributes, count = (ctypes.c_uint64 * 3).from_address(config + 32)
        one, params, two, size, end = (ctypes.c_uint64 * 5).from_address(extra)
        assert (one, two, end, attributes, count, words[4], words[5]) == (1, 2, 0, 0, 0, 1, 1)
        data = ctypes.string_at(params, ctypes.c_uint64.from_address(size).value)
        number = int.from_bytes(data[8:12], "little")
        assert data[16:24] == bytes(8)
        device = self.context() - CONTEXTS
        assert self.loaded[function - 1] == device
        self.launches.append(
            Launch(
                function, tuple(words[:3]), words[3], words[6], stream, device, number, data[24:]
            )
        )
        return 0


class FakeGpu:
    """Two GPUs, for torch too."""

    def __init__(self, torch: Any, monkeypatch: Any):
        self.library = library = FakeLibrary()
        self.devices: dict[int, int] = {}  # of tensors, by their `_cdata`
        self.streams = {0: 0, 1: 0}
        self.held: list[Any] = []
        self.changed: list[tuple[Any, list[int]]] = []  # words of layouts, and what they were
        monkeypatch.setattr(driver, "open_library", lambda: library)
        self.close()
        bindings = SimpleNamespace(
            _cuda_getDevice=self.device, _cuda_getCurrentRawStream=self.streams.__getitem__
        )
        monkeypatch.setattr(streams, "torch_cuda", lambda: bindings)
        monkeypatch.setattr(fastcall, "_native", None)
        get_stream = self.callback(self.get_stream, ctypes.c_int32, ctypes.c_void_p)
        monkeypatch.setattr(fastcall, "stream_getter", lambda: get_stream)
        family = arrays.Family(self.pointer, self.device_name, arrays.TORCH.layout)
        monkeypatch.setitem(arrays._families, torch.Tensor, family)
        monkeypatch.setattr(Layouts, "find_torch", self.find_torch())

    def close(self) -> None:
        """Forget the driver, and what was loaded by it."""
        for words, before in self.changed:
            words[:] = before
        gc.collect()
        compile._loaded.clear()
        driver.process_driver.cache_clear()
        launch.live.clear()
        streams._reader.clear()
        modules.retired.clear()

    def callback(self, function: Callable, *types: Any) -> int:
        made = ctypes.CFUNCTYPE(ctypes.c_int, *types)(function)
        self.held.append(made)
        return ctypes.cast(made, ctypes.c_void_p).value

    # --- what torch says

    def device(self) -> int:
        context = self.library.context()
        return 0 if context is None else context - CONTEXTS

    def set_device(self, number: int) -> None:
        self.library.current[threading.get_ident()] = CONTEXTS + number

    def tensor(self, tensor: Any, device: int = 0) -> Any:
        """A tensor that passes for one of a device."""
        self.held.append(tensor)
        self.devices[tensor._cdata] = device
        return tensor

    def pointer(self, value: Any, name: str, device: str) -> Any:
        if self.device_name(value, name) != device:
            raise arrays.elsewhere(name, self.device_name(value, name), device)
        return arrays.TORCH.pointer(value, name, "cpu")

    def device_name(self, value: Any, name: str) -> str:
        number = self.devices.get(value._cdata)
        return "cpu" if number is None else f"cuda:{number}"

    def get_stream(self, device: int, out: int) -> int:
        ctypes.c_uint64.from_address(out).value = self.streams[device]
        return 0

    def find_torch(self) -> Callable:
        """Learning about torch, with tensors that say where they pass for being."""
        real = Layouts.find_torch

        def found(handle: int) -> int | None:
            return self.devices.get(ctypes.c_uint64.from_address(handle).value)

        def device_type(handle: int, out: int) -> int:
            ctypes.c_int32.from_address(out).value = int(found(handle) is not None)
            return 0

        def device_index(handle: int, out: int) -> int:
            ctypes.c_int32.from_address(out).value = found(handle)
            return 0

        types = (ctypes.c_void_p, ctypes.c_void_p)
        kind, index = self.callback(device_type, *types), self.callback(device_index, *types)

        def find_torch(layouts: Layouts) -> None:
            real(layouts)
            if layouts.words[LAYOUT["get_device"]] != kind:
                self.changed.append((layouts.words, list(layouts.words)))
                layouts.words[LAYOUT["get_device"]] = kind
                layouts.words[LAYOUT["get_index"]] = index

        return find_torch
