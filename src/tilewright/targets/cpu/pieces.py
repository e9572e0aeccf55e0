"""Rows cut where quotients of their positions change: inside a piece they are uniform.

`i // n` and `i % n` of a progression `i` run in no simple way along a row. From one multiple of n
to the next they do: the quotient stays, the remainder is a progression. A row with such values is
written as a loop over these pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.targets.cpu.forms import Form, Index, Steps, Uniform

if TYPE_CHECKING:
    from tilewright.targets.cpu.evaluate import Evaluator
    from tilewright.targets.cpu.schedule import Anchor

QUOTIENTS = frozenset({"idiv", "irem"})
PIECEWISE = frozenset({"store", "atomic", "reduce", "keep", "hold", "assign"})


@dataclass(slots=True)
class Cuts:
    """The quotients and remainders of a row, and how far they stay simple."""

    sites: list[tuple[Value, tuple[Index, ...]]] = field(default_factory=list)
    reach: list[Lane] = field(default_factory=list)  # elements until each one changes
    known: dict[tuple[str, str], tuple[Lane, Lane]] = field(default_factory=dict)

    def divide(self, e: Evaluator, inst: Inst, index: tuple[Index, ...]) -> Form | None:
        """The form of a quotient or remainder in the piece that begins where the row does."""
        x, y = (e.eval(v, index) for v in inst.operands)
        if not isinstance(x, Steps) or not isinstance(y, Uniform) or x.dtype.bits < 32:
            return None
        if not isinstance(x.stride, int) or x.stride < 1:
            return None
        n = y.lane.known
        if n is not None and n < e.row.width * x.stride:
            return None  # pieces shorter than a chunk cost more than a division of its lanes
        self.sites.append((inst.result, index))
        quotient, rest = self.parts(e, x, y.lane)
        if inst.op.name == "idiv":
            return Uniform(quotient, e.w.at)
        return Steps(rest, x.stride, e.w.at)

    def parts(self, e: Evaluator, x: Steps, n: Lane) -> tuple[Lane, Lane]:
        """Quotient and remainder at the first element; notes how far the quotient reaches."""
        key = x.base.text, n.text
        if key not in self.known:
            b = e.b
            quotient = b.idiv(x.base, n)
            rest = b.sub(x.base, b.mul(quotient, n))
            left = b.sub(b.cast(n, t.int64), b.cast(rest, t.int64))
            if x.stride > 1:
                left = b.idiv(b.add(left, e.const(x.stride - 1)), e.const(x.stride))
            if x.dtype.is_signed or n.known is None:
                # Negative numbers round the other way, and division by 0 knows no multiples.
                usual = b.gt(b.cast(n, t.int64), e.const(0))
                if x.dtype.is_signed:
                    usual = b.bit_and(usual, b.ge(x.base, b.like(x.base, 0)))
                left = b.select(usual, left, e.const(1))
            self.reach.append(left)
            self.known[key] = quotient, rest
        return self.known[key]

    def end_at(self, e: Evaluator, limit: Lane, value: Value, index: tuple[Index, ...]) -> bool:
        """Let pieces end where a mask does, for a value that is uniform then; not only for that."""
        if not self.sites:
            return False
        self.sites.append((value, index))
        self.reach.append(e.b.select(e.b.gt(limit, e.const(0)), limit, e.row_count()))
        return True


def find_sites(
    e: Evaluator, anchors: list[Anchor], axis: int, look: Callable[[], None]
) -> list[tuple[Value, tuple[Index, ...]]]:
    """What is divided along the row, in order; `look` evaluates the row, to no other effect."""
    if not all(in_pieces(e, a, axis) for a in anchors) or not divides(e, anchors):
        return []
    e.row.cuts = Cuts()
    e.w.open("unused")
    limits = e.row.limits
    try:
        look()
    finally:
        e.forget(e.w.close().memo)
        cuts, e.row.cuts, e.row.limits = e.row.cuts, None, limits
    return cuts.sites


def in_pieces(e: Evaluator, anchor: Anchor, axis: int) -> bool:
    """Whether an anchor can run piece by piece."""
    if anchor.kind not in PIECEWISE:
        return False
    if anchor.kind == "reduce":
        return bool(anchor.inst.attrs.get("combine", "")) or anchor.inst.attrs["axis"] != axis
    return anchor.kind == "store" or axis == len(anchor.shape) - 1


def divides(e: Evaluator, anchors: list[Anchor]) -> bool:
    """Whether something that the anchors evaluate is a quotient of integers."""
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
            if x.inst.op.name in QUOTIENTS and x.type.dtype.is_integer:
                return True
            stack.extend(x.inst.operands)
    return False


def begin_piece(e: Evaluator, sites: list[tuple[Value, tuple[Index, ...]]], left: Lane) -> Lane:
    """Evaluate what is divided at the start of a piece; gives how many elements it has."""
    e.row.cuts = cuts = Cuts()
    for value, index in sites:
        e.eval(value, tuple(e.whole_index(i) for i in index))
    e.row.cuts = None
    for reach in cuts.reach:
        left = e.b.minimum(left, reach)
    return left
