"""The constant step between neighbouring elements of a tile, along each dimension."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Kernel, Param, Value
from tilewright.ir.op import Op
from tilewright.ir.types import Type
from tilewright.ops import debug, math, memory, reduce, shape
from tilewright.passes.affine import wrapped
from tilewright.passes.constants import integer
from tilewright.passes.flow import find_facts

Strides = tuple[int | None, ...]


def strides(kernel: Kernel) -> Callable[[Value], Strides]:
    """Of each value, per dimension, what is added from one element to the next; None: unknown.

    Bytes for pointers, units for integers. 0 means that all elements along the dimension are
    equal, for floats and booleans too. Integers are assumed not to wrap around within a tile.
    A dimension of size 1 has stride 0.
    """
    return find_facts(kernel, StrideAnalysis())


def strides_inside(kernel: Kernel) -> Callable[[Value], Strides]:
    """As `strides`, of the elements whose indices no `% n`, clamp or choice changes."""
    return find_facts(kernel, StrideAnalysis(inside=True))


class StrideAnalysis:
    def __init__(self, inside: bool = False):
        self.inside = inside

    def param(self, index: int, param: Param) -> Strides:
        return self.unknown(param.type)

    def counter(self, loop: Inst, facts: list[Strides]) -> Strides:
        return ()

    def unknown(self, type: Type) -> Strides:
        return tuple(0 if n == 1 else None for n in type.shape)

    def join(self, x: Strides, y: Strides, type: Type) -> Strides:
        # Of two tiles that differ by whichever way was taken, each has its stride.
        return tuple(a if a == b else None for a, b in zip(x, y, strict=True))

    widen = join

    def result(self, inst: Inst, facts: list[Strides], position: int) -> Strides:
        value = inst.results[position]
        if not value.type.shape:
            return ()
        rule = RULES.get(inst.op)
        found = rule(inst, facts) if rule is not None else None
        inner = wrapped(inst) if self.inside and len(inst.results) == 1 else None
        if inner is not None:
            found = facts[inst.operands.index(inner)]
        if found is None:
            found = self.by_default(inst, facts, value.type)
        return tuple(0 if n == 1 else s for n, s in zip(value.type.shape, found, strict=True))

    def by_default(self, inst: Inst, facts: list[Strides], type: Type) -> Strides:
        if not inst.op.is_elementwise:
            return self.unknown(type)
        return equal_where_all_are(facts)


def equal_where_all_are(facts: list[Strides]) -> Strides:
    return tuple(0 if not any(d != 0 for d in ds) else None for ds in zip(*facts, strict=True))


def zeros(inst: Inst, facts: list[Strides]) -> Strides:
    return (0,) * len(inst.result.type.shape)


def is_number(inst: Inst) -> bool:
    dtype = inst.result.type.dtype
    return dtype.is_pointer or (dtype.is_integer and dtype is not t.int1)


def combined(function: Callable) -> Callable:
    """A rule: the stride of the result from the known strides of the operands."""

    def rule(inst: Inst, facts: list[Strides]) -> Strides | None:
        if not is_number(inst):
            return None
        return tuple(None if None in ds else function(inst, *ds) for ds in zip(*facts, strict=True))

    return rule


def scaled(inst: Inst, facts: list[Strides]) -> Strides | None:
    """Of `mul` and `shl`: by a number that is known and the same everywhere, or by nothing."""
    if not is_number(inst):
        return None
    x, y = facts
    by = integer(inst.operands[1])
    if inst.op is math.shl:
        factor = None if by is None or not 0 <= by < inst.result.type.dtype.bits else 1 << by
    else:
        factor = by
        if factor is None:
            factor, x, y = integer(inst.operands[0]), y, x
    if factor is not None:
        return tuple(None if d is None else d * factor for d in x)
    return equal_where_all_are(facts)


def selected(inst: Inst, facts: list[Strides]) -> Strides:
    condition, x, y = facts
    return tuple(a if c == 0 and a == b else None for c, a, b in zip(condition, x, y, strict=True))


def cast(inst: Inst, facts: list[Strides]) -> Strides | None:
    source, to = inst.operands[0].type.dtype, inst.result.type.dtype
    if t.int1 in (source, to) or source.is_float or to.is_float:
        return None
    return facts[0]


def reshaped(inst: Inst, facts: list[Strides]) -> Strides:
    return reshape_strides(inst.operands[0].type.shape, facts[0], inst.result.type.shape)


def reshape_strides(old: tuple[int, ...], steps: Strides, new: tuple[int, ...]) -> Strides:
    """Strides of the same elements in another shape; dimensions are cut or joined."""
    out: list[int | None] = []
    at = 0
    left = [(n, s) for n, s in zip(old, steps, strict=True) if n > 1]
    for size in group_sizes([n for n, _ in left], [n for n in new if n > 1]):
        group = left[at : at + size[0]]
        at += size[0]
        inner = group[-1][1]
        for (_, outer), (n, s) in zip(group, group[1:], strict=False):
            if outer is None or s is None or outer != n * s:
                inner = None
        sizes = size[1]
        out += [None if inner is None else inner * prod(sizes[k + 1 :]) for k in range(len(sizes))]
    rest = iter(out)
    return tuple(0 if n == 1 else next(rest) for n in new)


def group_sizes(old: list[int], new: list[int]) -> list[tuple[int, list[int]]]:
    """The least runs of dimensions with one product: (how many of `old`, which of `new`)."""
    groups = []
    i = j = 0
    while i < len(old):
        first, start = i, j
        a, b = old[i], new[j]
        while a != b:
            if a < b:
                i += 1
                a *= old[i]
            else:
                j += 1
                b *= new[j]
        i, j = i + 1, j + 1
        groups.append((i - first, new[start:j]))
    return groups


def loaded(inst: Inst, facts: list[Strides]) -> Strides | None:
    return None if inst.attrs.get("volatile") else equal_where_all_are(facts)


def reduced(inst: Inst, facts: list[Strides]) -> Strides:
    """Equal rows have equal sums."""
    axis = inst.attrs["axis"]
    rest = [f[:axis] + f[axis + 1 :] for f in facts]
    return equal_where_all_are(rest)


def scanned(inst: Inst, facts: list[Strides]) -> Strides:
    found = equal_where_all_are(facts)
    return tuple(None if d == inst.attrs["axis"] else s for d, s in enumerate(found))


def flipped(inst: Inst, facts: list[Strides]) -> Strides:
    is_arithmetic = is_number(inst)
    return tuple(
        s if d != inst.attrs["axis"] or not s else (-s if is_arithmetic else None)
        for d, s in enumerate(facts[0])
    )


def joined(inst: Inst, facts: list[Strides]) -> Strides:
    x, y = facts
    same = tuple(a if a == b else None for a, b in zip(x, y, strict=True))
    return (*same, 0 if inst.operands[0] is inst.operands[1] else None)


def dotted(inst: Inst, facts: list[Strides]) -> Strides:
    x, y, acc = facts
    rows = 0 if x[-2] == 0 and acc[-2] == 0 else None
    columns = 0 if y[-1] == 0 and acc[-1] == 0 else None
    return (None,) * (len(acc) - 2) + (rows, columns)


def hinted(inst: Inst, facts: list[Strides]) -> Strides:
    """Nothing more: programs promise runs as long as a tile although its tail wraps around."""
    return facts[0]


RULES: dict[Op, Callable[[Inst, list[Strides]], Strides | None]] = {
    shape.constant: zeros,
    shape.splat: zeros,
    shape.arange: lambda inst, facts: (1,),
    shape.broadcast: lambda inst, facts: facts[0],
    shape.reshape: reshaped,
    shape.permute: lambda inst, facts: tuple(facts[0][d] for d in inst.attrs["order"]),
    shape.split: lambda inst, facts: facts[0][:-1],
    shape.join: joined,
    shape.flip: flipped,
    math.add: combined(lambda inst, x, y: x + y),
    math.sub: combined(lambda inst, x, y: x - y),
    math.neg: combined(lambda inst, x: -x),
    math.bit_not: combined(lambda inst, x: -x),
    math.mul: scaled,
    math.shl: scaled,
    math.select: selected,
    math.cast: cast,
    math.bitcast: cast,
    memory.offset: combined(lambda inst, p, i: p + i * inst.attrs["bytes"]),
    memory.load: loaded,
    reduce.reduce: reduced,
    reduce.scan: scanned,
    debug.hint: hinted,
}
