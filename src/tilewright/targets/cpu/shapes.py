"""Shape ops and those that make tiles of positions: where an element comes from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst
from tilewright.targets.cpu.buffers import Buffer, read_buffer
from tilewright.targets.cpu.follow import source_dim
from tilewright.targets.cpu.forms import Form, Index, Steps, Uniform
from tilewright.targets.cpu.kinds import is_reshuffle

if TYPE_CHECKING:
    from tilewright.targets.cpu.evaluate import Evaluator


def constant(e: Evaluator, inst: Inst, index: tuple[Index, ...]) -> Form:
    return Uniform(e.b.const(inst.attrs["value"], inst.result.type.dtype), 0)


def arange(e: Evaluator, inst: Inst, index: tuple[Index, ...]) -> Form:
    (i,) = index
    start = inst.attrs["start"]

    def make() -> Lane:
        lane = (
            e.b.const(i.base.known, t.int32)
            if i.base.known is not None
            else e.b.cast(i.base, t.int32)
        )
        if not start:
            return lane
        if lane.known is not None:
            return e.b.const(lane.known + start, t.int32)
        return e.b.add(lane, e.b.const(start, t.int32))

    lane = e.at(i.depth, make)
    return Steps(lane, 1, i.depth) if i.vector else Uniform(lane, i.depth)


def splat(e: Evaluator, inst: Inst, index: tuple[Index, ...]) -> Form:
    return e.eval(inst.operands[0], ())


def broadcast(e: Evaluator, inst: Inst, index: tuple[Index, ...]) -> Form:
    x = inst.operands[0]
    zero = e.scalar_index(0)
    return e.eval(x, tuple(zero if n == 1 else i for n, i in zip(x.type.shape, index, strict=True)))


def permute(e: Evaluator, inst: Inst, index: tuple[Index, ...]) -> Form:
    out = [e.scalar_index(0)] * len(index)
    for place, source in enumerate(inst.attrs["order"]):
        out[source] = index[place]
    return e.eval(inst.operands[0], tuple(out))


def reshape(e: Evaluator, inst: Inst, index: tuple[Index, ...]) -> Form:
    x = inst.operands[0]
    if is_reshuffle(inst):
        buffer = e.buffers[x]
        held = buffer.type.with_shape(inst.result.type.shape)  # sums may be held in a wider dtype
        return read_buffer(e, Buffer(buffer.name, held, buffer.reads_as), index)
    rest = [i for n, i in zip(inst.result.type.shape, index, strict=True) if n != 1]
    zero = e.scalar_index(0)
    places = iter(rest)
    return e.eval(x, tuple(zero if n == 1 else next(places) for n in x.type.shape))


def operand_index(e: Evaluator, inst: Inst, index: tuple[Index, ...]) -> tuple[Index, ...]:
    """Where the operands of an operation of indices are read for one of its elements."""
    shape = inst.operands[0].type.shape if inst.operands else ()
    if inst.op.name not in ("permute", "broadcast", "reshape"):
        return index
    out = [e.scalar_index(0)] * len(shape)
    for dim, place in enumerate(index):
        below = source_dim(inst, dim)
        if below is not None:
            out[below] = place
    return tuple(out)


RULES: dict[str, Callable[[Evaluator, Inst, tuple[Index, ...]], Form]] = {
    "constant": constant,
    "arange": arange,
    "splat": splat,
    "broadcast": broadcast,
    "permute": permute,
    "reshape": reshape,
}
