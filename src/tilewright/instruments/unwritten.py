"""Reads of memory that nobody wrote since it was allocated as empty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.eager.memory import Buffer, Place, Touch
from tilewright.instruments import meaning, poison
from tilewright.instruments.findings import Findings
from tilewright.ir.op import Op

WORD = poison.PATTERN.size


@dataclass
class Unwritten:
    """Reports reads of what still holds the pattern, and notes what kernels write."""

    kernel: str
    findings: Findings

    def __call__(self, op: Op, touch: Touch) -> None:
        for place in touch.places:
            buffer = place.buffer
            memory = None if buffer is None else poison.allocated.get(buffer.low)
            if memory is None or memory.size != buffer.bytes.size:
                continue
            written = memory.written
            if touch.kind != "store":
                bad = holds_pattern(buffer, place.offsets, touch.dtype.bytes, written)
                if bad.any():
                    self.tell(touch, place, int(place.offsets[bad][0]))
            if touch.kind != "load":
                for k in range(touch.dtype.bytes):
                    written[place.offsets + k] = True

    def tell(self, touch: Touch, place: Place, offset: int) -> None:
        buffer = place.buffer
        element = (offset + buffer.low - buffer.address) // buffer.dtype.bytes
        self.findings.add(
            meaning.unwritten(
                self.kernel, buffer.name, element, touch.kind, touch.program, touch.loc
            )
        )


def holds_pattern(
    buffer: Buffer, offsets: np.ndarray, size: int, written: np.ndarray
) -> np.ndarray:
    """Which elements nobody wrote.

    An element is one if it holds nothing but the pattern, no kernel wrote it, and the other bytes
    of the words that it lies in hold the pattern too or were written by kernels: what the program
    itself writes has the pattern in four bytes in a row by chance only.
    """
    data = buffer.bytes
    bad = np.ones(offsets.shape, bool)
    for k in range(size):
        bad &= (data[offsets + k] == poison.BYTE) & ~written[offsets + k]
    if size >= WORD or not bad.any():
        return bad
    first = offsets // WORD * WORD
    for k in range(WORD):
        at = np.minimum(first + k, data.size - 1)
        bad &= (data[at] == poison.BYTE) | written[at]
    return bad
