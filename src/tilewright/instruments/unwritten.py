"""Reads of memory that nobody wrote since it was allocated as empty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.eager.memory import Place, Touch
from tilewright.instruments import meaning, poison
from tilewright.instruments.findings import Findings
from tilewright.ir.op import Op

WORD = poison.PATTERN.size


@dataclass
class Unwritten:
    """Finds reads of what still holds the pattern, and notes what kernels write.

    An atomic operation on it is a fault; what a load gives is one only where it matters, which
    the machine that steps through the launch follows.
    """

    kernel: str
    findings: Findings
    lanes: np.ndarray | None = None  # of the last load, those that nobody wrote
    argument: str = ""
    element: int = 0

    def __call__(self, op: Op, touch: Touch) -> None:
        self.lanes = None
        for place in touch.places:
            buffer = place.buffer
            memory = None if buffer is None else poison.allocated.get(buffer.low)
            if memory is None or memory.size != buffer.bytes.size:
                continue
            size = touch.dtype.bytes
            if touch.kind != "store":
                bad = holds_pattern(buffer.bytes, place.offsets, size, memory.written)
                if bad.any():
                    self.note(touch, place, bad)
            if touch.kind != "load":
                for k in range(size):
                    memory.written[place.offsets + k] = True
                memory.writer = poison.Writer(
                    self.kernel, buffer.name, touch.program, touch.loc, buffer.address
                )

    def note(self, touch: Touch, place: Place, bad: np.ndarray) -> None:
        buffer = place.buffer
        first = int(place.offsets[bad][0]) + buffer.low - buffer.address
        element, name = first // buffer.dtype.bytes, buffer.name
        if touch.kind == "atomic":
            program, loc = touch.program, touch.loc
            self.findings.add(meaning.unwritten(self.kernel, name, element, program, loc))
            return
        if self.lanes is None:
            self.lanes = np.zeros(touch.shape, bool)
            self.argument, self.element = name, element
        self.lanes.reshape(-1)[place.lanes[bad]] = True


def holds_pattern(
    data: np.ndarray, offsets: np.ndarray, size: int, written: np.ndarray
) -> np.ndarray:
    """Which elements nobody wrote.

    An element is one if it holds nothing but the pattern, no kernel wrote it, and the other bytes
    of the words that it lies in hold the pattern too or were written by kernels: what the program
    itself writes has the pattern in four bytes in a row by chance only.
    """
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
