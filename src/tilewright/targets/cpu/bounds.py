"""The check of accesses against their arguments, and how a fault is left for the launch to tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.targets.cpu.forms import Index, Prefix, Steps, Uniform

if TYPE_CHECKING:
    from tilewright.targets.cpu.memory import Access, Memory

FAR = 1 << 42  # bytes: no array is as large, and 2**20 of them do not run around the address space

MOST_CHUNK = 512  # bytes: 64 lanes of 8
FEWEST_ROWS = 4  # of a tile that is worth a test of its own


@dataclass(slots=True)
class Sure:
    """What is known of the accesses of a nest before its rows are written."""

    masks: set[Value] = field(default_factory=set)  # that are on throughout
    inside: set[Inst] = field(default_factory=set)  # what surely lies inside its argument
    perhaps: dict[Inst, Lane] = field(default_factory=dict)  # what does if that is true


@dataclass(frozen=True, slots=True)
class Found:
    """What a launch is told where an access is bad."""

    bad: Lane
    site: int
    start: Lane
    stride: Lane
    count: Lane


@dataclass(slots=True)
class Extent:
    """The addresses that an argument's storage spans, i64 as all addresses here."""

    low: Lane
    high: Lane
    spans: dict[int, tuple[Lane, Lane]] = field(default_factory=dict)


def span(m: Memory, extent: Extent, size: int) -> tuple[Lane, Lane]:
    """The first and last address of an element that lies inside, none where none fits."""
    if size not in extent.spans:
        b = m.e.b
        with m.e.w.outside(0):
            wide = m.e.const(size)
            short = b.lt(b.sub(extent.high, extent.low), wide)
            first = b.select(short, m.e.const((1 << 63) - 1), extent.low)
            last = b.select(short, first, b.sub(extent.high, wide))
            extent.spans[size] = first, last
    return extent.spans[size]


def check_row(m: Memory, inst: Inst, a: Access) -> None:
    """One test for a whole row of a progression of addresses."""
    param = m.bounded(inst)
    if param is None:
        return
    e, b = m.e, m.e.b
    count = m.active(a.mask)
    if count.known == 0:
        return
    low, high, start, step = row_ends(m, a, count)
    some = b.gt(count, e.const(0)) if count.known is None else None
    bad = outside(m, m.extent(param), low, high, a.size, some)
    if m.checks is not None:
        m.checks.look_at_view(inst, outside(m, m.checks.span(param), low, high, a.size, some))
    found = Found(bad, m.site(inst), start, step, count)
    if m.pending is None:
        leave_for(m, [found])
    else:
        m.pending.append(found)


def row_ends(m: Memory, a: Access, count: Lane) -> tuple[Lane, Lane, Lane, Lane]:
    """The least and the highest address of `count` elements; the first one, and the step."""
    e, b = m.e, m.e.b
    start = b.bitcast(a.pointer.base, t.int64)
    stride = a.pointer.stride
    step = stride if isinstance(stride, Lane) else e.const(max(-FAR, min(stride, FAR)))
    if isinstance(stride, Lane):
        step = b.minimum(b.maximum(stride, e.const(-FAR)), e.const(FAR))
    end = b.add(start, b.mul(b.sub(count, e.const(1)), step))
    if isinstance(stride, Lane) or stride < 0:
        return b.minimum(start, end), b.maximum(start, end), start, step
    return start, end, start, step


def check_one(m: Memory, inst: Inst, address: Lane, size: int, mask: Lane) -> None:
    """Test one access."""
    param = m.bounded(inst)
    if param is None:
        return
    place = m.e.b.bitcast(address, t.int64)
    some = None if mask.text == "true" else mask
    bad = outside(m, m.extent(param), place, place, size, some)
    if m.checks is not None:
        m.checks.look_at_view(inst, outside(m, m.checks.span(param), place, place, size, some))
    leave_if(m, inst, bad, place, m.e.const(0), m.e.const(1))


def outside(m: Memory, extent: Extent, low: Lane, high: Lane, size: int, some: Lane | None) -> Lane:
    """Whether [low, high + size) does not lie in an extent, if there are some accesses."""
    b = m.e.b
    with m.e.w.outside(0):  # before `extent.low` where no element fits: then all are bad
        last = b.sub(extent.high, m.e.const(size))
    bad = b.bit_or(b.lt(low, extent.low), b.gt(high, last))
    return bad if some is None else b.bit_and(bad, some)


