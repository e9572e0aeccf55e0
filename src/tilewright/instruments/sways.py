"""Where what stands in for memory, in lanes that loads mask off, takes part in a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tilewright.eager.machine import Tile
from tilewright.errors import Loc
from tilewright.instruments.fillers import COMPUTED, RAW, REAL, in_order, source_of, spread
from tilewright.instruments.marks import Lanes, Marks, Origin
from tilewright.instruments.without import folded, scanned
from tilewright.ir.op import Op
from tilewright.ops import dot as d
from tilewright.ops import math as m
from tilewright.ops import reduce as r

FLOAT_SHARE = 1e-7  # of a sum of floats that counts for nothing
ADVICE = {
    "add": "0", "bit_or": "0", "bit_xor": "0", "mul": "1", "bit_and": "all ones",
    "max": "-inf or the least number", "min": "inf or the largest number",
}  # fmt: skip


def swayed(
    op: Op,
    operands: Sequence[Tile],
    outs: Sequence[Tile],
    attrs: dict[str, Any],
    region: Callable | None,
    where: Callable[[], Loc | None],
) -> Iterator[tuple[Origin, Lanes]]:
    """Elements of the first result that would be others without the lanes masked off."""
    rule = SWAYS.get(op)
    if rule is None or source_of(operands) is None:
        return
    lanes, raw, what, advice, tiles = rule(operands, outs, region=region, **attrs)
    source = source_of(tiles)
    if source is None or not np.any(lanes):
        return
    given = f"{source.other} of the load of {source.argument}"
    if not raw:
        given, advice = f"what is computed from {given}", "put tl.where with the mask before it"
    text = f"{given}, where it is masked off, changes the {what} at {where()}; {advice}"
    counts = op is r.histogram
    yield Origin("masked", source.loc, text, source.argument, advised=True, counts=counts), lanes


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
    region: Callable | None,
    combine: str = "",
    **_: Any,
) -> tuple:
    both = filled_together(operands)
    if both is None:
        return NOTHING
    empty, real = both
    advice = f"give other={ADVICE[combine]}, or tl.where before it" if combine in ADVICE else ""
    if combine in NEUTRAL:
        lanes = NEUTRAL[combine](operands[0].data, empty, axis)
    elif is_extreme(operands, outs, axis):
        lanes = won(operands, outs, empty, real, axis)
    else:
        lanes = folded(data(operands), data(outs), empty, axis, combine, region)
    lanes = lanes & real.any(axis=axis)
    raw = are_raw(operands, empty)
    return lanes, raw, NAMES.get(combine, "reduction"), advice or NEVER, guilty(operands, empty)


def sways_scan(
    operands: Sequence[Tile],
    outs: Sequence[Tile],
    axis: int,
    region: Callable | None,
    combine: str = "",
    reverse: bool = False,
    **_: Any,
) -> tuple:
    """Running sums and the like, at places that follow one masked off."""
    both = filled_together(operands)
    if both is None:
        return NOTHING
    empty, real = both
    before = np.flip(empty, axis) if reverse else empty
    before = np.logical_or.accumulate(before, axis=axis)
    before = np.flip(before, axis) if reverse else before
    if not (before & real).any():
        return NOTHING
    given = data(operands), data(outs)
    lanes = scanned(*given, empty, axis, combine, reverse, region) & real
    advice = f"give other={ADVICE[combine]}, or tl.where before it" if combine in ADVICE else NEVER
    return lanes, are_raw(operands, empty), "scan", advice, guilty(operands, empty)


def sways_count(operands: Sequence[Tile], outs: Sequence[Tile], bins: int, **_: Any) -> tuple:
    """Bins in which lanes masked off are counted."""
    x = operands[0]
    both = filled(x.marks, x.type.shape)
    if both is None:
        return NOTHING
    counted = both[0] & (x.data >= 0) & (x.data < bins)
    if len(operands) > 1:
        counted = counted & operands[1].data
    lanes = np.zeros(bins, bool)
    lanes[x.data[counted].astype(np.int64)] = True
    return lanes, are_raw(operands[:1], counted), "counts", "give the histogram the mask", [x]


NEVER = "give an `other` that is never taken"


def data(tiles: Sequence[Tile]) -> tuple[np.ndarray, ...]:
    return tuple(x.data for x in tiles)


def filled_together(operands: Sequence[Tile]) -> tuple[Lanes, Lanes] | None:
    """`filled`, of lanes in which several tiles are combined."""
    found = [None if x.marks is None else x.marks.share for x in operands]
    return filled(Marks(share=spread(operands, found)), operands[0].type.shape)


def guilty(operands: Sequence[Tile], empty: Lanes) -> list[Tile]:
    """Those of some tiles that stand in for memory themselves."""
    found = [None if x.marks is None else x.marks.share for x in operands]
    shares = (spread([x], [share])[empty] for x, share in zip(operands, found, strict=True))
    return [x for x, s in zip(operands, shares) if ((s == RAW) | (s == COMPUTED)).any()]


def are_raw(operands: Sequence[Tile], empty: Lanes) -> bool:
    """Whether lanes hold `other` itself, of which nothing was computed."""
    found = [None if x.marks is None else x.marks.share for x in operands]
    return bool((spread(operands, found)[empty] == RAW).all())


NAMES = {"add": "sum", "mul": "product", "max": "maximum", "min": "minimum"}


def adds(x: np.ndarray, empty: Lanes, axis: int) -> Lanes:
    size = np.abs(x.astype(np.float64))
    part = np.where(empty, size, 0).sum(axis=axis)
    rest = np.where(empty, 0, size).sum(axis=axis)
    # Where all of memory is multiplied by 0, the sum picks what stands in for it.
    sways = (rest > 0) & (part > (0 if x.dtype.kind in "iub" else FLOAT_SHARE * (part + rest)))
    return ~np.isnan(rest) & (np.isnan(part) | sways)


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


def is_extreme(operands: Sequence[Tile], outs: Sequence[Tile], axis: int) -> bool:
    """Whether the second result tells where along the axis the first one stands."""
    if len(outs) != 2 or not outs[1].type.dtype.is_integer:
        return False
    index, x = np.expand_dims(outs[1].data, axis).astype(np.int64), operands[0].data
    if not ((index >= 0) & (index < x.shape[axis])).all():
        return False
    there, best = np.take_along_axis(x, index, axis).squeeze(axis), outs[0].data
    return bool(((there == best) | ((there != there) & (best != best))).all())


def won(
    operands: Sequence[Tile], outs: Sequence[Tile], empty: Lanes, real: Lanes, axis: int
) -> Lanes:
    """Of an extreme with its place: whether that lies in a lane masked off, and beats the rest."""
    index = np.expand_dims(outs[1].data, axis)
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
    r.scan: sways_scan,
    r.histogram: sways_count,
    **{op: sways_pair(op) for op in PAIRS},
}
