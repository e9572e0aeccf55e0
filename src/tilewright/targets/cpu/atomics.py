"""Atomics of tiles: one read-modify-write for each lane, in lane order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst
from tilewright.ir.types import DType
from tilewright.targets.cpu.branches import either, value_where
from tilewright.targets.cpu.forms import Index
from tilewright.targets.cpu.lane_memory import load_memory, masked_load, masked_store
from tilewright.targets.cpu.loops import Loop

if TYPE_CHECKING:
    from tilewright.targets.cpu.memory import Access, Memory

ORDERS = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
GROUP = 16  # bytes that an exchange of two words takes
WORDS = {1: t.uint8, 2: t.uint16, 4: t.uint32, 8: t.uint64}
RMW = {
    ("add", "float"): "fadd", ("add", "int"): "add", ("add", "uint"): "add",
    ("max", "float"): "fmax", ("max", "int"): "max", ("max", "uint"): "umax",
    ("min", "float"): "fmin", ("min", "int"): "min", ("min", "uint"): "umin",
    ("and", "int"): "and", ("and", "uint"): "and", ("or", "int"): "or", ("or", "uint"): "or",
    ("xor", "int"): "xor", ("xor", "uint"): "xor",
    ("xchg", "int"): "xchg", ("xchg", "uint"): "xchg", ("xchg", "float"): "xchg",
}  # fmt: skip


def is_cas(inst: Inst) -> bool:
    return inst.op.name == "atomic_cas"


def word_type(word: DType) -> str:
    return f"i{word.bits}"


def combine_atomic(b: Lanes, kind: str, old: Lane, value: Lane) -> Lane:
    """What memory holds after a read-modify-write."""
    if kind == "xchg":
        return value
    method = {"max": "maximum", "min": "minimum", "and": "bit_and", "or": "bit_or"}
    return getattr(b, method.get(kind, "bit_xor" if kind == "xor" else kind))(old, value)


def atomic(m: Memory, inst: Inst, index: tuple[Index, ...]) -> Lane:
    """One read-modify-write for each lane that is not masked off, in lane order."""
    e, b = m.e, m.e.b
    a = m.access(inst, index)
    if m.holds(inst, index, a.mask):
        a.mask = e.true
    values = [e.eval(x, index) for x in inst.operands[1 : 3 if is_cas(inst) else 2]]
    a.mask = m.covered(a.mask, index)
    m.check_chunk(inst, index, a)
    lanes = [b.splat(e.lanes_of(v), e.row.width) for v in values]
    if m.checks is not None:
        m.checks.changed(inst, a, b.splat(e.lanes_of(a.mask), e.row.width), lanes[-1])
    if a.dtype is t.int1 or not m.may_be_alone:
        return locked(m, inst, a, lanes)
    return in_company(m, inst, a, lanes)


def in_company(m: Memory, inst: Inst, a: Access, lanes: list[Lane]) -> Lane:
    """Plain read-modify-writes where no other thread can meet them, else locked ones."""
    m.is_asking = True

    def plain() -> Lane:
        if a.contiguous and m.e.row.width > 1 and not is_cas(inst) and m.moves is None:
            return plain_row(m, inst, a, lanes[0])
        return plain_lanes(m, inst, a, lanes)

    ways = (plain, lambda: locked(m, inst, a, lanes))
    return either(m.e.w, m.e.b, "%alone", ("free", "shared"), ways)


def plain_row(m: Memory, inst: Inst, a: Access, value: Lane) -> Lane:
    """Neighbouring elements at once, none twice."""
    e, b = m.e, m.e.b
    mask = b.splat(e.lanes_of(a.mask), value.width)
    old = masked_load(b, a.pointer.base, mask, b.like(value, 0), a.size)
    new = combine_atomic(b, inst.attrs.get("kind", "add"), old, value)
    masked_store(b, a.pointer.base, mask, new, a.size)
    return old


def plain_lanes(m: Memory, inst: Inst, a: Access, lanes: list[Lane]) -> Lane:
    """One lane after the other, out of the vectors: through memory would take twice as long."""
    e, b = m.e, m.e.b
    width = lanes[0].width
    if not a.unmasked:
        return lane_by_lane(m, inst, a, lanes, plain_now)
    pointer = b.splat(e.lanes_of(a.pointer), width)
    out = b.const(0, a.dtype, width)
    for i in range(width):
        old = plain_now(m, inst, b.extract(pointer, i), [b.extract(x, i) for x in lanes])
        if width == 1:
            return old
        if inst.result in e.buffers:
            text = f"insertelement {out.typed}, {old.typed}, i32 {i}"
            out = b.value(text, a.dtype, width)
    return out


def locked(m: Memory, inst: Inst, a: Access, lanes: list[Lane]) -> Lane:
    """Locked read-modify-writes, which other threads may meet."""
    if a.contiguous and a.unmasked and takes_groups(m, inst, a.dtype, lanes[0].width):
        return in_groups(m, inst, a, lanes)
    return locked_lanes(m, inst, a, lanes)


def takes_groups(m: Memory, inst: Inst, dtype: DType, width: int) -> bool:
    """Whether 16 bytes can be exchanged at once, as fast as one element, and hold several."""
    if m.moves is not None or is_cas(inst) or "cx16" not in m.e.b.features or dtype is t.int1:
        return False
    is_extreme = inst.attrs.get("kind", "add") in ("max", "min")
    several = dtype.bytes < GROUP and width * dtype.bytes >= GROUP
    return several and not (is_extreme and dtype.is_float)


def in_groups(m: Memory, inst: Inst, a: Access, lanes: list[Lane]) -> Lane:
    """Neighbouring elements 16 bytes at a time where they are aligned so, else one by one."""
    b = m.e.b
    base, (value,) = a.pointer.base, lanes
    low = b.bit_and(b.bitcast(base, t.int64), m.e.const(GROUP - 1))
    aligned = b.eq(low, m.e.const(0))
    step = GROUP // value.dtype.bytes

    def groups() -> Lane:
        olds = []
        for i in range(0, value.width, step):
            place = b.offset(base, m.e.const(i), value.dtype) if i else base
            olds.append(swap_group(m, inst, place, b.slice(value, i, step)))
        return joined(b, olds)

    ways = (groups, lambda: locked_lanes(m, inst, a, lanes))
    return either(m.e.w, b, aligned.text, ("aligned", "single"), ways)


def joined(b: Lanes, parts: list[Lane]) -> Lane:
    """Vectors one after the other."""
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [joined_pair(b, x, y) for x, y in pairs]
    return parts[0]


def joined_pair(b: Lanes, x: Lane, y: Lane) -> Lane:
    order = ", ".join(f"i32 {i}" for i in range(2 * x.width))
    text = f"shufflevector {x.typed}, {y.typed}, <{2 * x.width} x i32> <{order}>"
    return b.value(text, x.dtype, 2 * x.width)


def swap_group(m: Memory, inst: Inst, pointer: Lane, value: Lane) -> Lane:
    """Read-modify-write of 16 bytes; gives what was there."""
    b, w = m.e.b, m.e.w
    order = ORDERS.get(inst.attrs.get("sem", "acq_rel"), "acq_rel")
    # This first guess need not be atomic: the exchange tells whether it holds.
    first = b.value(f"load volatile i128, ptr {pointer.text}, align {GROUP}", t.int64, 1)
    again, done = w.new_label("again"), w.new_label("done")
    before = w.here
    w.write(f"br label %{again}")
    w.label(again)
    seen, found, word, pair, won = (w.fresh() for _ in range(5))
    place = len(w.scopes[w.at].lines)
    old = b.value(f"bitcast i128 {seen} to {value.type}", value.dtype, value.width)
    new = combine_atomic(b, inst.attrs.get("kind", "add"), old, value)
    w.write(f"{word} = bitcast {new.typed} to i128")
    w.write(
        f"{pair} = cmpxchg ptr {pointer.text}, i128 {seen}, i128 {word} {order} monotonic, "
        f"align {GROUP}"
    )
    w.write(f"{found} = extractvalue {{ i128, i1 }} {pair}, 0")
    w.write(f"{won} = extractvalue {{ i128, i1 }} {pair}, 1")
    phi = f"  {seen} = phi i128 [{first.text}, %{before}], [{found}, %{w.here}]"
    w.scopes[w.at].lines.insert(place, phi)
    w.write(f"br i1 {won}, label %{done}, label %{again}")
    w.label(done)
    return old


def locked_lanes(m: Memory, inst: Inst, a: Access, lanes: list[Lane]) -> Lane:
    """One locked read-modify-write for each lane that is on: the lock takes the time."""
    return lane_by_lane(m, inst, a, lanes, atomic_now)


def lane_by_lane(
    m: Memory, inst: Inst, a: Access, lanes: list[Lane], now: Callable[..., Lane]
) -> Lane:
    """A loop over lanes, which come through memory; gives what was there, if that is read."""
    e, b, w = m.e, m.e.b, m.e.w
    width = lanes[0].width
    pointer, mask = b.splat(e.lanes_of(a.pointer), width), e.lanes_of(a.mask)
    if width == 1:
        return atomic_lane(m, inst, pointer, lanes, mask, now)
    places = [Spilled.of(m, x) for x in (pointer, mask, *lanes)]
    gives = inst.result in e.buffers
    out = Spilled.of(m, b.const(0, a.dtype, width), always=gives) if gives else None
    loop = Loop(w, "0", str(width), "1")
    number = Lane(loop.open(), t.int64)
    one, on, *values = (x.lane(m, number) for x in places)
    old = atomic_lane(m, inst, one, values, on, now)
    if out is not None:
        out.put(m, number, old)
    e.forget(loop.close())
    return b.const(0, a.dtype, width) if out is None else out.all(m)


@dataclass(frozen=True, slots=True)
class Spilled:
    """Lanes in memory on the stack, or a number that is the same in all."""

    whole: Lane
    place: Lane | None
    dtype: DType

    @staticmethod
    def of(m: Memory, x: Lane, always: bool = False) -> Spilled:
        if x.width == 1 or (x.text.startswith("splat (") and not always):
            return Spilled(x, None, x.dtype)
        dtype = x.dtype
        x = m.e.b.cast(x, t.uint8) if dtype is t.int1 else x
        place = Lane(m.e.w.alloca(x.type, 1), t.pointer_to(stored(x)))
        m.e.w.write(f"store {x.typed}, ptr {place.text}, align 64")
        return Spilled(x, place, dtype)

    def lane(self, m: Memory, number: Lane) -> Lane:
        """One lane; booleans are bytes in memory."""
        b, x = m.e.b, self.whole
        if self.place is None:
            return x if x.width == 1 else b.extract(x, 0)
        one = one_of(b, x, b.offset(self.place, number, stored(x)))
        return b.cast(one, self.dtype) if self.dtype is t.int1 else one

    def put(self, m: Memory, number: Lane, old: Lane) -> None:
        """Write one lane."""
        b = m.e.b
        old = b.cast(old, self.whole.dtype)
        place = b.offset(self.place, number, stored(self.whole))
        m.e.w.write(f"store {old.typed}, ptr {place.text}, align {self.whole.dtype.bytes}")

    def all(self, m: Memory) -> Lane:
        """All lanes, as they are in memory now."""
        b, x = m.e.b, self.whole
        lanes = b.value(f"load {x.type}, ptr {self.place.text}, align 64", x.dtype, x.width)
        return b.cast(lanes, self.dtype)


def stored(x: Lane) -> DType:
    """What lanes are in memory: addresses are numbers."""
    return t.int64 if x.dtype.is_pointer else x.dtype


def one_of(b: Lanes, x: Lane, place: Lane) -> Lane:
    """One lane of a group in memory."""
    kind = b.const(0, stored(x)).type if not x.dtype.is_pointer else "ptr"
    return b.value(f"load {kind}, ptr {place.text}, align {stored(x).bytes}", x.dtype, 1)


def plain_now(m: Memory, inst: Inst, pointer: Lane, values: list[Lane]) -> Lane:
    """One read-modify-write that nobody else can meet."""
    e, b, dtype = m.e, m.e.b, values[0].dtype
    old = load_memory(b, pointer, dtype, 1)
    if is_cas(inst):
        new = b.select(same_bits(b, old, values[0]), values[1], old)
    else:
        new = combine_atomic(b, inst.attrs.get("kind", "add"), old, values[0])
    e.w.write(f"store {new.typed}, ptr {pointer.text}, align {dtype.bytes}")
    if m.moves is not None:
        m.count_move(has_changed(b, inst, old, values))
    return old


def atomic_lane(
    m: Memory, inst: Inst, pointer: Lane, values: list[Lane], mask: Lane, now: Callable[..., Lane]
) -> Lane:
    """One lane, if it is on."""
    if mask.text == "true":
        return now(m, inst, pointer, values)
    zero = m.e.b.const(0, values[0].dtype)
    return value_where(m.e.w, m.e.b, mask, lambda: now(m, inst, pointer, values), zero)


def atomic_now(m: Memory, inst: Inst, pointer: Lane, values: list[Lane]) -> Lane:
    old = atomic_word(m, inst, pointer, values)
    if m.moves is not None:
        m.count_move(has_changed(m.e.b, inst, old, values))
    return old


def has_changed(b: Lanes, inst: Inst, old: Lane, values: list[Lane]) -> Lane:
    """Whether memory holds other bits than before."""
    if is_cas(inst):
        return b.bit_and(same_bits(b, old, values[0]), b.bit_not(same_bits(b, old, values[1])))
    new = combine_atomic(b, inst.attrs.get("kind", "add"), old, values[0])
    return b.bit_not(same_bits(b, old, new))


def same_bits(b: Lanes, x: Lane, y: Lane) -> Lane:
    if x.dtype is t.int1:
        return b.eq(x, y)
    word = WORDS[x.dtype.bytes]
    return b.eq(b.bitcast(x, word), b.bitcast(y, word))


def atomic_word(m: Memory, inst: Inst, pointer: Lane, values: list[Lane]) -> Lane:
    """One read-modify-write."""
    b = m.e.b
    dtype = values[0].dtype
    order = ORDERS.get(inst.attrs.get("sem", "acq_rel"), "acq_rel")
    if is_cas(inst):
        return compare_exchange(m, pointer, values[0], values[1], order)
    kind = inst.attrs.get("kind", "add")
    word = RMW.get((kind, "float" if dtype.is_float else dtype.kind))
    if word is None or (dtype.is_float and dtype.bits < 32) or dtype is t.int1:
        return swap_loop(m, inst, pointer, values[0], order)
    return b.value(
        f"atomicrmw {word} ptr {pointer.text}, {values[0].typed} {order}, align {dtype.bytes}",
        dtype,
        1,
    )


def compare_exchange(m: Memory, pointer: Lane, old: Lane, new: Lane, order: str) -> Lane:
    """Compare by bits, as hardware does; gives what memory held."""
    b, w = m.e.b, m.e.w
    word = WORDS[old.dtype.bytes]
    as_word = [b.cast(x, word) if x.dtype is t.int1 else b.bitcast(x, word) for x in (old, new)]
    pair = w.fresh()
    fail = {"release": "monotonic", "acq_rel": "acquire"}.get(order, order)
    w.write(
        f"{pair} = cmpxchg ptr {pointer.text}, {as_word[0].typed}, {as_word[1].typed} "
        f"{order} {fail}, align {old.dtype.bytes}"
    )
    found = b.value(f"extractvalue {{ {word_type(word)}, i1 }} {pair}, 0", word, 1)
    return b.cast(found, old.dtype) if old.dtype is t.int1 else b.bitcast(found, old.dtype)


def swap_loop(m: Memory, inst: Inst, pointer: Lane, value: Lane, order: str) -> Lane:
    """Read-modify-write of a dtype that the machine has no instruction for."""
    b, w = m.e.b, m.e.w
    dtype, word = value.dtype, WORDS[value.dtype.bytes]
    first = b.value(
        f"load atomic {word_type(word)}, ptr {pointer.text} monotonic, align {dtype.bytes}",
        word,
        1,
    )
    again, done = w.new_label("again"), w.new_label("done")
    before = w.here
    w.write(f"br label %{again}")
    w.label(again)
    seen, found = w.fresh(), w.fresh()
    place = len(w.scopes[w.at].lines)
    old = Lane(seen, word, 1)
    old_value = b.cast(old, dtype) if dtype is t.int1 else b.bitcast(old, dtype)
    new = combine_atomic(b, inst.attrs.get("kind", "add"), old_value, value)
    new = b.cast(new, word) if dtype is t.int1 else b.bitcast(new, word)
    pair, won = w.fresh(), w.fresh()
    w.write(f"{pair} = cmpxchg ptr {pointer.text}, {old.typed}, {new.typed} {order} monotonic")
    w.write(f"{found} = extractvalue {{ {word_type(word)}, i1 }} {pair}, 0")
    w.write(f"{won} = extractvalue {{ {word_type(word)}, i1 }} {pair}, 1")
    phi = f"  {seen} = phi {word_type(word)} [{first.text}, %{before}], [{found}, %{w.here}]"
    w.scopes[w.at].lines.insert(place, phi)
    w.write(f"br i1 {won}, label %{done}, label %{again}")
    w.label(done)
    return old_value
