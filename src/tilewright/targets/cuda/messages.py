"""`device_print` through the driver's printf, and `device_assert` through the fault record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst
from tilewright.ir.types import DType
from tilewright.targets.cuda.tiles import Tile

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering


def device_print(x: Lowering, inst: Inst) -> None:
    """A line for each element of each operand: program, position, prefix, value."""
    prefix = inst.attrs.get("prefix", "").strip()
    use_hex = inst.attrs.get("hex", False)
    if not inst.operands:
        print_line(x, f"pid (%u, %u, %u) {prefix}\n", programs(x), x.e.is_zero(all_threads(x)))
    for number, value in enumerate(inst.operands):
        held = x.tile(value)
        name = f"{prefix} " if len(inst.operands) == 1 else f"{prefix} (operand {number}) "
        print_tile(x, held, name.lstrip(), use_hex)


def all_threads(x: Lowering) -> int:
    return (1 << x.e.thread_bits) - 1


def programs(x: Lowering) -> list[Lane]:
    return [x.e.program_id(axis) for axis in range(3)]


def print_tile(x: Lowering, held: Tile, name: str, use_hex: bool) -> None:
    layout = held.layout
    owner = x.e.owner(layout)
    spare = layout.free_bits()[0]
    coords = [x.e.coordinates(layout, d) for d in range(len(layout.shape))]
    places = f"idx ({', '.join(['%u'] * len(coords))}) " if coords else ""
    for r, lane in enumerate(held.lanes):
        if r & spare:
            continue
        spelling, value = printable(x, lane, use_hex)
        text = f"pid (%u, %u, %u) {places}{name}{spelling}\n"
        print_line(x, text, [*programs(x), *[c[r] for c in coords], value], owner)


def printable(x: Lowering, lane: Lane, use_hex: bool) -> tuple[str, Lane]:
    """How printf spells a value, and the value as it takes it."""
    b, dtype = x.e.b, lane.dtype
    if use_hex and not dtype.is_pointer:
        word = x.e.to_word(lane)
        wide = t.uint64 if dtype.bits == 64 else t.uint32
        letters = "llx" if dtype.bits == 64 else "x"
        return f"0x%0{2 * dtype.bytes}{letters}", b.cast(word, wide)
    if dtype.is_pointer:
        return "%p", lane
    if dtype.is_float:
        return "%f", b.cast(lane, t.float64)
    return integer_spelling(dtype), b.cast(lane, wide_integer(dtype))


def wide_integer(dtype: DType) -> DType:
    if dtype.bits == 64:
        return dtype
    return t.int32 if dtype.is_signed else t.uint32


def integer_spelling(dtype: DType) -> str:
    letter = "d" if dtype.is_signed else "u"
    return f"%ll{letter}" if dtype.bits == 64 else f"%{letter}"


def print_line(x: Lowering, text: str, values: list[Lane], on: Lane | None) -> None:
    """Call printf in the threads where the condition holds."""
    w = x.e.w
    w.declare("declare i32 @vprintf(ptr, ptr)")
    name = f"@tw_text{w.fresh('')[1:]}"
    data = text.encode() + b"\0"
    held = "".join(f"\\{byte:02X}" for byte in data)
    w.declare(f'{name} = private addrspace(1) constant [{len(data)} x i8] c"{held}"')
    kind = "{ " + ", ".join(v.type for v in values) + " }"
    with w.once():
        record = w.value(f"alloca {kind}, align 8")
    join = ""
    if on is not None:
        yes, join = w.new_label("then"), w.new_label("join")
        w.branch_if(on.text, yes, join)
        w.label(yes)
    for k, value in enumerate(values):
        place = w.value(f"getelementptr {kind}, ptr {record}, i32 0, i32 {k}")
        w.write(f"store {value.typed}, ptr {place}")
    cast = f"ptr addrspacecast (ptr addrspace(1) {name} to ptr)"
    w.value(f"call i32 @vprintf({cast}, ptr {record})")
    if join:
        w.branch(join)
        w.label(join)


def device_assert(x: Lowering, inst: Inst) -> None:
    """Report where a condition does not hold in an element that is on."""
    b = x.e.b
    held = x.tile(inst.operands[0])
    mask = x.tile(inst.operands[1], held.layout) if len(inst.operands) > 1 else None
    bad: Lane | None = None
    seen = set()
    for r, lane in enumerate(held.lanes):
        key = lane.text, mask.lanes[r].text if mask is not None else ""
        if key in seen:
            continue
        seen.add(key)
        wrong = b.bit_not(lane)
        if mask is not None:
            wrong = b.bit_and(wrong, mask.lanes[r])
        bad = wrong if bad is None else b.bit_or(bad, wrong)
    x.guard.report(inst, b.const(0, t.uint64), bad)
