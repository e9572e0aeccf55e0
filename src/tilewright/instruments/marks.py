"""What is noted of a value while a launch is stepped through, and how it goes through ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.eager.machine import Tile
from tilewright.errors import Loc
from tilewright.instruments.losses import Loss
from tilewright.ir.op import Op
from tilewright.ir.types import DType
from tilewright.ops import dot as d
from tilewright.ops import math as m
from tilewright.ops import reduce as r
from tilewright.ops import shape as s

Lanes = np.ndarray  # which elements of a tile, as booleans in its shape

MOVES = {s.splat, s.broadcast, s.reshape, s.permute, s.flip}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where elements became what nobody can rely on."""

    kind: str  # of the finding that it becomes where it ends
    loc: Loc | None
    text: str  # what happened there
    argument: str = ""  # whose elements they were
    element: int | None = None
    advised: bool = False  # whether the text says already what to do
    dtype: DType | None = None  # of arithmetic that ran over
    op: Op | None = None  # that made it
    use: Callable[[], None] | None = field(default=None, compare=False)  # where it ends, call this
    lost: bool = False  # an infinity by which was divided
    counts: bool = False  # whether they are counts with lanes that count for nothing
    chosen: bool = False  # whether it only decided which of some numbers they are


@dataclass(frozen=True, slots=True)
class Source:
    """A load some of whose lanes were masked off, and what they were given."""

    loc: Loc | None
    argument: str
    other: str


@dataclass(slots=True)
class Marks:
    """What is known of the elements of a tile, beside their values.

    `share` tells of each element whether memory had a share in it: one of `fillers.SHARES`.
    """

    lanes: dict[Origin, Lanes] = field(default_factory=dict)
    share: np.ndarray | None = None
    source: Source | None = None
    on_use: Callable[[], None] | None = None
    loss: Loss | None = None
    is_word: bool = False  # whether it was made of bits, of which some may be taken


def lanes_of(tile: Tile, origin: Origin) -> Lanes | None:
    return None if tile.marks is None else tile.marks.lanes.get(origin)


def through(
    op: Op, operands: Sequence[Tile], lanes: Sequence[Lanes | None], attrs: dict[str, Any]
) -> Lanes | tuple[Lanes, Lanes] | None:
    """Which elements of an op's results depend on the given elements of its operands.

    None where that is not known. Of a pair of results (`split`), a pair.
    """
    rule = RULES.get(op) or (elementwise if op.is_elementwise else None)
    if op in MOVES:
        return op.eager(lanes[0], **attrs)
    return None if rule is None else rule(operands, lanes, **attrs)


def full(lanes: Lanes | None, tile: Tile) -> Lanes:
    return np.zeros(tile.type.shape, bool) if lanes is None else lanes


def elementwise(operands: Sequence[Tile], lanes: Sequence[Lanes | None], **_: Any) -> Lanes:
    out = None
    for some in lanes:
        if some is not None:
            out = some if out is None else out | some
    return out


def absorbing(settled: Callable[[np.ndarray], np.ndarray]) -> Callable:
    """The rule of an op of two integers that one operand alone may decide."""

    def rule(operands: Sequence[Tile], lanes: Sequence[Lanes | None], **_: Any) -> Lanes:
        x, y = operands
        if x.type.dtype.is_float:
            return elementwise(operands, lanes)
        a, b = full(lanes[0], x), full(lanes[1], y)
        return (a & ~(settled(y.data) & ~b)) | (b & ~(settled(x.data) & ~a))

    return rule


def chosen(operands: Sequence[Tile], lanes: Sequence[Lanes | None], **_: Any) -> Lanes:
    """`select`: of the operand taken, and of the condition where the two differ."""
    condition, x, y = operands
    out = np.where(condition.data, full(lanes[1], x), full(lanes[2], y))
    return out if lanes[0] is None else out | (lanes[0] & (x.data != y.data))


def any_along(
    operands: Sequence[Tile], lanes: Sequence[Lanes | None], axis: int, **_: Any
) -> Lanes:
    return elementwise(operands, lanes).any(axis=axis)


def up_to(
    operands: Sequence[Tile],
    lanes: Sequence[Lanes | None],
    axis: int,
    reverse: bool = False,
    **_: Any,
) -> Lanes:
    some = elementwise(operands, lanes)
    some = np.flip(some, axis) if reverse else some
    out = np.logical_or.accumulate(some, axis=axis)
    return np.flip(out, axis) if reverse else out


def whole_rows(
    operands: Sequence[Tile], lanes: Sequence[Lanes | None], axis: int, **_: Any
) -> Lanes:
    out = lanes[0].any(axis=axis, keepdims=True)
    return np.broadcast_to(out, operands[0].type.shape)


def counted(operands: Sequence[Tile], lanes: Sequence[Lanes | None], bins: int, **_: Any) -> Lanes:
    some = full(lanes[0], operands[0])
    if len(operands) > 1:
        some = (some & operands[1].data) | full(lanes[1], operands[1])
    return np.full(bins, some.any())


def product(operands: Sequence[Tile], lanes: Sequence[Lanes | None], **_: Any) -> Lanes:
    out = full(lanes[2], operands[2])
    if lanes[0] is not None:
        out = out | lanes[0].any(axis=-1)[..., :, None]
    if lanes[1] is not None:
        out = out | lanes[1].any(axis=-2)[..., None, :]
    return out


def taken(operands: Sequence[Tile], lanes: Sequence[Lanes | None], axis: int, **_: Any) -> Lanes:
    x, index = operands
    out = s.take(full(lanes[0], x), index.data, axis)
    return out if lanes[1] is None else out | lanes[1]


RULES: dict[Op, Callable] = {
    m.select: chosen,
    m.bit_and: absorbing(lambda x: x == 0),
    m.bit_or: absorbing(lambda x: x == (True if x.dtype == bool else ~x.dtype.type(0))),
    m.mul: absorbing(lambda x: x == 0),
    r.reduce: any_along,
    r.scan: up_to,
    r.sort: whole_rows,
    r.histogram: counted,
    d.dot: product,
    s.gather: taken,
    s.join: lambda xs, lanes, **_: s.join.eager(full(lanes[0], xs[0]), full(lanes[1], xs[1])),
    s.cat: lambda xs, lanes, **_: s.cat.eager(full(lanes[0], xs[0]), full(lanes[1], xs[1])),
    s.split: lambda xs, lanes, **_: s.split.eager(lanes[0]),
}
