"""The memory of a launch in eager mode: pointers that know their argument, checked accesses."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tilewright.errors import Loc
from tilewright.ir.types import DType

# A pointer is an int64: the number of its argument (from 1) in the high bits, and below them the
# distance in bytes from the argument's start, plus MIDDLE so that negative distances fit. Number 0
# marks a plain address that belongs to no argument.
TAG_BITS = 48
MIDDLE = 1 << 47
LOW = (1 << TAG_BITS) - 1


@dataclass(frozen=True)
class Buffer:
    """An array argument: elements from `address` on; bytes of [low, high) may be touched."""

    name: str
    dtype: DType
    address: int
    low: int
    high: int
    writable: bool = True
    const: bool = False  # whether the kernel says that it only reads
    copy: np.ndarray | None = field(default=None, compare=False)  # of memory on another device

    @property
    def elements(self) -> int:
        """How many elements there are from the address on."""
        return max(0, self.high - self.address) // self.dtype.bytes

    @cached_property
    def bytes(self) -> np.ndarray:
        """The memory itself, from `low` on, or the copy that stands for it."""
        if self.copy is not None:
            return self.copy
        if self.high <= self.low:
            return np.empty(0, np.uint8)
        size = self.high - self.low
        return np.frombuffer((ctypes.c_char * size).from_address(self.low), np.uint8)


@dataclass(frozen=True, slots=True)
class Fault:
    """An access outside a buffer: which element came first, and how far the furthest is."""

    buffer: Buffer | None
    element: int
    outside: int


class Memory:
    """All buffers of a launch; turns pointers into positions in them."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.version = 0  # grows when the contents change
        self.polls = 0  # atomic operations that changed nothing

    def add(self, buffer: Buffer) -> int:
        """The pointer to the start of a buffer; a plain address where its end is not known."""
        if buffer.high - buffer.low > MIDDLE:
            return buffer.address
        self.buffers.append(buffer)
        return (len(self.buffers) << TAG_BITS) + MIDDLE

    def number(self, pointer: int) -> int:
        """Which argument a pointer belongs to, counted from 1; 0 for none."""
        return int(pointer) >> TAG_BITS

    def addresses(self, pointers: np.ndarray) -> np.ndarray:
        """The real addresses of pointers."""
        tags = pointers >> TAG_BITS
        known = (tags > 0) & (tags <= len(self.buffers))
        starts = np.array([0, *(b.address - MIDDLE for b in self.buffers)], np.int64)
        return np.where(known, (pointers & LOW) + starts[np.where(known, tags, 0)], pointers)

    def places(
        self, pointers: np.ndarray, mask: np.ndarray | None, size: int
    ) -> Iterator[Place | Fault]:
        """The active accesses of `size` bytes, by buffer; a Fault where some lie outside."""
        flat = pointers.ravel()
        lanes = np.arange(flat.size) if mask is None else np.flatnonzero(mask)
        if lanes.size == 0:
            return
        active = flat[lanes]
        tags = active >> TAG_BITS
        if np.all(tags == tags[0]):
            yield self.place(int(tags[0]), active, lanes, size)
            return
        for tag in dict.fromkeys(tags.tolist()):
            chosen = tags == tag
            yield self.place(tag, active[chosen], lanes[chosen], size)

    def place(self, tag: int, pointers: np.ndarray, lanes: np.ndarray, size: int) -> Place | Fault:
        if tag == 0:
            return Place(None, pointers, lanes)
        if not 0 < tag <= len(self.buffers):
            return Fault(None, 0, len(lanes))
        buffer = self.buffers[tag - 1]
        distance = (pointers & LOW) - MIDDLE
        offsets = distance + (buffer.address - buffer.low)
        outside = (offsets < 0) | (offsets > buffer.high - buffer.low - size)
        if not outside.any():
            return Place(buffer, offsets, lanes)
        element = distance // buffer.dtype.bytes
        first = int(element[outside][0])
        same_side = outside & ((offsets < 0) == (offsets[outside][0] < 0))
        far = element[same_side]
        room = (buffer.high - buffer.address) // buffer.dtype.bytes
        before = (buffer.low - buffer.address) // buffer.dtype.bytes
        reach = before - far.min() if first < before else far.max() - room + 1
        return Fault(buffer, first, int(reach))


@dataclass(slots=True)
class Place:
    """Accesses inside one buffer: byte offsets from its `low` (or addresses), and their lanes."""

    buffer: Buffer | None
    offsets: np.ndarray
    lanes: np.ndarray

    def view(self, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        """An array of the dtype and the indices of the accesses in it."""
        size = dtype.itemsize
        if self.buffer is None:
            return self.raw(dtype)
        data = self.buffer.bytes
        phase = int(self.offsets[0]) % size
        if size > 1 and np.any(self.offsets % size != phase):
            windows = np.lib.stride_tricks.sliding_window_view(data, size, writeable=True)
            return windows.view(dtype)[:, 0], self.offsets
        usable = (data.size - phase) // size * size
        return data[phase : phase + usable].view(dtype), (self.offsets - phase) // size

    def raw(self, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        """The same for plain addresses: a window from the lowest to the highest of them."""
        low = int(self.offsets.min())
        size = int(self.offsets.max()) - low + dtype.itemsize
        data = np.frombuffer((ctypes.c_char * size).from_address(low), np.uint8)
        windows = np.lib.stride_tricks.sliding_window_view(data, dtype.itemsize, writeable=True)
        return windows.view(dtype)[:, 0], self.offsets - low


@dataclass(frozen=True, slots=True)
class Touch:
    """One access that happened, for those who watch a launch."""

    kind: str  # "load", "store" or "atomic"
    dtype: DType
    shape: tuple[int, ...]
    places: tuple[Place, ...]
    program: tuple[int, int, int]
    loc: Loc | None
    value: np.ndarray | None = None  # what a store writes, of all lanes in a row
