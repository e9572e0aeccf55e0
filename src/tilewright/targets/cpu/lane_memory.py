"""Memory accesses of SIMD lanes under a mask, as LLVM spells them."""

from __future__ import annotations

from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane, suffix


def masked_load(b: Lanes, place: Lane, mask: Lane, passing: Lane, align: int) -> Lane:
    """Neighbouring elements from `place` on; `passing` where the mask is off."""
    kind = passing.type
    f = f"llvm.masked.load.{suffix(passing.dtype, passing.width)}.p0"
    b.require(f"declare {kind} @{f}(ptr, {mask.type}, {kind})")
    text = f"call {kind} @{f}(ptr align {align} {place.text}, {mask.typed}, {passing.typed})"
    return b.value(text, passing.dtype, passing.width)


def gather(b: Lanes, places: Lane, mask: Lane, passing: Lane, align: int) -> Lane:
    """One element from each place; `passing` where the mask is off."""
    kind, width = passing.type, passing.width
    f = f"llvm.masked.gather.{suffix(passing.dtype, width)}.v{width}p0"
    b.require(f"declare {kind} @{f}({places.type}, {mask.type}, {kind})")
    text = f"call {kind} @{f}({places.type} align {align} {places.text}, {mask.typed}, "
    return b.value(f"{text}{passing.typed})", passing.dtype, width)


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
