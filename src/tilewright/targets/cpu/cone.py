"""What a nest evaluates: the instructions between its anchors and the buffers that they read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tilewright.ir.inst import Inst, Value
from tilewright.targets.cpu.forms import Index
from tilewright.targets.cpu.shapes import operand_index

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


def accesses(
    e: Evaluator, anchors: Iterable[Anchor], place: tuple[Index, ...]
) -> Iterator[tuple[Inst, tuple[Index, ...]]]:
    """The loads and stores that anchors lead to, and where in their tiles; each place once."""
    seen: set[tuple] = set()
    stack: list[tuple[Value | None, Inst | None, tuple[Index, ...]]] = []
    for anchor in anchors:
        own = anchor.kind == "keep" or anchor.value is None
        stack.append((None, anchor.inst, place) if own else (anchor.value, None, place))
    while stack:
        x, inst, at = stack.pop()
        if x is not None:
            key = (x, *map(id, at))
            if key in seen or not x.type.shape or x.inst is None or x in e.buffers:
                continue
            seen.add(key)
            inst = x.inst
        if inst.op.access is not None:
            yield inst, at
        below = operand_index(e, inst, at)
        stack.extend((y, None, below) for y in inst.operands)
