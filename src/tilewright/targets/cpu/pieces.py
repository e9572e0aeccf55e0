"""Rows cut where quotients of their positions change: inside a piece they are uniform.

`i // n` and `i % n` of a progression `i` run in no simple way along a row. From one multiple of n
to the next they do: the quotient stays, the remainder is a progression. A row with such values is
written as a loop over these pieces. So is a long row with masks that begin to hold inside of it
(`i >= n`): cut where masks change, each is on or off in all of a piece.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.targets.cpu.cone import evaluated
from tilewright.targets.cpu.forms import Form, Index, Steps, Uniform
from tilewright.targets.cpu.loops import Carried, Loop

if TYPE_CHECKING:
    from tilewright.targets.cpu.evaluate import Evaluator
    from tilewright.targets.cpu.schedule import Anchor

QUOTIENTS = frozenset({"idiv", "irem"})
COMPARISONS = {"lt": True, "le": True, "gt": False, "ge": False}  # whether the left is less
LONG = 16  # chunks of a row that is worth cutting at masks
PIECEWISE = frozenset({"store", "atomic", "reduce", "keep", "hold", "assign"})


Site = tuple[Value, tuple[Index, ...]]  # what is divided, and where in the row


@dataclass(slots=True)
class Digit:
    """Quotient and remainder at the start of each piece, counted on instead of divided anew."""

    base: Lane  # what is divided, at the start of the row
    stride: int
    n: Lane
    quotient: Carried | None = None
    rest: Carried | None = None

    def carry(self, b: Lanes, loop: Loop) -> None:
        self.quotient, self.rest = (loop.carry(p) for p in divided(b, self.base, self.n))

    @property
    def here(self) -> tuple[Lane, Lane]:
        """Quotient and remainder in this piece."""
        return self.quotient.phi, self.rest.phi

    def count_on(self, b: Lanes, count: Lane) -> None:
        """Go to the next piece."""
        quotient, rest = self.here
        rest = b.add(rest, b.mul(b.cast(count, rest.dtype), b.like(rest, self.stride)))
        is_next = b.ge(rest, self.n)
        self.quotient.next = b.add(quotient, b.cast(is_next, quotient.dtype))
        self.rest.next = b.select(is_next, b.sub(rest, self.n), rest)


def divided(b: Lanes, x: Lane, n: Lane) -> tuple[Lane, Lane]:
    quotient = b.idiv(x, n)
    return quotient, b.sub(x, b.mul(quotient, n))


def is_usual(e: Evaluator, x: Lane, n: Lane, stride: int) -> Lane:
    """Whether a row from x on goes up through the multiples of n, one after the other."""
    b, dtype = e.b, x.dtype
    top = (1 << dtype.bits - dtype.is_signed) - 1 - stride * e.row.length
    if top < 0:
        return e.false.lane
    usual = b.bit_and(b.ge(n, b.like(n, stride)), b.le(x, b.like(x, top)))
    return b.bit_and(usual, b.ge(x, b.like(x, 0))) if dtype.is_signed else usual


@dataclass(slots=True)
class Cuts:
    """The quotients and remainders of a row, and how far they stay simple."""

    digits: dict[Value, Digit] = field(default_factory=dict)
    sites: list[Site] = field(default_factory=list)
    reach: list[Lane] = field(default_factory=list)  # elements until each one changes
    known: dict[tuple[str, str], tuple[Lane, Lane]] = field(default_factory=dict)
    at_masks: bool = False  # cut where masks change, not where quotients do
    begins: bool = False  # whether a mask begins to hold inside the row

    def derive(self, e: Evaluator, inst: Inst, index: tuple[Index, ...]) -> Form | None:
        """The form of a quotient or a mask in the piece that begins where the row does."""
        if self.at_masks:
            return self.compare(e, inst, index) if inst.op.name in COMPARISONS else None
        return self.divide(e, inst, index) if inst.op.name in QUOTIENTS else None

    def compare(self, e: Evaluator, inst: Inst, index: tuple[Index, ...]) -> Form | None:
        """A mask as the piece begins; notes how far it stays so."""
        x, y = (e.eval(v, index) for v in inst.operands)
        is_left = isinstance(x, Steps)
        less = COMPARISONS[inst.op.name] == is_left
        steps, bound = (x, y) if is_left else (y, x)
        if not isinstance(steps, Steps) or not isinstance(bound, Uniform):
            return None
        if steps.stride != 1 or steps.narrow or not steps.dtype.is_signed or steps.dtype.bits < 32:
            return None
        self.begins = self.begins or not less
        self.sites.append((inst.result, index))
        b = e.b
        change = b.sub(b.cast(bound.lane, t.int64), b.cast(steps.base, t.int64))
        if (inst.op.name in ("le", "ge")) == less:
            change = b.add(change, e.const(1))
        reach = b.select(b.gt(change, e.const(0)), change, e.row_count())
        if steps.dtype.bits == 32:
            top = b.const((1 << 31) - 1 - e.row.length, steps.dtype)
            reach = b.select(b.gt(steps.base, top), e.const(1), reach)  # they may wrap around
        self.reach.append(reach)
        first = (steps.base, bound.lane) if is_left else (bound.lane, steps.base)
        return Uniform(inst.op.emit(b, *first, **inst.attrs), e.w.at)

    def divide(self, e: Evaluator, inst: Inst, index: tuple[Index, ...]) -> Form | None:
        """The form of a quotient or remainder in the piece."""
        x, y = (e.eval(v, index) for v in inst.operands)
        if not isinstance(x, Steps) or not isinstance(y, Uniform) or x.dtype.bits < 32:
            return None
        if not isinstance(x.stride, int) or x.stride < 1:
            return None
        n = y.lane.known
        if n is not None and n < e.row.width * x.stride:
            return None  # pieces shorter than a chunk cost more than a division of its lanes
        self.sites.append((inst.result, index))
        quotient, rest = self.parts(e, inst.result, x, y.lane)
        if inst.op.name == "idiv":
            return Uniform(quotient, e.w.at)
        return Steps(rest, x.stride, e.w.at)

    def parts(self, e: Evaluator, value: Value, x: Steps, n: Lane) -> tuple[Lane, Lane]:
        """Quotient and remainder at the first element; notes how far the quotient reaches."""
        digit = self.digits.get(value)
        key = (x.base.text, n.text) if digit is None else ("", str(id(digit)))
        if key not in self.known:
            b = e.b
            found = divided(b, x.base, n) if digit is None else digit.here
            left = b.cast(b.sub(n, found[1]), t.int64)
            if x.stride > 1:
                left = b.idiv(b.add(left, e.const(x.stride - 1)), e.const(x.stride))
            if digit is None:
                left = b.select(is_usual(e, x.base, n, x.stride), left, e.const(1))
            self.reach.append(left)
            self.known[key] = found
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
) -> list[Site]:
    """What is divided along the row, in order; `look` evaluates the row, to no other effect."""
    if not all(in_pieces(e, a, axis) for a in anchors):
        return []
    if any(map(is_quotient, evaluated(e, anchors))):
        return look_for(e, Cuts(), look).sites
    if e.row.length >= LONG * e.row.width and any(map(may_begin, evaluated(e, anchors))):
        cuts = look_for(e, Cuts(at_masks=True), look)
        return cuts.sites if cuts.begins else []
    return []


def look_for(e: Evaluator, cuts: Cuts, look: Callable[[], None]) -> Cuts:
    """What is found to cut at in the row."""
    e.row.cuts = cuts
    e.w.open("unused")
    limits = e.row.limits
    try:
        look()
    finally:
        e.forget(e.w.close().memo)
        e.row.cuts, e.row.limits = None, limits
    return cuts


def in_pieces(e: Evaluator, anchor: Anchor, axis: int) -> bool:
    """Whether an anchor can run piece by piece."""
    if anchor.kind not in PIECEWISE:
        return False
    if anchor.kind == "reduce":
        return bool(anchor.inst.attrs.get("combine", "")) or anchor.inst.attrs["axis"] != axis
    return anchor.kind == "store" or axis == len(anchor.shape) - 1


def divides(e: Evaluator, anchors: list[Anchor]) -> bool:
    """Whether something that the anchors evaluate is a quotient of integers."""
    return any(map(is_quotient, evaluated(e, anchors)))


def is_quotient(inst: Inst) -> bool:
    return inst.op.name in QUOTIENTS and inst.result.type.dtype.is_integer


def may_begin(inst: Inst) -> bool:
    """Whether this may be a mask that begins to hold inside a row."""
    if inst.op.name not in COMPARISONS or not inst.operands[0].type.dtype.is_integer:
        return False
    right = inst.operands[1].inst
    is_same = right is not None and right.op.name in ("splat", "constant")
    return not COMPARISONS[inst.op.name] or not is_same


def find_digits(e: Evaluator, sites: list[Site]) -> tuple[dict[Value, Digit], list[Lane]]:
    """What need not be divided in each piece: what is a progression along the row as a whole.

    Gives that, and tests that it can be counted and that no piece is shorter than a chunk.
    """
    b = e.b
    made: dict[tuple, Digit] = {}
    out: dict[Value, Digit] = {}
    tests: dict[str, Lane] = {}
    for value, index in sites:
        if value.inst.op.name not in QUOTIENTS:
            continue
        x, n = (e.eval(v, tuple(e.whole_index(i) for i in index)) for v in value.inst.operands)
        if not isinstance(n, Uniform):
            continue
        stride = x.stride if isinstance(x, Steps) else 1
        long = [b.ge(n.lane, b.like(n.lane, e.row.width * stride))] if n.lane.known is None else []
        if isinstance(x, Steps):
            key = (x.base.text, x.stride, n.lane.text)
            out[value] = made.setdefault(key, Digit(x.base, x.stride, n.lane))
            long.append(is_usual(e, x.base, n.lane, x.stride))
        tests |= {test.text: test for test in long}
    return out, list(tests.values())


def begin_piece(e: Evaluator, sites: list[Site], digits: dict[Value, Digit], left: Lane) -> Lane:
    """Evaluate what is divided at the start of a piece; gives how many elements it has."""
    is_mask = sites[0][0].inst.op.name in COMPARISONS
    e.row.cuts = cuts = Cuts(digits, at_masks=is_mask)
    for value, index in sites:
        e.eval(value, tuple(e.whole_index(i) for i in index))
    e.row.cuts = None
    for reach in cuts.reach:
        left = e.b.minimum(left, reach)
    for digit in {id(d): d for d in digits.values()}.values():
        digit.count_on(e.b, left)
    return left
