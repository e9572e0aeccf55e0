"""How each op is written, control flow apart: computing, and moving elements."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tilewright.codegen import mathlib
from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.ops import math
from tilewright.ops.memory import offset
from tilewright.targets.cuda import (
    atomics,
    bytewise,
    dots,
    memory,
    messages,
    reduce,
    scan,
    sort,
    wholes,
)
from tilewright.targets.cuda.halves import can_halve, halved
from tilewright.targets.cuda.layout import Layout
from tilewright.targets.cuda.narrow import can_pair, paired
from tilewright.targets.cuda.tiles import Tile, tile, uniform
from tilewright.targets.cuda.widen import FOUR, can_widen, widened

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering

NEAR = {math.sin: "near_sin", math.cos: "near_cos"}  # of angles that are known not to be huge


def elementwise(x: Lowering, inst: Inst) -> Tile:
    """Register by register; operands that are known to be equal give one result."""
    layout = x.layout(inst.result)
    operands = [x.tile(v, layout) for v in inst.operands]
    if inst.op is math.cast and is_widened(x, inst, operands[0]):
        return tile(layout, widened(x.e, operands[0].lanes, inst.result.type.dtype))
    if inst.op is math.cast and is_paired(x, inst, operands[0]):
        return tile(layout, paired(x.e, operands[0].lanes, inst.result.type.dtype))
    if can_halve(inst, x.arch) and not all(o.uniform for o in operands):
        return tile(layout, halved(x.e, inst, *(o.lanes for o in operands)))
    is_angle = inst.op in NEAR and is_near(x, inst.operands[0])
    if bytewise.goes(inst, operands):
        return tile(layout, bytewise.four_at_a_time(x.e, inst, operands))
    made: dict[tuple, Lane] = {}
    lanes = []
    groups = equal_groups(x, inst, layout)
    for group, xs in zip(groups, zip(*[o.lanes for o in operands], strict=True), strict=True):
        key = group or tuple(lane.text for lane in xs)
        if key not in made:
            emit = partial(x.e.b.math, NEAR[inst.op]) if is_angle else partial(inst.op.emit, x.e.b)
            made[key] = emit(*xs, **inst.attrs)
        lanes.append(made[key])
    if inst.op is offset:
        for lane, (base, index) in zip(lanes, zip(*[o.lanes for o in operands]), strict=True):
            x.guard.near.moves(lane, base, index, inst)
    return Tile(layout, tuple(lanes), all(o.uniform for o in operands))


def is_near(x: Lowering, angle: Value) -> bool:
    return angle.type.dtype is t.float32 and x.sizes(angle) <= mathlib.NEAR


def is_widened(x: Lowering, inst: Inst, held: Tile) -> bool:
    """Whether a cast is of bytes that differ, which are best taken together."""
    several = not held.uniform and held.layout.registers % FOUR == 0
    return several and can_widen(held.dtype, inst.result.type.dtype, x.arch.capability)


def is_paired(x: Lowering, inst: Inst, held: Tile) -> bool:
    """Whether a cast is from or to floats of 8 bits, as the chip does it."""
    to, rounding = inst.result.type.dtype, inst.attrs.get("rounding", "rtne")
    return not held.uniform and can_pair(held.dtype, to, x.arch.capability, rounding)


def equal_groups(x: Lowering, inst: Inst, layout: Layout) -> list[tuple[int, ...]]:
    """Of each register what it shares with those that hold the same number, as facts say."""
    sizes = x.axes(inst.result).constant
    if not inst.result.type.shape or max(sizes) == 1:
        return [()] * layout.registers
    places = map(layout.coords, layout.split()[0])
    return [tuple(c // n for c, n in zip(place, sizes, strict=True)) for place in places]


def constant(x: Lowering, inst: Inst) -> Tile:
    value = x.e.b.const(inst.attrs["value"], inst.result.type.dtype)
    return uniform(value, x.layout(inst.result))


def arange(x: Lowering, inst: Inst) -> Tile:
    layout = x.layout(inst.result)
    start = inst.attrs["start"]
    return tile(layout, [x.e.plus(i, start) for i in x.e.indices(layout)])


def splat(x: Lowering, inst: Inst) -> Tile:
    return uniform(x.scalar(inst.operands[0]), x.layout(inst.result))


def broadcast(x: Lowering, inst: Inst) -> Tile:
    layout = x.layout(inst.result)
    copied = layout.project(inst.operands[0].type.shape)
    source = x.in_layout(x.tile(inst.operands[0], copied.compact()), copied)
    return Tile(layout, source.lanes, source.uniform)


def reshape(x: Lowering, inst: Inst) -> Tile:
    layout = x.layout(inst.result)
    source = x.tile(inst.operands[0], layout.reshape(inst.operands[0].type.shape))
    return Tile(layout, source.lanes, source.uniform)


def permute(x: Lowering, inst: Inst) -> Tile:
    layout, order = x.layout(inst.result), inst.attrs["order"]
    back = tuple(order.index(d) for d in range(len(order)))
    source = x.tile(inst.operands[0], layout.permute(back))
    return Tile(layout, source.lanes, source.uniform)


def join(x: Lowering, inst: Inst) -> Tile:
    """Elements of two tiles in turn."""
    layout = x.layout(inst.result)
    bit = layout.halves_bit()
    natural = layout if bit is not None else x.layout(inst.operands[0]).join()
    halves = [x.tile(v, natural.half()) for v in inst.operands]
    return x.in_layout(interleaved(natural, natural.halves_bit(), halves), layout)


def interleaved(layout, bit: int, parts: list[Tile]) -> Tile:
    """Registers from the one part or the other, as a bit of their number says."""
    low = (1 << bit) - 1
    lanes = []
    for r in range(layout.registers):
        rest = r & low | r >> 1 & ~low
        lanes.append(parts[r >> bit & 1].lanes[rest])
    return tile(layout, lanes)


def split(x: Lowering, inst: Inst) -> list[Tile]:
    """Every second element to each of two tiles."""
    source = x.tile(inst.operands[0])
    if source.layout.halves_bit() is None:
        source = x.in_layout(source, x.layout(inst.results[0]).join())
    bit, half = source.layout.halves_bit(), source.layout.half()
    low = (1 << bit) - 1
    places = [r & low | (r & ~low) << 1 for r in range(half.registers)]
    parts = [tile(half, [source.lanes[p | k << bit] for p in places]) for k in (0, 1)]
    return [x.in_layout(p, x.layout(r)) for p, r in zip(parts, inst.results, strict=True)]


def cat(x: Lowering, inst: Inst) -> Tile:
    """One tile, then the other."""
    part = x.layout(inst.operands[0])
    first, second = (x.tile(v, part) for v in inst.operands)
    whole = tile(part.cat(), [*first.lanes, *second.lanes])
    return x.in_layout(whole, x.layout(inst.result))


def flip(x: Lowering, inst: Inst) -> Tile:
    """Element i is element i ^ (n - 1) along the axis."""
    layout, axis = x.layout(inst.result), inst.attrs["axis"]
    first, count = layout.span(axis)
    return x.in_layout(x.tile(inst.operands[0]), layout, (1 << count) - 1 << first)


def program_id(x: Lowering, inst: Inst) -> Tile:
    return uniform(x.e.program_id(inst.attrs["axis"]), x.layout(inst.result))


def num_programs(x: Lowering, inst: Inst) -> Tile:
    return uniform(x.e.num_programs(inst.attrs["axis"]), x.layout(inst.result))


def processor(x: Lowering, inst: Inst) -> Tile:
    return uniform(x.e.special("smid"), x.layout(inst.result))


def clock(x: Lowering, inst: Inst) -> Tile:
    """Every warp reads it for itself."""
    return uniform(x.e.clock(), x.layout(inst.result))


def barrier(x: Lowering, inst: Inst) -> None:
    x.e.barrier()


RULES = {
    "constant": constant,
    "arange": arange,
    "splat": splat,
    "broadcast": broadcast,
    "reshape": reshape,
    "permute": permute,
    "join": join,
    "split": split,
    "cat": cat,
    "flip": flip,
    "program_id": program_id,
    "num_programs": num_programs,
    "processor": processor,
    "clock": clock,
    "barrier": barrier,
    "load": memory.load,
    "store": memory.store,
    "atomic_rmw": atomics.atomic_rmw,
    "atomic_cas": atomics.atomic_cas,
    "reduce": reduce.reduce,
    "scan": scan.scan,
    "sort": sort.sort,
    "gather": wholes.gather,
    "histogram": wholes.histogram,
    "dot": dots.dot,
    "device_print": messages.device_print,
    "device_assert": messages.device_assert,
}
