"""Where NaN and infinities are read, made and written, for the counters of a kernel.

An element is made here where no operand explains it: a NaN of operands without one, an infinity
of finite operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst
from tilewright.targets.cuda.layout import Layout
from tilewright.targets.cuda.reduce import Reduction, source_layout
from tilewright.targets.cuda.tiles import Tile, tile

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering

# A number read from bits is what the bits say; extremes give one of their operands.
PLAIN = {"bitcast", "constant"}
EXTREMES = {"max", "min"}

Flags = tuple[list[Lane], list[Lane]]  # of each register: whether it is NaN, whether infinite


def watch(x: Lowering, inst: Inst) -> None:
    """Count what an instruction that has just been written reads, makes or writes."""
    access = inst.op.access
    if not all(v in x.tiles for v in (*inst.operands, *inst.results)):
        return  # what goes from memory to products is never in registers
    if access is not None:
        watch_access(x, inst)
    elif not any(r.type.dtype.is_float for r in inst.results):
        return
    elif inst.op.is_elementwise and inst.op.name not in PLAIN:
        watch_elementwise(x, inst)
    elif inst.op.name == "reduce" and len(inst.operands) == 1:
        if inst.attrs.get("combine") not in EXTREMES:
            watch_reduction(x, inst)
    elif inst.op.name == "dot":
        watch_product(x, inst)


def flags(x: Lowering, held: Tile) -> Flags:
    """Which registers hold NaN, and which infinities."""
    b = x.e.b
    found: dict[str, tuple[Lane, Lane]] = {}
    for lane in held.lanes:
        if lane.text not in found:
            wide = b.cast(lane, t.float32) if lane.dtype.bits < 32 else lane
            infinite = b.eq(b.abs(wide), b.like(wide, float("inf")))
            found[lane.text] = b.is_nan(wide), infinite
    pairs = [found[lane.text] for lane in held.lanes]
    return [p for p, _ in pairs], [q for _, q in pairs]


def watch_access(x: Lowering, inst: Inst) -> None:
    """NaN and infinities that a load reads, or a store writes, in the lanes that are on."""
    access = inst.op.access
    value = inst.result if access.kind == "load" else inst.operands[access.value]
    if not value.type.dtype.is_float or access.kind == "atomic":
        return
    held = x.tile(value)
    found = flags(x, held)
    if 0 <= access.mask < len(inst.operands):
        mask = x.tile(inst.operands[access.mask], held.layout)
        found = tuple(
            [x.e.b.bit_and(f, m) for f, m in zip(part, mask.lanes, strict=True)] for part in found
        )
    x.counters.odd(x.memory.site(inst), held.layout, *found)


def watch_elementwise(x: Lowering, inst: Inst) -> None:
    held = x.tile(inst.result)
    operands = [flags(x, x.tile(v, held.layout)) for v in inst.operands if v.type.dtype.is_float]
    made(x, inst, held, operands)


def made(x: Lowering, inst: Inst, held: Tile, operands: Sequence[Flags]) -> None:
    """Count the elements of a result that the operands, register by register, do not explain."""
    b = x.e.b
    nans, infinities = flags(x, held)
    for some_nan, some_infinite in operands:
        nans = [b.bit_and(n, b.bit_not(o)) for n, o in zip(nans, some_nan, strict=True)]
        odd = [b.bit_or(p, q) for p, q in zip(some_nan, some_infinite, strict=True)]
        infinities = [b.bit_and(n, b.bit_not(o)) for n, o in zip(infinities, odd, strict=True)]
    x.counters.odd(x.memory.site(inst, "value"), held.layout, nans, infinities)


def watch_reduction(x: Lowering, inst: Inst) -> None:
    axis, held = inst.attrs["axis"], x.tile(inst.result)
    made(x, inst, held, [along(x, x.tile(inst.operands[0]), axis, held.layout)])


def watch_product(x: Lowering, inst: Inst) -> None:
    """A product has the rows of its left operand, the columns of its right one."""
    held = x.tile(inst.result)
    left, right, acc = inst.operands
    rank = len(held.layout.shape)
    rows, columns = held.layout.reduced(rank - 1), held.layout.reduced(rank - 2)
    operands = [
        along(x, x.tile(left), rank - 1, rows),
        along(x, x.tile(right), rank - 2, columns),
        flags(x, x.tile(acc, held.layout)),
    ]
    made(x, inst, held, operands)


class Any:
    """Combines flags, which are bytes: 1 for NaN, 2 for infinities."""

    commutes = True

    def __init__(self, x: Lowering):
        self.x = x

    def __call__(self, xs: Sequence[Lane], ys: Sequence[Lane]) -> tuple[Lane, ...]:
        return (self.x.e.b.bit_or(xs[0], ys[0]),)


def along(x: Lowering, source: Tile, axis: int, layout: Layout) -> Flags:
    """Whether there is NaN, or an infinity, anywhere along an axis, in a layout of the rest."""
    b = x.e.b
    plain = source_layout(source.layout, axis, True, x.e)
    nans, infinities = flags(x, x.in_layout(source, plain))
    none = b.const(0, t.int32)
    words = [
        (b.bit_or(b.select(p, b.like(none, 1), none), b.select(q, b.like(none, 2), none)),)
        for p, q in zip(nans, infinities, strict=True)
    ]
    natural, groups = Reduction(x.e, Any(x), plain, axis).run(words)
    found = x.in_layout(tile(natural, [g[0] for g in groups]), layout)
    bits = [[b.ne(b.bit_and(v, b.like(v, bit)), none) for v in found.lanes] for bit in (1, 2)]
    return bits[0], bits[1]
