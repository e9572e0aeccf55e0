"""What the eager runner touches, counted access by access."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from tilewright.eager.memory import Touch
from tilewright.errors import Loc
from tilewright.ir.inst import Kernel


class EagerCounts:
    """An observer of a run; accesses of the kernel are told apart by lines that it gives them."""

    def __init__(self, kernel: Kernel):
        for number, inst in enumerate(i for i in kernel.walk() if i.op.access is not None):
            inst.loc = Loc("counted", number + 1)
        self.elements: Counter[int] = Counter()
        self.masked: Counter[int] = Counter()
        self.touched: dict[int, set[int]] = {}

    def see(self, op: Any, touch: Touch) -> None:
        line = touch.loc.line
        on = sum(len(place.lanes) for place in touch.places)
        self.elements[line] += on
        self.masked[line] += int(np.prod(touch.shape, dtype=np.int64)) - on
        for place in touch.places:
            offsets = np.asarray(place.offsets) // touch.dtype.bytes
            self.touched.setdefault(line, set()).update(offsets.tolist())
