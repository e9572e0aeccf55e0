"""Sorting rows: a bitonic network on integers that are ordered as the elements are."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane, llvm_type
from tilewright.codegen.sort_keys import decoded, encoded, key_dtype
from tilewright.ir import types as t
from tilewright.ir.inst import Inst
from tilewright.ir.types import DType, Type
from tilewright.targets.cpu.buffers import Buffer
from tilewright.targets.cpu.loops import Loop
from tilewright.targets.cpu.rows import around, at, chunks, counted, lanes_for, read, write
from tilewright.targets.cpu.writer import Writer

if TYPE_CHECKING:
    from tilewright.targets.cpu.lower import Lowering


def sort(x: Lowering, inst: Inst) -> None:
    """Each row as keys in scratch memory, sorted there, and back."""
    e, axis = x.e, inst.attrs["axis"]
    dtype, descending = inst.result.type.dtype, inst.attrs.get("descending", False)
    source, out = around(e.buffers[inst.operands[0]], axis), around(x.buffer(inst.result), axis)
    outer, length, inner = source.type.shape
    key = key_dtype(dtype)
    keys = Buffer(x.new_scratch(length * key.bytes), Type(key, (length,)))
    width = lanes_for(x.machine.vector_bytes, length, keys)
    with counted(e, outer) as o, counted(e, inner) as k:
        with chunks(e, length, width) as c:
            lane = read(e, source, at(e, o), c, at(e, k))
            write(e, keys, encoded(e.b, lane, descending), c)
        if length > 1:
            name, text = sort_function(key, width, e.b.target, e.b.features)
            e.w.declare(text)
            stages = (length // width).bit_length() - 1
            e.w.write(f"call void @{name}(ptr {keys.name}, i64 {stages})")
        with chunks(e, length, width) as c:
            lane = decoded(e.b, read(e, keys, c), dtype, descending)
            write(e, out, lane, at(e, o), c, at(e, k))


# --- the network


@cache
def sort_function(key: DType, width: int, target: str, features: frozenset[str]) -> tuple[str, str]:
    """Name and text of a function that sorts `width << stages` aligned integers in place."""
    network = Network(key, width, target, features)
    network.whole()
    name = f"tw_sort_{key.short}_{width}"
    lines = network.w.scopes[0].lines
    head = f"define internal void @{name}(ptr %row, i64 %stages) nounwind {{"
    return name, "\n".join([head, "entry:", *lines, "  ret void", "}"])


class Network:
    """A bitonic sorter whose every exchange puts the smaller element first.

    A block of sorted halves is merged by comparing it with its mirror image, then quarters,
    eighths, and so on side by side; distances below the vector's width stay in registers.
    """

    def __init__(self, key: DType, width: int, target: str, features: frozenset[str]):
        self.w = Writer()
        self.b = Lanes(self.w.write, self.w.fresh, self.w.declare, target, features)
        self.key = key
        self.width = width
        self.row = Lane("%row", t.pointer_to(key))

    def whole(self) -> None:
        w, b = self.w, self.b
        size = b.shl(b.const(self.width, t.int64), Lane("%stages", t.int64))
        self.vectors(size, self.sort_register)
        above = b.add(Lane("%stages", t.int64), b.const(1, t.int64))
        stages = Loop(w, "1", above.text, "1")
        stage = Lane(stages.open(), t.int64)
        half = self.half(b.sub(stage, b.const(1, t.int64)))
        self.exchanges(size, half, mirrored=True)
        steps = Loop(w, b.sub(stage, b.const(2, t.int64)).text, "-1", "-1", downwards=True)
        step = Lane(steps.open(), t.int64)
        self.exchanges(size, self.half(step), mirrored=False)
        steps.close()
        self.vectors(size, self.merge_register)
        stages.close()

    def half(self, stage: Lane) -> Lane:
        return self.b.shl(self.b.const(self.width, t.int64), stage)

    def vectors(self, size: Lane, change) -> None:
        """Each vector of the row changed in registers."""
        loop = Loop(self.w, "0", size.text, str(self.width))
        place = self.b.offset(self.row, Lane(loop.open(), t.int64))
        self.put(change(self.get(place)), place)
        loop.close()

    def exchanges(self, size: Lane, half: Lane, mirrored: bool) -> None:
        """In each block of two halves, the vectors of one against those of the other."""
        b = self.b
        block = b.shl(half, b.const(1, t.int64))
        blocks = Loop(self.w, "0", size.text, block.text)
        low = b.offset(self.row, Lane(blocks.open(), t.int64))
        end = b.sub(block, b.const(self.width, t.int64))
        loop = Loop(self.w, "0", half.text, str(self.width))
        i = Lane(loop.open(), t.int64)
        first = b.offset(low, i)
        second = b.offset(low, b.sub(end, i) if mirrored else b.add(half, i))
        x, y = self.get(first), self.get(second)
        y = self.reverse(y) if mirrored else y
        larger = b.maximum(x, y)
        self.put(b.minimum(x, y), first)
        self.put(self.reverse(larger) if mirrored else larger, second)
        loop.close()
        blocks.close()

    # --- one vector

    def get(self, place: Lane) -> Lane:
        kind = llvm_type(self.key, self.width)
        return self.b.value(
            f"load {kind}, ptr {place.text}, align {self.align}", self.key, self.width
        )

    def put(self, lane: Lane, place: Lane) -> None:
        self.w.write(f"store {lane.typed}, ptr {place.text}, align {self.align}")

    @property
    def align(self) -> int:
        return min(64, self.key.bytes * self.width)

    def shuffle(self, x: Lane, y: Lane, order: list[int]) -> Lane:
        mask = ", ".join(f"i32 {i}" for i in order)
        text = f"shufflevector {x.typed}, {y.typed}, <{self.width} x i32> <{mask}>"
        return self.b.value(text, self.key, self.width)

    def reverse(self, x: Lane) -> Lane:
        return x if self.width == 1 else self.shuffle(x, x, list(reversed(range(self.width))))

    def exchange(self, x: Lane, flip: int) -> Lane:
        """Each lane against the one whose number differs in the bits of `flip`."""
        lanes = range(self.width)
        other = self.shuffle(x, x, [i ^ flip for i in lanes])
        low, high = self.b.minimum(x, other), self.b.maximum(x, other)
        return self.shuffle(low, high, [i if i < i ^ flip else self.width + i for i in lanes])

    def sort_register(self, x: Lane) -> Lane:
        block = 2
        while block <= self.width:
            x = self.exchange(x, block - 1)
            distance = block // 4
            while distance:
                x = self.exchange(x, distance)
                distance //= 2
            block *= 2
        return x

    def merge_register(self, x: Lane) -> Lane:
        distance = self.width // 2
        while distance:
            x = self.exchange(x, distance)
            distance //= 2
        return x
