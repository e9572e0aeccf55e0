"""The mode of PyTorch in which tensors of the CPU say that they are on a CUDA device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils import _device
from torch.utils.weak import WeakTensorKeyDictionary

DEVICE = torch.device("cuda", 0)
CPU = torch.device("cpu")


def on_cpu(value: Any) -> Any:
    """A CUDA device, however it is spelled, as the CPU; anything else as it is."""
    if isinstance(value, torch.device):
        return CPU if value.type == "cuda" else value
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return CPU
    return value


def is_device(value: Any) -> bool:
    if isinstance(value, str):
        return value == "cpu" or on_cpu(value) is CPU
    return isinstance(value, torch.device) or type(value) is int


def is_cpu(device: Any) -> bool:
    """Whether a program names the CPU."""
    return type(device) is not int and torch.device(device) == CPU


def default_device() -> torch.device:
    """Where tensors are made for which no device is named."""
    modes = reversed(_get_current_function_mode_stack())
    named = next((m.device for m in modes if isinstance(m, _device.DeviceContext)), CPU)
    return DEVICE if named.type == "cuda" else named


def device_of(tensor: torch.Tensor) -> torch.device:
    real = tensor.device
    if isinstance(tensor, FakeTensor):
        return real
    return DEVICE if real.type == "cpu" else real


def wrapping(make: Callable) -> Callable:
    """`Tensor._make_wrapper_subclass`: a tensor around others is where those are."""

    @functools.wraps(make)
    def made(cls: type, *args: Any, **kwargs: Any) -> torch.Tensor:
        device = kwargs.get("device")
        if device is not None and not is_tracing():
            kwargs["device"] = CPU if type(device) is int else on_cpu(device)
        return make(cls, *args, **kwargs)

    return staticmethod(made)


def is_tracing() -> bool:
    """Whether tensors are stand-ins without memory, which may be on any device."""
    if torch.compiler.is_dynamo_compiling():  # it reads this function, and knows no more of it
        return False
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None


def traced_to(tensor: torch.Tensor, device: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
    """A stand-in moved, as PyTorch's own functions do only where there is a GPU."""
    result = tensor.to(*args, **kwargs) if args or kwargs else tensor
    if device is None or result.device == torch.device(device):
        return result
    return torch.ops.aten._to_copy.default(result, device=torch.device(device))


# What tensors without memory need the pretence for: what they say of themselves, and moves.
KNOWN_OF_TRACED = {
    torch.Tensor.device.__get__, torch.Tensor.is_cuda.__get__, torch.Tensor.get_device,
    torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.cpu,
}  # fmt: skip


def histogram(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """`torch.histc`, on GPUs of integers too."""
    if tensor.is_floating_point():
        return torch.histc(tensor, *args, **kwargs)
    return torch.histc(tensor.double(), *args, **kwargs).to(tensor.dtype)


# Functions that make tensors, on the CPU if no device is named.
FACTORIES = {
    torch.arange, torch.empty, torch.eye, torch.from_numpy, torch.full, torch.linspace,
    torch.normal, torch.ones, torch.rand, torch.randint, torch.randn, torch.randperm,
    torch.tensor, torch.zeros,
}  # fmt: skip


class Pretence(TorchFunctionMode):
    """Tensors of the CPU say that they are on a GPU, and those made "on a GPU" are on the CPU.

    What is moved between the two is copied, as programs expect of it: kernels may write to one
    and leave the other. Where a tensor would be is known of those that were just made or moved.
    """

    def __init__(self) -> None:
        super().__init__()
        self.left = WeakTensorKeyDictionary()  # tensors that would be on the CPU
        self.special: dict[Any, Callable] = {
            torch.Tensor.device.__get__: device_of,
            torch.Tensor.is_cuda.__get__: lambda tensor: device_of(tensor) == DEVICE,
            torch.Tensor.get_device: lambda tensor: device_of(tensor).index or 0,
            torch.Tensor.cuda: lambda tensor, *_, **__: self.moved(tensor, DEVICE),
            torch.Tensor.cpu: lambda tensor, **options: self.moved(tensor, CPU, **options),
            torch.Tensor.to: self.to,
            torch.Tensor.pin_memory: lambda tensor, *_, **__: tensor,
            torch.Tensor.record_stream: lambda tensor, stream: None,
            torch.histc: histogram,
            torch.Tensor.histc: histogram,
        }

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        special = self.special.get(func)
        if is_tracing() and func not in KNOWN_OF_TRACED:
            return func(*args, **kwargs)
        if special is not None:
            return special(*args, **kwargs)
        device = kwargs.get("device")
        if device is not None:
            kwargs["device"] = CPU if type(device) is int else on_cpu(device)
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        result = func(*args, **kwargs)
        if func in FACTORIES and is_cpu(default_device() if device is None else device):
            self.left[result] = True
        return result

    def to(self, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """`tensor.to(...)` of any form."""
        devices = [x for x in (*args, kwargs.pop("device", None)) if is_device(x)]
        args = tuple(x for x in args if not is_device(x))
        return self.moved(tensor, devices[0] if devices else None, *args, **kwargs)

    def moved(self, tensor: torch.Tensor, device: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        """A tensor on a device: a copy where it is not there yet."""
        if is_tracing():
            return traced_to(tensor, device, *args, **kwargs)
        real = None if device is None else CPU if type(device) is int else on_cpu(device)
        if real is None or torch.device(real) != CPU or not tensor.is_cpu:
            named = () if real is None else (real,)
            return tensor.to(*named, *args, **kwargs)
        leaves = is_cpu(device)
        if leaves != (tensor in self.left):
            args, kwargs = args[:2], {**kwargs, "copy": True}
        result = tensor.to(real, *args, **kwargs)
        if leaves:
            self.left[result] = True
        return result


def by_default(
    context: _device.DeviceContext, func: Any, types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """What a default device does: it joins calls, as the CPU unless a Pretence comes after."""
    kwargs = kwargs or {}
    if kwargs.get("device") is None and func in _device._device_constructors():
        later = any(isinstance(m, Pretence) for m in _get_current_function_mode_stack())
        kwargs["device"] = context.device if later else on_cpu(context.device)
    return func(*args, **kwargs)


def within(mode: Pretence, call: Callable) -> Callable:
    """`call` with the mode on: PyTorch turns it off while it runs a function of its own."""

    @functools.wraps(call)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with mode:
            return call(*args, **kwargs)

    return wrapped