def check_lanes(m: Memory, inst: Inst, address: Lane, mask: Lane, size: int) -> None:
    """One test for the addresses of every lane that is not masked off."""
    param = m.bounded(inst)
    if param is None:
        return
    b = m.e.b
    place = b.bitcast(address, t.int64)
    bad = lanes_outside(m, m.extent(param), place, mask, size)
    if m.checks is not None:
        beyond = lanes_outside(m, m.checks.span(param), place, mask, size)
        m.checks.look_at_view(inst, any_lane(b, beyond))
    leave_if(m, inst, any_lane(b, bad), place, m.e.const(0), m.e.const(1), bad)


def lanes_outside(m: Memory, extent: Extent, place: Lane, mask: Lane, size: int) -> Lane:
    """Which elements do not lie in an extent, of the lanes that are on."""
    b = m.e.b
    first, last = span(m, extent, size)
    with m.e.w.outside(0):
        first, room = (b.bitcast(x, t.uint64) for x in (first, b.sub(last, first)))
    return b.bit_and(b.gt(b.sub(b.bitcast(place, t.uint64), first), room), mask)


def row_inside(m: Memory, inst: Inst, a: Access) -> Lane | None:
    """Whether every element of a row lies inside its argument, masked off or not."""
    param = m.bounded(inst)
    if param is None:
        return None
    b = m.e.b
    low, high = row_ends(m, a, m.e.row_count())[:2]
    return b.bit_not(outside(m, m.extent(param), low, high, a.size, None))


def tile_inside(m: Memory, inst: Inst, index: tuple[Index, ...], a: Access) -> Lane | None:
    """Whether all rows of a tile lie inside their argument, masked off or not, if that is known.

    Addresses are affine, and at the last index of each dimension as far from the first as at the
    second one times their number: so none of the numbers between wrapped around.
    """
    tile, e, b, pointer = m.tile, m.e, m.e.b, inst.operands[0]
    sizes = [tile.loops.get(i.base.text, 1) for i in index]
    if (
        tile.rare
        or prod(sizes) < FEWEST_ROWS
        or e.row.start is not None
        or not isinstance(a.pointer.stride, int)
    ):
        return None
    if not m.bounds or m.param(inst) is None or not m.affine.is_affine(pointer):
        return None
    key = (inst, *(i.key if n == 1 else n for i, n in zip(index, sizes, strict=True)))
    if key in tile.inside:
        return tile.inside[key]
    zero = e.scalar_index(0)
    origin = [i if n == 1 else zero for i, n in zip(index, sizes, strict=True)]
    tile.inside[key] = None
    if any(i.depth > tile.depth for i in origin):
        return None

    def address(*moved: tuple[int, int]) -> Lane:
        at = list(origin)
        for d, k in moved:
            at[d] = e.scalar_index(k)
        form = e.eval(pointer, tuple(at))
        return b.bitcast(form.base if isinstance(form, Steps) else form.lane, t.int64)

    with e.w.outside(tile.depth):
        start = address()
        far = a.pointer.stride * (e.row.length - 1)
        low = b.add(start, e.const(min(far, 0)))
        high = b.add(start, e.const(max(far, 0)))
        straight = e.true.lane
        for d, n in enumerate(sizes):
            if n > 1:
                last = b.sub(address((d, n - 1)), start)
                step = b.sub(address((d, 1)), start)
                straight = b.bit_and(straight, b.eq(b.mul(step, e.const(n - 1)), last))
                low = b.add(low, b.minimum(last, e.const(0)))
                high = b.add(high, b.maximum(last, e.const(0)))
        out = outside(m, m.extent(m.param(inst)), low, high, a.size, None)
        tile.inside[key] = b.bit_and(straight, b.bit_not(out))
    return tile.inside[key]


@dataclass(frozen=True, slots=True)
class Places:
    """Addresses as one that is the same for all lanes, and a signed number of elements for each."""

    base: Lane
    depth: int  # of the base
    index: Lane


def check_indices(m: Memory, inst: Inst, places: Places, mask: Lane, size: int) -> None:
    """As `check_lanes`, of the numbers themselves: half as wide as addresses, or no wider."""
    param = m.bounded(inst)
    if param is None:
        return
    b, w, index = m.e.b, m.e.w, places.index
    low, high = index_span(m, param, places, size)
    bad = b.bit_and(b.bit_or(b.lt(index, low), b.gt(index, high)), mask)
    fault, go = w.new_label("fault"), w.new_label("go")
    w.write(f"br i1 {any_lane(b, bad).text}, label %{fault}, label %{go}")
    w.label(fault)
    address = b.bitcast(b.offset(places.base, index), t.int64)
    raise_fault(m, inst, first_lane(b, bad, address), m.e.const(0), m.e.const(1))
    w.label(go)


