"""Carry out plans: bring the registers of a tile from one layout to another."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from tilewright.codegen.literals import Lane
from tilewright.targets.cuda import convert
from tilewright.targets.cuda.convert import Select, Shuffle, Swap
from tilewright.targets.cuda.emitter import Emitter
from tilewright.targets.cuda.layout import LANE_BITS, Layout, union
from tilewright.targets.cuda.swizzle import Access, Exchange, Move

# An exchange that would take more than this goes through shared memory in several passes.
EXCHANGE_LIMIT = 48 << 10


def change_layout(
    e: Emitter, lanes: Sequence[Lane], source: Layout, target: Layout, flip: int = 0
) -> list[Lane]:
    """The values of a tile in another layout; element i becomes element i ^ flip."""
    dtype = lanes[0].dtype
    plan = convert.plan(source, target, dtype.bits, flip, EXCHANGE_LIMIT)
    values = list(lanes)
    for step in plan.steps:
        if isinstance(step, Select):
            values = [values[r] for r in step.registers]
        elif isinstance(step, Swap):
            values = swap(e, values, step)
        elif isinstance(step, Shuffle):
            values = shuffle(e, values, step)
        else:
            values = through_shared(e, values, step)
    return values


def swap(e: Emitter, values: list[Lane], step: Swap) -> list[Lane]:
    """Exchange pairs of registers in the threads whose number says so."""
    odd = e.parity(step.lane, step.warp)
    other = 1 << step.bit
    return [e.b.select(odd, values[r ^ other], x) for r, x in enumerate(values)]


def shuffle(e: Emitter, values: list[Lane], step: Shuffle) -> list[Lane]:
    """Each group of registers from one other lane."""
    base = e.of_thread((*step.lane, *step.warp))
    used = union((*step.lane, *step.warp))
    out: list[Lane | None] = [None] * sum(map(len, step.groups))
    dtype = values[0].dtype
    for group, constant in zip(step.groups, step.constants, strict=True):
        lane = e.combined(base, used, constant)
        words = [e.to_word(values[r]) for r in group]
        moved = e.shuffle(e.pack(words), lane)
        for r, part in zip(group, e.unpack(moved, words[0].dtype.bits), strict=True):
            out[r] = e.from_word(part, dtype)
    return out


def through_shared(e: Emitter, values: list[Lane], step: Exchange) -> list[Lane]:
    """Store, wait, load, in as many passes as the plan says."""
    dtype = values[0].dtype
    words = [e.to_word(x) for x in values]
    word = words[0].dtype
    base = e.memory.take(step.size)
    out: list[Lane | None] = [None] * step.load.registers
    wait = e.warp_barrier if step.in_warp else e.barrier
    for number, (stores, loads) in enumerate(zip(step.store.passes, step.load.passes, strict=True)):
        if number:
            wait()
        store_moves(e, step.store, stores, base, words)
        wait()
        e.note_shared("load", step.load.lane_bytes(word.bytes), *of_moves(loads, word.bytes))
        for move, address in places(e, step.load, loads, base, word.bytes):
            loaded = e.load_shared(address, word, len(move.registers))
            for r, x in zip(move.registers, loaded, strict=True):
                out[r] = x
    e.memory.give_back()
    return [e.from_word(x, dtype) for x in out]


def store_moves(
    e: Emitter, side: Access, moves: Sequence[Move], base: Lane, words: Sequence[Lane]
) -> None:
    """One pass of stores, by the threads that hold no copies."""
    idle = side.idle_lane | side.idle_warp << LANE_BITS
    bytes = words[0].dtype.bytes
    e.note_shared("store", side.lane_bytes(bytes), *of_moves(moves, bytes), idle)
    active = e.is_zero(idle)
    with e.w.when(active.text) if active is not None else contextlib.nullcontext():
        for move, address in places(e, side, moves, base, bytes):
            e.store_shared(address, [words[r] for r in move.registers])


def of_moves(moves: Sequence[Move], bytes: int) -> tuple[int, int]:
    """Bytes that a lane moves at once, and the accesses of a thread."""
    return len(moves[0].registers) * bytes, len(moves)


def places(
    e: Emitter, side: Access, moves: Sequence[Move], base: Lane, bytes: int
) -> Iterator[tuple[Move, Lane]]:
    """Each access of this thread and its address: a sum of a few bases and constants."""
    columns = [c * bytes for c in (*side.lane, *side.warp)]
    own = e.of_thread(columns)
    bases: dict[int, Lane] = {}
    for move in moves:
        if move.xor not in bases:
            bases[move.xor] = e.b.add(base, e.xor(own, move.xor * bytes))
        yield move, e.plus(bases[move.xor], move.add * bytes)
