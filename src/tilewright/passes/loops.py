"""Loops with other carried values: what a loop carries, and the same loop built anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.ir.inst import Block, Builder, Inst, Kernel, Value
from tilewright.ir.rewrite import inline
from tilewright.ops import control

LOOPS = (control.for_, control.while_)

# Values of the new parameters -> values for all the old carried parameters.
Enter = Callable[[tuple[Value, ...]], Sequence[Value]]
# Old yields copied, and the copies of other values -> what the new loop yields.
Leave = Callable[[tuple[Value, ...], dict[Value, Value]], Sequence[Value]]


def has_loops(kernel: Kernel) -> bool:
    return any(inst.op in LOOPS for inst in kernel.walk())


def bounds(loop: Inst) -> int:
    """How many operands of a loop are not carried."""
    return 3 if loop.op is control.for_ else 0


def carried_params(loop: Inst, block: Block) -> list[Value]:
    """The parameters of one of a loop's regions that are carried values."""
    return block.params[1:] if loop.op is control.for_ else block.params


def body(loop: Inst) -> Block:
    return loop.blocks[-1]


def yields(loop: Inst) -> tuple[Value, ...]:
    """What the body hands to the next iteration."""
    end = body(loop).terminator
    return end.operands if end is not None else ()


def new_loop(
    b: Builder,
    loop: Inst,
    head: Sequence[Value],
    inits: Sequence[Value],
    enter: Enter,
    leave: Leave,
) -> tuple[Value, ...]:
    """Emit a loop again, carrying `inits`; gives its results."""
    regions = []
    for block in loop.blocks:
        region = Block()
        names = {}
        if loop.op is control.for_:
            names[block.params[0]] = region.add_param(block.params[0].type)
        params = tuple(region.add_param(x.type) for x in inits)
        with b.inside(region):
            names.update(zip(carried_params(loop, block), enter(params), strict=True))
            values = inline(block, b, names)
            if block is body(loop):
                values = leave(values, names)
            b.emit(control.yield_, *values)
        regions.append(region)
    return b.emit(loop.op, *head, *inits, region=regions, **loop.attrs)
