"""Accesses beyond a view that stay inside of the memory that it is a view of."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tilewright.eager.memory import Touch
from tilewright.instruments import meaning
from tilewright.instruments.findings import Findings
from tilewright.ir.op import Op
from tilewright.runtime import arrays
from tilewright.runtime.call import Call
from tilewright.runtime.exports import extent

MOST_ELEMENTS = 1 << 28  # of views that are looked at one by one


@dataclass(frozen=True)
class View:
    """An array argument that is less than its memory: which elements are its own."""

    name: str
    low: int  # the address of the first byte that it spans
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements
    size: int  # bytes of an element
    own: np.ndarray | None  # of each element of the span, whether it belongs to it; None: all do
    span: int  # in elements

    def outside(self, addresses: np.ndarray, size: int) -> np.ndarray:
        """Which accesses of `size` bytes touch anything else."""
        first = (addresses - self.low) // self.size
        last = (addresses + size - 1 - self.low) // self.size
        inside = (addresses >= self.low) & (last < self.span)
        for at in (first, last) if self.own is not None else ():
            inside &= self.own[np.where(inside, at, 0)]
        return ~inside


def views(call: Call) -> dict[str, View]:
    """Of each array argument that is a view of more memory, which elements it has."""
    out = {}
    for leaf in call.leaves:
        if leaf.type is None or not leaf.type.dtype.is_pointer:
            continue
        a = arrays.describe(leaf.original, leaf.name)
        if a.shape is None or a.strides is None or 0 in a.shape:
            continue
        size = a.dtype.bytes
        low, high = extent(a.address, a.shape, tuple(s * size for s in a.strides), size)
        span = (high - low) // size
        own = own_elements(a.shape, a.strides, span)
        if (low, high) != (a.low, a.high) or own is not None:
            out[leaf.name] = View(leaf.name, low, a.shape, a.strides, size, own, span)
    return out


def own_elements(shape: tuple[int, ...], strides: tuple[int, ...], span: int) -> np.ndarray | None:
    """Of each element from the first to the last of a view, whether it belongs to it.

    None where all do, or where there are too many to tell.
    """
    kept = [(n, s) for n, s in zip(shape, strides, strict=True) if s != 0 and n > 1]
    reach = 1
    for n, s in sorted(kept, key=lambda x: abs(x[1])):
        if abs(s) > reach:
            break
        reach += (n - 1) * abs(s)
    if reach >= span or span > MOST_ELEMENTS:
        return None
    start = sum(-s * (n - 1) for n, s in kept if s < 0)
    own = np.zeros(span, bool)
    sizes, steps = tuple(n for n, _ in kept), tuple(s for _, s in kept)
    np.lib.stride_tricks.as_strided(own[start:], sizes, steps)[...] = True
    return own


@dataclass
class Views:
    """Reports accesses beyond a view."""

    kernel: str
    findings: Findings
    known: dict[str, View] = field(default_factory=dict)

    def __call__(self, op: Op, touch: Touch) -> None:
        for place in touch.places:
            buffer = place.buffer
            if buffer is None or buffer.name not in self.known:
                continue
            view = self.known[buffer.name]
            at = place.offsets + buffer.low
            outside = view.outside(at, touch.dtype.bytes)
            if outside.any():
                element = int(at[outside][0] - buffer.address) // buffer.dtype.bytes
                self.findings.add(
                    meaning.beyond_view(
                        self.kernel, buffer.name, element, touch.kind, touch.program, touch.loc,
                        view.shape, view.strides,
                    )
                )  # fmt: skip
