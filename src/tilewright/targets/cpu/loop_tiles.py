"""Loops that can hand their tiles from turn to turn in registers: which, and in what pieces.

A tile that is larger than the registers is taken piece by piece, each through all turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from tilewright.ir.inst import Inst, Value
from tilewright.targets.cpu.kinds import ALWAYS_KEPT, CHEAP, MOVES
from tilewright.targets.cpu.order import Step
from tilewright.targets.cpu.pieces import LONG, divides, is_quotient, may_begin
from tilewright.targets.cpu.schedule import Anchor, Nest, Scheduler
from tilewright.targets.cpu.widths import lanes_of_chunk

if TYPE_CHECKING:
    from tilewright.targets.cpu.lower import Lowering

WIDE = 64  # bytes of vectors of which there are 32, else 16
MOST_STEPS = 96  # of a turn of a piece: they are written out
FEWEST_CHUNKS = 4  # of a piece, as fewer wait for each other
MOST_ROWS = 4  # of a piece; what is read for each column is used as often

MOST_STREAMED = 8  # chunks of a piece that waits for memory anyway
COSTLY = 8  # steps of what is not done in one


@dataclass(frozen=True, slots=True)
class Pieces:
    """How the tiles of a loop are taken apart."""

    shape: tuple[int, ...]
    axis: int  # along the lanes
    width: int  # lanes of a chunk
    rows: int  # of a piece
    chunks: int  # of each of its rows

    @property
    def outer(self) -> list[int]:
        """The other dimensions, that of a piece's rows last."""
        return [d for d, n in enumerate(self.shape) if d != self.axis and n > 1]


def find_pieces(x: Lowering, loop: Inst) -> Pieces | None:
    """The pieces of a loop's tiles, if all of it can be done for one after the other."""
    if x.memory.counters is not None or x.memory.checks is not None:
        return None
    tiles = carried_tiles(loop)
    if not tiles or not all(may_go_piecewise(x, inner) for inner in nested(loop)):
        return None
    shape = tiles[0].type.shape
    same = all(p.type.shape == shape for inner in nested(loop) for p in carried_tiles(inner))
    if not same or not moves_nothing(loop):
        return None
    turns = [Anchor("assign", None, shape, v) for n in nested(loop) for v in tile_ends(n)]
    if divides(x.e, turns):
        return None  # rows are cut where quotients change
    ends = tile_ends(loop)
    nest = Nest(shape, 0, [Anchor("assign", None, shape, v, p) for p, v in zip(tiles, ends)])
    nest.axis = Scheduler(x.plan).axis(nest.anchors[0])
    width = lanes_of_chunk(x.e, nest, x.machine.vector_bytes)
    return fit(x, loop, shape, nest.axis, width)


