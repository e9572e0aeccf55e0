"""The form of any value at any index: how tile expressions become scalars and SIMD lanes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tilewright.codegen import mathlib
from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane
from tilewright.errors import InternalError
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.ir.types import Type
from tilewright.targets.cpu import progressions
from tilewright.targets.cpu.forms import Form, Index, Prefix, Steps, Uniform, Vector
from tilewright.targets.cpu.lane_memory import masked_load, masked_store
from tilewright.targets.cpu.pieces import QUOTIENTS, Cuts
from tilewright.targets.cpu.plan import is_reshuffle
from tilewright.targets.cpu.writer import Writer

if TYPE_CHECKING:
    from tilewright.targets.cpu.clip import Tail


class OpLanes(Lanes):
    """The builder that emit hooks of ops get: lanes, and the elementary functions by name."""

    def math(self, name: str, *xs: Lane) -> Lane:
        return getattr(mathlib, name)(self, *xs)


@dataclass(eq=False, slots=True)
class Buffer:
    """Scratch memory that holds a kept tile, row-major; `int1` takes a byte.

    It may hold the numbers in a wider dtype than the one that readers get.
    """

    name: str
    type: Type
    reads_as: t.DType | None = None

    @property
    def steps(self) -> tuple[int, ...]:
        out, step = [], 1
        for n in reversed(self.type.shape):
            out.append(step)
            step *= n
        return tuple(reversed(out))


@dataclass(slots=True)
class Row:
    """The row along the vector axis that is being written, and the chunk of it."""

    width: int = 1  # lanes of a chunk
    length: int = 1
    depth: int = 0  # the scope in which what is the same for the whole row is written
    true_masks: frozenset[str] = frozenset()  # limits of prefixes that hold in every lane
    off_limit: str = ""  # the limit of the masks that are off in an index that is `off`
    limits: dict[str, Prefix] = field(default_factory=dict)  # of the masks met so far
    start: Lane | None = None  # where it begins, if it is a piece of the tile's row
    count: Lane | None = None  # of a piece: how many elements it has
    is_rest: bool = False  # of a piece: whether chunks may stick out at its end
    cuts: Cuts | None = None  # while pieces are sought: what is divided


MOST_NESTED = 60  # before a chain is evaluated from its start: Python nests 1000 calls


class Evaluator:
    """Gives values as forms; writes each instruction in the outermost scope that allows it."""

    def __init__(self, writer: Writer, lanes: OpLanes):
        self.w = writer
        self.b = lanes
        self.buffers: dict[Value, Buffer] = {}
        self.bound: dict[Value, Form] = {}
        self.memo: dict[tuple, Form] = {}
        self.met: dict[tuple, dict[str, Prefix]] = {}  # limits met on the way to a whole row's form
        self.row = Row()
        self.true = Uniform(lanes.const(True, t.int1), 0)
        self.false = Uniform(lanes.const(False, t.int1), 0)
        self.tails: dict[str, Tail] = {}  # by buffer: what of it was not written
        self.nested = 0  # evaluations inside evaluations now
        self.span = 1  # elements of the progressions that a rule is asked about
        self.turned: dict[str, Buffer] = {}  # by buffer: a transposed copy
        # Set by the memory rules: what a load gives, and stopping where a condition fails.
        self.load: Callable[[Inst, tuple[Index, ...]], Form]
        self.stop_unless: Callable[[Inst, list[Lane]], None]

    # --- small pieces

    def const(self, value: int, dtype: t.DType = t.int64) -> Lane:
        return self.b.const(value, dtype)

    def scalar_index(self, value: int) -> Index:
        return Index(self.const(value), 0)

    def whole_index(self, index: Index) -> Index:
        """The whole row that a chunk is a part of."""
        return self.row_index() if index.vector else index

    def row_index(self) -> Index:
        """The row that is being written, as an index."""
        start = self.row.start
        if start is None:
            return Index(self.const(0), 0, vector=True, whole=True)
        return Index(start, self.row.depth, vector=True, whole=True)

    def row_count(self) -> Lane:
        """How many elements the row has."""
        return self.const(self.row.length) if self.row.count is None else self.row.count

    def from_start(self, index: tuple[Index, ...]) -> Lane:
        """How far into its row a chunk begins."""
        base = next(i.base for i in index if i.vector)
        start = self.row.start
        if start is None:
            return base
        return self.const(0) if base.text == start.text else self.b.sub(base, start)

    def cover(self, index: tuple[Index, ...]) -> Prefix | None:
        """The lanes of a chunk that belong to its row, if others may stick out."""
        if not self.row.is_rest:
            return None
        return Prefix(self.b.sub(self.row.count, self.from_start(index)), self.w.at)

    def at(self, depth: int, make: Callable[[], Lane]) -> Lane:
        """What `make` writes, written in the scope at `depth`."""
        with self.w.outside(depth):
            return make()

    def lanes_of(self, form: Form) -> Lane:
        """The form as a lane group for an instruction here: a scalar or a vector."""
        if isinstance(form, (Uniform, Vector)):
            return form.lane
        if isinstance(form, Steps):
            return self.spread(form)
        if isinstance(form, Prefix):
            return self.prefix_lanes(form)
        raise InternalError("the lanes of a whole row were asked for")

    def lanes_at_start(self, form: Form) -> Lane:
        """The scalar in the first lane of a form of a whole row."""
        return form.base if isinstance(form, Steps) else form.lane

    def spread(self, form: Steps) -> Lane:
        width, b = self.row.width, self.b
        if form.dtype.is_pointer:
            step = form.stride if isinstance(form.stride, Lane) else self.const(form.stride)
            return b.offset(form.base, b.mul(b.iota(t.int64, width), step), t.int8)
        if form.narrow is not None:
            base = b.cast(form.base, form.narrow)
            return b.cast(self.spread(Steps(base, form.stride, form.depth)), form.dtype)
        iota = b.iota(form.dtype, width)
        if form.stride == 1:
            return b.add(form.base, iota)
        if isinstance(form.stride, Lane):
            return b.add(form.base, b.mul(iota, b.cast(form.stride, form.dtype)))
        return b.add(form.base, b.mul(iota, b.const(form.stride, form.dtype)))

    def prefix_lanes(self, form: Prefix) -> Lane:
        width, b = self.row.width, self.b
        left = b.minimum(b.maximum(form.limit, self.const(0)), self.const(width))
        return b.lt(b.iota(t.int32, width), b.cast(left, t.int32))

    # --- evaluation

    def eval(self, value: Value, index: tuple[Index, ...]) -> Form:
        """The form of `value` at an index, one entry for each dimension."""
        key = self.key(value, index)
        if key in self.memo:
            self.row.limits |= self.met.get(key, {})
            return self.memo[key]
        if self.nested >= MOST_NESTED:
            for x in self.operands_first(value, index):
                self.eval(x, index)
        before, self.row.limits = self.row.limits, {}
        self.nested += 1
        form = self.eval_anew(value, index)
        self.nested -= 1
        depth = self.w.at if form is None else form.depth
        self.memo[key] = form
        self.w.scopes[depth].memo.append(key)
        if form is None and self.row.limits:
            self.met[key] = self.row.limits
        self.row.limits = before | self.row.limits
        return form

    def operands_first(self, value: Value, index: tuple[Index, ...]) -> list[Value]:
        """What a long chain of elementwise steps must know, in order, so that none nests deeply."""
        out: list[Value] = []
        met: set[Value] = set()
        stack = [(value, False)]
        while stack:
            x, is_ready = stack.pop()
            if is_ready:
                out.append(x)
            elif x not in met:
                met.add(x)
                stack.append((x, True))
                below = reversed(x.inst.operands) if self.is_step(x) else ()
                stack += [(y, False) for y in below if self.is_step(y) and not self.knows(y, index)]
        return out[:-1]

    def knows(self, value: Value, index: tuple[Index, ...]) -> bool:
        return self.key(value, index) in self.memo

    def is_step(self, value: Value) -> bool:
        """Whether a value is computed from others at the same place."""
        if value in self.bound or value in self.buffers or value.inst is None:
            return False
        op = value.inst.op
        return op.is_elementwise and op.name not in RULES

    def eval_anew(self, value: Value, index: tuple[Index, ...]) -> Form:
        form = None
        if any(i.off for i in index):
            form = self.beyond_row(value, index)
            if isinstance(form, Steps):
                return None
        elif any(i.vector and not i.whole for i in index):
            form = self.from_row(value, index)
        return self.compute(value, index) if form is None else form

    def beyond_row(self, value: Value, index: tuple[Index, ...]) -> Form:
        """The form of a value where the masks of the row are off, if the whole row says it."""
        form = self.eval(value, tuple(self.whole_index(i) for i in index))
        if isinstance(form, Prefix):
            return self.false if form.limit.text == self.row.off_limit else None
        return form

    def from_row(self, value: Value, index: tuple[Index, ...]) -> Form:
        """The form of a chunk, if what the whole row looks like says it."""
        with self.w.outside(self.row.depth):
            form = self.eval(value, tuple(self.whole_index(i) for i in index))
        if form is None or isinstance(form, Uniform):
            return form
        start = self.from_start(index)
        b, here = self.b, self.w.at
        if isinstance(form, Prefix):
            if form.limit.text in self.row.true_masks:
                return self.true
            limit = form.limit if start.known == 0 else b.sub(form.limit, start)
            return Prefix(limit, here)
        if start.known == 0:
            return replace(form, depth=here)
        if form.dtype.is_pointer:
            step = form.stride if isinstance(form.stride, Lane) else self.const(form.stride)
            base = b.offset(form.base, b.mul(start, step), t.int8)
        else:
            moved = start
            if form.stride != 1:
                step = form.stride if isinstance(form.stride, Lane) else self.const(form.stride)
                moved = b.mul(start, step)
            base = b.add(form.base, b.cast(moved, form.dtype))
        return replace(form, base=base, depth=here)

    def key(self, value: Value, index: tuple[Index, ...]) -> tuple:
        """What a form is remembered by: chunks of other widths are other vectors."""
        width = self.row.width if any(i.vector for i in index) else 1
        held = self.row.true_masks  # in which a chunk's masks are no masks
        if held and any(i.vector and not i.whole for i in index):
            return (value, width, held, *[i.key for i in index])
        return (value, width, *[i.key for i in index])

    def bind(self, value: Value, index: tuple[Index, ...], form: Form) -> None:
        """Remember the form of a value that has just been computed in this scope."""
        key = self.key(value, index)
        self.memo[key] = form
        self.w.scopes[self.w.at].memo.append(key)

    def forget(self, keys: list) -> None:
        """Drop what was known only inside a scope that has closed."""
        for key in keys:
            self.memo.pop(key, None)
            self.met.pop(key, None)

    def scalar(self, value: Value) -> Uniform:
        """The form of a value without dimensions."""
        form = self.eval(value, ())
        if not isinstance(form, Uniform):
            raise InternalError(f"{value!r} is not a scalar")
        return form

    def compute(self, value: Value, index: tuple[Index, ...]) -> Form:
        if value in self.bound:
            return self.bound[value]
        if value in self.buffers:
            return self.read_buffer(self.buffers[value], index)
        inst = value.inst
        if inst is None:
            raise InternalError(f"{value!r} has no definition here")
        return self.compute_inst(inst, index)

    def compute_inst(self, inst: Inst, index: tuple[Index, ...]) -> Form:
        """The form of an instruction's result, whether or not it is kept."""
        rule = RULES.get(inst.op.name)
        if rule is not None:
            return rule(self, inst, index)
        if inst.op.name == "load":
            return self.load(inst, index)
        if inst.op.is_elementwise:
            whole = any(i.whole for i in index)
            if whole and self.row.cuts is not None and inst.op.name in QUOTIENTS:
                form = self.row.cuts.divide(self, inst, index)
                if form is not None:
                    return form
            return self.elementwise(inst, [self.eval(x, index) for x in inst.operands], whole)
        raise InternalError(f"{inst.op.name} was read before it ran")

    def elementwise(self, inst: Inst, forms: list[Form], whole: bool) -> Form:
        special = progressions.RULES.get(inst.op.name)
        if special is not None:
            self.span = self.row.length if whole else self.row.width
            form = special(self, inst, forms)
            if form is not progressions.UNKNOWN:
                return form
        if any(f is None for f in forms):
            return None
        if all(isinstance(f, Uniform) for f in forms):
            depth = max(f.depth for f in forms) if forms else 0
            lanes = [f.lane for f in forms]
            return Uniform(
                self.at(depth, lambda: inst.op.emit(self.b, *lanes, **inst.attrs)), depth
            )
        if whole:
            return None
        lanes = [self.lanes_of(f) for f in forms]
        return Vector(inst.op.emit(self.b, *lanes, **inst.attrs), self.w.at)

    # --- buffers

    def element(self, buffer: Buffer, index: tuple[Index, ...]) -> tuple[Lane, int, bool]:
        """The address of a buffer's element at the lanes' first index, the lanes' step, vector?"""
        offset: Lane | None = None
        step, vector = 0, False
        for i, stride in zip(index, buffer.steps, strict=True):
            if i.vector:
                vector, step = True, stride
            if i.base.known == 0:
                continue
            part = i.base if stride == 1 else self.b.mul(i.base, self.const(stride))
            offset = part if offset is None else self.b.add(offset, part)
        base = Lane(buffer.name, t.pointer_to(buffer.type.dtype), 1)
        return (base if offset is None else self.b.offset(base, offset)), step, vector

    def read_buffer(self, buffer: Buffer, index: tuple[Index, ...]) -> Form:
        """What a kept tile holds; nothing is known of a whole row."""
        if any(i.whole for i in index):
            return self.tail_of(buffer, index)
        form = self.read_raw(buffer, index)
        if buffer.reads_as is None:
            return form
        lane = self.b.cast(form.lane, buffer.reads_as)
        return Vector(lane, form.depth) if isinstance(form, Vector) else Uniform(lane, form.depth)

    def tail_of(self, buffer: Buffer, index: tuple[Index, ...]) -> Form:
        """The one number of a kept tile beyond the limit of its masks."""
        tail = self.tails.get(buffer.name)
        beyond = tail is not None and index[tail.axis].off
        if not beyond or tail.limit.text != self.row.off_limit:
            return None
        return Uniform(tail.value, self.w.at)

    def read_raw(self, buffer: Buffer, index: tuple[Index, ...]) -> Form:
        """What the memory of a kept tile holds, in the dtype of the memory."""
        depth = self.w.at
        if buffer.type.dtype.is_pointer:
            return self.read_pointer_buffer(buffer, index)
        copy = self.turned.get(buffer.name)
        if copy is not None and copy.type.shape == buffer.type.shape[::-1] and index[0].vector:
            buffer, index = copy, (index[1], index[0])
        address, step, vector = self.element(buffer, index)
        if not vector or self.row.width == 1:
            return Uniform(self.load_memory(address, buffer.type.dtype, 1), depth)
        if step == 1:
            return Vector(self.load_row(address, buffer.type.dtype, index), depth)
        return Vector(self.strided(address, buffer.type.dtype, step), depth)

    def load_row(self, address: Lane, dtype: t.DType, index: tuple[Index, ...]) -> Lane:
        """A chunk of a kept tile whose rows lie in a line."""
        width, cover = self.row.width, self.cover(index)
        if cover is None:
            return self.load_memory(address, dtype, width, aligned=self.row.start is None)
        memory = t.uint8 if dtype is t.int1 else dtype
        mask, nothing = self.prefix_lanes(cover), self.b.const(0, memory, width)
        lane = masked_load(self.b, address, mask, nothing, memory.bytes)
        return self.b.ne(lane, nothing) if dtype is t.int1 else lane

    def read_pointer_buffer(self, buffer: Buffer, index: tuple[Index, ...]) -> Form:
        words = Buffer(buffer.name, buffer.type.with_dtype(t.int64))
        form = self.read_raw(words, index)
        lane = self.b.bitcast(self.lanes_of(form), buffer.type.dtype)
        return Vector(lane, form.depth) if lane.width > 1 else Uniform(lane, form.depth)

    def load_memory(self, address: Lane, dtype: t.DType, width: int, aligned: bool = False) -> Lane:
        """A plain load; booleans are bytes in memory."""
        memory = t.uint8 if dtype is t.int1 else dtype
        kind = self.b.const(0, memory, width).type
        align = dtype.bytes * width if aligned and width > 1 else dtype.bytes
        lane = self.b.value(
            f"load {kind}, ptr {address.text}, align {min(align, 64)}", memory, width
        )
        return self.b.ne(lane, self.b.const(0, memory, width)) if dtype is t.int1 else lane

    def strided(self, address: Lane, dtype: t.DType, step: int) -> Lane:
        """A vector put together from elements `step` apart."""
        memory = t.uint8 if dtype is t.int1 else dtype
        width = self.row.width
        kind = self.b.const(0, memory, width).type
        lane = Lane("poison", memory, width)
        for i in range(width):
            place = self.b.offset(address, self.const(i * step)) if i else address
            one = self.load_memory(place, memory, 1)
            lane = self.b.value(
                f"insertelement {kind} {lane.text}, {one.typed}, i32 {i}", memory, width
            )
        return self.b.ne(lane, self.b.const(0, memory, width)) if dtype is t.int1 else lane

    def write_buffer(self, buffer: Buffer, index: tuple[Index, ...], form: Form) -> None:
        lane = self.lanes_of(form)
        if not buffer.type.dtype.is_pointer:
            lane = self.b.cast(lane, buffer.type.dtype)
        address, step, vector = self.element(buffer, index)
        if vector:
            lane = self.b.splat(lane, self.row.width)
        cover = self.cover(index) if vector else None
        if cover is None:
            self.write_memory(address, lane, step, aligned=self.row.start is None)
            return
        lane = self.b.cast(lane, t.uint8) if lane.dtype is t.int1 else lane
        masked_store(self.b, address, self.prefix_lanes(cover), lane, lane.dtype.bytes)

    def write_memory(self, address: Lane, lane: Lane, step: int = 1, aligned: bool = True) -> None:
        """Store lanes `step` elements apart in scratch memory."""
        if lane.dtype is t.int1:
            lane = self.b.cast(lane, t.uint8)
        size = lane.dtype.bytes
        if lane.width == 1 or step == 1:
            align = min(64, size * lane.width) if aligned else size
            self.w.write(f"store {lane.typed}, ptr {address.text}, align {align}")
            return
        for i in range(lane.width):
            place = self.b.offset(address, self.const(i * step), lane.dtype) if i else address
            one = self.b.extract(lane, i)
            self.w.write(f"store {one.typed}, ptr {place.text}, align {size}")


# --- shape ops: where an element comes from


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
        return e.read_buffer(Buffer(buffer.name, held, buffer.reads_as), index)
    rest = [i for n, i in zip(inst.result.type.shape, index, strict=True) if n != 1]
    zero = e.scalar_index(0)
    places = iter(rest)
    return e.eval(x, tuple(zero if n == 1 else next(places) for n in x.type.shape))


RULES: dict[str, Callable[[Evaluator, Inst, tuple[Index, ...]], Form]] = {
    "constant": constant,
    "arange": arange,
    "splat": splat,
    "broadcast": broadcast,
    "permute": permute,
    "reshape": reshape,
}
