"""Between which numbers what is computed from positions lies along a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product

from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.ir.types import DType
from tilewright.targets.cpu.evaluate import Evaluator
from tilewright.targets.cpu.forms import Index, Steps, Uniform
from tilewright.targets.cpu.shapes import operand_index

Place = tuple[Index, ...]
Span = tuple[Lane, Lane]  # the least and the greatest number that it may be, as 64 bits


@dataclass(slots=True)
class Spans:
    """Finds spans over the first elements of a row; `tests` tell whether they are right."""

    e: Evaluator
    last: Lane  # the number of the last element that counts
    tests: dict[str, Lane] = field(default_factory=dict)
    known: dict[tuple, Span | None] = field(default_factory=dict)
    narrow: dict[str, Lane] = field(default_factory=dict)  # 64 bits that were fewer: as those

    def note(self, test: Lane) -> None:
        if test.text != "true":
            self.tests[test.text] = test

    def of(self, value: Value, place: Place) -> Span | None:
        key = (value, *(i.key for i in place))
        if key not in self.known:
            self.known[key] = self.find(value, place)
        return self.known[key]

    def find(self, value: Value, place: Place) -> Span | None:
        e, b = self.e, self.e.b
        form = e.eval(value, place if value.type.shape else ())
        if isinstance(form, Uniform):
            return (self.wide(form.lane),) * 2
        if isinstance(form, Steps):
            step = form.stride if isinstance(form.stride, Lane) else e.const(form.stride)
            start = self.wide(form.base)
            return self.in_order(start, b.add(start, b.mul(self.last, step)), step)
        rule = RULES.get(value.inst.op.name) if value.inst is not None else None
        if rule is None or value.type.dtype is t.int1:
            return None
        below = operand_index(e, value.inst, place)
        spans = [self.of(x, below) for x in value.inst.operands]
        return None if None in spans else rule(self, value.inst, *spans)

    def wide(self, lane: Lane) -> Lane:
        b = self.e.b
        if lane.dtype.is_pointer:
            return b.bitcast(lane, t.int64)
        out = b.cast(lane, t.int64)
        self.narrow[out.text] = lane
        return out

    def as_dtype(self, lane: Lane, dtype: DType) -> Lane:
        """A number as it was before it was made 64 bits wide."""
        before = self.narrow.get(lane.text)
        is_same = before is not None and before.dtype is dtype
        return before if is_same else self.e.b.cast(lane, dtype)

    def in_order(self, x: Lane, y: Lane, step: Lane) -> Span:
        if step.known is not None:
            return (x, y) if step.known >= 0 else (y, x)
        return self.e.b.minimum(x, y), self.e.b.maximum(x, y)

    def fits(self, span: Span, dtype: DType) -> None:
        """Note that numbers must not have run over the ends of their dtype."""
        if dtype.bits < 64 and dtype.is_integer:
            low = -(1 << dtype.bits - 1) if dtype.is_signed else 0
            high = (1 << dtype.bits - dtype.is_signed) - 1
            if not self.is_within(span[0], dtype):
                self.note(self.e.b.ge(span[0], self.e.const(low)))
            if not self.is_within(span[1], dtype):
                self.note(self.e.b.le(span[1], self.e.const(high)))

    def is_within(self, lane: Lane, dtype: DType) -> bool:
        before = self.narrow.get(lane.text)
        return before is not None and before.dtype is dtype


def same(s: Spans, inst: Inst, x: Span) -> Span:
    return x


def cast(s: Spans, inst: Inst, x: Span) -> Span | None:
    source, to = inst.operands[0].type.dtype, inst.result.type.dtype
    if not (source.is_integer and to.is_integer and to.bits >= source.bits >= 32):
        return None
    s.fits(x, source)
    return x


def add(s: Spans, inst: Inst, x: Span, y: Span) -> Span:
    return s.e.b.add(x[0], y[0]), s.e.b.add(x[1], y[1])


def sub(s: Spans, inst: Inst, x: Span, y: Span) -> Span:
    return s.e.b.sub(x[0], y[1]), s.e.b.sub(x[1], y[0])


def mul(s: Spans, inst: Inst, x: Span, y: Span) -> Span:
    b = s.e.b
    for span, other in ((x, y), (y, x)):
        if span[0] == span[1]:
            return s.in_order(b.mul(other[0], span[0]), b.mul(other[1], span[0]), span[0])
    ends = [b.mul(p, q) for p, q in product(x, y)]
    low, high = ends[0], ends[0]
    for end in ends[1:]:
        low, high = b.minimum(low, end), b.maximum(high, end)
    return low, high


def offset(s: Spans, inst: Inst, p: Span, i: Span) -> Span:
    s.fits(i, inst.operands[1].type.dtype)
    size = s.e.const(inst.attrs["bytes"])
    return tuple(s.e.b.add(x, s.e.b.mul(y, size)) for x, y in zip(p, i, strict=True))


def divided(s: Spans, inst: Inst, x: Span, n: Span) -> bool:
    """Whether this is a division by one number; notes that it must be of positive ones."""
    b, dtype = s.e.b, inst.result.type.dtype
    s.fits(x, dtype)
    for low, least in ((x[0], 0), (n[0], 1)):
        low = s.as_dtype(low, dtype)
        if low.known is None or low.known < least:
            s.note(b.ge(low, b.const(least, dtype)))
    return n[0] == n[1]


def idiv(s: Spans, inst: Inst, x: Span, n: Span) -> Span | None:
    b, dtype = s.e.b, inst.result.type.dtype
    if not divided(s, inst, x, n):
        return None
    return tuple(s.wide(b.idiv(s.as_dtype(end, dtype), s.as_dtype(n[0], dtype))) for end in x)


def irem(s: Spans, inst: Inst, x: Span, n: Span) -> Span | None:
    b, dtype = s.e.b, inst.result.type.dtype
    if not divided(s, inst, x, n):
        return None
    n = s.as_dtype(n[0], dtype)
    (q, low), (r, high) = (remainder(b, s.as_dtype(end, dtype), n) for end in x)
    is_one = b.eq(q, r)  # quotient, so the remainders run on
    low = b.select(is_one, low, b.const(0, dtype))
    return s.wide(low), s.wide(b.select(is_one, high, b.sub(n, b.const(1, dtype))))


def remainder(b: Lanes, x: Lane, n: Lane) -> tuple[Lane, Lane]:
    quotient = b.idiv(x, n)
    return quotient, b.sub(x, b.mul(quotient, n))


def minimum(s: Spans, inst: Inst, x: Span, y: Span) -> Span:
    return s.e.b.minimum(x[0], y[0]), s.e.b.minimum(x[1], y[1])


def maximum(s: Spans, inst: Inst, x: Span, y: Span) -> Span:
    return s.e.b.maximum(x[0], y[0]), s.e.b.maximum(x[1], y[1])


RULES: dict[str, Callable] = {
    "add": add,
    "broadcast": same,
    "cast": cast,
    "hint": lambda s, inst, x, *rest: x,
    "idiv": idiv,
    "irem": irem,
    "max": maximum,
    "min": minimum,
    "mul": mul,
    "offset": offset,
    "permute": same,
    "reshape": same,
    "sub": sub,
}
