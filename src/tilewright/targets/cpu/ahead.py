"""Memory is asked for one tile ahead where rows are too short for the machine to see the pattern.

A tile of short rows that lie far apart begins a new run of memory with each row, and waits for it.
The next tile, that of the next program or the next turn of a loop, lies at a known distance: its
rows are prefetched while those of this one are read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Block, Inst, Kernel, Value
from tilewright.targets.cpu.branches import where
from tilewright.targets.cpu.order import UNKNOWN, Step, Steps
from tilewright.targets.cpu.streams import LINE

if TYPE_CHECKING:
    from tilewright.targets.cpu.memory import Access, Memory, Tile

PAGE = 4096  # bytes: runs of memory that the machine prefetches by itself
REACH = 8192  # bytes that lie between a prefetch and its use, at least
MOST_TILES = 8  # ahead
FAR = 4 << 20  # bytes of an argument that caches near the core do not hold
NO_AXIS = -1
PREFETCH = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"


@dataclass(eq=False, slots=True)
class Ahead:
    """By how much the next tile of each load lies ahead."""

    kernel: Kernel
    axis: int  # of the grid, along which neighbours run one after the other
    loops: dict[Inst, Inst] = field(default_factory=dict)  # by load: the innermost loop
    steps: dict[Inst | None, Steps] = field(default_factory=dict)  # by loop, None for programs
    phases: int = 0  # how many nests the block has that is being written
    seen: dict[Inst, Tile] = field(default_factory=dict)  # by load of chunks: its first nest

    def __post_init__(self) -> None:
        self.scan(self.kernel.body, None)

    def scan(self, block: Block, loop: Inst | None) -> None:
        for inst in block.insts:
            if loop is not None and inst.op.name in ("load", "store"):
                self.loops[inst] = loop
            for inner in inst.blocks:
                self.scan(inner, inst if inst.op.name == "for" else loop)

    def row(self, m: Memory, inst: Inst, a: Access, past: Lane | None) -> None:
        """Prefetch what a row becomes in the next tile, unless it is stored past the caches."""
        is_load = inst.op.name == "load"
        if not (is_load or inst.op.name == "store") or m.counters is not None or not a.contiguous:
            return
        param = m.param(inst)
        size = m.e.row.length * a.size
        if param is None or size >= PAGE // 2 or m.e.row.start is not None or m.tile.goes_on:
            return
        change = int(not is_load)
        distance = self.distance(m, inst, inst.operands[0].type.size * a.size, size)
        if distance is None:
            return
        b, e, w = m.e.b, m.e, m.e.w
        own = m.extent(param)
        with w.outside(0):
            is_far = b.ge(b.sub(own.high, own.low), e.const(FAR))
        if past is not None:
            is_far = b.bit_and(is_far, b.bit_not(past))
        w.declare(PREFETCH)
        with where(w, is_far):
            place = b.offset(a.pointer.base, distance, t.int8)
            for start in range(0, size, LINE):
                line = b.offset(place, e.const(start), t.int8) if start else place
                w.write(f"call void @llvm.prefetch.p0(ptr {line.text}, i32 {change}, i32 3, i32 1)")

    def chunk(self, m: Memory, inst: Inst, a: Access) -> None:
        """Prefetch what a chunk of a long row becomes in the next tile, where programs read and
        compute by turns: the machine looks ahead only while they read."""
        size = m.e.row.length * a.size
        if self.phases < 2 or size < PAGE // 2 or m.e.row.start is not None or m.tile.rare:
            return
        if m.counters is not None or m.checks is not None or m.param(inst) is None:
            return
        if self.seen.setdefault(inst, m.tile) is not m.tile:
            return  # what other nests of a program read again is near
        distance = self.distance(m, inst, inst.operands[0].type.size * a.size, 0)
        if distance is None:
            return
        b, e, w = m.e.b, m.e, m.e.w
        own = m.extent(m.param(inst))
        with w.outside(0):
            is_far = b.ge(b.sub(own.high, own.low), e.const(FAR))
        place = b.offset(a.pointer.base, b.select(is_far, distance, e.const(0)), t.int8)
        w.declare(PREFETCH)
        w.write(f"call void @llvm.prefetch.p0(ptr {place.text}, i32 0, i32 3, i32 1)")

    def distance(self, m: Memory, inst: Inst, tile: int, row: int) -> Lane | None:
        """From a row to the same one of the tile that is read soon after."""
        loop = self.loops.get(inst)
        steps = self.steps_of(loop)
        step = steps.of(inst.operands[0])
        if not isinstance(step, Step) or not step.number:
            return None
        if tile == row and not step.factors and abs(step.number) == tile:
            return None  # the next tile goes on where this one ends
        b, e = m.e.b, m.e
        tiles = min(MOST_TILES, max(1, -(-REACH // tile)))
        distance = e.const(step.number * tiles)
        for factor in step.factors:
            distance = b.mul(distance, b.cast(e.scalar(steps.values[factor]).lane, t.int64))
        return distance

    def steps_of(self, loop: Inst | None) -> Steps:
        if loop not in self.steps:
            axis = self.axis if loop is None else NO_AXIS
            steps = Steps(axis, frozenset(self.kernel.body.params))
            self.steps[loop] = steps
            if loop is not None:
                for inst in self.kernel.walk():
                    for block in inst.blocks:
                        steps.found.update(dict.fromkeys(block.params))
                counter, *carried = loop.blocks[0].params
                steps.found[counter] = steps.length(loop.operands[2])
                ends = loop.blocks[0].terminator.operands if carried else ()
                steps.found.update({p: grown(steps, p, v) for p, v in zip(carried, ends)})
        return self.steps[loop]


def grown(steps: Steps, param: Value, value: Value) -> object:
    """By how much what a loop hands on grows in a turn."""
    if value is param:
        return None
    inst = value.inst
    if param.type.shape or inst is None or inst.op.name != "add" or param not in inst.operands:
        return UNKNOWN
    (by,) = [x for x in inst.operands if x is not param] or [param]
    return UNKNOWN if by is param or steps.of(by) is not None else steps.length(by)
