"""The form of any value at any index: how tile expressions become scalars and SIMD lanes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tilewright.codegen import mathlib
from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane
from tilewright.errors import InternalError
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.targets.cpu import progressions, shapes
from tilewright.targets.cpu.buffers import Buffer, read_buffer
from tilewright.targets.cpu.forms import Form, Index, Prefix, Steps, Uniform, Vector
from tilewright.targets.cpu.pieces import Cuts
from tilewright.targets.cpu.writer import Writer

if TYPE_CHECKING:
    from tilewright.targets.cpu.clip import Tail


class OpLanes(Lanes):
    """The builder that emit hooks of ops get: lanes, and the elementary functions by name."""

    def __init__(self, writer: Writer, target: str, features: frozenset[str]):
        super().__init__(writer.write, writer.fresh, writer.declare, target, features)
        self.define = writer.define

    def value(self, text: str, dtype: t.DType, width: int) -> Lane:
        return Lane(self.define(text), dtype, width)

    def math(self, name: str, *xs: Lane) -> Lane:
        return getattr(mathlib, name)(self, *xs)


@dataclass(slots=True)
class Row:
    """The row along the vector axis that is being written, and the chunk of it."""

    width: int = 1  # lanes of a chunk
    length: int = 1
    depth: int = 0  # the scope in which what is the same for the whole row is written
    true_masks: frozenset[str] = frozenset()  # limits of prefixes that hold in every lane
    off_masks: frozenset[str] = frozenset()  # those of prefixes that hold in none
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
        self.whole = False  # whether a rule is asked about a whole row, not a chunk
        self.turned: dict[str, Buffer] = {}  # by buffer: a transposed copy
        # By start of a chunk in a turn of several: that of the first one, and how far it lies on.
        self.later: dict[str, tuple[Lane, int]] = {}
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

    @property
    def span(self) -> int:
        """Elements of the progressions that a rule is asked about."""
        return self.row.length if self.whole else self.row.width

    def row_count(self) -> Lane:
        """How many elements the row has."""
        return self.const(self.row.length) if self.row.count is None else self.row.count

    def within_limits(self, count: Lane) -> Lane:
        """For how many of the row's first `count` elements all masks met so far are true."""
        for limit in self.row.limits.values():
            count = self.b.minimum(count, limit.limit)
        return count

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
        return Prefix(self.b.sub(self.row.count, self.from_start(index)), self.w.at, is_near=True)

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
        left = form.limit
        if not form.is_near:
            left = b.minimum(b.maximum(left, self.const(0)), self.const(width))
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
        return op.is_elementwise and op.name not in shapes.RULES

    def eval_anew(self, value: Value, index: tuple[Index, ...]) -> Form:
        form, off, chunk, whole = None, False, False, False
        for i in index:
            off, whole = off or i.off, whole or i.whole
            chunk = chunk or (i.vector and not i.whole)
        if off:
            form = self.beyond_row(value, index)
            if isinstance(form, Steps):
                return None
        elif chunk:
            form = self.from_row(value, index)
        elif whole and self.row.start is not None:
            form = self.from_whole_row(value, index)
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
            if form.limit.text in self.row.off_masks:
                return self.false
            limit = form.limit if start.known == 0 else b.sub(form.limit, start)
            return Prefix(limit, here, is_near=b.range_of(form.limit) is not None)
        return self.onward(form, start)

    def from_whole_row(self, value: Value, index: tuple[Index, ...]) -> Form:
        """The form in a piece of a row, if it is known in the whole row."""
        start = Index(self.const(0), 0, vector=True, whole=True)
        form = self.memo.get(self.key(value, tuple(start if i.vector else i for i in index)))
        if isinstance(form, Prefix):
            return self.true if form.limit.text in self.row.true_masks else None
        return self.onward(form, self.row.start) if isinstance(form, Steps) else form

    def onward(self, form: Steps, by: Lane) -> Steps:
        """A progression from some elements further on."""
        b, here = self.b, self.w.at
        if by.known == 0:
            return replace(form, depth=here)
        if by.text in self.later and form.dtype.is_pointer and isinstance(form.stride, int):
            first, count = self.later[by.text]
            base = self.onward(form, first).base
            base = b.offset(base, self.const(count * form.stride), t.int8)
            return replace(form, base=base, depth=here)
        moved = by
        if form.dtype.is_pointer or form.stride != 1:
            step = form.stride if isinstance(form.stride, Lane) else self.const(form.stride)
            moved = b.mul(by, step)
        if form.dtype.is_pointer:
            base = b.offset(form.base, moved, t.int8)
        else:
            base = b.add(form.base, b.cast(moved, form.dtype))
        return replace(form, base=base, depth=here)

    def key(self, value: Value, index: tuple[Index, ...]) -> tuple:
        """What a form is remembered by: chunks of other widths are other vectors."""
        width, chunk = 1, False
        for i in index:
            if i.vector:
                width, chunk = self.row.width, chunk or not i.whole
        row = self.row
        if chunk and (row.true_masks or row.off_masks):  # in which its masks are no masks
            return (value, width, row.true_masks, row.off_masks, *[i.key for i in index])
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

    @contextlib.contextmanager
    def one_way(self) -> Iterator[None]:
        """What is computed inside, in one way of a branch, is not known after it."""
        memo = self.w.scopes[self.w.at].memo
        count = len(memo)
        yield
        self.forget(memo[count:])
        del memo[count:]

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
            return read_buffer(self, self.buffers[value], index)
        inst = value.inst
        if inst is None:
            raise InternalError(f"{value!r} has no definition here")
        return self.compute_inst(inst, index)

    def compute_inst(self, inst: Inst, index: tuple[Index, ...]) -> Form:
        """The form of an instruction's result, whether or not it is kept."""
        rule = shapes.RULES.get(inst.op.name)
        if rule is not None:
            return rule(self, inst, index)
        if inst.op.name == "load":
            return self.load(inst, index)
        if inst.op.is_elementwise:
            whole = any(i.whole for i in index)
            if whole and self.row.cuts is not None:
                form = self.row.cuts.derive(self, inst, index)
                if form is not None:
                    return form
            return self.elementwise(inst, [self.eval(x, index) for x in inst.operands], whole)
        raise InternalError(f"{inst.op.name} was read before it ran")

    def elementwise(self, inst: Inst, forms: list[Form], whole: bool) -> Form:
        special = progressions.RULES.get(inst.op.name)
        if special is not None:
            self.whole = whole
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
        lanes = [self.spread_out(f) for f in forms]
        return Vector(inst.op.emit(self.b, *lanes, **inst.attrs), self.w.at)

    def spread_out(self, form: Form) -> Lane:
        """The form as lanes, a number that is known outside of this scope spread there."""
        lane = self.lanes_of(form)
        if not isinstance(form, Uniform) or lane.is_literal or not lane.dtype.is_float:
            return lane
        key = ("spread", lane.text, self.row.width)
        if form.depth < self.w.at and key not in self.memo:
            wide = self.at(form.depth, lambda: self.b.splat(lane, self.row.width))
            self.memo[key] = Vector(wide, form.depth)
            self.w.scopes[form.depth].memo.append(key)
        known = self.memo.get(key)
        return lane if known is None else known.lane
