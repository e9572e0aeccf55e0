"""Carry a scalar distance in place of a tile that moves by uniform amounts."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir import types as t
from tilewright.ir.inst import Builder, Inst, Kernel, Value
from tilewright.ir.rewrite import rebuild
from tilewright.ir.types import Type
from tilewright.ops import debug, math, memory, shape
from tilewright.passes import loops
from tilewright.passes.constants import Make, constant, scalar_of
from tilewright.passes.fold import Maker


@dataclass(frozen=True, slots=True)
class Walk:
    """How one iteration changes a carried tile: by uniform tiles, added or taken away."""

    steps: tuple[tuple[bool, Value], ...]  # (added, uniform tile)
    bytes: int  # of one element that a pointer moves over; 0 for integers

    @property
    def is_pointer(self) -> bool:
        return self.bytes > 0


def carry_scalars(kernel: Kernel) -> Kernel:
    """Carried tiles that move by uniform amounts become an initial tile plus a carried scalar."""
    return rebuild(kernel, scalar_loop) if loops.has_loops(kernel) else kernel


def scalar_loop(b: Builder, loop: Inst, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
    if loop.op not in loops.LOOPS:
        return None
    params = loops.carried_params(loop, loops.body(loop))
    walks = {}
    for k, (param, value) in enumerate(zip(params, loops.yields(loop), strict=True)):
        walk = find_walk(param, value)
        if walk is not None:
            walks[k] = walk
    if not walks:
        return None
    make = Maker(b)
    head, tiles = operands[: loops.bounds(loop)], operands[loops.bounds(loop) :]
    inits = list(tiles)
    for k, walk in walks.items():
        inits[k] = constant(make, 0, distance_type(tiles[k], walk))

    def at(distances):
        """The carried values, tiles moved by the carried distances."""
        return [
            moved(make, tiles[k], d, walks[k]) if k in walks else d for k, d in enumerate(distances)
        ]

    def leave(values, names):
        out = list(values)
        for k, walk in walks.items():
            out[k] = next_distance(make, distances[k], walk, names)
        return out

    distances: list[Value] = []

    def enter(values):
        distances[:] = values
        return at(values)

    return tuple(at(loops.new_loop(b, loop, head, inits, enter, leave)))


def find_walk(param: Value, value: Value) -> Walk | None:
    """The uniform steps that lead from a carried tile to what the body yields for it."""
    if not param.type.shape or param.type.dtype.is_float or param.type.dtype is t.int1:
        return None
    steps = []
    bytes = 0
    while value is not param:
        if value.inst is not None and value.inst.op is debug.hint:
            (value,) = value.inst.operands
            continue
        step = last_step(value)
        if step is None:
            return None
        value, added, tile, size = step
        if bytes and size != bytes:
            return None
        bytes = size
        steps.append((added, tile))
    return Walk(tuple(steps), bytes) if steps else None


def last_step(value: Value) -> tuple[Value, bool, Value, int] | None:
    """(before, whether added, uniform tile, bytes) of an op that moves a tile uniformly."""
    inst = value.inst
    if inst is None:
        return None
    if inst.op is memory.offset and is_uniform(inst.operands[1]):
        return inst.operands[0], True, inst.operands[1], inst.attrs["bytes"]
    if inst.op is math.sub and is_uniform(inst.operands[1]):
        return inst.operands[0], False, inst.operands[1], 0
    if inst.op is math.add:
        for x, y in (inst.operands, inst.operands[::-1]):
            if is_uniform(y):
                return x, True, y, 0
    return None


def is_uniform(value: Value) -> bool:
    return value.inst is not None and value.inst.op in (shape.splat, shape.constant)


def distance_type(tile: Value, walk: Walk) -> Type:
    return Type(t.int64 if walk.is_pointer else tile.type.dtype)


def moved(make: Make, tile: Value, distance: Value, walk: Walk) -> Value:
    """The initial tile, as far on as the carried scalar says."""
    distances = make(shape.splat, distance, shape=tile.type.shape)
    if walk.is_pointer:
        return make(memory.offset, tile, distances, bytes=walk.bytes)
    return make(math.add, tile, distances)


def next_distance(make: Make, distance: Value, walk: Walk, names: dict[Value, Value]) -> Value:
    """The carried scalar after the steps of one iteration; their sum is first, so it can leave."""
    total = None
    for added, tile in reversed(walk.steps):
        step = scalar_of(make, names.get(tile, tile))
        if walk.is_pointer:
            step = make(math.cast, step, to="i64")
        if total is None:
            total = step if added else make(math.neg, step)
        else:
            total = make(math.add if added else math.sub, total, step)
    return make(math.add, distance, total)
