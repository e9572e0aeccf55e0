"""Rows written piece by piece as far as that is simple, and the rest of them lane by lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.targets.cpu.bounds import Sure, outside
from tilewright.targets.cpu.cone import accesses
from tilewright.targets.cpu.evaluate import Row
from tilewright.targets.cpu.forms import Index, Prefix
from tilewright.targets.cpu.loops import Loop
from tilewright.targets.cpu.pieces import Site, begin_piece, find_digits
from tilewright.targets.cpu.spans import Spans
from tilewright.targets.cpu.tiles import both

if TYPE_CHECKING:
    from tilewright.targets.cpu.nest import NestWriter


def write_pieces(n: NestWriter, index: list[Index], sites: list[Site]) -> None:
    """A row in pieces, up to a mask that all of it has; from there on, or where pieces would be
    too short, in chunks."""
    e, b = n.e, n.b
    width, length = e.row.width, e.row.length
    n.clip = None
    if n.is_row:
        n.fill_tails()
    row = n.look_at_all(index)
    whole, end = e.row, n.rest_end(length)
    held = held_limit(n)
    bound = e.const(length)
    if held is not None:
        bound = b.minimum(b.maximum(held.limit, e.const(0)), bound)
    digits, tests = find_digits(e, sites)
    sure, inside = look_inside(n, row, held, bound) if tests else (Sure(), [])
    full = main = b.bit_and(bound, e.const(-width))
    main = b.select(both(e, [*tests, *inside]), full, e.const(0)) if tests else full
    unroll = n.reductions.copies(length, width)
    n.reductions.unrolled = e.true.lane
    n.memory.sure = sure
    loop = Loop(e.w, "0", main.text, "")
    for digit in {id(d): d for d in digits.values()}.values():
        digit.carry(b, loop)
    carried = n.reductions.carry_into(loop, unroll)
    start = Lane(loop.open(), main.dtype)
    e.row = Row(width, length, e.w.at, start=start)
    e.row.true_masks = frozenset() if held is None else frozenset([held.limit.text])
    count = begin_piece(e, sites, digits, b.sub(main, start))
    e.row.count, loop.step = count, count.text
    write_piece(n, index, unroll)
    n.reductions.hand_on(carried)
    e.forget(loop.close())
    n.reductions.take_carried(carried)
    n.memory.sure, e.row = None, whole
    if tests:
        whole.true_masks = frozenset() if held is None else frozenset([held.limit.text])
        n.chunk_loop(index, main, full, width, 1)
        whole.true_masks = frozenset()
    if held is not None:
        n.memory.takes_near = False  # in one chunk
        write_rest(n, index, full, end, held)
        n.memory.takes_near = True


def write_rest(n: NestWriter, index: list[Index], full: Lane, end: Lane, held: Prefix) -> None:
    """The rest of a row in masked chunks; those in which its mask is off read nothing."""
    e, b, row = n.e, n.b, n.e.row
    if end.known is None:
        n.chunk_loop(index, full, end, row.width, 1)
        return
    some = b.minimum(b.maximum(held.limit, e.const(0)), end)
    some = b.bit_and(b.add(some, e.const(row.width - 1)), e.const(-row.width))
    n.chunk_loop(index, full, some, row.width, 1)
    row.off_masks = frozenset([held.limit.text])
    n.chunk_loop(index, some, end, row.width, 1)
    row.off_masks = frozenset()


def write_piece(n: NestWriter, index: list[Index], unroll: int) -> None:
    """A main part in which every mask is true, and a masked rest."""
    e, b, row = n.e, n.b, n.e.row
    n.look_at_all(index)
    bound, end = row.count, n.rest_end(row.length)
    if row.limits:
        bound = b.maximum(e.within_limits(bound), e.const(0))
    end = row.count if end.known == row.length else b.minimum(end, row.count)
    main = b.add(row.start, b.bit_and(bound, e.const(-row.width * unroll)))
    end = b.add(row.start, end)
    held = row.true_masks
    row.true_masks = held | frozenset(row.limits)
    n.chunk_loop(index, row.start, main, row.width, unroll)
    row.true_masks = held
    row.is_rest = True
    n.chunk_loop(index, main, end, row.width, 1)


def held_limit(n: NestWriter) -> Prefix | None:
    """The limit of the masks of the whole row up to which it is cut."""
    limits = n.e.row.limits
    stored = {x.text for x in n.store_limits if x is not None}
    if len(limits) == 1:
        return next(iter(limits.values()))
    return limits.get(stored.pop()) if len(stored) == 1 else None


def look_inside(
    n: NestWriter, row: tuple[Index, ...], held: Prefix | None, bound: Lane
) -> tuple[Sure, list[Lane]]:
    """What is known of the accesses of the row up to a bound, and the tests that it relies on."""
    e, m, b = n.e, n.memory, n.b
    sure = Sure()
    spans = Spans(e, b.maximum(b.sub(bound, e.const(1)), e.const(0)))
    ahead: list[Lane] = []
    for inst, place in accesses(e, n.nest.anchors, row):
        param = m.bounded(inst)
        if param is None or (inst, tuple(i.key for i in place)) in m.checked:
            sure.inside.add(inst)
            continue
        mask = m.access(inst, place).mask
        is_held = isinstance(mask, Prefix) and held is not None and mask.limit == held.limit
        span = spans.of(inst.operands[0], place) if is_held or mask == e.true else None
        if span is None:
            continue
        bad = outside(m, m.extent(param), *span, inst.operands[0].type.dtype.element_ty.bytes, None)
        ahead.append(b.bit_not(bad))
        sure.inside.add(inst)
    return sure, [*spans.tests.values(), *ahead]
