"""The device and the stream in force in the user's array library, and events on streams."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any

from tilewright.targets.cuda.driver import driver

_reader: list[Callable[[], tuple[int, int]]] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reader.clear)


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
