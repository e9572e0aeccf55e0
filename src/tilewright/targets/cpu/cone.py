"""What a nest evaluates: the instructions between its anchors and the buffers that they read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tilewright.ir.inst import Inst, Value

if TYPE_CHECKING:
    from tilewright.targets.cpu.evaluate import Evaluator
    from tilewright.targets.cpu.schedule import Anchor


def evaluated(e: Evaluator, anchors: Iterable[Anchor]) -> Iterator[Inst]:
    """The instructions that give the tiles which anchors need, each once."""
    seen: set[Value] = set()
    for anchor in anchors:
        own = anchor.value if anchor.kind == "keep" else None
        stack = [anchor.value] if anchor.value is not None else list(anchor.inst.operands)
        while stack:
            x = stack.pop()
            if x in seen or not x.type.shape or x.inst is None:
                continue
            seen.add(x)
            if x in e.buffers and x is not own:
                continue
            yield x.inst
            stack.extend(x.inst.operands)
