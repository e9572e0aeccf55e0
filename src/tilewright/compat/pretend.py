"""Answer for a CUDA device that is not there, while tensors stay on the CPU (docs/packages.md)."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
import torch.autograd
import torch.cuda
import torch.library
from torch.utils._device import DeviceContext

from tilewright import config
from tilewright.compat.pretend_mode import (
    CPU,
    DEVICE,
    Pretence,
    by_default,
    default_device,
    on_cpu,
    within,
    wrapping,
)
from tilewright.compat.pretend_operators import cuda_only, registering
from tilewright.runtime import arrays, cpu_driver, driver
from tilewright.targets.cpu.threads import default_threads

NAME = "Tilewright on the CPU, pretending to be CUDA"
MEMORY = 16 << 30
ABSENT = object()  # a name that there was not


class Stream:
    """A stream on which everything has happened."""

    cuda_stream = 0
    stream_id = 0
    priority = 0
    device = DEVICE

    def __init__(self, *_: Any, **__: Any):
        pass

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream)

    __hash__ = object.__hash__

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def record_event(self, event: Any = None) -> Any:
        event = event or Event(enable_timing=True)
        event.record()
        return event

    def synchronize(self) -> None:
        """Nothing is in flight."""

    wait_stream = wait_event = lambda self, other: None


class Event(cpu_driver.Event):
    """An event that has come to pass; those of any accelerator are told a device first."""

    def __init__(self, *_: Any, **__: Any):
        super().__init__()

    def query(self) -> bool:
        return True

    def wait(self, stream: Any = None) -> None:
        """Nothing is in flight."""


class Device(contextlib.AbstractContextManager):
    """`torch.cuda.device(...)`: there is one device."""

    def __init__(self, device: Any = None):
        self.idx = 0

    def __exit__(self, *_: Any) -> None:
        pass


class Generator:
    """Where kernels take seeds from: a seed and how many numbers of its sequence are used up."""

    device = DEVICE

    def __init__(self) -> None:
        self.state = [0, 0]

    def get_state(self) -> torch.Tensor:
        return torch.tensor(self.state).view(torch.uint8)

    def set_state(self, state: torch.Tensor) -> None:
        self.state = state.view(torch.int64).tolist()

    def manual_seed(self, seed: int) -> Generator:
        self.state = [int(seed), 0]
        return self

    def initial_seed(self) -> int:
        return self.state[0]


class TensorGenerators(type(torch._C.Generator)):
    """What `torch.Generator` is: every generator of PyTorch is one."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, torch._C.Generator)


class TensorGenerator(torch._C.Generator, metaclass=TensorGenerators):
    """`torch.Generator(...)`: one of the CPU, which may say that it is on the GPU."""

    def __new__(cls, device: Any = "cpu") -> TensorGenerator:
        made = super().__new__(cls, device=on_cpu(device))
        made.on_gpu = on_cpu(device) is not device
        return made

    def __init__(self, device: Any = "cpu"):
        """Made as it is."""

    @property
    def device(self) -> torch.device:
        return DEVICE if self.on_gpu else CPU


class Driver(cpu_driver.CpuDriver):
    """Triton's driver, which names a GPU."""

    def get_current_target(self) -> cpu_driver.GPUTarget:
        major, minor = capability()
        return cpu_driver.GPUTarget("cuda", major * 10 + minor, 32)

    def get_active_torch_device(self) -> torch.device:
        return DEVICE

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        return capability()

    def get_device_interface(self) -> Any:
        return torch.cuda


def capability(device: Any = None) -> tuple[int, int]:
    """The pretended device's, as the setting has it."""
    major, _, minor = config.get("capability").partition(".")
    return int(major), int(minor or 0)


def architectures() -> list[str]:
    return ["sm_{}{}".format(*capability())]


def properties(device: Any = None) -> types.SimpleNamespace:
    """What `torch.cuda.get_device_properties` says of the pretended device."""
    major, minor = capability()
    shared = 164 << 10 if major < 9 else 228 << 10
    return types.SimpleNamespace(
        name=NAME, major=major, minor=minor, total_memory=MEMORY,
        multi_processor_count=default_threads(), warp_size=32, gcnArchName="",
        max_threads_per_multi_processor=2048, regs_per_multiprocessor=1 << 16,
        shared_memory_per_block=48 << 10, shared_memory_per_block_optin=shared - (1 << 10),
        shared_memory_per_multiprocessor=shared, L2_cache_size=32 << 20, is_integrated=0,
        is_multi_gpu_board=0, uuid="tilewright",
    )  # fmt: skip


