"""The memory that the sums of a loop go to is asked for while the loop's last turn multiplies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.targets.cpu.extents import leaves

if TYPE_CHECKING:
    from tilewright.targets.cpu.lower import Lowering


def find_store(x: Lowering, dot: Inst) -> Inst | None:
    """What stores the sums of a product after the loop that it is in, to an address known now."""
    home = x.plan.home[dot.result]
    loop = x.extents.owners.get(home)
    if loop is None or loop.op.name != "for" or x.memory.counters is not None:
        return None
    ends = home.terminator.operands if home.terminator is not None else ()
    stack = [loop.results[k] for k, value in enumerate(ends) if value is dot.result]
    while stack:
        value = stack.pop()
        for user in x.plan.users.get(value, ()):
            if user.op.name == "store" and value is user.operands[1]:
                return user if is_known(x, user.operands[0]) else None
            if user.op.is_elementwise and user.result.type.shape == value.type.shape:
                stack.append(user.result)
    return None


def is_known(x: Lowering, pointer: Value) -> bool:
    """Whether a tile of rows in memory can be told from what there is already."""
    plan, e = x.plan, x.e
    if len(pointer.type.shape) != 2 or plan.contiguous(pointer) != 1:
        return False
    if not plan.symbolic.get(pointer):
        return False
    return all(leaf in e.bound or e.knows(leaf, ()) for leaf in leaves(pointer))


def place_of(x: Lowering, dot: Inst, store: Inst) -> tuple[Lane, Lane]:
    """Where the sums go, null but for the last turn, and elements between their rows."""
    e, b, pointer = x.e, x.e.b, store.operands[0]
    element = pointer.type.dtype.element_ty

    def address(row: int) -> Lane:
        return e.lanes_of(e.eval(pointer, (e.scalar_index(row), e.scalar_index(0))))

    first = address(0)
    apart = b.sub(b.bitcast(address(1), t.int64), b.bitcast(first, t.int64))
    lead = b.value(f"sdiv exact {apart.typed}, {element.bytes}", t.int64, 1)
    wanted = is_last(x, dot)
    # What goes past the caches is not wanted in them.
    large = x.memory.streams.is_large(x.memory, store) if b.target == "x86" else None
    if large is not None:
        wanted = b.bit_and(wanted, b.bit_not(large))
    first = b.bitcast(first, t.pointer_to(t.int8))
    return b.select(wanted, first, Lane("null", first.dtype)), lead


def is_last(x: Lowering, dot: Inst) -> Lane:
    """Whether a counted loop ends after this turn."""
    e, b = x.e, x.e.b
    home = x.plan.home[dot.result]
    _, high, step = (e.scalar(v).lane for v in x.extents.owners[home].operands[:3])
    return b.ge(b.add(e.scalar(home.params[0]).lane, step), high)
