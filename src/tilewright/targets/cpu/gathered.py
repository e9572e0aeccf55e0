"""Operands of products whose rows lie anywhere in memory, each of them in one piece.

Rows of a tile that are chosen by an index, or some of which are masked off: a table of their
addresses is made first. The microkernel reads rows of the left operand by it where it can, a
routine packs all others. A row that is off is one of zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.passes.affine import only_units
from tilewright.passes.constants import is_zero
from tilewright.targets.cpu.bounds import any_lane, span
from tilewright.targets.cpu.branches import where
from tilewright.targets.cpu.extents import COMPARISONS, extent_of, limit_of, varying
from tilewright.targets.cpu.forms import Index, Uniform
from tilewright.targets.cpu.gemm import Left
from tilewright.targets.cpu.gemm_pack import cheap_masks, pack_function
from tilewright.targets.cpu.routine import Function
from tilewright.targets.cpu.schedule import Anchor, Nest
from tilewright.targets.cpu.sources import find_source, load_behind

if TYPE_CHECKING:
    from tilewright.targets.cpu.evaluate import Evaluator
    from tilewright.targets.cpu.forms import Form
    from tilewright.targets.cpu.gemm import Gemm
    from tilewright.targets.cpu.lower import Lowering
    from tilewright.targets.cpu.plan import Plan
    from tilewright.targets.cpu.products import Packed

# What a table says of rows that were packed.
TABLE = Function("tw_table_of_rows", """\
define void @tw_table_of_rows(ptr %table, ptr %first, i64 %step, i64 %count) nounwind {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %offset = mul i64 %i, %step
  %row = getelementptr i8, ptr %first, i64 %offset
  %place = getelementptr ptr, ptr %table, i64 %i
  store ptr %row, ptr %place
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %end
end:
  ret void
}""", ())  # fmt: skip
FEWEST_BYTES = 32  # of a row: shorter ones are gathered element by element


@dataclass(frozen=True, slots=True)
class Rows:
    """A load of rows that are contiguous along `axis`, and whether the operand is its transpose."""

    load: Inst
    transposed: bool
    axis: int
    row_masks: tuple[Value, ...]  # the same along a row
    column_masks: tuple[Value, ...]  # the same for all rows: how much of each is on

    @property
    def pointer(self) -> Value:
        return self.load.operands[0]

    @property
    def count(self) -> int:
        return self.pointer.type.shape[1 - self.axis]

    @property
    def length(self) -> int:
        return self.pointer.type.shape[self.axis]

    @property
    def flipped(self) -> bool:
        """Whether it is the columns of the operand that are contiguous in memory."""
        return (self.axis == 1) == self.transposed


def find_rows(plan: Plan, value: Value) -> Rows | None:
    """The load behind an operand, if each of its rows is contiguous and on up to one column."""
    found = load_behind(plan, value)
    if found is None or found[0].attrs.get("volatile"):
        return None
    load, transposed = found
    pointer, *others = load.operands
    axis = plan.contiguous(pointer)
    if axis is None or len(others) > 1 and not is_zero(others[1]):
        return None
    if pointer.type.shape[axis] * pointer.type.dtype.element_ty.bytes < FEWEST_BYTES:
        return None
    terms = terms_of(others[0]) if others else []
    rows = [x for x in terms if varying(x) <= {1 - axis}]
    columns = [x for x in terms if x not in rows]
    if not all(varying(x) == {axis} and is_comparison(x) for x in columns):
        return None
    return Rows(load, transposed, axis, tuple(rows), tuple(columns))


def terms_of(mask: Value) -> list[Value]:
    """The masks that must all be on."""
    if mask.inst is not None and mask.inst.op.name == "bit_and":
        return [term for x in mask.inst.operands for term in terms_of(x)]
    return [mask]


def is_comparison(mask: Value) -> bool:
    """Whether a mask is one comparison, moved."""
    inst = mask.inst
    if inst is None:
        return False
    if inst.op.name in ("permute", "broadcast") or (inst.op.name == "reshape" and only_units(inst)):
        return is_comparison(inst.operands[0])
    return inst.op.name in COMPARISONS


class Table:
    """The addresses of all rows, and whether some of them is not in its argument."""

    def __init__(self, x: Lowering, anchor: Anchor, on: Uniform):
        self.x, self.rows, self.on = x, anchor.source, on
        self.anchor = anchor
        self.name = x.new_scratch(8 * self.rows.count)
        self.flag = x.new_scratch(8)
        self.zeros = ""
        self.size = self.rows.pointer.type.dtype.element_ty.bytes
        self.masks: list[Lane] = []  # of the chunk being written

    def write(self) -> None:
        x, rows = self.x, self.rows
        if rows.row_masks:
            self.zeros = x.new_scratch(rows.length * self.size, forever=True)
            with x.e.w.outside(0):
                x.e.w.fill(self.zeros, 0, rows.length * self.size)
        x.e.w.write(f"store i8 0, ptr {self.flag}")
        shape = list(rows.pointer.type.shape)
        shape[rows.axis] = 1
        parts = [(mask, self.note) for mask in rows.row_masks]
        parts.append((rows.pointer, self.put))
        anchors = [
            Anchor("pack", self.anchor.inst, tuple(shape), value, pack=pack)
            for value, pack in parts
        ]
        x.nests.write(Nest(tuple(shape), 1 - rows.axis, anchors))

    def note(self, e: Evaluator, at: tuple[Index, ...], form: Form) -> None:
        """A mask of some rows."""
        self.masks.append(e.lanes_of(form))

    def put(self, e: Evaluator, at: tuple[Index, ...], form: Form) -> None:
        """The addresses of some rows."""
        b, w, width = e.b, e.w, e.row.width
        address = b.splat(b.bitcast(e.lanes_of(form), t.int64), width)
        mask = e.true.lane
        for other in self.masks:
            mask = other if mask.text == "true" else b.bit_and(*b.match(mask, other))
        self.masks.clear()
        self.look(e, address, mask)
        if self.zeros:
            zeros = b.bitcast(Lane(self.zeros, t.pointer_to(t.int8)), t.int64)
            address = b.select(b.splat(mask, width), address, b.splat(zeros, width))
        place = b.offset(Lane(self.name, t.pointer_to(t.int64)), at[1 - self.rows.axis].base)
        w.write(f"store {address.typed}, ptr {place.text}, align 8")

    def look(self, e: Evaluator, address: Lane, mask: Lane) -> None:
        """Note rows that are on and reach beyond their argument."""
        memory, b, w = self.x.memory, e.b, e.w
        param = memory.param(self.rows.load)
        if not memory.bounds or param is None:
            return
        low, high = span(memory, memory.extent(param), self.size)
        with w.outside(self.on.depth):
            last = b.maximum(b.sub(self.on.lane, e.const(1)), e.const(0))
            high = b.sub(high, b.mul(last, e.const(self.size)))
        low, high = (b.splat(end, address.width) for end in (low, high))
        out = b.bit_or(b.lt(address, low), b.gt(address, high))
        bad = any_lane(b, b.bit_and(*b.match(out, mask)))
        now = w.fresh()
        w.write(f"{now} = zext {bad.typed} to i8")
        before, after = w.fresh(), w.fresh()
        w.write(f"{before} = load i8, ptr {self.flag}")
        w.write(f"{after} = or i8 {before}, {now}")
        w.write(f"store i8 {after}, ptr {self.flag}")

    def is_inside(self) -> Lane:
        b = self.x.e.b
        flag = b.value(f"load i8, ptr {self.flag}", t.uint8, 1)
        return b.eq(flag, b.const(0, t.uint8))


def write_rows(x: Lowering, anchor: Anchor, place: Packed) -> None:
    """Pack rows: by a routine if all of them are in their argument, else element by element."""
    rows, e, w = anchor.source, x.e, x.e.w
    on = columns_on(x, rows) if has_routine(x, rows, place.gemm) else None
    if on is None:
        write_elements(x, anchor, place)
        return
    table = Table(x, anchor, on)
    table.write()
    inside = table.is_inside()
    if anchor.side == 1 or place.gemm.left is not Left.TABLE:
        write_packed(x, anchor, place, table, inside)
        return
    place.a_now = table.name
    group = e.const(place.gemm.panel.k_group - 1)
    is_whole = e.b.eq(e.b.bit_and(on.lane, group), e.const(0))
    with where(w, e.b.bit_not(e.b.bit_and(inside, is_whole))):
        write_packed(x, anchor, place, table, inside)
        step = place.gemm.k * place.gemm.operand.bytes
        x.call(TABLE, f"ptr {table.name}, ptr {place.a}, i64 {step}, i64 {rows.count}")


def has_routine(x: Lowering, rows: Rows, gemm: Gemm) -> bool:
    """Whether rows may be read by their addresses at all."""
    kinds = (rows.pointer.type.dtype.element_ty, gemm.operand)
    return x.memory.checks is None and all(cheap_masks(kind, x.machine) for kind in kinds)


def may_stay(x: Lowering, operand: Value, gemm: Gemm, depth: Uniform) -> bool:
    """Whether the microkernel can read rows of the left operand where they lie."""
    rows = None if find_source(x.plan, operand) is not None else find_rows(x.plan, operand)
    if rows is None or rows.flipped or gemm.bias or not has_routine(x, rows, gemm):
        return False
    if operand.type.dtype is not gemm.operand:
        return False
    on = columns_on(x, rows)
    return on is not None and on.lane.text == depth.lane.text


def write_packed(x: Lowering, anchor: Anchor, place: Packed, table: Table, inside: Lane) -> None:
    e, w = x.e, x.e.w
    labels = [w.new_label(stem) for stem in ("gathered", "general", "join")]
    scopes = []
    for label in labels[:2]:
        w.open(label)
        if label is labels[0]:
            call_routine(x, anchor, place, table)
        else:
            write_elements(x, anchor, place)
        w.write(f"br label %{labels[2]}")
        scopes.append(w.close())
    for scope in scopes:
        e.forget(scope.memo)
    w.write(f"br i1 {inside.text}, label %{labels[0]}, label %{labels[1]}")
    for label, scope in zip(labels[:2], scopes, strict=True):
        w.label(label)
        w.take(scope)
    w.label(labels[2])


def write_elements(x: Lowering, anchor: Anchor, place: Packed) -> None:
    x.nests.write(anchor.nest)
    place.finish(x, anchor.side)
    place.stages[anchor.side] = None


def columns_on(x: Lowering, rows: Rows) -> Uniform | None:
    """How much of each row is on; None if that cannot be told."""
    if not rows.column_masks:
        return Uniform(x.e.const(rows.length), 0)
    found = [x.extents.bounds(mask, rows.axis) for mask in rows.column_masks]
    bounds = frozenset().union(*found)
    if not all(found) or any(limit_of(x.e, bound) is None for bound in bounds):
        return None
    return extent_of(x.e, frozenset([bounds]), rows.length)


def call_routine(x: Lowering, anchor: Anchor, place: Packed, table: Table) -> None:
    """Pack what is on and needed; the rest of what is needed is zeros."""
    g, rows, e = place.gemm, table.rows, x.e
    needed = [extent.lane for extent in place.side(anchor.side)]
    count, length = reversed(needed) if rows.flipped else needed
    target, size = (place.b, place.b_bytes) if anchor.side else (place.a, place.a_bytes)
    if table.on.lane.text != length.text:
        x.e.w.fill(target, 0 if anchor.side else g.bias, size)
        length = e.b.minimum(length, table.on.lane)
    if (anchor.side == 1) != rows.flipped and g.panel.k_group > 1:
        # Rows are steps of k then: those that make a group whole are off, so they are zeros.
        rest = g.panel.k_group - 1
        count = e.b.bit_and(e.b.add(count, e.const(rest)), e.const(~rest))
    extents = (length, count) if rows.flipped and anchor.side == 1 else (count, length)
    x.call(
        routine(x, anchor, place),
        f"ptr {target}, ptr {table.name}, i64 0, " + ", ".join(n.typed for n in extents),
    )


def routine(x: Lowering, anchor: Anchor, place: Packed) -> Function:
    rows = anchor.source
    return pack_function(
        place.gemm, anchor.side, rows.pointer.type.dtype.element_ty, x.machine,
        along_rows=not rows.flipped, gathered=True,
    )  # fmt: skip