def index_span(m: Memory, param: int, places: Places, size: int) -> tuple[Lane, Lane]:
    """The first and the last index that lies inside an argument; the first is larger for none."""
    dtype = places.index.dtype
    key = (param, places.base.text, dtype, size)
    w, b, const = m.e.w, m.e.b, m.e.const
    block, found = m.index_spans.get(key, ("", None))
    if found is None or block not in w.before[w.scopes[places.depth].label]:  # one way of a branch
        first, last = span(m, m.extent(param), size)
        with w.outside(places.depth):
            base = b.bitcast(places.base, t.int64)
            shift = const(size.bit_length() - 1)
            low = b.shr(b.add(b.sub(first, base), const(size - 1)), shift)
            high = b.shr(b.sub(last, base), shift)
            top = (1 << dtype.bits - 1) - 1
            low, high = b.maximum(low, const(-top - 1)), b.minimum(high, const(top))
            none = b.bit_or(b.gt(low, high), b.eq(last, const((1 << 63) - 1)))
            ends = b.select(none, const(1), low), b.select(none, const(0), high)
            found = tuple(b.cast(x, dtype) for x in ends)
            m.index_spans[key] = w.here, found
    return found


def leave_if(
    m: Memory, inst: Inst, bad: Lane, start: Lane, stride: Lane, count: Lane,
    lanes: Lane | None = None,
) -> None:  # fmt: skip
    """Leave the kernel where an access is bad: that of a row, or the first of some lanes."""
    w = m.e.w
    fault, go = w.new_label("fault"), w.new_label("go")
    w.write(f"br i1 {bad.text}, label %{fault}, label %{go}")
    w.label(fault)
    if lanes is not None:
        start = first_lane(m.e.b, lanes, start)
    raise_fault(m, inst, start, stride, count)
    w.label(go)


def leave_for(m: Memory, checks: list[Found]) -> None:
    """Leave the kernel for the first of some checks that finds something: one branch for all."""
    if not checks:
        return
    w, b = m.e.w, m.e.b
    bad = checks[0].bad
    for check in checks[1:]:
        bad = b.bit_or(bad, check.bad)
    fault, go = w.new_label("fault"), w.new_label("go")
    w.write(f"br i1 {bad.text}, label %{fault}, label %{go}")
    w.label(fault)
    told: list[Lane] = []
    for check in reversed(checks):
        site = m.e.const(check.site)
        mine = [b.bitcast(x, t.int64) for x in (site, check.start, check.stride, check.count)]
        told = [b.select(check.bad, x, y) for x, y in zip(mine, told or mine, strict=True)]
    tell_fault(m, *told)
    w.label(go)


def raise_fault(m: Memory, inst: Inst, address: Lane, stride: Lane, count: Lane) -> None:
    """Note what happened, and leave the kernel."""
    tell_fault(m, m.e.const(m.site(inst)), address, stride, count)


def tell_fault(m: Memory, site: Lane, address: Lane, stride: Lane, count: Lane) -> None:
    w = m.e.w
    m.may_fault = True
    w.write(
        f"call void @tw_fault(ptr %args, i64 {site.text}, i64 %pid, "
        f"i64 {address.text}, i64 {stride.text}, i64 {count.text})"
    )
    w.write(f"br label %{m.fault_label}")


def any_lane(b: Lanes, mask: Lane) -> Lane:
    """Whether a mask is on in any lane."""
    if mask.width == 1:
        return mask
    bits = b.value(f"bitcast {mask.typed} to i{mask.width}", t.int1, 1).text
    return b.value(f"icmp ne i{mask.width} {bits}, 0", t.int1, 1)


def place_of(m: Memory, a: Access) -> Lane:
    """Where the neighbours lie that a mask leaves on; memory of our own if it leaves none on.

    Beside an array there may be nothing: to find out that no lane asks for it takes a processor as
    long as a hundred accesses. Masks that are made lane by lane are seldom off there, and take
    longer to ask.
    """
    e, b, base = m.e, m.e.b, a.pointer.base
    if not isinstance(a.mask, (Prefix, Uniform)):
        return base
    some = b.gt(a.mask.limit, e.const(0)) if isinstance(a.mask, Prefix) else a.mask.lane
    m.spare = m.spare or e.w.alloca("i8", MOST_CHUNK)
    return b.select(some, base, Lane(m.spare, base.dtype))


def first_lane(b: Lanes, mask: Lane, values: Lane) -> Lane:
    """The value in the first lane that is on."""
    n = mask.width
    if n == 1:
        return values
    bits = b.value(f"bitcast {mask.typed} to i{n}", t.int1, 1).text
    b.require(f"declare i{n} @llvm.cttz.i{n}(i{n}, i1)")
    number = b.value(f"call i{n} @llvm.cttz.i{n}(i{n} {bits}, i1 true)", t.int1, 1).text
    values = b.splat(values, n)
    return b.value(f"extractelement {values.typed}, i{n} {number}", values.dtype, 1)
