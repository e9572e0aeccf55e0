"""Operands of products that lie whole in memory: used as they are, or packed by a routine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.codegen.lanes import llvm_type
from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.targets.cpu import gathered
from tilewright.targets.cpu.forms import Uniform
from tilewright.targets.cpu.gemm import Left
from tilewright.targets.cpu.gemm_pack import cheap_masks, pack_function
from tilewright.targets.cpu.kept import keep_tiles
from tilewright.targets.cpu.routine import Function
from tilewright.targets.cpu.sources import Corners, Needed, Unpacked, along_rows, is_flipped

if TYPE_CHECKING:
    from tilewright.targets.cpu.lower import Lowering
    from tilewright.targets.cpu.products import Packed
    from tilewright.targets.cpu.schedule import Anchor

FEW_ROWS = 8  # for which reading the columns of the right operand is cheaper than packing them


@dataclass(frozen=True, slots=True)
class Ready:
    """An operand as the microkernel takes it: its address, and elements between rows."""

    address: Lane
    step: Lane
    unpacked: Unpacked | None = None  # where it is instead, if it was left where it lies


class Tile:
    """An operand that lies whole in memory."""

    def __init__(self, x: Lowering, anchor: Anchor, place: Packed, corners: Corners):
        b = x.e.b
        self.x, self.place, self.side = x, place, anchor.side
        self.source = anchor.source
        self.dtype = anchor.source.pointer.type.dtype.element_ty
        self.flipped = is_flipped(x, anchor.source)
        bytes_apart = corners.step(0 if along_rows(x, anchor.source) else 1)
        self.lead = b.value(f"sdiv exact {bytes_apart.typed}, {self.dtype.bytes}", t.int64, 1)
        start = tuple(ends[0] for ends in corners.ends)
        self.first = b.bitcast(corners.address(start), t.pointer_to(self.dtype))

    @property
    def is_in_place(self) -> bool:
        """Whether the microkernel reads it where it lies."""
        g = self.place.gemm
        return self.side == 0 and not self.flipped and self.dtype is g.operand and not g.bias

    @property
    def may_stay(self) -> bool:
        """Whether it may be read where it lies, if there are but few rows on the left."""
        g, machine = self.place.gemm, self.x.machine
        simple = not g.bias if self.flipped else g.panel.k_group == 1
        masks = cheap_masks(self.dtype, machine) and cheap_masks(g.operand, machine)
        few = self.place.rows.lane.known is None and g.left is Left.ROWS
        return self.side == 1 and simple and masks and few

    def has_few(self) -> Lane:
        """Whether there are so few rows on the left that packing is not worth it."""
        e, rows = self.x.e, self.place.rows
        few = e.const(FEW_ROWS if self.flipped else 1)
        return e.at(rows.depth, lambda: e.b.le(rows.lane, few))

    def routine(self, live: bool) -> Function:
        """What packs it."""
        return pack_function(
            self.place.gemm, self.side, self.dtype, self.x.machine,
            along_rows=not self.flipped, live=live,
        )  # fmt: skip

    def pack(self) -> Lane:
        """Pack it, unless that was done before; gives where it is then."""
        x, place = self.x, self.place
        b, w = x.e.b, x.e.w
        rows, columns = sides = place.side(self.side)
        if self.side == 0 and place.is_turned:
            rows, columns = columns, rows
        spare, size = (place.b, place.b_bytes) if self.side else (place.a, place.a_bytes)
        live = rows.lane.known is None or columns.lane.known is None
        part = f"{self.first.typed}, {self.lead.typed}"
        part += f", {rows.lane.typed}, {columns.lane.typed}" if live else ""
        kept = keep_tiles(x, self.source, place.home, size)
        if kept is None:
            x.call(self.routine(live), f"ptr {spare}, {part}")
            return Lane(spare, t.pointer_to(place.gemm.operand))
        found = kept.find(x, spare, self.first, self.lead, *sides)
        number = b.bitcast(found, t.int64)
        address = b.bitcast(b.bit_and(number, x.e.const(-2)), t.pointer_to(place.gemm.operand))
        is_there = b.ne(b.bit_and(number, x.e.const(1)), x.e.const(0))
        there, fresh, join = (w.new_label(stem) for stem in ("there", "fresh", "packed"))
        w.write(f"br {is_there.typed}, label %{there}, label %{fresh}")
        w.label(there)
        w.write(f"store ptr null, ptr {place.nexts[self.side]}")
        w.write(f"br label %{join}")
        w.label(fresh)
        x.call(self.routine(live), f"{address.typed}, {part}")
        w.write(f"br label %{join}")
        w.label(join)
        return address


def write_pack(x: Lowering, anchor: Anchor, place: Packed) -> None:
    """Pack an operand: at once from memory if the whole tile is there, else element by element."""
    if isinstance(anchor.source, gathered.Rows):
        gathered.write_rows(x, anchor, place)
        return
    e, w = x.e, x.e.w
    corners = Corners(x, anchor.source, needed_part(x, place, anchor))
    inside = corners.both([corners.all_inside(), is_aligned(x, anchor, place)])
    direct, general, join = w.new_label("direct"), w.new_label("general"), w.new_label("join")
    w.open(direct)
    tile = read_direct(x, anchor, place, corners)
    w.write(f"br label %{join}")
    fast = w.close()
    w.open(general)
    x.nests.write(anchor.nest)
    place.finish(x, anchor.side)
    place.stages[anchor.side] = None
    w.write(f"br label %{join}")
    slow = w.close()
    for scope in (fast, slow):
        e.forget(scope.memo)
    w.write(f"br i1 {inside.text}, label %{direct}, label %{general}")
    for label, scope in ((direct, fast), (general, slow)):
        w.label(label)
        w.take(scope)
    w.label(join)

    def meet(x: str, y: str, dtype: t.DType) -> Lane:
        return e.b.value(
            f"phi {llvm_type(dtype)} [{x}, %{fast.label}], [{y}, %{slow.label}]", dtype, 1
        )

    if anchor.side == 0:
        place.a_now = meet(tile.address.text, place.a, tile.address.dtype).text
        place.lda = meet(tile.step.text, str(place.gemm.k), t.int64).text
        return
    place.b_now = meet(tile.address.text, place.b, tile.address.dtype).text
    left = tile.unpacked
    if left is not None:
        place.unpacked = Unpacked(
            meet(left.here.text, "false", t.int1),
            meet(left.base.text, "null", left.base.dtype),
            meet(left.lead.text, "0", t.int64),
            left.flipped,
        )


def read_direct(x: Lowering, anchor: Anchor, place: Packed, corners: Corners) -> Ready:
    """Use an operand where it lies, or pack it by a routine."""
    tile = Tile(x, anchor, place, corners)
    note_next(x, place, anchor.side, tile.first, tile.lead)
    if tile.is_in_place:
        return Ready(tile.first, tile.lead)
    if not tile.may_stay:
        return Ready(tile.pack(), x.e.const(place.gemm.k))
    w = x.e.w
    many, join = w.new_label("many"), w.new_label("join")
    is_few = tile.has_few()
    w.write(f"br i1 {is_few.text}, label %{join}, label %{many}")
    before = w.here
    w.label(many)
    packed = tile.pack()
    w.write(f"br label %{join}")
    after = w.here
    w.label(join)
    address = x.e.b.value(
        f"phi ptr [{place.b}, %{before}], [{packed.text}, %{after}]", packed.dtype, 1
    )
    unpacked = Unpacked(is_few, tile.first, tile.lead, tile.flipped)
    return Ready(address, x.e.const(place.gemm.k), unpacked)


def note_next(x: Lowering, place: Packed, side: int, first: Lane, lead: Lane) -> None:
    """Guess where the operand of the next step lies, as far on as this one is from the last."""
    w, b = x.e.w, x.e.b
    slot = place.slots[side]
    place.guessed[side] = True
    last = b.value(f"load i64, ptr {slot}", t.int64, 1)
    now = b.bitcast(first, t.int64)
    w.write(f"store i64 {now.text}, ptr {slot}")
    ahead = b.add(now, b.sub(now, last))
    w.write(f"store i64 {ahead.text}, ptr {place.nexts[side]}")
    w.write(f"store i64 {lead.text}, ptr {place.leads[side]}")


def needed_part(x: Lowering, place: Packed, anchor: Anchor) -> tuple[Needed, Needed]:
    """How many rows and columns of the loaded tile are needed."""
    source = anchor.source
    sizes, extents = place.side(anchor.side), place.found[anchor.side]
    pairs = list(zip(sizes, extents, strict=True))
    out = []
    for dim, (size, extent) in enumerate(reversed(pairs) if source.transposed else pairs):
        mask = source.mask
        own = x.extents.bounds(mask, dim) if mask is not None else ()
        ends_it = extent is not None and any(frozenset([bound]) in extent for bound in own)
        out.append(Needed(size, size.lane.known is None and not ends_it))
    return out[0], out[1]


def is_aligned(x: Lowering, anchor: Anchor, place: Packed) -> Lane:
    """Whether what is needed of an operand is made of the pieces that the routines work on."""
    g, b = place.gemm, x.e.b
    depth, along = place.depth, place.side(anchor.side)[0 if is_flipped(x, anchor.source) else 1]
    pieces: list[tuple[Uniform, int]] = [(depth, g.panel.k_group)]
    dtype = anchor.source.pointer.type.dtype.element_ty
    in_place = anchor.side == 0 and along is depth and dtype is g.operand and not g.bias
    if not cheap_masks(dtype, x.machine) and not in_place:
        pieces.append((along, x.machine.vector_bytes // min(dtype.bytes, g.operand.bytes)))
    out = x.e.true.lane
    for extent, size in pieces:
        if extent.lane.known is None and size > 1:
            rest = b.bit_and(extent.lane, x.e.const(size - 1))
            out = b.bit_and(out, b.eq(rest, x.e.const(0)))
    return out
