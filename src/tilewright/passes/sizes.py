"""How far from 0 a float can be at most, as far as arithmetic tells."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite

from tilewright.ir.inst import Inst, Value
from tilewright.ops import math, shape

SAME = {shape.splat, shape.broadcast, shape.reshape, shape.permute, math.neg, math.abs}
LARGE = 1e30  # from here on, numbers might overflow
UNIT = {math.sin, math.cos, math.tanh}


class Sizes:
    """Of values, the largest size of any element; infinite where it might be, or be NaN."""

    def __init__(self) -> None:
        self.known: dict[Value, float] = {}

    def __call__(self, value: Value) -> float:
        if value not in self.known:
            self.known[value] = inf
            if value.inst is not None:
                self.known[value] = self.find(value.inst)
        return self.known[value]

    def find(self, inst: Inst) -> float:
        if inst.op is shape.constant:
            value = abs(float(inst.attrs["value"]))
            return value if isfinite(value) else inf
        if inst.op is math.cast:
            return self.cast(inst)
        rule = RULES.get(inst.op)
        if rule is None or not inst.result.type.dtype.is_float:
            return inf
        sizes = [self(x) for x in inst.operands if x.type.dtype.is_float]
        size = rule(sizes) if inf not in sizes else inf
        return size if size < LARGE else inf

    def cast(self, inst: Inst) -> float:
        (x,), to = inst.operands, inst.result.type.dtype
        if not to.is_float or to.bits < 32:
            return inf
        return 2.0**x.type.dtype.bits if x.type.dtype.is_integer else self(x)


def product(sizes: list[float]) -> float:
    return sizes[0] * sizes[1]


RULES: dict[object, Callable[[list[float]], float]] = {
    **dict.fromkeys((*SAME, math.min, math.max, math.select), max),
    **dict.fromkeys(UNIT, lambda sizes: 1.0),
    math.add: sum,
    math.sub: sum,
    math.mul: product,
}
