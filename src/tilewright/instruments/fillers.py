"""Lanes that loads mask off: what stands in for memory there, followed from load to use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tilewright.eager.machine import Tile
from tilewright.instruments.marks import MOVES, Source
from tilewright.ir.op import Op
from tilewright.ops import dot as d
from tilewright.ops import math as m
from tilewright.ops import reduce as r
from tilewright.ops import shape as s

# What share memory has in an element: none at all; the `other` of a load, as it was given; numbers
# computed from that and from no memory of the same lane; memory.
NONE, RAW, COMPUTED, REAL = np.arange(4, dtype=np.uint8)
KEEPS = {m.cast, m.bitcast}  # an `other` in another dtype is one still


def shares(op: Op, operands: Sequence[Tile], part: int, attrs: dict[str, Any]) -> Any:
    """The shares of the elements of a result, or None where memory has none."""
    found = [None if x.marks is None else x.marks.share for x in operands]
    if all(x is None for x in found):
        return None
    if op.is_elementwise:
        return elementwise(op, operands, found)
    if op in (s.splat, s.broadcast):
        return found[0] if operands[0].type.shape == tuple(attrs["shape"]) else None
    if op in MOVES:
        return found[0] if found[0].shape == () else op.eager(found[0], **attrs)
    rule = RULES.get(op)
    return None if rule is None else rule(operands, found, part, **attrs)


def elementwise(op: Op, operands: Sequence[Tile], found: Sequence[Any]) -> np.ndarray:
    if op is m.select:
        return np.where(operands[0].data, *(NONE if x is None else x for x in found[1:]))
    out = NONE
    for share in found:
        out = out if share is None else np.maximum(out, share)
    return out if op in KEEPS else np.where(out == RAW, COMPUTED, out)


def of_rows(operands: Sequence[Tile], found: Sequence[Any], part: int, axis: int, **_: Any) -> Any:
    return spread(operands, found).max(axis=axis)


def running(
    operands: Sequence[Tile],
    found: Sequence[Any],
    part: int,
    axis: int,
    reverse: bool = False,
    **_: Any,
) -> Any:
    share = spread(operands, found)
    share = np.flip(share, axis) if reverse else share
    share = np.maximum.accumulate(share, axis=axis)
    return np.flip(share, axis) if reverse else share


def in_order(
    operands: Sequence[Tile],
    found: Sequence[Any],
    part: int,
    axis: int,
    descending: bool = False,
    **_: Any,
) -> Any:
    order = np.argsort(operands[0].data.astype(np.float64), axis, kind="stable")
    order = np.flip(order, axis) if descending else order
    return np.take_along_axis(spread(operands, found), order, axis)


def of_product(operands: Sequence[Tile], found: Sequence[Any], part: int, **_: Any) -> Any:
    x, y = (spread([a], [b]) for a, b in zip(operands[:2], found[:2], strict=True))
    rows, columns = x.max(axis=-1)[..., :, None], y.max(axis=-2)[..., None, :]
    # What is zeros, and comes from no memory, takes nothing of the other side.
    idle = [
        (share == NONE) & (z.data == 0).all(axis=axis, keepdims=True)
        for share, z, axis in ((rows, operands[0], -1), (columns, operands[1], -2))
    ]
    out = np.where(idle[0] | idle[1], NONE, np.maximum(rows, columns))
    filled = [(a == RAW) | (a == COMPUTED) for a in (rows, columns)]
    out = np.where((filled[0] | filled[1]) & (out != NONE), COMPUTED, out)
    return out if found[2] is None else np.maximum(out, found[2])


def picked(operands: Sequence[Tile], found: Sequence[Any], part: int, axis: int, **_: Any) -> Any:
    if found[0] is None or found[0].shape == ():
        return found[0]
    return s.take(found[0], operands[1].data, axis)


RULES: dict[Op, Callable] = {
    r.reduce: of_rows,
    r.scan: running,
    r.sort: in_order,
    d.dot: of_product,
    s.gather: picked,
    s.join: lambda xs, found, part, **_: s.join.eager(*each(xs, found)),
    s.cat: lambda xs, found, part, **_: s.cat.eager(*each(xs, found)),
    s.split: lambda xs, found, part, **_: spread(xs, found)[..., part],
}  # fmt: skip


def each(operands: Sequence[Tile], found: Sequence[Any]) -> Iterator[np.ndarray]:
    """The shares of operands one by one, in their shapes."""
    return (spread([x], [f]) for x, f in zip(operands, found, strict=True))


def spread(operands: Sequence[Tile], found: Sequence[Any]) -> np.ndarray:
    """The largest share of each element of operands of one shape."""
    out = np.zeros(operands[0].type.shape, np.uint8)
    for share in found:
        out = out if share is None else np.maximum(out, share)
    return out


def source_of(operands: Sequence[Tile]) -> Source | None:
    for x in operands:
        if x.marks is not None and x.marks.source is not None:
            return x.marks.source
    return None
