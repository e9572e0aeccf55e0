"""Random well-typed IR kernels, with the arrays that they run on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tilewright.eager.memory import Buffer
from tilewright.ir import types as t
from tilewright.ir.inst import Block, Builder, Kernel, Param, Value
from tilewright.ir.text import print_kernel
from tilewright.ir.types import Type
from tilewright.ops import control, math, memory, program, reduce, shape
from tilewright.ops.rules import NUMPY

SHAPES = ((), (8,), (4, 4), (2, 8))
GRID = (2, 1, 1)
READ = 256  # elements of each array that is read
SLOTS = 16  # stores of a kernel, a place for each in every program
SLOT = 16
PLAIN = (t.int32, t.float32, t.int1)
INT_BINARY = (
    math.add, math.sub, math.mul, math.bit_and, math.bit_or, math.bit_xor, math.min, math.max,
    math.idiv, math.irem, math.shl, math.shr,
)  # fmt: skip
FLOAT_BINARY = (math.add, math.sub, math.mul, math.div, math.min, math.max)
BOOL_BINARY = (math.bit_and, math.bit_or, math.bit_xor)
COMPARISONS = (math.lt, math.le, math.gt, math.ge, math.eq, math.ne)
INTS = (0, 1, -1, 2, 3, 4, 7, 31, 1 << 30, -(1 << 31))
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 1e30, float("inf"))


@dataclass(repr=False)
class Case:
    """A kernel and the arrays and numbers that its parameters stand for."""

    kernel: Kernel
    arguments: list[Any]  # an array or an int for each parameter

    def __repr__(self) -> str:
        return f"{print_kernel(self.kernel)}with {self.arguments[4:]}"

    def fresh(self) -> list[Any]:
        return [a.copy() if isinstance(a, np.ndarray) else a for a in self.arguments]


def buffers(kernel: Kernel, arguments: list[Any]) -> list[Buffer | int]:
    """What the eager runner takes for arguments."""
    out = []
    for param, value in zip(kernel.params, arguments, strict=True):
        if isinstance(value, np.ndarray):
            start = value.ctypes.data
            dtype = param.type.dtype.element_ty
            value = Buffer(param.name, dtype, start, start, start + value.nbytes)
        out.append(value)
    return out


class Generator:
    """Draws instructions into a builder; `pool` are the values in scope."""

    def __init__(self, draw: Any):
        self.draw = draw
        self.b = Builder()
        self.pool: list[Value] = []
        self.slots = 0
        self.kernel = self.start()

    def start(self) -> Kernel:
        params = [
            Param("ints", Type(t.pointer_to(t.int32)), 16),
            Param("floats", Type(t.pointer_to(t.float32)), 16),
            Param("out_i32", Type(t.pointer_to(t.int32)), 16),
            Param("out_f32", Type(t.pointer_to(t.float32)), 16),
            Param("n", Type(t.int32)),
            Param("m", Type(t.int32), 16),
        ]
        values = [self.b.block.add_param(p.type) for p in params]
        self.inputs = {t.int32: values[0], t.float32: values[1]}
        self.outputs = {t.int32: values[2], t.float32: values[3]}
        self.pid = self.b.emit(program.program_id, axis=0)
        self.pool += [values[4], values[5], self.pid]
        return Kernel("random", params, self.b.block)

    # --- drawing

    def choose(self, items: Any) -> Any:
        return items[self.draw(st.integers(0, len(items) - 1))]

    def constant(self, type: Type) -> Value:
        values = {t.int1: (True, False), t.float32: FLOATS}.get(type.dtype, INTS)
        return self.b.emit(shape.constant, value=self.choose(values), type=str(type))

    def value(self, type: Type) -> Value:
        """A value of this type: one in scope, a splat of one, or a constant."""
        found = [x for x in self.pool if x.type == type]
        scalars = [x for x in self.pool if x.type == Type(type.dtype)] if type.shape else []
        kind = self.draw(st.integers(0, 5))
        if kind == 5 and scalars:
            return self.b.emit(shape.splat, self.choose(scalars), shape=type.shape)
        return self.choose(found) if found and kind > 0 else self.constant(type)

    def type(self) -> Type:
        return Type(self.choose(PLAIN), self.choose(SHAPES))

    # --- instructions

    def steps(self, count: int, depth: int) -> None:
        kinds = [
            self.binary,
            self.binary,
            self.unary,
            self.compare,
            self.pick,
            self.move,
            self.load,
        ]
        kinds += [self.reduction, self.store, self.iota]
        deep = [self.loop, self.walk, self.branch, self.count_down] if depth < 2 else []
        for _ in range(count):
            step = self.choose(kinds + deep)
            made = step(depth) if step in deep else step()
            self.pool += [x for x in made or () if x.type.dtype in PLAIN]

    def binary(self) -> tuple[Value, ...]:
        type = self.type()
        table = {t.int32: INT_BINARY, t.float32: FLOAT_BINARY, t.int1: BOOL_BINARY}
        op = self.choose(table[type.dtype])
        return (self.b.emit(op, self.value(type), self.value(type)),)

    def unary(self) -> tuple[Value, ...]:
        x = self.value(self.type())
        dtype = x.type.dtype
        if dtype is t.int1:
            return (self.b.emit(math.bit_not, x),)
        op = self.choose((math.neg, math.abs, math.cast))
        if op is not math.cast:
            return (self.b.emit(op, x),)
        if dtype is t.float32:
            return (self.b.emit(math.cast, x, to="i32"),)
        middle = self.b.emit(math.cast, x, to=self.choose(("i64", "i16", "u32", "i8", "f32")))
        return (self.b.emit(math.cast, middle, to=self.choose(("i32", "f32"))),)

    def compare(self) -> tuple[Value, ...]:
        type = Type(self.choose((t.int32, t.float32)), self.choose(SHAPES))
        return (self.b.emit(self.choose(COMPARISONS), self.value(type), self.value(type)),)

    def pick(self) -> tuple[Value, ...]:
        type = self.type()
        condition = self.value(type.with_dtype(t.int1))
        return (self.b.emit(math.select, condition, self.value(type), self.value(type)),)

    def move(self) -> tuple[Value, ...]:
        x = self.value(self.type())
        if not x.type.shape:
            return (self.b.emit(shape.splat, x, shape=self.choose(SHAPES[1:])),)
        if len(x.type.shape) == 1:
            row = self.b.emit(shape.reshape, x, shape=(1, x.type.size))
            return (self.b.emit(shape.broadcast, row, shape=(2, x.type.size)),)
        turned = self.b.emit(shape.permute, x, order=(1, 0))
        if self.draw(st.booleans()):
            return (self.b.emit(shape.permute, turned, order=(1, 0)),)
        return (self.b.emit(shape.reshape, turned, shape=x.type.shape),)

    def iota(self, to: tuple[int, ...] | None = None) -> tuple[Value, ...]:
        to = to or self.choose(SHAPES[1:])
        line = self.b.emit(shape.arange, start=0, end=Type(t.int32, to).size)
        return (self.b.emit(shape.reshape, line, shape=to),)

    def reduction(self) -> tuple[Value, ...]:
        x = self.value(Type(self.choose((t.int32, t.float32)), self.choose(SHAPES[1:])))
        axis = self.draw(st.integers(0, len(x.type.shape) - 1))
        op = self.choose((reduce.reduce, reduce.scan))
        return (self.b.emit(op, x, axis=axis, combine=self.choose(("add", "max", "min"))),)

    # --- memory

    def number(self, value: int, to: tuple[int, ...]) -> Value:
        return self.b.emit(shape.constant, value=value, type=str(Type(t.int32, to)))

    def spread(self, pointer: Value, to: tuple[int, ...]) -> Value:
        return self.b.emit(shape.splat, pointer, shape=to) if to else pointer

    def place(self, dtype: t.DType, to: tuple[int, ...], most: int) -> Value:
        """Pointers to elements 0 to most - 1 of an input."""
        index = self.b.emit(math.bit_and, self.value(Type(t.int32, to)), self.number(most - 1, to))
        return self.b.emit(memory.offset, self.spread(self.inputs[dtype], to), index, bytes=4)

    def load(self) -> tuple[Value, ...]:
        dtype, to = self.choose((t.int32, t.float32)), self.choose(SHAPES)
        return (self.loaded(self.place(dtype, to, READ)),)

    def loaded(self, pointer: Value) -> Value:
        operands = [pointer]
        if self.draw(st.booleans()):
            operands.append(self.value(pointer.type.with_dtype(t.int1)))
            if self.draw(st.booleans()):
                operands.append(self.value(pointer.type.with_dtype(pointer.type.dtype.element)))
        return self.b.emit(memory.load, *operands)

    def store(self, x: Value | None = None) -> tuple[Value, ...]:
        """Store to a place of its own, so that no order of programs or lanes matters."""
        if self.slots >= SLOTS:
            return ()
        given = x is not None
        x = x if given else self.value(Type(self.choose((t.int32, t.float32)), self.choose(SHAPES)))
        to = x.type.shape
        row = self.b.emit(math.mul, self.pid, self.number(SLOTS * SLOT, ()))
        row = self.b.emit(math.add, row, self.number(self.slots * SLOT, ()))
        self.slots += 1
        pointer = self.b.emit(memory.offset, self.outputs[x.type.dtype], row, bytes=4)
        if to:
            (places,) = self.iota(to)
            pointer = self.b.emit(memory.offset, self.spread(pointer, to), places, bytes=4)
        operands = [pointer, x]
        if not given and self.draw(st.booleans()):
            operands.append(self.value(x.type.with_dtype(t.int1)))
        self.b.emit(memory.store, *operands)
        return ()

    # --- regions

    def inside(self, types: list[Type], depth: int, end: Any) -> Block:
        """A block with these parameters, some instructions, and a yield of `end(params)`."""
        block = Block()
        params = [block.add_param(kind) for kind in types]
        outer = list(self.pool)
        self.pool += [p for p in params if p.type.dtype in PLAIN]
        with self.b.inside(block):
            self.steps(self.draw(st.integers(0, 4)), depth + 1)
            self.b.emit(control.yield_, *end(params))
        self.pool = outer
        return block

    def few(self) -> Value:
        """A scalar of 0 to 3."""
        if self.draw(st.booleans()):
            return self.number(self.draw(st.integers(0, 3)), ())
        return self.b.emit(math.bit_and, self.value(Type(t.int32)), self.number(3, ()))

    def loop(self, depth: int) -> tuple[Value, ...]:
        inits = [self.value(self.type()) for _ in range(self.draw(st.integers(0, 3)))]
        bounds = [self.number(0, ()), self.few(), self.number(self.choose((1, 2)), ())]
        types = [x.type for x in inits]

        def end(params: list[Value]) -> list[Value]:
            return [self.onward(p) if self.draw(st.booleans()) else self.value(p.type)
                    for p in params[1:]]  # fmt: skip

        body = self.inside([Type(t.int32), *types], depth, end)
        return self.b.emit(control.for_, *bounds, *inits, region=body)

    def onward(self, x: Value) -> Value:
        """A carried value as it is, or moved by a uniform amount."""
        if x.type.dtype is not t.int32 or self.draw(st.booleans()):
            return x
        step = self.value(Type(t.int32))
        if x.type.shape:
            step = self.b.emit(shape.splat, step, shape=x.type.shape)
        return self.b.emit(self.choose((math.add, math.sub)), x, step)

    def walk(self, depth: int) -> tuple[Value, ...]:
        """A loop that loads through a pointer tile that it moves on by uniform steps."""
        dtype, to = self.choose((t.int32, t.float32)), self.choose(SHAPES)
        pointer = self.place(dtype, to, 16)
        total = self.value(Type(dtype, to))
        block = Block()
        _, at, acc = (block.add_param(x) for x in (Type(t.int32), pointer.type, total.type))
        outer = list(self.pool)
        with self.b.inside(block):
            acc = self.b.emit(math.add, acc, self.loaded(at))
            self.pool.append(acc)
            self.steps(self.draw(st.integers(0, 2)), depth + 1)
            for _ in range(self.draw(st.integers(0, 2))):
                at = self.b.emit(memory.offset, at, self.spread(self.few(), to), bytes=4)
            self.b.emit(control.yield_, at, acc)
        self.pool = outer
        bounds = [self.number(0, ()), self.few(), self.number(1, ())]
        at, acc = self.b.emit(control.for_, *bounds, pointer, total, region=block)
        return acc, self.b.emit(memory.load, at)

    def count_down(self, depth: int) -> tuple[Value, ...]:
        """A `while` whose number of turns is decided while it runs."""
        start, other = self.few(), self.value(self.type())
        types = [start.type, other.type]
        test = Block()
        params = [test.add_param(kind) for kind in types]
        with self.b.inside(test):
            positive = self.b.emit(math.gt, params[0], self.number(0, ()))
            self.b.emit(control.yield_, positive)

        def end(params: list[Value]) -> list[Value]:
            less = self.b.emit(math.sub, params[0], self.number(1, ()))
            return [less, self.value(params[1].type)]

        body = self.inside(types, depth, end)
        return self.b.emit(control.while_, start, other, region=(test, body))

    def branch(self, depth: int) -> tuple[Value, ...]:
        types = [self.type() for _ in range(self.draw(st.integers(0, 2)))]
        condition = self.value(Type(t.int1))
        ways = [self.inside([], depth, lambda _: [self.value(x) for x in types]) for _ in range(2)]
        return self.b.emit(control.if_, condition, region=ways, types=tuple(str(x) for x in types))


@st.composite
def kernels(draw: Any) -> Case:
    """Kernels of elementwise chains, loads and stores, reductions, loops and branches."""
    generator = Generator(draw)
    generator.steps(draw(st.integers(3, 14)), 0)
    kept = [x for x in generator.pool[3:] if x.type.dtype is not t.int1]
    for x in kept[-6:]:
        generator.store(x)
    rng = np.random.default_rng(draw(st.integers(0, 3)))
    ints = rng.integers(-100, 100, READ).astype(np.int32)
    floats = rng.standard_normal(READ).astype(np.float32)
    size = GRID[0] * SLOTS * SLOT
    outputs = [np.zeros(size, NUMPY[d]) for d in (t.int32, t.float32)]
    numbers = [draw(st.integers(-5, 40)), 16 * draw(st.integers(0, 3))]
    return Case(generator.kernel, [ints, floats, *outputs, *numbers])
