"""Operands of products read from the arguments' own memory where a whole tile lies in bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.targets.cpu.bounds import span
from tilewright.targets.cpu.gemm_pack import (
    pack_a_function,
    pack_rows_function,
    pack_transposed_function,
)

if TYPE_CHECKING:
    from tilewright.targets.cpu.lower import Lowering
    from tilewright.targets.cpu.plan import Plan
    from tilewright.targets.cpu.products import Packed
    from tilewright.targets.cpu.schedule import Anchor


@dataclass(frozen=True, slots=True)
class Source:
    """A load of a matrix in memory, and whether the operand is its transpose."""

    load: Inst
    transposed: bool

    @property
    def pointer(self) -> Value:
        return self.load.operands[0]

    @property
    def mask(self) -> Value | None:
        return self.load.operands[1] if len(self.load.operands) > 1 else None


def find_source(plan: Plan, value: Value) -> Source | None:
    """The load behind an operand, if it reads rows of neighbouring elements of one argument."""
    transposed = False
    while value.inst is not None and value not in plan.kept and value.inst.op.name == "permute":
        if tuple(value.inst.attrs["order"]) != (1, 0):
            return None
        transposed = not transposed
        value = value.inst.operands[0]
    inst = value.inst
    if inst is None or value in plan.kept or inst.op.name != "load" or len(value.type.shape) != 2:
        return None
    if len(plan.users[value]) != 1 or value.type.dtype is t.int1:
        return None
    source = Source(inst, transposed)
    if not plan.affine.is_affine(source.pointer):
        return None
    if source.mask is not None and not plan.affine.is_convex(source.mask):
        return None
    steps = plan.strides(source.pointer)
    size = value.type.dtype.bytes
    if steps[1] == size:
        return source
    return Source(inst, transposed) if steps[0] == size else None


class Corners:
    """The addresses and masks at the corners of a tile in memory."""

    def __init__(self, x: Lowering, source: Source):
        self.x = x
        self.source = source
        rows, columns = source.pointer.type.shape
        ends = [(i, j) for i in sorted({0, rows - 1}) for j in sorted({0, columns - 1})]
        self.places = [self.address(i, j) for i, j in ends]
        self.masks = [self.mask(i, j) for i, j in ends]

    def at(self, value: Value, i: int, j: int) -> Lane:
        index = (self.x.e.scalar_index(i), self.x.e.scalar_index(j))
        return self.x.e.lanes_of(self.x.e.eval(value, index))

    def address(self, i: int, j: int) -> Lane:
        return self.x.e.b.bitcast(self.at(self.source.pointer, i, j), t.uint64)

    def mask(self, i: int, j: int) -> Lane | None:
        mask = self.source.mask
        return None if mask is None else self.at(mask, i, j)

    def all_inside(self) -> Lane:
        """Whether every element is on and lies in its argument."""
        e, b = self.x.e, self.x.e.b
        tests = [m for m in self.masks if m is not None and m.text != "true"]
        param = self.x.memory.param(self.source.load)
        if self.x.memory.bounds and param is not None:
            size = self.source.pointer.type.dtype.element_ty.bytes
            ends = span(self.x.memory, self.x.memory.extent(param), size)
            first, last = (b.bitcast(x, t.uint64) for x in ends)
            for place in self.places:
                tests += [b.ge(place, first), b.le(place, last)]
        out = e.true.lane
        for test in tests:
            out = test if out.text == "true" else b.bit_and(out, test)
        return out

    def step(self, axis: int) -> Lane:
        """Bytes between neighbours along a dimension of the loaded tile."""
        if self.source.pointer.type.shape[axis] == 1:
            return self.x.e.const(0)
        b = self.x.e.b
        away = self.address(1, 0) if axis == 0 else self.address(0, 1)
        return b.bitcast(b.sub(away, self.places[0]), t.int64)


def write_pack(x: Lowering, anchor: Anchor, place: Packed) -> None:
    """Pack an operand: at once from memory if the whole tile is there, else element by element."""
    e, w = x.e, x.e.w
    source = anchor.source
    corners = Corners(x, source)
    inside = corners.all_inside()
    direct, general, join = w.new_label("direct"), w.new_label("general"), w.new_label("join")
    w.open(direct)
    base, stride = read_direct(x, anchor, place, corners)
    w.write(f"br label %{join}")
    fast = w.close()
    w.open(general)
    x.nests.write(anchor.nest)
    w.write(f"br label %{join}")
    slow = w.close()
    for scope in (fast, slow):
        e.forget(scope.memo)
    w.write(f"br i1 {inside.text}, label %{direct}, label %{general}")
    for label, scope in ((direct, fast), (general, slow)):
        w.label(label)
        w.take(scope)
    w.label(join)
    if anchor.side == 0:
        g = place.gemm
        name, lead = w.fresh(), w.fresh()
        edges = f"%{fast.label}], [", f", %{slow.label}]"
        w.write(f"{name} = phi ptr [{base.text}, {edges[0]}{place.a}{edges[1]}")
        w.write(f"{lead} = phi i64 [{stride.text}, {edges[0]}{g.k}{edges[1]}")
        place.a_now, place.lda = name, lead


def read_direct(x: Lowering, anchor: Anchor, place: Packed, corners: Corners) -> tuple[Lane, Lane]:
    """Use the tile where it lies, or pack it by a routine; gives its address and row step."""
    e, b, w, g = x.e, x.e.b, x.e.w, place.gemm
    source = anchor.source
    dtype = source.pointer.type.dtype.element_ty
    steps = x.plan.strides(source.pointer)
    along_rows = steps[1] == dtype.bytes
    lead_bytes = corners.step(0 if along_rows else 1)
    lead = b.value(f"sdiv exact {lead_bytes.typed}, {dtype.bytes}", t.int64, 1)
    first = b.bitcast(corners.places[0], t.pointer_to(dtype))
    flipped = along_rows == source.transposed  # whether the operand's columns are contiguous
    note_next(x, place, anchor.side, first, lead)
    if anchor.side == 0 and not flipped and dtype is g.operand:
        return first, lead
    if anchor.side == 0:
        routine = pack_a_function(g.m, g.k, dtype, g.operand, x.machine, transposed=flipped)
        target = place.a
    else:
        make = pack_transposed_function if flipped else pack_rows_function
        routine = make(g.k, g.n, dtype, g.operand, g.panel, x.machine)
        target = place.b
    for text in (*routine.needs, routine.definition):
        w.declare(text)
    w.write(f"call void @{routine.name}(ptr {target}, ptr {first.text}, i64 {lead.text})")
    return Lane(target, t.pointer_to(g.operand)), e.const(g.k)


def note_next(x: Lowering, place: Packed, side: int, first: Lane, lead: Lane) -> None:
    """Guess where the operand of the next step lies, as far on as this one is from the last."""
    w, b = x.e.w, x.e.b
    slot = place.slots[side]
    place.guessed[side] = True
    last = b.value(f"load i64, ptr {slot}", t.int64, 1)
    now = b.bitcast(first, t.int64)
    w.write(f"store i64 {now.text}, ptr {slot}")
    ahead = b.add(now, b.sub(now, last))
    lead_slot, next_slot = place.leads[side], place.nexts[side]
    w.write(f"store i64 {ahead.text}, ptr {next_slot}")
    w.write(f"store i64 {lead.text}, ptr {lead_slot}")
