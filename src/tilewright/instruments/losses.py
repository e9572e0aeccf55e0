"""Sums in 16-bit floats, and how far rounding has taken them from what they should be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.eager.machine import Tile
from tilewright.errors import Loc
from tilewright.ir.op import Op
from tilewright.ops import dot as d
from tilewright.ops import math as m
from tilewright.ops import reduce as r
from tilewright.ops import shape as s

NARROW = 16  # bits of the floats whose sums are followed
TOO_MUCH = 1 / 16  # of the largest sum that there was; what rounding at random adds up to is less
MOVES = {s.splat, s.broadcast, s.reshape, s.permute, s.flip}


@dataclass(frozen=True, slots=True)
class Loss:
    """Of each element what sums have lost so far, and the largest sum on the way; in float64."""

    error: np.ndarray
    size: np.ndarray
    loc: Loc | None  # of the last sum
    dtype: str

    @property
    def parts(self) -> tuple[np.ndarray, np.ndarray]:
        return self.error, self.size

    def too_much(self) -> np.ndarray:
        """Where so much was lost that the number means little."""
        return np.abs(self.error) > TOO_MUCH * self.size

    def text(self, lanes: np.ndarray) -> str:
        """What was lost in the first of some elements."""
        error, size = (np.broadcast_to(x, lanes.shape)[lanes].flat[0] for x in self.parts)
        return (
            f"sums in {self.dtype} lost {abs(error):.3g} beside {size:.3g}, by adding what is "
            "small to what is large"
        )


def loss_of(
    op: Op, operands: Sequence[Tile], out: Tile, attrs: dict[str, Any], where: Callable
) -> Loss | None:
    """What a result has lost, if anything."""
    known = [x.marks.loss if x.marks is not None else None for x in operands]
    dtype = out.type.dtype
    if dtype.is_float and dtype.bits == NARROW and op in SUMS:
        return added(op, operands, known, out, where)
    found = [x for x in known if x is not None]
    if not found or not dtype.is_float:
        return None
    rule = RULES.get(op) or (moved if op in MOVES else None)
    parts = None if rule is None else rule(op, operands, known, out, attrs)
    return None if parts is None else Loss(*parts, found[0].loc, found[0].dtype)


def wide(x: Tile) -> np.ndarray:
    return x.data.astype(np.float64)


def errors(known: Sequence[Loss | None]) -> list[np.ndarray]:
    return [np.float64(0.0) if x is None else x.error for x in known]


def sizes(known: Sequence[Loss | None]) -> list[np.ndarray]:
    return [np.float64(0.0) if x is None else x.size for x in known]


def added(
    op: Op, operands: Sequence[Tile], known: Sequence[Loss | None], out: Tile, where: Callable
) -> Loss | None:
    """A sum in 16 bits: what the operands had lost, and what rounding loses now."""
    terms, e, given = [wide(x) for x in operands], errors(known), wide(out)
    if op in (m.add, m.sub):
        sign = 1 if op is m.add else -1
        exact, before = terms[0] + sign * terms[1], e[0] + sign * e[1]
        size = np.maximum(np.abs(terms[0]), np.abs(terms[1]))
    else:
        product = np.matmul(*terms[:2]) if op is d.dot else terms[0] * terms[1]
        exact, before = product + terms[2], e[2]
        size = np.abs(terms[2])
    error = before + (exact - given)
    error = np.where(np.isfinite(error), error, 0.0)
    if not error.any():
        return None
    size = np.maximum.reduce(np.broadcast_arrays(size, np.abs(given), *sizes(known[-2:])))
    return Loss(error, size, where(), str(out.type.dtype))


def moved(
    op: Op, operands: Sequence[Tile], known: Sequence[Loss | None], out: Tile, attrs: dict
) -> tuple:
    shape = operands[0].type.shape
    return tuple(op.eager(np.broadcast_to(x, shape), **attrs) for x in known[0].parts)


def kept(
    op: Op, operands: Sequence[Tile], known: Sequence[Loss | None], out: Tile, attrs: dict
) -> tuple:
    return known[0].parts


def summed(
    op: Op, operands: Sequence[Tile], known: Sequence[Loss | None], out: Tile, attrs: dict
) -> tuple:
    """A sum in more bits, which adds nothing to what was lost."""
    sign = 1 if op is m.add else -1
    e, given = errors(known), sizes(known)
    return e[0] + sign * e[1], np.maximum(np.maximum(*given), np.abs(wide(out)))


def scaled(
    op: Op, operands: Sequence[Tile], known: Sequence[Loss | None], out: Tile, attrs: dict
) -> tuple | None:
    if op is m.div and known[0] is None:
        return None
    which = 0 if known[0] is not None else 1
    by = wide(operands[1 - which])
    factor = 1 / by if op is m.div else by
    parts = known[which].error * factor, known[which].size * np.abs(factor)
    return parts if np.isfinite(parts[1]).all() else None


def chosen(
    op: Op, operands: Sequence[Tile], known: Sequence[Loss | None], out: Tile, attrs: dict
) -> tuple:
    condition = operands[0].data
    return tuple(np.where(condition, *x[1:]) for x in (errors(known), sizes(known)))


def reduced(
    op: Op, operands: Sequence[Tile], known: Sequence[Loss | None], out: Tile, attrs: dict
) -> tuple | None:
    if attrs.get("combine") != "add":
        return None
    shape, axis = operands[0].type.shape, attrs["axis"]
    error, size = (np.broadcast_to(x, shape) for x in known[0].parts)
    return error.sum(axis=axis), np.maximum(size.max(axis=axis), np.abs(wide(out)))


SUMS = {m.add, m.sub, m.fma, d.dot}
RULES: dict[Op, Callable] = {
    m.cast: kept,
    m.add: summed,
    m.sub: summed,
    m.mul: scaled,
    m.div: scaled,
    m.select: chosen,
    r.reduce: reduced,
}
