"""Loops and branches hand on only what is read and what changes, and each thing once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tilewright.ir.inst import Block, Builder, Inst, Kernel, Value
from tilewright.ir.rewrite import rebuild
from tilewright.ops import control
from tilewright.passes import loops
from tilewright.passes.constants import constant


def drop_carried(kernel: Kernel) -> Kernel:
    """The kernel without carried values that are unread, constant or doubles of others."""
    if not any(inst.blocks for inst in kernel.walk()):
        return kernel
    return rebuild(kernel, partial(smaller, needed_results(kernel)))


def smaller(
    needed: set[Value], b: Builder, inst: Inst, operands: tuple[Value, ...]
) -> Sequence[Value] | None:
    if inst.op is control.if_:
        return smaller_if(needed, b, inst, operands)
    if inst.op in loops.LOOPS:
        return smaller_loop(needed, b, inst, operands)
    return None


# --- what is read


def needed_results(kernel: Kernel) -> set[Value]:
    """The results of loops and branches that decide an effect, a bound or a condition.

    A result counts when it, or the carried parameter of its loop, reaches such a thing, be it
    through other loops and branches.
    """
    owner = {block: inst for inst in kernel.walk() for block in inst.blocks}
    read: set[Value] = set()
    todo = roots(kernel)
    while todo:
        value = todo.pop()
        if value not in read:
            read.add(value)
            todo += sources(value, owner)
    needed = set()
    for inst in set(owner.values()):
        for k, result in enumerate(inst.results):
            carried = (
                [loops.carried_params(inst, block)[k] for block in inst.blocks]
                if inst.op in loops.LOOPS
                else []
            )
            if result in read or any(p in read for p in carried):
                needed.add(result)
    return needed


def roots(kernel: Kernel) -> list[Value]:
    """Values that count by themselves."""
    found: list[Value] = []
    for inst in kernel.walk():
        if inst.op in loops.LOOPS:
            found += inst.operands[: loops.bounds(inst)]
            if inst.op is control.while_:
                found += inst.blocks[0].terminator.operands
            continue
        if inst.op is control.yield_:
            continue
        if inst.op is control.if_ or not inst.op.is_pure:
            found += inst.operands
        for block in inst.blocks:  # a combining function, say: not worth a closer look
            end = block.terminator
            if inst.op is not control.if_ and end is not None:
                found += end.operands
    return found


def sources(value: Value, owner: dict[Block, Inst]) -> tuple[Value, ...]:
    """The values that decide `value`."""
    inst = value.inst
    if inst is None:
        loop = owner.get(value.block)
        if loop is None or loop.op not in loops.LOOPS:
            return ()
        params = loops.carried_params(loop, value.block)
        return carried_sources(loop, params.index(value)) if value in params else ()
    if inst.op in loops.LOOPS:
        return carried_sources(inst, inst.results.index(value))
    if inst.op is control.if_:
        k = inst.results.index(value)
        return tuple(block.terminator.operands[k] for block in inst.blocks)
    return inst.operands


def carried_sources(loop: Inst, k: int) -> tuple[Value, ...]:
    return loop.operands[loops.bounds(loop) + k], loops.yields(loop)[k]


# --- the smaller loop or branch


def smaller_loop(
    needed: set[Value], b: Builder, loop: Inst, operands: tuple[Value, ...]
) -> Sequence[Value] | None:
    start = loops.bounds(loop)
    inits = operands[start:]
    params = loops.carried_params(loop, loops.body(loop))
    keep: list[int] = []
    places: list[int | None] = []  # of each carried value among those kept; None: its initial value
    for k, value in enumerate(loops.yields(loop)):
        twin = find_twin(loop, inits, keep, k)
        if loop.results[k] not in needed or value is params[k]:
            places.append(None)
        elif twin is not None:
            places.append(places[twin])
        else:
            places.append(len(keep))
            keep.append(k)
    if len(keep) == len(inits):
        return None

    def spread(values: Sequence[Value]) -> list[Value]:
        return [inits[k] if place is None else values[place] for k, place in enumerate(places)]

    def leave(values: tuple[Value, ...], names: dict) -> list[Value]:
        return [values[k] for k in keep]

    head, kept = operands[:start], [inits[k] for k in keep]
    return spread(loops.new_loop(b, loop, head, kept, spread, leave))


def find_twin(loop: Inst, inits: Sequence[Value], keep: list[int], k: int) -> int | None:
    """A carried value that is kept and always equals the k-th: it starts and goes on alike."""
    params = loops.carried_params(loop, loops.body(loop))
    ends = loops.yields(loop)
    for j in keep:
        if inits[j] is inits[k] and equal(ends[j], ends[k], (params[j], params[k]), [32]):
            return j
    return None


def equal(x: Value, y: Value, pair: tuple[Value, Value], budget: list[int]) -> bool:
    """Whether two values are one computation, given that the values of `pair` are equal."""
    if x is y or (x, y) == pair:
        return True
    a, b = x.inst, y.inst
    budget[0] -= 1
    if budget[0] < 0 or a is None or b is None or a.op is not b.op or not a.op.is_pure:
        return False
    if a.blocks or a.attrs != b.attrs or len(a.results) != 1:
        return False
    if len(a.operands) != len(b.operands):
        return False
    return all(equal(p, q, pair, budget) for p, q in zip(a.operands, b.operands, strict=True))


def smaller_if(
    needed: set[Value], b: Builder, inst: Inst, operands: tuple[Value, ...]
) -> Sequence[Value] | None:
    ends = [block.terminator for block in inst.blocks]
    keep: list[int] = []
    stands: dict[int, Value] = {}
    for k, result in enumerate(inst.results):
        given = {end.operands[k] for end in ends}
        if result not in needed:  # nobody reads it: any value of the type will do
            stands[k] = constant(b.emit, 0, result.type)
        elif len(given) == 1:
            stands[k] = given.pop()
        else:
            keep.append(k)
    if not stands:
        return None
    for block, end in zip(inst.blocks, ends, strict=True):
        kept = tuple(end.operands[k] for k in keep)
        block.insts[-1] = Inst(control.yield_, kept, {}, loc=end.loc)
    types = tuple(inst.attrs["types"][k] for k in keep)
    made = b.emit(control.if_, *operands, region=inst.blocks, **{**inst.attrs, "types": types})
    stands.update(zip(keep, made, strict=True))
    return [stands[k] for k in range(len(inst.results))]
