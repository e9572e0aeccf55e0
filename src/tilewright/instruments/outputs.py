"""Reads by the program of what its launches should have written, and did not."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import numpy as np

from tilewright.instruments import meaning, poison
from tilewright.instruments.findings import Findings
from tilewright.instruments.unwritten import holds_pattern

MOST = 1 << 24  # elements of an array that are looked at
# Operators of torch that move or choose elements, so that those with gaps may be left out later.
MOVES = {
    "clone", "copy_", "_to_copy", "cat", "stack", "index_select", "pin_memory", "contiguous",
    "index", "gather", "masked_select", "take", "embedding", "where", "masked_fill",
    "constant_pad_nd", "is_same_size", "repeat",
}  # fmt: skip
COPIES = {"clone", "_to_copy"}  # those of all elements of a tensor


@contextmanager
def watching(findings: Findings) -> Iterator[None]:
    """Inside, reads of empty arrays by NumPy and torch are reported where launches left gaps."""
    Fresh.findings = findings
    poison.wrappers.append(fresh)
    with ExitStack() as stack:
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "Tensor"):
            stack.enter_context(torch_reads(findings))
            stack.enter_context(torch_readers(torch.Tensor, findings))
        try:
            yield
        finally:
            poison.wrappers.remove(fresh)
            Fresh.findings = None


@dataclass(frozen=True)
class Part:
    """An array in the memory allocated at `low`."""

    low: int
    start: int  # the address of its first element
    shape: tuple[int, ...]
    steps: tuple[int, ...]  # distances of neighbours along each dimension, in bytes
    size: int  # bytes of an element

    def offsets(self) -> np.ndarray:
        """Where its elements are, from `low` on."""
        offsets = np.array(self.start - self.low)
        for n, step in zip(self.shape, self.steps, strict=True):
            offsets = offsets[..., None] + np.arange(n) * step
        return offsets.ravel()

    def gaps(self) -> tuple[np.ndarray, poison.Writer] | None:
        """Which elements nobody wrote, and who left them out; None where there are none."""
        memory = poison.allocated.get(self.low)
        if memory is None or 0 in self.shape or np.prod(self.shape) > MOST:
            return None
        if memory.writer is None and memory.passed is None:
            return None
        offsets = self.offsets()
        if offsets.min() < 0 or offsets.max() + self.size > memory.size:
            return None
        bad = holds_pattern(bytes_at(self.low, memory.size), offsets, self.size, memory.written)
        writer = memory.find_writer() if bad.any() else None
        return None if writer is None else (bad, writer)


def bytes_at(address: int, size: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_char * size).from_address(address), np.uint8)


def look(findings: Findings, reader: str, part: Part) -> None:
    """Report elements that nobody wrote, of an array that `reader` reads."""
    found = part.gaps()
    if found is not None:
        bad, writer = found
        first = int(part.offsets()[bad][0]) + part.low - writer.address
        element = first // part.size
        findings.add(meaning.gap(writer, reader, element, int(bad.sum()), bad.size))


def hand_on(part: Part, copy: Part, size: int) -> None:
    """What was not written is not in a copy either, perhaps of another dtype, of `size` bytes."""
    found = part.gaps()
    if found is None or np.prod(copy.shape) != found[0].size:
        return
    bad, writer = found
    memory = poison.Allocation(size, replace(writer, address=copy.start))
    data, at = bytes_at(copy.low, size), copy.offsets()[bad]
    for k in range(copy.size):
        data[at + k] = poison.BYTE
    poison.allocated[copy.low] = memory


# --- NumPy


class Fresh(np.ndarray):
    """What `np.empty` gives under checks: an array that tells when it is read."""

    findings: Findings | None = None
    low: int | None = None  # where its memory was allocated, if not where its base begins

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        for x in inputs:
            look_at(x, f"np.{ufunc.__name__}")
        out = kwargs.get("out")
        if out:
            kwargs["out"] = tuple(plain(x) for x in out)
        if "where" in kwargs:
            kwargs["where"] = plain(kwargs["where"])
        result = getattr(ufunc, method)(*[plain(x) for x in inputs], **kwargs)
        if out:
            return out[0] if len(out) == 1 else out
        return result

    def __array_function__(self, func: Callable, types: Any, args: tuple, kwargs: dict) -> Any:
        if func not in FREE:
            for x in args:
                look_at(x, f"np.{func.__name__}")
        return super().__array_function__(func, types, args, kwargs)

    def __getitem__(self, key: Any) -> Any:
        result = super().__getitem__(key)
        if isinstance(result, np.ndarray):
            return result
        look_at(plain(self)[(*key, ...) if isinstance(key, tuple) else (key, ...)])
        return result

    def __array_finalize__(self, before: Any) -> None:
        self.low = getattr(before, "low", None)

    def astype(self, *args: Any, **kwargs: Any) -> Any:
        return copied(self, super().astype(*args, **kwargs))

    def copy(self, *args: Any, **kwargs: Any) -> Any:
        return copied(self, super().copy(*args, **kwargs))

    def flatten(self, *args: Any, **kwargs: Any) -> Any:
        return copied(self, super().flatten(*args, **kwargs))

    def tolist(self) -> Any:
        look_at(self)
        return super().tolist()

    def item(self, *args: Any) -> Any:
        look_at(self)
        return super().item(*args)

    def __repr__(self) -> str:
        return repr(plain(self))


FREE = {np.empty_like, np.zeros_like, np.ones_like, np.full_like, np.copyto, np.shape, np.ndim,
        np.size, np.shares_memory, np.may_share_memory, np.copy, np.reshape, np.ravel,
        np.transpose, np.squeeze, np.expand_dims, np.broadcast_to, np.split}  # fmt: skip


def fresh(array: Any) -> Any:
    return array.view(Fresh) if type(array) is np.ndarray else array


def plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Fresh) else value


def look_at(value: Any, reader: str = "the program") -> None:
    if not isinstance(value, np.ndarray) or Fresh.findings is None or not poison.allocated:
        return
    look(Fresh.findings, reader, part_of(value))


def part_of(array: np.ndarray) -> Part:
    low = getattr(array, "low", None)
    if low is None:
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        low = getattr(root, "low", None) or root.ctypes.data
    return Part(low, array.ctypes.data, array.shape, array.strides, array.itemsize)


def copied(array: np.ndarray, copy: np.ndarray) -> np.ndarray:
    if copy.ctypes.data != array.ctypes.data:
        copy.low = None
        is_dense = copy.flags.c_contiguous or copy.flags.f_contiguous
        if is_dense and Fresh.findings is not None and poison.allocated:
            hand_on(part_of(array), part_of(copy), copy.nbytes)
    return copy


# --- torch


def torch_reads(findings: Findings) -> Any:
    """A mode in which every operator of torch has its operands looked at."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    def see(x: Any, reader: str) -> None:
        if isinstance(x, torch.Tensor) and is_known(x):
            look(findings, reader, part_of_tensor(x))

    class Reads(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None):
            name = func._schema.name.partition("::")[2]
            if name not in MOVES and not name.endswith("_like") and not name.startswith("new_"):
                for given, formal in zip(args, func._schema.arguments):
                    if formal.alias_info is None:
                        for x in given if isinstance(given, list | tuple) else (given,):
                            see(x, f"torch.{name}")
            out = func(*args, **(kwargs or {}))
            if name in COPIES and is_known(args[0]) and out.is_cpu:
                size = out.untyped_storage().nbytes()
                hand_on(part_of_tensor(args[0]), part_of_tensor(out), size)
            return out

    return Reads()


