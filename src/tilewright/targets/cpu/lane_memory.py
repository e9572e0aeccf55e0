"""Memory accesses of SIMD lanes, as LLVM spells them: plain, masked, spaced, gathered."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane, suffix
from tilewright.ir import types as t
from tilewright.ir.types import DType

WORD = 4  # bytes of the smallest elements that SIMD units gather
WORDS = 16  # that are gathered at once
MOST_APART = 4  # elements: further apart, a gather reads fewer bytes


def load_memory(b: Lanes, address: Lane, dtype: DType, width: int, aligned: bool = False) -> Lane:
    """A plain load; booleans are bytes in memory."""
    memory = t.uint8 if dtype is t.int1 else dtype
    kind = b.const(0, memory, width).type
    align = dtype.bytes * width if aligned and width > 1 else dtype.bytes
    lane = b.value(f"load {kind}, ptr {address.text}, align {min(align, 64)}", memory, width)
    return b.ne(lane, b.const(0, memory, width)) if dtype is t.int1 else lane


def strided(b: Lanes, address: Lane, dtype: DType, step: int, width: int) -> Lane:
    """A vector put together from elements `step` apart."""
    memory = t.uint8 if dtype is t.int1 else dtype
    kind = b.const(0, memory, width).type
    lane = Lane("poison", memory, width)
    for i in range(width):
        place = b.offset(address, b.const(i * step, t.int64)) if i else address
        one = load_memory(b, place, memory, 1)
        lane = b.value(f"insertelement {kind} {lane.text}, {one.typed}, i32 {i}", memory, width)
    return b.ne(lane, b.const(0, memory, width)) if dtype is t.int1 else lane


def write_memory(b: Lanes, address: Lane, lane: Lane, step: int = 1, aligned: bool = True) -> None:
    """Store lanes `step` elements apart in memory."""
    if lane.dtype is t.int1:
        lane = b.cast(lane, t.uint8)
    size = lane.dtype.bytes
    if lane.width == 1 or step == 1:
        align = min(64, size * lane.width) if aligned else size
        b.write(f"store {lane.typed}, ptr {address.text}, align {align}")
        return
    for i in range(lane.width):
        place = b.offset(address, b.const(i * step, t.int64), lane.dtype) if i else address
        one = b.extract(lane, i)
        b.write(f"store {one.typed}, ptr {place.text}, align {size}")


def masked_load(b: Lanes, place: Lane, mask: Lane, passing: Lane, align: int) -> Lane:
    """Neighbouring elements from `place` on; `passing` where the mask is off."""
    kind = passing.type
    f = f"llvm.masked.load.{suffix(passing.dtype, passing.width)}.p0"
    b.require(f"declare {kind} @{f}(ptr, {mask.type}, {kind})")
    text = f"call {kind} @{f}(ptr align {align} {place.text}, {mask.typed}, {passing.typed})"
    return b.value(text, passing.dtype, passing.width)


def gather(b: Lanes, places: Lane, mask: Lane, passing: Lane, align: int) -> Lane:
    """One element from each place; `passing` where the mask is off."""
    if passing.dtype.bytes < WORD and b.target == "x86" and passing.width > 1:
        return gather_small(b, places, mask, passing)
    kind, width = passing.type, passing.width
    f = f"llvm.masked.gather.{suffix(passing.dtype, width)}.v{width}p0"
    b.require(f"declare {kind} @{f}({places.type}, {mask.type}, {kind})")
    text = f"call {kind} @{f}({places.type} align {align} {places.text}, {mask.typed}, "
    return b.value(f"{text}{passing.typed})", passing.dtype, width)


def gather_small(b: Lanes, places: Lane, mask: Lane, passing: Lane) -> Lane:
    """Elements of 8 or 16 bits, which no SIMD unit gathers, from the aligned words they lie in."""
    held = t.uint8 if passing.dtype.bytes == 1 else t.uint16
    n = min(WORDS, passing.width)
    out = None
    for start in range(0, passing.width, n):
        address = b.bitcast(b.slice(places, start, n), t.int64)
        word = b.bitcast(b.bit_and(address, b.like(address, -WORD)), places.dtype)
        words = gather(b, word, b.slice(mask, start, n), b.const(0, t.uint32, n), WORD)
        shift = b.cast(b.bit_and(address, b.like(address, WORD - 1)), t.uint32)
        shift = b.mul(shift, b.like(shift, 8))
        part = b.cast(b.value(f"lshr {words.typed}, {shift.text}", t.uint32, n), held)
        out = part if out is None else joined(b, out, part)
    return b.select(mask, b.bitcast(out, passing.dtype), passing)


def joined(b: Lanes, x: Lane, part: Lane) -> Lane:
    """The lanes of a vector, then those of a part that is no wider."""
    if part.width < x.width:
        order = ", ".join(f"i32 {i}" if i < part.width else "i32 poison" for i in range(x.width))
        text = f"shufflevector {part.typed}, {part.type} poison, <{x.width} x i32> <{order}>"
        wide = b.value(text, part.dtype, x.width)
    else:
        wide = part
    lanes = ", ".join(f"i32 {i}" for i in range(x.width + part.width))
    text = f"shufflevector {x.typed}, {wide.typed}, <{x.width + part.width} x i32> <{lanes}>"
    return b.value(text, x.dtype, x.width + part.width)


def masked_store(b: Lanes, place: Lane, mask: Lane, lane: Lane, align: int) -> None:
    """Neighbouring elements from `place` on, where the mask is on."""
    f = f"llvm.masked.store.{suffix(lane.dtype, lane.width)}.p0"
    b.require(f"declare void @{f}({lane.type}, ptr, {mask.type})")
    b.write(f"call void @{f}({lane.typed}, ptr align {align} {place.text}, {mask.typed})")


def scatter(b: Lanes, places: Lane, mask: Lane, lane: Lane, align: int) -> None:
    """One element to each place where the mask is on, in lane order."""
    f = f"llvm.masked.scatter.{suffix(lane.dtype, lane.width)}.v{lane.width}p0"
    b.require(f"declare void @{f}({lane.type}, {places.type}, {mask.type})")
    b.write(
        f"call void @{f}({lane.typed}, {places.type} align {align} {places.text}, {mask.typed})"
    )


def is_spaced(stride: int, size: int) -> bool:
    """Whether elements lie so close that whole vectors are read and picked from."""
    apart, rest = divmod(abs(stride), size)
    return not rest and (stride == -size or 2 <= apart <= MOST_APART and stride > 0)


def spaced_load(b: Lanes, place: Lane, stride: int, dtype: DType, width: int) -> Lane:
    """Elements a few places apart, or in reverse; reads nothing outside the first and last."""
    size = dtype.bytes
    if stride < 0:
        first = b.offset(place, b.const((width - 1) * stride, t.int64), t.int8)
        return pick(b, load_memory(b, first, dtype, width), None, range(width - 1, -1, -1))
    apart = stride // size
    last = (width - 1) * apart + 1 - width
    starts = [min(k * width, last) for k in range(apart)]
    out = None
    for start in starts:
        from_here = b.offset(place, b.const(start * size, t.int64), t.int8) if start else place
        part = load_memory(b, from_here, dtype, width)
        if out is None:
            out = pick(b, part, None, [i * apart if i * apart < width else 0 for i in range(width)])
            done = -(-width // apart)
            continue
        reach = (start + width - 1) // apart + 1
        order = [width + i * apart - start if done <= i < reach else i for i in range(width)]
        out, done = pick(b, out, part, order), reach
    return out


def pick(b: Lanes, x: Lane, y: Lane | None, order: Iterable[int]) -> Lane:
    """Lanes of two vectors by number, those of the second after those of the first."""
    other = y.typed if y is not None else f"{x.type} poison"
    mask = ", ".join(f"i32 {i}" for i in order)
    return b.value(
        f"shufflevector {x.typed}, {other}, <{x.width} x i32> <{mask}>", x.dtype, x.width
    )


def spaced_store(b: Lanes, place: Lane, stride: int, lane: Lane) -> None:
    """Elements a few places apart, or in reverse."""
    size, width = lane.dtype.bytes, lane.width
    if stride < 0:
        first = b.offset(place, b.const((width - 1) * stride, t.int64), t.int8)
        turned = pick(b, lane, None, range(width - 1, -1, -1))
        b.write(f"store {turned.typed}, ptr {first.text}, align {size}")
        return
    apart = stride // size
    for k in range(apart):
        inside = [(k * width + i) % apart == 0 for i in range(width)]
        order = [(k * width + i) // apart if on else 0 for i, on in enumerate(inside)]
        mask = ", ".join(f"i1 {str(on).lower()}" for on in inside)
        part = b.offset(place, b.const(k * width * size, t.int64), t.int8) if k else place
        masked_store(b, part, Lane(f"<{mask}>", t.int1, width), pick(b, lane, None, order), size)
