"""Lanes that loads mask off: where what stands in for memory takes part in a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tilewright.eager.machine import Tile
from tilewright.errors import Loc
from tilewright.instruments.marks import MOVES, Lanes, Marks, Origin, Source
from tilewright.ir.op import Op
from tilewright.ops import dot as d
from tilewright.ops import math as m
from tilewright.ops import reduce as r
from tilewright.ops import shape as s

# What share memory has in an element: none at all; the `other` of a load, as it was given; numbers
# computed from that and from no memory of the same lane; memory.
NONE, RAW, COMPUTED, REAL = np.arange(4, dtype=np.uint8)
KEEPS = {m.cast, m.bitcast}  # an `other` in another dtype is one still
FLOAT_SHARE = 1e-7  # of a sum of floats that counts for nothing
ADVICE = {
    "add": "0", "bit_or": "0", "bit_xor": "0", "mul": "1", "bit_and": "all ones",
    "max": "-inf or the least number", "min": "inf or the largest number",
}  # fmt: skip


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
    out = np.maximum(rows, columns)
    filled = [(a == RAW) | (a == COMPUTED) for a in (rows, columns)]
    out = np.where(filled[0] | filled[1], COMPUTED, out)
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


# --- where they take part


def swayed(
    op: Op,
    operands: Sequence[Tile],
    outs: Sequence[Tile],
    attrs: dict[str, Any],
    where: Callable[[], Loc | None],
) -> Iterator[tuple[Origin, Lanes]]:
    """Elements of the first result that would be others without the lanes masked off."""
    rule = SWAYS.get(op)
    if rule is None or source_of(operands) is None:
        return
    lanes, raw, what, advice, guilty = rule(operands, outs, **attrs)
    source = source_of(guilty)
    if source is None or not np.any(lanes):
        return
    given = f"{source.other} of the load of {source.argument}"
    if not raw:
        given, advice = f"what is computed from {given}", "put tl.where with the mask before it"
    text = f"{given}, where it is masked off, changes the {what} at {where()}; {advice}"
    yield Origin("masked", source.loc, text, source.argument, advised=True), lanes


def source_of(operands: Sequence[Tile]) -> Source | None:
    for x in operands:
        if x.marks is not None and x.marks.source is not None:
            return x.marks.source
    return None


def filled(marks: Marks | None, shape: tuple[int, ...]) -> tuple[Lanes, Lanes] | None:
    """Which elements stand in for memory, and which have it; None unless there are both."""
    if marks is None or marks.share is None:
        return None
    share = np.broadcast_to(marks.share, shape)
    empty, real = (share == RAW) | (share == COMPUTED), share == REAL
    return (empty, real) if empty.any() and real.any() else None


NOTHING = (None, False, "", "", ())


def sways_reduction(
    operands: Sequence[Tile],
    outs: Sequence[Tile],
    axis: int,
    combine: str = "",
    **_: Any,
) -> tuple:
    x = operands[0]
    both = filled(x.marks, x.type.shape)
    if both is None:
        return NOTHING
    empty, real = both
    if combine:
        lanes = NEUTRAL[combine](x.data, empty, axis) if combine in NEUTRAL else np.False_
        advice = f"give other={ADVICE.get(combine, '')}, or tl.where before it"
    else:
        lanes = won(operands, outs, empty, real, axis)
        advice = "give an `other` that is never taken"
    lanes = lanes & real.any(axis=axis)
    share = np.broadcast_to(x.marks.share, x.type.shape)
    raw = bool((share[empty] == RAW).all())
    return lanes, raw, NAMES.get(combine, "reduction"), advice, operands


NAMES = {"add": "sum", "mul": "product", "max": "maximum", "min": "minimum"}


def adds(x: np.ndarray, empty: Lanes, axis: int) -> Lanes:
    size = np.abs(x.astype(np.float64))
    part = np.where(empty, size, 0).sum(axis=axis)
    if x.dtype.kind in "iub":
        return part > 0
    return np.isnan(part) | (part > FLOAT_SHARE * size.sum(axis=axis))


def beats(beyond: Callable, worst: float) -> Callable:
    def rule(x: np.ndarray, empty: Lanes, axis: int) -> Lanes:
        x = x.astype(np.float64)
        best = np.max if worst < 0 else np.min
        mine = best(np.where(empty & ~np.isnan(x), x, worst), axis=axis)
        return beyond(mine, best(np.where(empty | np.isnan(x), worst, x), axis=axis))

    return rule


def differs(neutral: Callable) -> Callable:
    return lambda x, empty, axis: (empty & (x != neutral(x.dtype))).any(axis=axis)


NEUTRAL: dict[str, Callable] = {
    "add": adds,
    "bit_or": differs(lambda dtype: 0),
    "bit_xor": differs(lambda dtype: 0),
    "mul": differs(lambda dtype: 1),
    "bit_and": differs(lambda dtype: True if dtype.kind == "b" else ~dtype.type(0)),
    "max": beats(np.greater, -np.inf),
    "min": beats(np.less, np.inf),
}


def won(
    operands: Sequence[Tile], outs: Sequence[Tile], empty: Lanes, real: Lanes, axis: int
) -> Lanes:
    """Of an extreme with its place: whether that lies in a lane masked off, and beats the rest."""
    if len(outs) != 2 or not outs[1].type.dtype.is_integer:
        return np.False_
    index = np.expand_dims(outs[1].data, axis)
    if not ((index >= 0) & (index < empty.shape[axis])).all():
        return np.False_
    taken = np.take_along_axis(empty, index.astype(np.int64), axis).squeeze(axis)
    tied = (real & (operands[0].data == np.expand_dims(outs[0].data, axis))).any(axis=axis)
    return taken & ~tied


def sways_product(operands: Sequence[Tile], outs: Sequence[Tile], **_: Any) -> tuple:
    x, y = operands[:2]
    for one, other, turned in ((x, y, False), (y, x, True)):
        both = filled(one.marks, one.type.shape)
        if both is None:
            continue
        empty, real = both
        size = (empty & (one.data != 0)).astype(np.float32)
        if not size.any():
            continue
        partner = (other.data != 0).astype(np.float32)
        lanes = (np.matmul(partner, size) if turned else np.matmul(size, partner)) > 0
        wild = empty & ~np.isfinite(one.data.astype(np.float32))  # times 0 is NaN
        lanes = lanes | (
            wild.any(axis=-2)[..., None, :] if turned else wild.any(axis=-1)[..., :, None]
        )
        has = real.any(axis=-2)[..., None, :] if turned else real.any(axis=-1)[..., :, None]
        share = np.broadcast_to(one.marks.share, one.type.shape)
        raw = bool((share[empty] == RAW).all())
        return lanes & has, raw, "product", "give other=0", [one]
    return NOTHING


def sways_order(
    operands: Sequence[Tile],
    outs: Sequence[Tile],
    axis: int,
    descending: bool = False,
    **_: Any,
) -> tuple:
    x = operands[0]
    if filled(x.marks, x.type.shape) is None:
        return NOTHING
    share = in_order(operands, [x.marks.share], 0, axis, descending)
    empty, real = (share == RAW) | (share == COMPUTED), share == REAL
    later = np.flip(np.logical_or.accumulate(np.flip(real, axis), axis=axis), axis)
    advice = "give an `other` that comes last"
    return empty & later, bool((share[empty] == RAW).all()), "order", advice, operands


def sways_pair(op: Op) -> Callable:
    """A sum or extreme of two tiles, one of which has memory in lanes masked off in the other."""

    def rule(operands: Sequence[Tile], outs: Sequence[Tile], **_: Any) -> tuple:
        found = [None if x.marks is None else x.marks.share for x in operands]
        if any(f is None for f in found):
            return NOTHING
        lanes, raw, guilty = np.False_, True, []
        for mine, x, theirs, y in ((*found[:1], operands[0], *found[1:], operands[1]),
                                   (*found[1:], operands[1], *found[:1], operands[0])):  # fmt: skip
            empty = mine == COMPUTED
            if op in (m.max, m.min):
                changed = (empty | (mine == RAW)) & (outs[0].data != y.data)
            else:
                changed = empty & (x.data != 0)
            some = changed & (theirs == REAL)
            raw = raw and not (some & (mine == COMPUTED)).any()
            lanes = lanes | some
            guilty += [x] if some.any() else []
        advice = "give an `other` that is never taken"
        advice = advice if op in (m.max, m.min) else "put tl.where before it"
        return lanes, raw, PAIRS[op], advice, guilty

    return rule


PAIRS = {m.add: "sum", m.sub: "difference", m.max: "maximum", m.min: "minimum"}
SWAYS: dict[Op, Callable] = {
    r.reduce: sways_reduction,
    d.dot: sways_product,
    r.sort: sways_order,
    **{op: sways_pair(op) for op in PAIRS},
}