@contextmanager
def torch_readers(tensor: type, findings: Findings) -> Iterator[None]:
    """Inside, ways of torch to read tensors that are no operators tell of them too."""
    before = {name: getattr(tensor, name) for name in ("numpy", "tolist", "__repr__")}

    @wraps(before["numpy"])
    def numpy(self: Any, *args: Any, **kwargs: Any) -> Any:
        out = before["numpy"](self, *args, **kwargs)
        if is_known(self):
            out = out.view(Fresh)
            out.low = self.untyped_storage().data_ptr()
        return out

    def seen(read: Callable) -> Callable:
        @wraps(read)
        def reading(self: Any, *args: Any, **kwargs: Any) -> Any:
            if is_known(self):
                look(findings, "the program", part_of_tensor(self))
            return read(self, *args, **kwargs)

        return reading

    tensor.numpy = numpy
    tensor.tolist, tensor.__repr__ = seen(before["tolist"]), seen(before["__repr__"])
    try:
        yield
    finally:
        for name, method in before.items():
            setattr(tensor, name, method)


def is_known(x: Any) -> bool:
    """Whether a tensor lies in memory that is looked at."""
    is_fake = not poison.allocated or type(x).__name__ == "FakeTensor"
    if is_fake or not x.is_cpu or x.layout is not sys.modules["torch"].strided:
        return False
    try:
        return x.untyped_storage().data_ptr() in poison.allocated
    except RuntimeError:  # tensors that stand for others have no memory
        return False


def part_of_tensor(x: Any) -> Part:
    size = x.element_size()
    steps = tuple(s * size for s in x.stride())
    return Part(x.untyped_storage().data_ptr(), x.data_ptr(), tuple(x.shape), steps, size)
