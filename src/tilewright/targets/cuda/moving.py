"""Addresses in loops, as a tile that stays and a distance that all its elements move by.

Descriptors and block pointers tell indices in 64 bits, from which each turn would compute each
row's address by products, and compare each row with the end.
"""

from __future__ import annotations

from tilewright.ir import types as t
from tilewright.ir.inst import Builder, Inst, Kernel, Value
from tilewright.ir.rewrite import drop_dead, rebuild
from tilewright.ir.types import Type
from tilewright.ops import math, memory, shape
from tilewright.passes import loops
from tilewright.passes.constants import scalar_of
from tilewright.passes.licm import licm
from tilewright.targets.cuda.dot_table import homes

STEPS = (shape.reshape, shape.broadcast)
COMPARING = (math.lt, math.le, math.gt, math.ge)
SAME = (shape.splat, shape.constant)
FAR = 1 << 30  # further than any element of a tile is from its first one


def part(kernel: Kernel) -> Kernel:
    """Take apart what moves and what stays, and put the latter before the loop."""
    if not loops.has_loops(kernel):
        return kernel
    parting = Parting(kernel)
    made = drop_dead(rebuild(kernel, parting.rule))
    return licm(made) if parting.parts else kernel


class Parting:
    """Of values of a loop, the tile from outside and the moving scalar that they are the sum of."""

    def __init__(self, kernel: Kernel):
        self.home = homes(kernel.body, {})
        self.parts: dict[Value, tuple[Value, Value]] = {}

    def rule(self, b: Builder, inst: Inst, operands: tuple[Value, ...]) -> Value | None:
        """What takes an instruction's place, if anything does; notes the parts of its result."""
        if inst.op is memory.offset:
            return self.offset(b, inst, operands)
        if inst.op in COMPARING:
            return self.comparison(b, inst, operands)
        if inst.op is math.add:
            self.sum(b, inst, operands)
        elif inst.op is math.mul:
            self.product(b, inst, operands)
        elif inst.op in STEPS and inst.operands[0] in self.parts:
            tile, scalar = self.parts[inst.operands[0]]
            self.parts[inst.result] = b.emit(inst.op, tile, **inst.attrs), scalar
        return None

    def stays(self, value: Value, inst: Inst) -> bool:
        return self.home[value] is not self.home[inst.result]

    def sum(self, b: Builder, inst: Inst, operands: tuple[Value, ...]) -> None:
        for k in (0, 1):
            scalar, tile = inst.operands[k], inst.operands[1 - k]
            moves = is_same(scalar) and not self.stays(scalar, inst)
            if is_wide(inst.result.type) and moves and self.stays(tile, inst):
                self.parts[inst.result] = operands[1 - k], scalar_of(b.emit, operands[k])

    def product(self, b: Builder, inst: Inst, operands: tuple[Value, ...]) -> None:
        for k in (0, 1):
            by = inst.operands[1 - k]
            if inst.operands[k] in self.parts and is_same(by) and self.stays(by, inst):
                tile, scalar = self.parts[inst.operands[k]]
                far = b.emit(math.mul, scalar, scalar_of(b.emit, operands[1 - k]))
                self.parts[inst.result] = b.emit(math.mul, tile, operands[1 - k]), far

    def offset(self, b: Builder, inst: Inst, operands: tuple[Value, ...]) -> Value | None:
        pointer, distance = inst.operands
        if not inst.result.type.shape or not {pointer, distance} & self.parts.keys():
            return None
        if not all(x in self.parts or self.stays(x, inst) for x in inst.operands):
            return None
        tiles = [
            self.parts[x][0] if x in self.parts else y
            for x, y in zip(inst.operands, operands, strict=True)
        ]
        scalars = [self.parts[x][1] for x in inst.operands if x in self.parts]
        far = scalars[0] if len(scalars) == 1 else b.emit(math.add, *scalars)
        stays = b.emit(memory.offset, *tiles, **inst.attrs)
        self.parts[inst.result] = stays, far
        moved = b.emit(shape.splat, far, shape=inst.result.type.shape)
        return b.emit(memory.offset, stays, moved, **inst.attrs)

    def comparison(self, b: Builder, inst: Inst, operands: tuple[Value, ...]) -> Value | None:
        """Of indices of rows with a number, in 32 bits: how far it is from the first of them.

        Along a row neighbours are compared at once: to find how far would take longer.
        """
        if inst.operands[0] not in self.parts or not is_same(inst.operands[1]):
            return None
        if inst.result.type.shape[-1] > 1:
            return None
        tile, scalar = self.parts[inst.operands[0]]
        narrow = counted(b, tile)
        if narrow is None:
            return None
        far = b.emit(math.sub, scalar_of(b.emit, operands[1]), scalar)
        ends = [b.emit(shape.constant, value=v, type="i64") for v in (-FAR, FAR)]
        near = b.emit(math.min, b.emit(math.max, far, ends[0]), ends[1])
        end = b.emit(math.cast, near, to="i32")
        return b.emit(inst.op, narrow, b.emit(shape.splat, end, shape=narrow.type.shape))


def is_wide(type: Type) -> bool:
    return bool(type.shape) and type.dtype is t.int64


def is_same(value: Value) -> bool:
    """Whether all elements of a tile are equal, as its instruction says."""
    return value.inst is not None and value.inst.op in SAME


def counted(b: Builder, tile: Value) -> Value | None:
    """The 32-bit numbers 0, 1, ... that a tile holds in 64 bits; None where it does not."""
    inst = tile.inst
    if inst is None:
        return None
    if inst.op in STEPS:
        inner = counted(b, inst.operands[0])
        return None if inner is None else b.emit(inst.op, inner, **inst.attrs)
    if inst.op is not math.cast or inst.operands[0].inst is None:
        return None
    (numbers,) = inst.operands
    return numbers if numbers.inst.op is shape.arange else None
