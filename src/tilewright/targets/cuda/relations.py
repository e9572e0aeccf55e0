"""How the layouts of an op's operands and of its results belong together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.ir.inst import Inst
from tilewright.ir.op import Op
from tilewright.ops import reduce, shape
from tilewright.targets.cuda.layout import Layout, blocked, scalar

Layouts = Sequence["Layout | None"]

# Of the layouts of operands, where known, those of the results; None: nothing follows.
RESULTS: dict[Op, Callable[[Inst, Layouts], Layout | None]] = {
    shape.reshape: lambda inst, xs: xs[0] and xs[0].reshape(inst.result.type.shape),
    shape.permute: lambda inst, xs: xs[0] and xs[0].permute(inst.attrs["order"]),
    shape.broadcast: lambda inst, xs: xs[0] and xs[0].broadcast(inst.result.type.shape),
    shape.join: lambda inst, xs: first(xs) and first(xs).join(),
    shape.split: lambda inst, xs: halves(xs[0]),
    shape.cat: lambda inst, xs: first(xs) and first(xs).cat(),
    shape.flip: lambda inst, xs: xs[0],
    shape.gather: lambda inst, xs: xs[1],
    reduce.reduce: lambda inst, xs: first(xs) and first(xs).reduced(inst.attrs["axis"]).compact(),
}

# Of the layout of a result, what it wants of an operand; None: whatever it has.
OPERANDS: dict[Op, Callable[[Inst, int, Layout], Layout | None]] = {
    shape.reshape: lambda inst, k, x: x.reshape(inst.operands[0].type.shape),
    shape.permute: lambda inst, k, x: x.permute(turned_back(inst.attrs["order"])),
    shape.broadcast: lambda inst, k, x: x.project(inst.operands[0].type.shape).compact(),
    shape.join: lambda inst, k, x: halves(x),
    shape.split: lambda inst, k, x: x.join(),
    shape.cat: lambda inst, k, x: front(x),
    shape.flip: lambda inst, k, x: x,
    shape.gather: lambda inst, k, x: x if k == 1 else None,
}


def first(layouts: Layouts) -> Layout | None:
    return next((x for x in layouts if x is not None), None)


def halves(layout: Layout | None) -> Layout | None:
    """Of each half along the last dimension, where registers tell them apart."""
    return None if layout is None or layout.halves_bit() is None else layout.half()


def front(layout: Layout) -> Layout | None:
    """Of the first half along the first dimension, if `cat` made the whole from such."""
    top = 1 << layout.bits - 1
    if not layout.register or layout.register[-1] != top:
        return None
    if any(c & top for c in layout.columns if c != top) or layout.columns.count(top) > 1:
        return None
    small = (layout.shape[0] // 2, *layout.shape[1:])
    return Layout(small, layout.register[:-1], layout.lane, layout.warp)


def turned_back(order: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes one."""
    return tuple(order.index(d) for d in range(len(order)))


def operand_layout(inst: Inst, k: int, result: Layout) -> Layout | None:
    """What an operand must be in for the result to be in a layout, without any exchange."""
    if not inst.operands[k].type.shape:
        return scalar(result.num_warps)
    if inst.op.is_elementwise:
        return result
    rule = OPERANDS.get(inst.op)
    return rule(inst, k, result) if rule is not None else None


def ordered(dims: tuple[int, ...], num_warps: int, axis: int) -> Layout:
    """Along the axis a thread holds neighbours, then come lanes, then warps: for scans."""
    others = [d for d in reversed(range(len(dims))) if d != axis]
    return blocked(dims, num_warps, (axis, *others), 1 << 30)
