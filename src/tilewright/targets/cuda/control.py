"""Loops and branches: every register of a carried tile is a phi."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.codegen.counting import either_way
from tilewright.codegen.literals import Lane
from tilewright.ir.inst import Inst, Value
from tilewright.targets.cuda.held import hold, let_go
from tilewright.targets.cuda.phis import fresh_phis, phi_lines, tiles_of
from tilewright.targets.cuda.ring import Ring
from tilewright.targets.cuda.tiles import Tile, tile, uniform

if TYPE_CHECKING:
    from tilewright.targets.cuda.emitter import Emitter
    from tilewright.targets.cuda.lower import Lowering

MOST_LINES = 1000  # of all turns of a loop, that the assembler writes out


def carried_starts(x: Lowering, values: Sequence[Value], params: Sequence[Value]) -> list[Tile]:
    """What carried values begin as, in the layouts of the parameters."""
    starts = [x.tile(v, x.layout(p)) for v, p in zip(values, params, strict=True)]
    # A tile that begins the same everywhere need not stay so; a scalar does.
    return [s if not p.type.shape else tile(s.layout, s.lanes) for s, p in zip(starts, params)]


def for_loop(x: Lowering, inst: Inst) -> list[Tile]:
    """A counted loop.

    Where loads run ahead, the turns whose copies need no check come first, in a loop of their own.
    """
    x.convert_ahead(inst.blocks)
    held = hold(x, inst.blocks)
    starts = carried_starts(x, inst.operands[3:], inst.blocks[0].params[1:])
    plan = x.planner.plan(inst)
    low, ring = x.scalar(inst.operands[0]), None
    with x.guard.doubts.off(plan is not None):
        if plan:
            ring = Ring(x, inst, plan, starts)
            if ring.has_sure_turns:
                with ring.sure():
                    low, starts = turns(x, inst, ring, low, starts)
        _, carried = turns(x, inst, ring, low, starts)
        if ring:
            carried = ring.close(carried)
    let_go(x, held)
    x.e.memory.forget()
    return carried


def turns(
    x: Lowering, inst: Inst, ring: Ring | None, low: Lane, starts: list[Tile]
) -> tuple[Lane, list[Tile]]:
    """The turns from one number on, as far as the ring says; gives where the next ones begin."""
    e, w, body = x.e, x.e.w, inst.blocks[0]
    high, step = (x.scalar(v) for v in inst.operands[1:3])
    high, mirror = either_way(e.b, x.scalar(inst.operands[0]), high, step)
    params = body.params[1:]
    firsts = ring.values() if ring else []
    end, size = w.reserve(), len(w.lines)
    bound = Lane(w.fresh("bound"), high.dtype)
    before = w.here
    head, inside, leave = w.new_label("head"), w.new_label("body"), w.new_label("exit")
    w.branch(head)
    w.label(head)
    e.memory.forget()
    place = w.reserve()
    counter = Lane(w.fresh("i"), low.dtype)
    phis, ring_phis = fresh_phis(e, starts), fresh_phis(e, firsts)
    carried = tiles_of(phis, starts)
    if ring:
        ring.set(tiles_of(ring_phis, firsts))
    more = e.b.gt(counter, bound) if counts_down(step) else e.b.lt(counter, bound)
    if mirror is not None:
        more = e.b.lt(e.b.bit_xor(counter, mirror), bound)
    if ring and ring.is_sure:
        more = ring.comes_for_sure()
    w.branch_if(more.text, inside, leave)
    w.label(inside)
    heads = ring.values() if ring else []
    with x.memory.hazards.loop(inst), x.guard.doubts.loop() as found:
        x.bind([body.params[0]], [uniform(counter, x.layout(body.params[0]))])
        x.bind(params, carried)
        if ring:
            ring.begin()
        made = x.block(body)
        if ring:
            ring.end()
    ends = [x.in_layout(t, s.layout) for t, s in zip(made, starts, strict=True)]
    following = e.b.add(counter, step)
    last = w.here
    w.branch(head)
    w.fill(
        place,
        [
            f"{counter.text} = phi {counter.type} [{low.text}, %{before}], "
            f"[{following.text}, %{last}]",
            *phi_lines(phis, [(before, starts), (last, ends)]),
            *phi_lines(ring_phis, [(before, firsts), (last, ring.values() if ring else [])]),
            *found.phi_lines(before, last),
        ],
    )
    count = number_of_turns(low, high, step)
    is_long = not ring and count is not None and count * (len(w.lines) - size) > MOST_LINES
    w.fill(end, hidden(e, bound, high) if is_long else [f"{bound.text} = add {high.typed}, 0"])
    w.label(leave)
    x.guard.doubts.join(found)
    if ring:
        ring.set(heads)
    return counter, carried


def number_of_turns(low: Lane, high: Lane, step: Lane) -> int | None:
    """How often a loop is run, if that is known."""
    if None in (low.known, high.known, step.known) or not step.known:
        return None
    return max(0, -((low.known - high.known) // step.known))


def hidden(e: Emitter, bound: Lane, high: Lane) -> list[str]:
    """A known number that the assembler does not know, as no address has its highest bits set.

    It writes several turns of a loop at once, whose loads do not wait for one another. But where
    it knows how many there are, it writes either all, or one by one if these are too many.
    """
    zero, cut = e.w.fresh(), e.w.fresh()
    narrow = high.dtype.bits < 64
    return [
        f"{zero} = lshr i64 %record, 60",
        f"{cut} = " + (f"trunc i64 {zero} to {high.type}" if narrow else f"add i64 {zero}, 0"),
        f"{bound.text} = add {high.typed}, {cut}",
    ]


def counts_down(step: Lane) -> bool:
    return step.known is not None and step.known < 0


def while_loop(x: Lowering, inst: Inst) -> list[Tile]:
    """A loop on a condition."""
    e, w = x.e, x.e.w
    condition, body = inst.blocks
    x.convert_ahead(inst.blocks)
    held = hold(x, inst.blocks)
    starts = carried_starts(x, inst.operands, condition.params)
    before = w.here
    head, inside, leave = w.new_label("head"), w.new_label("body"), w.new_label("exit")
    w.branch(head)
    w.label(head)
    e.memory.forget()
    place = w.reserve()
    phis = fresh_phis(e, starts)
    carried = tiles_of(phis, starts)
    x.bind(condition.params, carried)
    with x.memory.hazards.loop(inst):
        with x.guard.doubts.block():
            test = x.block(condition)[0].lane
        w.branch_if(test.text, inside, leave)
        w.label(inside)
        x.bind(body.params, [x.in_layout(t, x.layout(p)) for t, p in zip(carried, body.params)])
        with x.guard.doubts.block():
            made = x.block(body)
    ends = [x.in_layout(t, s.layout) for t, s in zip(made, starts, strict=True)]
    last = w.here
    w.branch(head)
    w.fill(place, phi_lines(phis, [(before, starts), (last, ends)]))
    w.label(leave)
    let_go(x, held)
    e.memory.forget()
    return carried


def branch(x: Lowering, inst: Inst) -> list[Tile]:
    """Two ways, of which all threads of a program take the same one."""
    e, w = x.e, x.e.w
    condition = x.scalar(inst.operands[0])
    results = [x.layout(r) for r in inst.results]
    labels = [w.new_label("then"), w.new_label("else")][: len(inst.blocks)]
    join = w.new_label("join")
    w.branch_if(condition.text, *[*labels, join][:2])
    read, touches = list(e.memory.read), set(x.memory.hazards.touches)
    sources, left, touched = [], [], set()
    for label, block in zip(labels, inst.blocks, strict=True):
        w.label(label)
        e.memory.read = list(read)
        x.memory.hazards.touches = set(touches)
        with x.guard.doubts.block():
            tiles = [x.in_layout(t, r) for t, r in zip(x.block(block), results, strict=True)]
        sources.append((w.here, tiles))
        left += e.memory.read
        touched |= x.memory.hazards.touches
        w.branch(join)
    w.label(join)
    alone = len(labels) == 1
    e.memory.read = left + (read if alone else [])
    x.memory.hazards.touches = touched | (touches if alone else set())
    like = [
        uniform(t.lane, t.layout) if not r.type.shape else tile(t.layout, t.lanes)
        for t, r in zip(sources[0][1], inst.results)
    ]
    phis = fresh_phis(e, like)
    for line in phi_lines(phis, sources):
        w.write(line)
    return tiles_of(phis, like)


RULES = {"for": for_loop, "while": while_loop, "if": branch}