# What functions of `torch.cuda` answer, whatever they are asked.
CONSTANTS = {
    "is_available": True, "is_initialized": True, "init": None, "_lazy_init": None,
    "device_count": 1, "current_device": 0, "set_device": None,
    "get_device_name": NAME,
    "is_bf16_supported": True, "is_tf32_supported": True,
    "current_stream": Stream(), "default_stream": Stream(), "set_stream": None,
    "stream": contextlib.nullcontext(), "is_current_stream_capturing": False,
    "synchronize": None, "empty_cache": None, "ipc_collect": None,
    "mem_get_info": (MEMORY, MEMORY), "memory_allocated": 0, "max_memory_allocated": 0,
    "memory_reserved": 0, "max_memory_reserved": 0, "memory_stats": {},
    "reset_peak_memory_stats": None, "reset_max_memory_allocated": None,
    "reset_accumulated_memory_stats": None, "set_per_process_memory_fraction": None,
    "memory_snapshot": [], "memory_summary": "", "get_allocator_backend": "native",
    "set_sync_debug_mode": None, "get_sync_debug_mode": 0, "can_device_access_peer": False,
    "utilization": 0, "memory_usage": 0, "device_memory_used": 0, "_sleep": None,
}  # fmt: skip
# Of `torch._C`, which has them in builds for CUDA only.
CORE = {
    "_cuda_getCurrentRawStream": 0, "_cuda_getDevice": 0, "_cuda_getDeviceCount": 1,
    "_cuda_setDevice": None, "_cuda_exchangeDevice": 0, "_cuda_maybeExchangeDevice": 0,
    "_cuda_isCurrentStreamCapturing": False, "_cuda_synchronize": None,
}  # fmt: skip
ACCELERATOR = {
    "is_available": True, "current_accelerator": torch.device("cuda"), "device_count": 1,
    "current_device_index": 0, "set_device_index": None, "current_stream": Stream(),
    "set_stream": None, "synchronize": None, "empty_cache": None, "empty_host_cache": None,
    "get_memory_info": (MEMORY, MEMORY), "memory_allocated": 0, "max_memory_allocated": 0,
    "memory_reserved": 0, "max_memory_reserved": 0, "memory_stats": {},
    "reset_peak_memory_stats": None, "reset_accumulated_memory_stats": None,
    "current_device_idx": 0, "set_device_idx": None,
}  # fmt: skip
GENERATOR = Generator()
NVTX = types.SimpleNamespace(
    range_push=lambda *_, **__: 0, range_pop=lambda: 0, mark=lambda *_, **__: None,
    range=lambda *_, **__: contextlib.nullcontext(), range_start=lambda *_, **__: 0,
    range_end=lambda *_: None,
)  # fmt: skip
OBJECTS = {
    "nvtx": NVTX, "seed": lambda: GENERATOR.manual_seed(0),
    "seed_all": lambda: GENERATOR.manual_seed(0),
    "device": Device, "device_of": Device, "Stream": Stream, "Event": Event,
    "get_device_properties": properties, "get_device_capability": capability,
    "get_arch_list": architectures,
    "default_generators": (GENERATOR,), "initial_seed": GENERATOR.initial_seed,
    "manual_seed": lambda seed: GENERATOR.manual_seed(seed),
    "manual_seed_all": lambda seed: GENERATOR.manual_seed(seed),
    "get_rng_state": lambda device=None: GENERATOR.get_state(),
    "get_rng_state_all": lambda: [GENERATOR.get_state()],
    "set_rng_state": lambda state, device=None: GENERATOR.set_state(state),
    "set_rng_state_all": lambda states: GENERATOR.set_state(states[0]),
    "StreamContext": Stream,
}  # fmt: skip


def constant(value: Any) -> Callable:
    """A function object of its own: Dynamo keeps rules by function."""
    return lambda *_, **__: value


def uncompiled(model: Any = None, **_: Any) -> Any:
    """`torch.compile` that leaves a function as it is, also as a decorator."""
    return (lambda model: model) if model is None else model


def replacements(mode: Pretence) -> Iterator[tuple[Any, str, Any]]:
    """(object, name, what the name becomes) of all that is replaced."""
    for name, answer in CONSTANTS.items():
        yield torch.cuda, name, constant(answer)
    for name, value in OBJECTS.items():
        yield torch.cuda, name, value
    for name, answer in CORE.items():
        yield torch._C, name, constant(answer)
    yield torch.version, "cuda", torch.version.cuda or "12.8"
    for name, answer in ACCELERATOR.items():
        yield torch.accelerator, name, constant(answer)
    yield torch.accelerator, "device_index", Device
    yield torch.library.Library, "impl", registering(mode, torch.library.Library.impl)
    yield torch, "get_device_module", device_module
    wrapper = torch.Tensor._make_wrapper_subclass
    yield torch.Tensor, "_make_wrapper_subclass", wrapping(wrapper)
    yield torch, "Generator", TensorGenerator
    yield torch, "Event", Event
    yield torch, "Stream", Stream
    yield DeviceContext, "__torch_function__", by_default
    yield torch, "get_default_device", default_device
    # Inductor would make code for the device.
    yield torch, "compile", uncompiled
    # Backward functions of packages run inside this one.
    run = torch.autograd._engine_run_backward
    yield torch.autograd, "_engine_run_backward", within(mode, run)


@cache  # as PyTorch's: Dynamo looks for what is cached
def device_module(device: Any = None) -> Any:
    """`torch.cuda` for tensors on a GPU, and where none are named."""
    if device is None:
        return torch.cuda
    return getattr(torch, torch.device(device).type)


class Started:
    """The pretence in force, and what to put back after it."""

    def __init__(self) -> None:
        self.mode = Pretence()
        self.before = []
        for owner, name, value in replacements(self.mode):
            self.before.append((owner, name, getattr(owner, name, ABSENT)))
            setattr(owner, name, value)
        self.operators = cuda_only()
        driver.set_active(Driver())
        arrays.pretended.update({"cuda": "cpu", str(DEVICE): "cpu"})
        self.mode.__enter__()

    def stop(self) -> None:
        self.mode.__exit__(None, None, None)
        self.operators._destroy()
        driver.reset_active()
        arrays.pretended.clear()
        for owner, name, value in reversed(self.before):
            if value is ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


_started: Started | None = None


def start() -> None:
    """Begin to pretend, in this thread: a mode of PyTorch belongs to the thread it is set in."""
    global _started
    if _started is None:
        _started = Started()


def stop() -> None:
    """Tell the truth again."""
    global _started
    if _started is not None:
        _started.stop()
        _started = None
