"""Random values of tiles in every dtype: arithmetic, indices, masks, reductions, products.

Every result is exact: sums of floats are of small integers, and integers wrap around only where no
index arithmetic follows (within a tile, the compiler may assume that indices do not).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tilewright.ir import types as t
from tilewright.ir.inst import Block, Builder, Param, Value
from tilewright.ir.types import DType, Type
from tilewright.ops import control, debug, dot, math, program, reduce, shape

GRID = (2, 2, 1)
READ = 2048  # elements of each array that is read
SLOT = 1024  # elements of each place that one store of one program may write
MAX_TILE = 512
TAME = 1 << 12  # the largest index that arithmetic goes on with

INTS = (t.int8, t.int16, t.int32, t.int64, t.uint8, t.uint16, t.uint32, t.uint64)
FLOATS = (t.float16, t.bfloat16, t.float32, t.float64)
DTYPES = (t.int32, t.int32, t.float32, t.float32, t.int1, *INTS, *FLOATS)
INT_BINARY = (
    math.add, math.sub, math.mul, math.bit_and, math.bit_or, math.bit_xor, math.min, math.max,
    math.idiv, math.irem, math.shl, math.shr,
)  # fmt: skip
FLOAT_BINARY = (math.add, math.sub, math.mul, math.div, math.min, math.max, math.fmod)
BOOL_BINARY = (math.bit_and, math.bit_or, math.bit_xor)
COMPARISONS = (math.lt, math.le, math.gt, math.ge, math.eq, math.ne)
INT_COMBINE = ("add", "mul", "max", "min", "bit_and", "bit_or", "bit_xor")


@dataclass
class Scope:
    """The values that may be used, and how large the tame ones can be."""

    pool: list[Value] = field(default_factory=list)
    bounds: dict[Value, int] = field(default_factory=dict)


class Values:
    """Draws values and arithmetic; `loaded`, which draws loads, comes with memory."""

    def __init__(self, draw: Callable):
        self.draw = draw
        self.b = Builder()
        self.params: list[Param] = []
        self.arguments: list[Any] = []
        self.inputs: dict[tuple, Value] = {}
        self.outputs: dict[DType, list] = {}  # the parameter, and how many places are taken
        self.ends: dict[DType, Value] = {}  # arrays that end where masks do
        self.scope = Scope()
        self.rng = np.random.default_rng(self.number(0, 5))
        sizes = [1 << self.number(0, 5) for _ in range(2)] + [1 << self.number(0, 3)]
        self.dims = sizes if self.flip() else [16, 8, 4]
        for axis in range(2):
            self.keep(self.b.emit(program.program_id, axis=axis), 2)
        self.pid = self.add(
            self.mul(self.scope.pool[1], self.constant(2, t.int32)), self.scope.pool[0]
        )
        for _ in range(2):
            value = self.number(0, 40)
            self.keep(self.param(Type(t.int32), value), 40)

    # --- drawing

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def flip(self) -> bool:
        return self.draw(st.booleans())

    def choose(self, items: Any) -> Any:
        return items[self.number(0, len(items) - 1)]

    def shape(self) -> tuple[int, ...]:
        """A scalar, a line, a plane or a box over the kernel's sizes, some of them 1."""
        a, b, c = self.dims
        found = [(), (), (a,), (a,), (b,), (a, b), (a, b), (b, a), (a, 1), (1, b), (a, b, c),
                 (c, b), (1, b, c), (a * b,), (a, 1, c)]  # fmt: skip
        sizes = self.choose(found)
        return sizes if np.prod(sizes, dtype=int) <= MAX_TILE else (a,)

    # --- values

    def keep(self, x: Value, bound: int = 0) -> Value:
        """Into the pool; with a bound the integer is tame."""
        self.scope.pool.append(x)
        if bound:
            self.scope.bounds[x] = bound
        return x

    def bound(self, x: Value) -> int:
        return self.scope.bounds.get(x, 0)

    def param(self, type: Type, argument: Any) -> Value:
        self.params.append(Param(f"p{len(self.params)}", type))
        self.arguments.append(argument)
        body = self.kernel_body
        return body.add_param(type)

    @property
    def kernel_body(self) -> Block:
        if not hasattr(self, "body"):
            self.body = self.b.block
        return self.body

    def constant(self, value: Any, dtype: DType, sizes: tuple[int, ...] = ()) -> Value:
        out = self.b.emit(shape.constant, value=value, type=str(Type(dtype, sizes)))
        if dtype.is_integer and dtype is not t.int1:
            self.scope.bounds[out] = max(abs(value), 1)
        return out

    def any_constant(self, dtype: DType, sizes: tuple[int, ...]) -> Value:
        if dtype is t.int1:
            return self.constant(self.flip(), dtype, sizes)
        if dtype.is_float:
            return self.constant(self.choose((0.0, 1.0, -1.0, 0.5, 3.0, 100.0)), dtype, sizes)
        return self.constant(self.choose((0, 1, 2, 3, 5, 8, 16, 31)), dtype, sizes)

    def value(self, dtype: DType, sizes: tuple[int, ...]) -> Value:
        """A value of this type: one in scope, one moved or cast to it, loaded or constant."""
        type = Type(dtype, sizes)
        found = [x for x in self.scope.pool if x.type == type]
        kind = self.number(0, 9)
        if found and kind < 6:
            return self.choose(found)
        near = [x for x in self.scope.pool if x.type.dtype is dtype and fits(x.type.shape, sizes)]
        if near and kind < 8:
            return self.stretched(self.choose(near), sizes)
        same = [x for x in self.scope.pool if x.type.shape == sizes and not x.type.dtype.is_pointer]
        if same and kind == 8:
            return self.cast(self.choose(same), dtype)
        if kind == 9:
            return self.loaded(dtype, sizes)
        return self.any_constant(dtype, sizes)

    def stretched(self, x: Value, sizes: tuple[int, ...]) -> Value:
        bound = self.bound(x)
        if x.type.shape != sizes:
            if not x.type.shape:
                x = self.b.emit(shape.splat, x, shape=sizes)
            else:
                ones = (1,) * (len(sizes) - len(x.type.shape)) + x.type.shape
                if ones != x.type.shape:
                    x = self.b.emit(shape.reshape, x, shape=ones)
                if ones != sizes:
                    x = self.b.emit(shape.broadcast, x, shape=sizes)
        if bound:
            self.scope.bounds[x] = bound
        return x

    def line(self, size: int, sizes: tuple[int, ...], axis: int) -> Value:
        """The numbers 0, 1, ... along one dimension of a shape."""
        x = self.b.emit(shape.arange, start=0, end=size)
        along = tuple(n if d == axis else 1 for d, n in enumerate(sizes))
        x = self.b.emit(shape.reshape, x, shape=along) if len(sizes) > 1 else x
        x = self.b.emit(shape.broadcast, x, shape=sizes) if along != sizes else x
        self.scope.bounds[x] = size
        return x

    # --- arithmetic

    def add(self, x: Value, y: Value) -> Value:
        return self.tracked(math.add, x, y, self.bound(x) + self.bound(y))

    def mul(self, x: Value, y: Value) -> Value:
        return self.tracked(math.mul, x, y, self.bound(x) * self.bound(y))

    def tracked(self, op: Any, x: Value, y: Value, bound: int) -> Value:
        """An integer op; what may be large is hidden from the arithmetic of indices."""
        out = self.b.emit(op, x, y)
        tame = self.bound(x) and self.bound(y) and bound <= TAME and x.type.dtype.is_signed
        if tame and x.type.dtype.bits >= 32:
            self.scope.bounds[out] = max(bound, 1)
            return out
        mask = self.constant(0x55, x.type.dtype, x.type.shape)
        return self.b.emit(math.bit_xor, out, mask)

    def tame(self, x: Value) -> Value:
        """An integer between 0 and TAME."""
        if self.bound(x):
            return x
        out = self.b.emit(math.bit_and, x, self.constant(63, x.type.dtype, x.type.shape))
        self.scope.bounds[out] = 63
        return out

    def cast(self, x: Value, dtype: DType) -> Value:
        narrows = x.type.dtype.is_float and dtype.is_float and dtype.bits < x.type.dtype.bits
        if narrows and self.number(0, 3) == 0:
            return self.b.emit(math.cast, x, to=dtype.short, rounding="rtz")
        out = self.b.emit(math.cast, x, to=dtype.short)
        if self.bound(x) and dtype.is_signed and dtype.bits >= 32:
            self.scope.bounds[out] = self.bound(x)
        return out

    def binary(self, depth: int) -> Value:
        dtype, sizes = self.choose(DTYPES), self.shape()
        x, y = self.value(dtype, sizes), self.value(dtype, sizes)
        if dtype is t.int1:
            return self.b.emit(self.choose(BOOL_BINARY), x, y)
        if dtype.is_float:
            op = self.choose(FLOAT_BINARY)
            if op is math.fmod and dtype.bits == 64:
                op = math.add
            return self.one_zero(self.b.emit(op, x, y))
        op = self.choose(INT_BINARY)
        a, b = self.bound(x), self.bound(y)
        largest = {math.add: a + b, math.sub: a + b, math.mul: a * b, math.min: max(a, b),
                   math.max: max(a, b), math.shl: TAME + 1}.get(op, TAME + 1)  # fmt: skip
        return self.keep(self.tracked(op, x, y, largest))

    def one_zero(self, x: Value) -> Value:
        """Zeros get one sign: which of two zeros is larger is not fixed."""
        return self.b.emit(math.add, x, self.constant(0.0, x.type.dtype, x.type.shape))

    def unary(self, depth: int) -> Value:
        dtype, sizes = self.choose(DTYPES), self.shape()
        x = self.value(dtype, sizes)
        if dtype is t.int1:
            return self.b.emit(math.bit_not, x)
        if dtype.is_float:
            ops = (math.neg, math.abs, math.floor, math.trunc)
            ops += (math.sqrt,) if dtype.bits >= 32 else ()
            return self.b.emit(self.choose(ops), x)
        op = self.choose((math.neg, math.abs, math.bit_not, debug.hint))
        out = self.b.emit(op, x)
        return self.keep(out, self.bound(x)) if op in (math.abs, debug.hint) else out

    def compare(self, depth: int) -> Value:
        dtype, sizes = self.choose(DTYPES), self.shape()
        x, y = self.value(dtype, sizes), self.value(dtype, sizes)
        return self.b.emit(self.choose(COMPARISONS), x, y)

    def prefix(self, sizes: tuple[int, ...]) -> Value:
        """A mask as kernels have them: the numbers along each dimension below a bound."""
        mask = None
        for axis, size in enumerate(sizes):
            if axis and self.flip():
                continue
            x = self.line(size, sizes, axis)
            if self.flip():
                x = self.add(x, self.stretched(self.tame(self.value(t.int32, ())), sizes))
            limit = self.stretched(self.tame(self.value(t.int32, ())), sizes)
            op, xs = self.choose(((math.lt, (x, limit)), (math.gt, (limit, x)),
                                  (math.le, (x, limit)), (math.ge, (limit, x))))  # fmt: skip
            one = self.b.emit(op, *xs)
            mask = one if mask is None else self.b.emit(math.bit_and, mask, one)
        return mask

    def mask(self, sizes: tuple[int, ...]) -> Value:
        if sizes and self.number(0, 3):
            found = self.prefix(sizes)
            if self.number(0, 3) == 0:
                found = self.b.emit(math.bit_and, found, self.value(t.int1, sizes))
            return found
        return self.value(t.int1, sizes)

    def pick(self, depth: int) -> Value:
        dtype, sizes = self.choose(DTYPES), self.shape()
        x, y = self.value(dtype, sizes), self.value(dtype, sizes)
        out = self.b.emit(math.select, self.mask(sizes), x, y)
        both = self.bound(x) and self.bound(y)
        return self.keep(out, max(self.bound(x), self.bound(y)) if both else 0)

    def move(self, depth: int) -> Value:
        """Dimensions in another order, or the same elements in another shape."""
        sizes = self.shape()
        x = self.value(self.choose(DTYPES), sizes)
        if len(sizes) < 2:
            return self.stretched(x, self.choose(self.wider(sizes)))
        if self.flip():
            order = list(range(len(sizes)))
            for d in range(len(sizes) - 1, 0, -1):
                other = self.number(0, d)
                order[d], order[other] = order[other], order[d]
            out = self.b.emit(shape.permute, x, order=tuple(order))
        else:
            total = x.type.size
            out = self.b.emit(shape.reshape, x, shape=self.choose(
                ((total,), tuple(reversed(sizes)), (1, total), (total, 1))
            ))  # fmt: skip
        return self.keep(out, self.bound(x))

    def wider(self, sizes: tuple[int, ...]) -> list[tuple[int, ...]]:
        a, b, c = self.dims
        shapes = [s for s in ((a,), (a, b), (b, a), (c, b, a), (c, a)) if fits(sizes, s)]
        return [s for s in shapes if np.prod(s) <= MAX_TILE] or [sizes]

    # --- reductions and products

    def reduction(self, depth: int) -> Value | tuple[Value, ...]:
        sizes = self.shape() or (self.dims[0],)
        axis = self.number(0, len(sizes) - 1)
        dtype = self.choose([d for d in DTYPES if d is not t.int1])
        x = self.value(dtype, sizes)
        kind = self.number(0, 3)
        if kind == 0:
            return self.extreme_place(x, axis)
        if not dtype.is_float:
            combine = self.choose(INT_COMBINE)
        elif self.flip():
            combine, x = "add", self.small(x)
        else:
            combine, x = self.choose(("max", "min")), self.one_zero(x)
        return self.b.emit(reduce.reduce, x, axis=axis, combine=combine)

    def small(self, x: Value) -> Value:
        """Small integers as floats, whose sums are exact in any order."""
        whole = self.b.emit(math.cast, x, to="i32")
        whole = self.b.emit(math.bit_and, whole, self.constant(3, t.int32, x.type.shape))
        return self.b.emit(math.cast, whole, to=x.type.dtype.short)

    def no_nan(self, x: Value) -> Value:
        zero = self.constant(0.0, x.type.dtype, x.type.shape)
        return self.b.emit(math.select, self.b.emit(math.eq, x, x), self.one_zero(x), zero)

    def extreme_place(self, x: Value, axis: int) -> tuple[Value, ...]:
        """The largest number and the first place where it is, by a region."""
        sizes = x.type.shape
        places = self.line(sizes[axis], sizes, axis)
        types = [Type(x.type.dtype), Type(t.int32)]
        block = Block()
        v, i, w, j = (block.add_param(kind) for kind in types * 2)
        with self.b.inside(block):
            better = self.b.emit(self.choose((math.gt, math.lt)), v, w)
            tie = self.b.emit(math.eq, v, w)
            first = self.b.emit(math.bit_and, tie, self.b.emit(math.lt, i, j))
            take = self.b.emit(math.bit_or, better, first)
            value = self.b.emit(math.select, take, v, w)
            place = self.b.emit(math.select, take, i, j)
            self.b.emit(control.yield_, value, place)
        x = self.no_nan(x) if x.type.dtype.is_float else x
        return self.b.emit(reduce.reduce, x, places, axis=axis, region=block)

    def product(self, depth: int) -> Value:
        batch = (2,) if self.number(0, 4) == 0 else ()
        most = 3 if batch else 4
        m, k, n = (1 << self.number(0, e) for e in (most, most, most + 1))
        dtype = self.choose((t.float32, t.float16, t.bfloat16, t.int8, t.float64))
        acc = {t.int8: t.int32, t.float64: t.float64}.get(dtype, t.float32)
        x, y = self.value(dtype, (*batch, m, k)), self.value(dtype, (*batch, k, n))
        total = self.value(acc, (*batch, m, n))
        if dtype.is_float:
            x, y, total = self.small(x), self.small(y), self.small(total)
        return self.b.emit(dot.dot, x, y, total)


def fits(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    """Whether a tile becomes another by dimensions of 1 in front and repetition."""
    ones = (1,) * (len(large) - len(small)) + small
    return len(ones) == len(large) and all(a in (1, b) for a, b in zip(ones, large, strict=True))
