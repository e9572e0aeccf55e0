"""Sorting: a bitonic network on integers that are ordered as the elements are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.codegen.sort_keys import decoded, encoded
from tilewright.ir.inst import Inst
from tilewright.targets.cuda.layout import blocked
from tilewright.targets.cuda.reduce import is_plain
from tilewright.targets.cuda.tiles import Tile, tile

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering


def sort(x: Lowering, inst: Inst) -> Tile:
    """Elements in order along the axis.

    A block of sorted halves is merged by comparing it with its mirror image, then quarters,
    eighths, and so on side by side; the smaller element of a pair goes first.
    """
    e, axis = x.e, inst.attrs["axis"]
    descending = inst.attrs.get("descending", False)
    layout = x.layout(inst.result).compact()
    if not is_plain(layout):
        layout = blocked(layout.shape, e.num_warps)
    held = x.tile(inst.operands[0], layout)
    dtype = held.dtype
    keys = tile(layout, [encoded(e.b, v, descending) for v in held.lanes])
    first, count = layout.span(axis)
    for stage in range(1, count + 1):
        keys = exchange(x, keys, (1 << stage) - 1 << first, first + stage - 1)
        for step in reversed(range(stage - 1)):
            keys = exchange(x, keys, 1 << first + step, first + step)
    out = tile(layout, [decoded(e.b, v, dtype, descending) for v in keys.lanes])
    return x.in_layout(out, x.layout(inst.result))


def exchange(x: Lowering, keys: Tile, mask: int, bit: int) -> Tile:
    """Each element against the one whose index differs by `mask`, whose highest bit is `bit`."""
    e, layout = x.e, keys.layout
    others = x.in_layout(keys, layout, mask)
    column = 1 << bit
    if column in layout.register:
        one = 1 << layout.register.index(column)
        pick = [e.b.maximum if r & one else e.b.minimum for r in range(layout.registers)]
        lanes = [p(v, o) for p, v, o in zip(pick, keys.lanes, others.lanes, strict=True)]
        return tile(layout, lanes)
    if column in layout.lane:
        upper = e.parity(1 << layout.lane.index(column), 0)
    else:
        upper = e.parity(0, 1 << layout.warp.index(column))
    lanes = []
    for v, o in zip(keys.lanes, others.lanes, strict=True):
        keep = e.b.bit_xor(e.b.lt(v, o), upper)
        lanes.append(e.b.select(keep, v, o))
    return tile(layout, lanes)
