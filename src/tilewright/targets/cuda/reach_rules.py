"""Between what the numbers of a tile lie, by the op that gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.ops import debug, math, shape
from tilewright.passes.affine import only_units
from tilewright.passes.constants import integer
from tilewright.targets.cuda.sums import Range, Sum, fixed, known, scalar

if TYPE_CHECKING:
    from tilewright.targets.cuda.reach import Reach

Dims = tuple[int, ...] | None  # of each dimension that of the access; None: unknown
PASSING = {shape.broadcast, shape.reshape, shape.permute, debug.hint}


def arange(r: Reach, inst: Inst, dims: Dims, limits: dict) -> Range:
    return Range(fixed(inst.attrs["start"]), fixed(inst.attrs["end"] - 1))


def constant(r: Reach, inst: Inst, dims: Dims, limits: dict) -> Range:
    number = fixed(int(inst.attrs["value"]))
    return Range(number, number)


def splat(r: Reach, inst: Inst, dims: Dims, limits: dict) -> Range | None:
    return r.bounds(inst.operands[0], (), {})


def passed(r: Reach, inst: Inst, dims: Dims, limits: dict) -> Range | None:
    return r.bounds(inst.operands[0], dims_before(inst, dims), limits)


def added(r: Reach, inst: Inst, dims: Dims, limits: dict) -> Range | None:
    x, y = (r.bounds(v, dims, limits) for v in inst.operands)
    if x is None or y is None:
        return None
    return x.plus(y, 1 if inst.op is math.add else -1)


def multiplied(r: Reach, inst: Inst, dims: Dims, limits: dict) -> Range | None:
    """By one number, which must not be negative: the code goes on only if it is not."""
    x, y = inst.operands
    if uniform_scalar(y) is None or r.scalar(uniform_scalar(y)) is None:
        x, y = y, x
    by = uniform_scalar(y) and r.scalar(uniform_scalar(y))
    found = r.bounds(x, dims, limits) if by is not None else None
    if found is None:
        return None
    if not by.parts:
        return found.times(by.number)
    r.non_negative(by)
    if by.has_counters:
        r.non_negative(found.low)
    return Range(product(r, found.low, by, False), product(r, found.high, by, True))


def product(r: Reach, x: Sum, by: Sum, is_upper: bool) -> Sum:
    """Of a number and one that is not negative; at its largest in all turns of loops, or least."""
    if not x.parts:
        return by.times(x.number)
    x, by = x.end(is_upper), by.end(is_upper)
    most = max(by.most, 0)
    ends = sorted((0, x.least * most, x.most * most))
    least = 0 if x.least >= 0 else ends[0]
    return scalar(r.b.mul(r.emit(x), r.emit(by)), least, ends[-1])


def shifted(r: Reach, inst: Inst, dims: Dims, limits: dict) -> Range | None:
    by = integer(inst.operands[1])
    if by is None or not 0 <= by < 32:
        return None
    found = r.bounds(inst.operands[0], dims, limits)
    return None if found is None else found.times(1 << by)


def divided(r: Reach, inst: Inst, dims: Dims, limits: dict) -> Range | None:
    by = integer(inst.operands[1])
    found = r.bounds(inst.operands[0], dims, limits) if by and by > 0 else None
    if found is None:
        return None
    found = r.exact(found, inst.operands[0].type.dtype)
    r.non_negative(found.low)

    def quotient(x: Sum) -> Sum:
        if known(x):
            return fixed(max(x.number, 0) // by)
        dtype = r.dtype(x)
        lane = r.b.idiv(r.emit(x, dtype), r.b.const(by, dtype))
        return scalar(lane, 0, max(x.most, 0) // by)

    return Range(quotient(found.low.end(False)), quotient(found.high.end(True)))


def remainder(r: Reach, inst: Inst, dims: Dims, limits: dict) -> Range | None:
    """Of numbers that are not negative, by one that is positive."""
    x, y = inst.operands
    by = r.scalar(uniform_scalar(y)) if uniform_scalar(y) is not None else None
    found = r.bounds(x, dims, limits) if by is not None else None
    if found is None:
        return None
    found = r.exact(found, x.type.dtype)
    r.non_negative(found.low)
    r.non_negative(by.plus(fixed(-1)))
    return Range(fixed(0), r.smaller(found.high, by.plus(fixed(-1)), True))


def cast(r: Reach, inst: Inst, dims: Dims, limits: dict) -> Range | None:
    source, to = inst.operands[0].type.dtype, inst.result.type.dtype
    if not source.is_integer or source is t.int1 or not to.is_integer:
        return None
    found = r.bounds(inst.operands[0], dims, limits)
    if found is None:
        return None
    found = r.exact(found, source)
    return r.exact(found, to) if to.bits <= source.bits else found


def extremum(r: Reach, inst: Inst, dims: Dims, limits: dict) -> Range | None:
    x, y = (r.bounds(v, dims, limits) for v in inst.operands)
    if x is None or y is None:
        return None
    x, y = (r.exact(one, inst.result.type.dtype) for one in (x, y))
    is_min = inst.op is math.min
    # Of numbers that change with loops `smaller` gives one that only holds on its own side.
    if is_min:
        return Range(
            r.smaller(x.low.end(False), y.low.end(False), True), r.smaller(x.high, y.high, True)
        )
    return Range(
        r.smaller(x.low, y.low, False), r.smaller(x.high.end(True), y.high.end(True), False)
    )


RULES = {
    shape.arange: arange,
    shape.constant: constant,
    shape.splat: splat,
    **dict.fromkeys(PASSING, passed),
    math.add: added,
    math.sub: added,
    math.mul: multiplied,
    math.shl: shifted,
    math.idiv: divided,
    math.irem: remainder,
    math.cast: cast,
    math.min: extremum,
    math.max: extremum,
}


def uniform_scalar(value: Value) -> Value | None:
    """The scalar that a tile repeats, or the constant; None if it is not uniform."""
    while value.inst is not None and value.inst.op in (*PASSING, shape.splat):
        value = value.inst.operands[0]
    if not value.type.shape or integer(value) is not None:
        return value
    return None


def moved_by(inst: Inst) -> tuple[Value, Value, int] | None:
    """(tile, what is added to it, with which sign), of a tile that is moved by one number."""
    if inst.op is math.add:
        for x, y in (inst.operands, inst.operands[::-1]):
            if uniform_scalar(y) is not None:
                return x, y, 1
    if inst.op is math.sub and uniform_scalar(inst.operands[1]) is not None:
        return *inst.operands, -1
    return None


def dims_before(inst: Inst, dims: Dims) -> Dims:
    """The dimensions of an operand in terms of the access, given those of the result."""
    if dims is None or inst.op in (shape.broadcast, debug.hint):
        return dims
    if inst.op is shape.permute:
        out = [0] * len(dims)
        for d, old in enumerate(inst.attrs["order"]):
            out[old] = dims[d]
        return tuple(out)
    if not only_units(inst):
        return None
    rest = iter(d for d, n in zip(dims, inst.result.type.shape, strict=True) if n > 1)
    return tuple(next(rest) if n > 1 else -1 for n in inst.operands[0].type.shape)
