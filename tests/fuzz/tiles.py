"""Random kernels of tiles in every dtype: memory, atomics, loops, branches over random values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tile_values import DTYPES, GRID, READ, SLOT, Scope, Values

from tilewright.ir import types as t
from tilewright.ir.inst import Block, Kernel, Value
from tilewright.ir.types import DType, Type
from tilewright.ops import atomic, control, math, memory, shape
from tilewright.ops.rules import numpy_dtype


@dataclass
class Case:
    """A kernel and the arrays and numbers that its parameters stand for."""

    kernel: Kernel
    arguments: list[Any]

    def fresh(self) -> list[Any]:
        return [a.copy() if isinstance(a, np.ndarray) else a for a in self.arguments]


class Tiles(Values):
    """Draws instructions into a builder."""

    # --- memory

    def input(self, dtype: DType, tame: bool) -> Value:
        if (dtype, tame) not in self.inputs:
            held = numpy_dtype(dtype)
            if dtype is t.int1 or dtype.is_float:
                values = self.rng.standard_normal(READ) * 4
                values = np.where(self.rng.random(READ) < 0.4, np.rint(values), values)
                array = (values > 0).astype(held) if dtype is t.int1 else values.astype(held)
            elif tame:
                array = self.rng.integers(0, 64, READ).astype(held)
            else:
                array = self.rng.integers(0, 256, READ * held.itemsize, np.uint8).view(held)
            self.inputs[dtype, tame] = self.param(Type(t.pointer_to(dtype)), array)
        return self.inputs[dtype, tame]

    def index(self, sizes: tuple[int, ...]) -> tuple[Value, int]:
        """Places of a tile's elements along strides, each its own; and one more than the last."""
        strides, step = [0] * len(sizes), 1
        order = list(range(len(sizes)))
        if self.flip():
            order.reverse()
        gap = self.choose((1, 1, 1, 2)) if np.prod(sizes, dtype=int) * 16 <= SLOT else 1
        for d in order if self.number(0, 2) == 0 else reversed(order):
            strides[d], step = step * gap, step * sizes[d]
        total = self.constant(0, t.int32, sizes)
        self.scope.bounds[total] = 1
        for d, n in enumerate(sizes):
            x = self.line(n, sizes, d)
            if self.number(0, 5) == 0:
                x = self.b.emit(math.sub, self.constant(n - 1, t.int32, sizes), x)
                self.scope.bounds[x] = n
            if strides[d] != 1:
                x = self.b.emit(math.mul, x, self.constant(strides[d], t.int32, sizes))
            total = self.b.emit(math.add, total, x)
        return total, 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))

    def moved(self, base: Value, index: Value, dtype: DType) -> Value:
        if index.type.shape and not base.type.shape:
            base = self.b.emit(shape.splat, base, shape=index.type.shape)
        if self.number(0, 3) == 0:
            index = self.b.emit(math.cast, index, to="i64")
        return self.b.emit(memory.offset, base, index, bytes=dtype.bytes)

    def pointer(self, base: Value, dtype: DType, sizes: tuple[int, ...]) -> Value:
        """Pointers into an input: gathered, or along strides from somewhere."""
        if self.number(0, 3) == 0:
            index = self.b.emit(
                math.bit_and, self.value(t.int32, sizes), self.constant(READ - 1, t.int32, sizes)
            )
            return self.moved(base, index, dtype)
        start = self.b.emit(math.bit_and, self.value(t.int32, ()), self.constant(127, t.int32))
        base = self.moved(base, start, dtype)
        return self.moved(base, self.index(sizes)[0], dtype) if sizes else base

    def loaded(self, dtype: DType, sizes: tuple[int, ...]) -> Value:
        tame = dtype.is_integer and dtype is not t.int1 and self.flip()
        pointer = self.pointer(self.input(dtype, tame), dtype, sizes)
        operands = [pointer]
        other = None
        if self.flip():
            operands.append(self.mask(sizes))
            if self.flip():
                other = self.near(dtype, sizes)
                operands.append(other)
        out = self.b.emit(memory.load, *operands)
        if tame and dtype.is_signed and dtype.bits >= 32 and (other is None or self.bound(other)):
            self.scope.bounds[out] = 64 if other is None else max(64, self.bound(other))
        return out

    def edge(self, depth: int) -> Value:
        """A load of an array that ends inside the tile, where the mask does."""
        dtype, size = self.choose(DTYPES), 1 << self.number(0, 8)
        end = 100
        if dtype not in self.ends:
            self.ends[dtype] = self.param(
                Type(t.pointer_to(dtype)), np.ones(end, numpy_dtype(dtype))
            )
        start = self.b.emit(
            math.mul, self.scope.pool[self.number(0, 1)], self.constant(size, t.int32)
        )
        places = self.b.emit(math.add, self.line(size, (size,), 0), self.stretched(start, (size,)))
        mask = self.b.emit(math.lt, places, self.constant(end, t.int32, (size,)))
        if self.number(0, 3) == 0:
            mask = self.b.emit(math.bit_and, mask, self.value(t.int1, (size,)))
        operands = [self.moved(self.ends[dtype], places, dtype), mask]
        if self.flip():
            operands.append(self.any_constant(dtype, (size,)))
        return self.b.emit(memory.load, *operands)

    def near(self, dtype: DType, sizes: tuple[int, ...]) -> Value:
        found = [x for x in self.scope.pool if x.type == Type(dtype, sizes)]
        return self.choose(found) if found and self.flip() else self.any_constant(dtype, sizes)

    def load(self, depth: int) -> Value:
        out = self.loaded(self.choose(DTYPES), self.shape())
        return self.keep(out, self.bound(out))

    def place(self, dtype: DType) -> Value:
        """The start of a place of this program's own in an output."""
        if dtype not in self.outputs:
            self.outputs[dtype] = [self.param(Type(t.pointer_to(dtype)), None), 0]
        base, taken = self.outputs[dtype]
        self.outputs[dtype][1] += 1
        programs = GRID[0] * GRID[1]
        row = self.b.emit(math.mul, self.pid, self.constant(SLOT, t.int32))
        row = self.b.emit(math.add, row, self.constant(taken * programs * SLOT, t.int32))
        return self.b.emit(memory.offset, base, row, bytes=dtype.bytes)

    def own(self, dtype: DType, sizes: tuple[int, ...]) -> Value:
        """Pointers to elements of a place of its own, each to another."""
        base = self.place(dtype)
        return self.moved(base, self.index(sizes)[0], dtype) if sizes else base

    def put(self, pointer: Value, x: Value, masked: bool = True) -> None:
        operands = [pointer, x]
        if masked and self.flip():
            operands.append(self.mask(x.type.shape))
        self.b.emit(memory.store, *operands)

    def store(self, depth: int) -> None:
        dtype, sizes = self.choose(DTYPES), self.shape()
        self.put(self.own(dtype, sizes), self.value(dtype, sizes))

    def in_place(self, depth: int) -> Value:
        """Store, load elsewhere in the same place, store over it, and load again."""
        dtype, sizes = self.choose(DTYPES), self.shape()
        base = self.place(dtype)
        pointers = []
        for _ in range(2):
            shift = self.constant(self.choose((0, 0, 1, 5)), t.int32)
            start = self.b.emit(memory.offset, base, shift, bytes=dtype.bytes)
            pointers.append(self.moved(start, self.index(sizes)[0], dtype) if sizes else start)
        if self.flip():
            pointers[1] = pointers[0]
        self.put(pointers[0], self.value(dtype, sizes))
        held = self.b.emit(memory.load, pointers[1])
        used = held
        if dtype is not t.int1:
            used = self.b.emit(math.max, held, self.value(dtype, sizes))
            used = self.one_zero(used) if dtype.is_float else used
        self.put(pointers[self.number(0, 1)], used)
        if self.flip():
            self.keep(held)
        return self.b.emit(memory.load, pointers[0])

    def atomic(self, depth: int) -> Value | None:
        dtype, sizes = self.choose((t.int32, t.int64, t.uint32, t.uint64)), self.shape()
        x = self.value(dtype, sizes)
        kind = self.choose(atomic.KINDS)
        if self.number(0, 2) == 0 and sizes:
            index = self.b.emit(math.bit_and, self.value(t.int32, sizes),
                                self.constant(15, t.int32, sizes))  # fmt: skip
            pointer = self.moved(self.place(dtype), index, dtype)
            self.b.emit(atomic.atomic_rmw, pointer, x, kind="add")
            return None
        pointer = self.own(dtype, sizes)
        if self.flip():
            self.put(pointer, self.value(dtype, sizes))
        if self.number(0, 3) == 0:
            return self.b.emit(atomic.atomic_cas, pointer, self.value(dtype, sizes), x)
        operands = [pointer, x, self.mask(sizes)] if self.flip() else [pointer, x]
        return self.b.emit(atomic.atomic_rmw, *operands, kind=kind)

    # --- regions

    def inside(self, types: list[Type], depth: int, end: Callable) -> Block:
        """A block with these parameters, some instructions, and a yield of `end(params)`."""
        block = Block()
        params = [block.add_param(kind) for kind in types]
        outer, self.scope = self.scope, Scope(list(self.scope.pool), dict(self.scope.bounds))
        with self.b.inside(block):
            self.scope.pool += [p for p in params if not p.type.dtype.is_pointer]
            self.steps(self.number(0, 5), depth + 1)
            self.b.emit(control.yield_, *end(params))
        self.scope = outer
        return block

    def few(self) -> Value:
        if self.flip():
            return self.constant(self.number(0, 3), t.int32)
        return self.b.emit(math.bit_and, self.tame(self.value(t.int32, ())),
                           self.constant(3, t.int32))  # fmt: skip

    def inits(self, most: int) -> list[Value]:
        return [self.value(self.choose(DTYPES), self.shape()) for _ in range(self.number(0, most))]

    def onward(self, params: list[Value]) -> list[Value]:
        """What carried values become: themselves, one another's, or something new."""
        out = []
        for p in params:
            same = [q for q in params if q.type == p.type]
            out.append(self.choose(same) if self.number(0, 3) == 0
                       else self.value(p.type.dtype, p.type.shape))  # fmt: skip
        return out

    def loop(self, depth: int) -> tuple[Value, ...]:
        carried = self.inits(3)
        bounds = [self.constant(0, t.int32), self.few(), self.constant(1, t.int32)]
        if self.number(0, 3) == 0:
            bounds = [bounds[1], self.constant(0, t.int32), self.constant(-1, t.int32)]
        types = [Type(t.int32), *[x.type for x in carried]]
        body = self.inside(types, depth, lambda params: self.onward(params[1:]))
        return self.b.emit(control.for_, *bounds, *carried, region=body)

    def walk(self, depth: int) -> tuple[Value, ...]:
        """Indices and pointers that move on by steps, a bound that shrinks, a sum of it."""
        dtype, sizes = self.choose((t.int32, t.float32, t.int16)), self.shape()
        base = self.input(dtype, True)
        offsets = self.index(sizes)[0] if sizes else self.constant(0, t.int32)
        pointer = self.moved(base, offsets, dtype)
        total = self.value(dtype, sizes)
        left = self.tame(self.value(t.int32, ()))
        types = [x.type for x in (left, pointer, offsets, total)]

        def end(params: list[Value]) -> list[Value]:
            _, left, at, offsets, total = params
            mask = self.b.emit(math.lt, offsets, self.b.emit(shape.splat, left, shape=sizes)
                               if sizes else left)  # fmt: skip
            read = self.b.emit(memory.load, *((at, mask) if self.flip() else (at,)))
            op = self.choose((math.add, math.max))
            total = self.b.emit(op, total, read)
            step = self.constant(self.choose((1, 4, 16)), t.int32)
            wide = self.b.emit(shape.splat, step, shape=sizes) if sizes else step
            at = self.b.emit(memory.offset, at, wide, bytes=dtype.bytes)
            offsets = self.b.emit(math.add, offsets, wide) if self.flip() else offsets
            return [self.b.emit(math.sub, left, step), at, offsets,
                    self.one_zero(total) if dtype.is_float else total]  # fmt: skip

        body = self.inside([Type(t.int32), *types], depth, end)
        bounds = [self.constant(0, t.int32), self.few(), self.constant(1, t.int32)]
        _, at, _, total = self.b.emit(
            control.for_, *bounds, left, pointer, offsets, total, region=body
        )
        return self.b.emit(memory.load, at), total

    def count_down(self, depth: int) -> tuple[Value, ...]:
        carried = [self.few(), *self.inits(2)]
        types = [x.type for x in carried]
        test = Block()
        params = [test.add_param(kind) for kind in types]
        with self.b.inside(test):
            positive = self.b.emit(math.gt, params[0], self.constant(0, t.int32))
            self.b.emit(control.yield_, positive)

        def end(params: list[Value]) -> list[Value]:
            less = self.b.emit(math.sub, params[0], self.constant(1, t.int32))
            return [less, *self.onward(params[1:])]

        body = self.inside(types, depth, end)
        return self.b.emit(control.while_, *carried, region=(test, body))

    def branch(self, depth: int) -> tuple[Value, ...]:
        types = [Type(self.choose(DTYPES), self.shape()) for _ in range(self.number(0, 3))]
        condition = self.value(t.int1, ())
        ways = [
            self.inside([], depth, lambda _: [self.value(x.dtype, x.shape) for x in types])
            for _ in range(2)
        ]
        return self.b.emit(control.if_, condition, region=ways, types=tuple(map(str, types)))

    # --- the whole

    def steps(self, count: int, depth: int) -> None:
        kinds = [self.binary, self.binary, self.unary, self.compare, self.pick, self.move,
                 self.load, self.load, self.edge, self.reduction, self.reduction, self.store,
                 self.in_place, self.atomic, self.product]  # fmt: skip
        deep = [self.loop, self.walk, self.branch, self.count_down] if depth < 2 else []
        for _ in range(count):
            made = self.choose(kinds + deep)(depth)
            for x in made if isinstance(made, tuple) else (made,):
                if x is not None and x not in self.scope.pool:
                    self.scope.pool.append(x)

    def finish(self) -> Case:
        for x in self.scope.pool[-8:]:
            self.put(self.own(x.type.dtype, x.type.shape), x, masked=False)
        for dtype, (base, places) in self.outputs.items():
            size = places * GRID[0] * GRID[1] * SLOT
            self.arguments[self.body.params.index(base)] = np.zeros(size, numpy_dtype(dtype))
        return Case(Kernel("tiles", self.params, self.body), self.arguments)


@st.composite
def kernels(draw: Callable) -> Case:
    """Kernels with all that the native target does, whole-tile operations apart."""
    tiles = Tiles(draw)
    tiles.steps(draw(st.integers(2, 14)), 0)
    return tiles.finish()
