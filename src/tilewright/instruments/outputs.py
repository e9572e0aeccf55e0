"""Reads by the program of what its launches should have written, and did not."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
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


@contextmanager
def watching(findings: Findings) -> Iterator[None]:
    """Inside, reads of empty arrays by NumPy and torch are reported where launches left gaps."""
    Fresh.findings = findings
    poison.wrappers.append(fresh)
    with ExitStack() as stack:
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "Tensor"):
            stack.enter_context(torch_reads(findings))
        try:
            yield
        finally:
            poison.wrappers.remove(fresh)
            Fresh.findings = None


def look(
    findings: Findings,
    reader: str,
    low: int,
    start: int,
    shape: tuple,
    steps: tuple,
    size: int,
) -> None:
    """Report elements that nobody wrote, of an array in the memory allocated at `low`.

    Args:
        reader: What reads them.
        start: The address of its first element.
        steps: The distance of neighbours along each dimension, in bytes.
    """
    memory = poison.allocated.get(low)
    if memory is None or 0 in shape or np.prod(shape) > MOST:
        return
    if memory.writer is None and memory.passed is None:
        return
    offsets = np.array(start - low)
    for n, step in zip(shape, steps, strict=True):
        offsets = offsets[..., None] + np.arange(n) * step
    offsets = offsets.ravel()
    if offsets.min() < 0 or offsets.max() + size > memory.size:
        return
    data = np.frombuffer((ctypes.c_char * memory.size).from_address(low), np.uint8)
    bad = holds_pattern(data, offsets, size, memory.written)
    writer = memory.find_writer() if bad.any() else None
    if writer is not None:
        element = (int(offsets[bad][0]) + low - writer.address) // size
        findings.add(meaning.gap(writer, reader, element, int(bad.sum()), bad.size))


# --- NumPy


class Fresh(np.ndarray):
    """What `np.empty` gives under checks: an array that tells when it is read."""

    findings: Findings | None = None

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
    root = value
    while isinstance(root.base, np.ndarray):
        root = root.base
    address, start = root.ctypes.data, value.ctypes.data
    look(Fresh.findings, reader, address, start, value.shape, value.strides, value.itemsize)


# --- torch


def torch_reads(findings: Findings) -> Any:
    """A mode in which every operator of torch has its operands looked at."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    def see(x: Any, reader: str) -> None:
        if isinstance(x, torch.Tensor) and x.is_cpu and x.layout is torch.strided:
            low = x.untyped_storage().data_ptr()
            if low in poison.allocated:
                size = x.element_size()
                steps = tuple(s * size for s in x.stride())
                look(findings, reader, low, x.data_ptr(), tuple(x.shape), steps, size)

    class Reads(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None):
            name = func._schema.name.partition("::")[2]
            if name not in MOVES and not name.endswith("_like") and not name.startswith("new_"):
                for given, formal in zip(args, func._schema.arguments):
                    if formal.alias_info is None:
                        for x in given if isinstance(given, list | tuple) else (given,):
                            see(x, f"torch.{name}")
            return func(*args, **(kwargs or {}))

    return Reads()