def fit(x: Lowering, loop: Inst, shape: tuple[int, ...], axis: int, width: int) -> Pieces | None:
    """Pieces of as many chunks as registers and code have room for."""
    tiles = max(len(carried_tiles(inner)) for inner in nested(loop))
    registers = 16 if x.machine.vector_bytes == WIDE else 8
    length = shape[axis] // width
    if length >= LONG and any(may_begin(i) for n in nested(loop) for i in n.blocks[0].insts):
        return None
    whole = length * prod(shape) // shape[axis]
    room = min(registers // tiles, MOST_STEPS // steps(x, loop, shape))
    room = min(whole, 1 << max(0, room.bit_length() - 1))
    if room < min(whole, FEWEST_CHUNKS):
        return None
    across = [n for d, n in enumerate(shape) if d != axis and n > 1]
    reading = [i for i in loads(loop) if reads_all(x, i, shape)] if room < whole else []
    if reading and length >= LONG:
        return None  # each turn takes its loads' masks and ends row by row, which is worth more
    room = min(room, MOST_STREAMED) if reading else room
    side_by_side = reading or not across
    chunks = min(length, room if side_by_side else max(1, room // min(across[-1], MOST_ROWS)))
    rows = min(across[-1], room // chunks) if across else 1
    if not all(goes_on(x, i, chunks * width) for i in reading):
        return None
    return Pieces(shape, axis, width, rows, chunks)


# --- what a loop does


def nested(loop: Inst) -> Iterator[Inst]:
    """A loop and those inside."""
    yield loop
    for inst in loop.blocks[0].insts:
        if inst.op.name == "for":
            yield from nested(inst)


def carried_tiles(loop: Inst) -> list[Value]:
    return [p for p in loop.blocks[0].params if p.type.shape]


def tile_ends(loop: Inst) -> list[Value]:
    """What the carried tiles are after a turn."""
    body = loop.blocks[0]
    ends = body.terminator.operands if body.terminator is not None else ()
    return [v for v in ends if v.type.shape]


def loads(loop: Inst) -> list[Inst]:
    return [i for inner in nested(loop) for i in inner.blocks[0].insts if i.op.name == "load"]


def may_go_piecewise(x: Lowering, loop: Inst) -> bool:
    """Whether a loop only computes and loads, and hands on nothing else that is read later."""
    plan = x.plan
    if any(plan.users.get(r) for r in loop.results if not r.type.shape):
        return False
    if any(p.type.dtype.is_pointer for p in carried_tiles(loop)):
        return False
    return all(is_step(x, inst) for inst in loop.blocks[0].insts)


def is_step(x: Lowering, inst: Inst) -> bool:
    """Whether an instruction is evaluated where it is read, a piece of it as well as all."""
    if inst.op.name in ("for", "yield"):
        return True
    if inst.op.name in ALWAYS_KEPT or any(r in x.plan.kept for r in inst.results):
        return False
    if inst.op.effect == "read":
        return inst.op.name == "load" and not inst.attrs.get("volatile")
    return inst.op.is_pure and not is_quotient(inst)


def moves_nothing(loop: Inst, moved: dict[Value, bool] | None = None) -> bool:
    """Whether each element of the carried tiles is made of that element only.

    `moved` has what is made of the carried tiles of loops around: whether of other elements.
    """
    moved = {} if moved is None else moved
    if any(moved.get(v) for v in loop.operands):
        return False
    moved.update(dict.fromkeys(carried_tiles(loop), False))
    for inst in loop.blocks[0].insts:
        if inst.op.name == "for":
            if not moves_nothing(inst, moved):
                return False
            moved.update(dict.fromkeys(inst.results, False))
        found = [moved[v] for v in inst.operands if v in moved]
        if found:
            is_moved = any(found) or inst.op.name in MOVES or inst.op.name == "load"
            moved.update(dict.fromkeys(inst.results, is_moved))
    return not any(moved.get(v) for v in tile_ends(loop))


def steps(x: Lowering, loop: Inst, shape: tuple[int, ...]) -> int:
    """How many instructions a chunk of a turn takes, about."""
    costs = [
        1 if inst.op.name in CHEAP or inst.op.name == "load" else COSTLY
        for inner in nested(loop)
        for inst in inner.blocks[0].insts
        if is_work(x, inst, shape)
    ]
    return max(1, sum(costs))


def is_work(x: Lowering, inst: Inst, shape: tuple[int, ...]) -> bool:
    """Whether an instruction computes an element for each of the tile."""
    if inst.op.name in MOVES or inst.op.name in ("constant", "for"):
        return False
    return any(r.type.shape == shape and not x.plan.symbolic[r] for r in inst.results)


def reads_all(x: Lowering, load: Inst, shape: tuple[int, ...]) -> bool:
    """Whether a load reads another element of memory for each of the tile."""
    if not load.result.type.shape:
        return False
    strides = zip(load.result.type.shape, x.plan.strides(load.operands[0]), strict=True)
    return sum(s != 0 for n, s in strides if n > 1) == sum(n > 1 for n in shape)


def goes_on(x: Lowering, load: Inst, length: int) -> bool:
    """Whether a load goes on where a piece's row ends, so that it streams from memory."""
    pointer = load.operands[0]
    step = x.memory.ahead.steps_of(x.memory.ahead.loops[load]).of(pointer)
    if not isinstance(step, Step) or step.factors:
        return False
    return abs(step.number) <= length * pointer.type.dtype.element_ty.bytes
