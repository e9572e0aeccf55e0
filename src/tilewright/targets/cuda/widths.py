"""How many elements each access moves at once, where several go together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tilewright.ir.inst import Inst, Kernel, Value
from tilewright.passes import loops
from tilewright.targets.cuda.copies import Portable
from tilewright.targets.cuda.sites import Site


def common_widths(kernel: Kernel, sites: dict[Inst, Site], portable: Portable) -> dict[Inst, int]:
    """Vectors that accesses agree on where elementwise ops join their values.

    The smallest of those that are more than one element, so that all of them coalesce: lanes
    that hold 8 neighbours touch every sector of fp32 twice.
    """
    parent: dict[Value, Value] = {}

    def root(value: Value) -> Value:
        while value in parent:
            value = parent[value]
        return value

    def join(values: Sequence[Value]) -> None:
        tiles = [root(v) for v in values if v.type.shape and not portable(v)]
        for v in tiles[1:]:
            if root(v) is not root(tiles[0]):
                parent[root(v)] = root(tiles[0])

    for inst in kernel.walk():
        if inst.op.is_elementwise:
            join((*inst.operands, *inst.results))
        elif inst.op in loops.LOOPS:
            params = loops.carried_params(inst, loops.body(inst))
            for group in zip(inst.results, params, loops.yields(inst), strict=True):
                join(group)
    groups: dict[tuple, list[Inst]] = defaultdict(list)
    for inst, site in sites.items():
        if site.shape and inst.op.access.kind != "atomic":
            value = inst.result if inst.results else inst.operands[inst.op.access.value]
            groups[root(value), site.shape, site.order].append(inst)
    return {
        inst: min([sites[i].vec for i in group if sites[i].vec > 1], default=1)
        for group in groups.values()
        for inst in group
    }
