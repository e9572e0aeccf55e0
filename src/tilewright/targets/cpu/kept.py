"""Packed operands of products that the programs after this one read again.

Programs that run one after the other often walk over the same tiles of an operand, packed alike.
A thread keeps the first few tiles of each walk, with a tag that tells what was packed; the next
walk finds them in the same order. That the memory has not changed in between is known when the
kernel writes to other arguments only. Where two walks in a row had nothing in common, the third
keeps nothing, so that its packed tiles stay in the nearest cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir.inst import Block
from tilewright.targets.cpu.forms import Uniform
from tilewright.targets.cpu.routine import Function
from tilewright.targets.cpu.streams import cache_bytes

if TYPE_CHECKING:
    from tilewright.targets.cpu.lower import Lowering
    from tilewright.targets.cpu.sources import Source

KEPT_EIGHTHS = 3  # of the second cache, for all products of a kernel
MOST_TILES = 64
FEWEST_TILES = 2
HEAD, TAG = 64, 32  # bytes: number of the next tile, is it kept, was one found, the first tile

FIND = Function("tw_find_kept", """\
define ptr @tw_find_kept(ptr %state, ptr %tiles, i64 %count, i64 %size, ptr %spare, ptr %first,
                         i64 %lead, i64 %rows, i64 %columns) nounwind {
entry:
  %keeps = getelementptr i64, ptr %state, i64 1
  %found = getelementptr i64, ptr %state, i64 2
  %start = getelementptr i64, ptr %state, i64 3
  %number = load i64, ptr %state
  %following = add i64 %number, 1
  store i64 %following, ptr %state
  %begins = icmp eq i64 %number, 0
  br i1 %begins, label %begin, label %look
begin:
  %last = load ptr, ptr %start
  store ptr %first, ptr %start
  %again = icmp eq ptr %last, %first
  %before = load i64, ptr %found
  %mode = select i1 %again, i64 1, i64 %before
  store i64 %mode, ptr %keeps
  %now = zext i1 %again to i64
  store i64 %now, ptr %found
  br label %look
look:
  %on = load i64, ptr %keeps
  %is_on = icmp ne i64 %on, 0
  %there = icmp ult i64 %number, %count
  %kept = and i1 %is_on, %there
  br i1 %kept, label %compare, label %none
none:
  ret ptr %spare
compare:
  %offset = mul i64 %number, %size
  %tile = getelementptr i8, ptr %tiles, i64 %offset
  %tags = getelementptr i8, ptr %state, i64 64
  %tag = getelementptr [4 x i64], ptr %tags, i64 %number
  %tag1 = getelementptr i64, ptr %tag, i64 1
  %tag2 = getelementptr i64, ptr %tag, i64 2
  %tag3 = getelementptr i64, ptr %tag, i64 3
  %x0 = load ptr, ptr %tag
  %x1 = load i64, ptr %tag1
  %x2 = load i64, ptr %tag2
  %x3 = load i64, ptr %tag3
  %e0 = icmp eq ptr %x0, %first
  %e1 = icmp eq i64 %x1, %lead
  %e2 = icmp eq i64 %x2, %rows
  %e3 = icmp eq i64 %x3, %columns
  %a0 = and i1 %e0, %e1
  %a1 = and i1 %e2, %e3
  %equal = and i1 %a0, %a1
  br i1 %equal, label %hit, label %miss
hit:
  %marked = getelementptr i8, ptr %tile, i64 1
  ret ptr %marked
miss:
  store ptr %first, ptr %tag
  store i64 %lead, ptr %tag1
  store i64 %rows, ptr %tag2
  store i64 %columns, ptr %tag3
  ret ptr %tile
}""", ())  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kept:
    """Memory for the tiles of one operand; tags and tiles outlive programs."""

    state: str
    tiles: str
    count: int
    size: int  # bytes of a tile

    def find(self, x: Lowering, spare: str, first: Lane, lead: Lane, *sides: Uniform) -> Lane:
        """Where a tile is or is to be packed, plus one if it is there already."""
        x.routines[FIND.name] = FIND
        return x.e.b.value(
            f"call ptr @{FIND.name}(ptr {self.state}, ptr {self.tiles}, i64 {self.count}, "
            f"i64 {self.size}, ptr {spare}, {first.typed}, {lead.typed}, "
            + ", ".join(side.lane.typed for side in sides)
            + ")",
            first.dtype,
            1,
        )


def keep_tiles(x: Lowering, source: Source, home: Block, size: int) -> Kept | None:
    """Memory for the tiles of `size` bytes that a product in the block `home` packs."""
    products = sum(inst.op.name == "dot" for inst in x.kernel.walk())
    count = min(MOST_TILES, cache_bytes(level=2) * KEPT_EIGHTHS // 8 // (products * size))
    if count < FEWEST_TILES or not is_constant(x, source):
        return None
    state = x.new_scratch(HEAD + TAG * count, forever=True)
    tiles = x.new_scratch(count * size, forever=True)
    w = x.e.w
    with w.outside(0):
        w.fill(state, 0, HEAD + TAG * count)
        found = w.fresh()
        w.write(f"{found} = getelementptr i64, ptr {state}, i64 2")
        w.write(f"store i64 1, ptr {found}")
    with w.outside(x.before_loop(home)):
        w.write(f"store i64 0, ptr {state}")
    return Kept(state, tiles, count, size)


def is_constant(x: Lowering, source: Source) -> bool:
    """Whether nothing changes what a load reads while the kernel runs."""
    insts = list(x.kernel.walk())
    if source.load.attrs.get("volatile") or any(inst.op.name == "while" for inst in insts):
        return False
    sharing = x.plan.sharing
    own = sharing.roots(source.pointer)
    pointers = [i.operands[0] for i in insts if i.op.effect in ("write", "atomic") and i.operands]
    roots = [sharing.roots(p) for p in pointers]
    if not own or not all(r and not r & own for r in roots):
        return False
    return all(sharing.apart(source.pointer, p, same=False) for p in pointers)
