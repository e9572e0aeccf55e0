"""Memory beside a kernel's arguments: counters, maps, and copies of arguments."""

from __future__ import annotations

import ctypes
from typing import Protocol

import numpy as np


class Storage(Protocol):
    """Bytes where kernels of a target can reach them, zero at first; freed with the object."""

    address: int
    size: int

    def read(self) -> np.ndarray:
        """The bytes, after all launches before."""

    def write(self, content: np.ndarray) -> None:
        """Fill it with so many bytes."""

    def take(self, address: int) -> None:
        """Copy what lies at an address of the same machine."""

    def put(self, address: int) -> None:
        """Copy it to an address of the same machine."""


class HostStorage:
    """Memory of this computer."""

    def __init__(self, size: int):
        self.bytes = np.zeros(size, np.uint8)
        self.address = self.bytes.ctypes.data
        self.size = size

    def read(self) -> np.ndarray:
        return self.bytes

    def write(self, content: np.ndarray) -> None:
        self.bytes[:] = content

    def take(self, address: int) -> None:
        ctypes.memmove(self.address, address, self.size)

    def put(self, address: int) -> None:
        ctypes.memmove(address, self.address, self.size)
