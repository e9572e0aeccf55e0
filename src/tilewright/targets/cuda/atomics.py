"""Atomic operations: one thread acts for each element, and copies are given the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst
from tilewright.ir.types import DType
from tilewright.targets.cuda.emitter import WORDS
from tilewright.targets.cuda.memory import Vector
from tilewright.targets.cuda.orders import ACQUIRING, RELEASING
from tilewright.targets.cuda.sites import added_at_once
from tilewright.targets.cuda.tiles import Tile, tile, uniform
from tilewright.targets.cuda.wholes import share
from tilewright.targets.cuda.wide_atomics import wide_add

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering

ORDERINGS = {
    "relaxed": ("monotonic", "monotonic"),
    "acquire": ("acquire", "acquire"),
    "release": ("release", "monotonic"),
    "acq_rel": ("acq_rel", "acquire"),
}
SCOPES = {"gpu": 'syncscope("device") ', "cta": 'syncscope("block") ', "sys": ""}
OF_INTEGERS = {"add", "and", "or", "xor", "xchg"}
ADDED_AT_ONCE = (t.float32, t.float64, t.float16)


def atomic_rmw(x: Lowering, inst: Inst) -> Tile:
    """Combine into memory; gives what was there before."""
    kind = inst.attrs.get("kind", "add")

    def act(place: str, operands: list[Lane]) -> Lane:
        return Update(x, inst, place).run(kind, operands[0])

    return atomic(x, inst, act, 1, masked=len(inst.operands) > 2)


def atomic_cas(x: Lowering, inst: Inst) -> Tile:
    """Write where memory holds what is expected; gives what was there before."""

    def act(place: str, operands: list[Lane]) -> Lane:
        update = Update(x, inst, place)
        expected, new = (x.e.to_word(v) for v in operands)
        old, _ = update.exchange(expected, new)
        return x.e.from_word(old, operands[0].dtype)

    return atomic(x, inst, act, 2, masked=False)


def atomic(x: Lowering, inst: Inst, act: Callable, count: int, masked: bool) -> Tile:
    """Do `act` for each element in the thread that owns it."""
    e, m = x.e, x.memory
    layout = x.access_layout(inst)
    pointer, *operands = (x.tile(v, layout) for v in inst.operands[: 1 + count])
    mask = x.tile(inst.operands[-1], layout) if masked else None
    dtype = inst.result.type.dtype
    is_scalar = not inst.result.type.shape
    if is_scalar and inst.attrs.get("sem", "acq_rel") in RELEASING:
        e.barrier()  # what other threads of the program wrote comes before
    elif not is_scalar and x.orders.releases(inst):
        e.barrier()
        e.w.write(f"fence {SCOPES[inst.attrs.get('scope', 'gpu')]}release")
    spare = layout.free_bits()[0]
    places = m.places(inst.operands[0], pointer)
    groups = [rs for rs in x.assigned.vectors(inst) if not any(r & spare for r in rs)]
    vectors = [Vector(rs, places[rs[0]]) for rs in groups]
    owner = e.owner(layout)
    masks = [
        e.both(owner, mask.lanes[v.registers[0]] if mask is not None else None) for v in vectors
    ]
    m.hazards.before(inst, layout)
    is_wide = not is_scalar and added_at_once(inst, x.arch) > 1

    def perform(k: int, on: Lane | None) -> list[Lane]:
        chosen = vectors[k].registers
        if is_wide:
            return wide_add(x, inst, vectors[k].place, on, [operands[0].lanes[r] for r in chosen])
        return [one(x, act, vectors[k].place, on, [o.lanes[r] for o in operands]) for r in chosen]

    if m.counters is not None:
        m.counters.access(inst, layout, vectors, masks, mask)
    lanes: list[Lane] = [e.b.const(0, dtype)] * layout.registers
    found = x.guard.guarded(inst, vectors, masks, dtype.bytes, perform)
    for vector, olds in zip(vectors, found, strict=True):
        for r, old in zip(vector.registers, olds, strict=True):
            lanes[r] = old
    if not is_scalar and x.orders.acquires(inst):
        e.w.write(f"fence {SCOPES[inst.attrs.get('scope', 'gpu')]}acquire")
        e.barrier()
    if not x.is_used(inst.result):
        return uniform(e.b.const(0, dtype), layout)
    if layout.has_copies:
        return share(x, tile(layout, lanes), is_scalar)
    return x.in_layout(tile(layout, lanes), x.layout(inst.result))


def one(x: Lowering, act: Callable, place, on: Lane | None, operands: list[Lane]) -> Lane:
    """The atomic operation on one element, in the threads where the condition holds."""
    e = x.e
    pointer = e.b.offset(place.pointer, e.const(place.bytes), t.int8)
    address = x.memory.global_pointer(pointer)
    if on is None:
        return act(address, operands)
    before, yes, join = e.w.here, e.w.new_label("then"), e.w.new_label("join")
    e.w.branch_if(on.text, yes, join)
    e.w.label(yes)
    old = act(address, operands)
    last = e.w.here
    e.w.branch(join)
    e.w.label(join)
    zero = e.b.like(old, 0)
    text = f"phi {old.type} [{zero.text}, %{before}], [{old.text}, %{last}]"
    return e.b.value(text, old.dtype, 1)


class Update:
    """One read-modify-write of one address."""

    def __init__(self, x: Lowering, inst: Inst, place: str):
        self.e = x.e
        self.place = place
        self.scope = SCOPES[inst.attrs.get("scope", "gpu")]
        self.orders = ORDERINGS[inst.attrs.get("sem", "acq_rel")]
        # Tiles have one fence before all of their elements, and one behind.
        self.is_signal = not inst.result.type.shape
        self.is_read = x.is_used(inst.result)

    def run(self, kind: str, value: Lane) -> Lane:
        dtype = value.dtype
        if kind == "xchg" or not dtype.is_float:
            if kind in ("max", "min") and not dtype.is_signed:
                kind = f"u{kind}"
            return self.of_word(kind, value)
        if kind in ("max", "min"):
            return self.extremum(kind, value)
        if dtype in ADDED_AT_ONCE:
            return self.rmw("fadd", value)
        return self.loop(value)

    def rmw(self, kind: str, value: Lane) -> Lane:
        """In the order that is asked for: fences say so, as LLVM keeps none of updates here."""
        order = self.orders[0]
        if self.is_signal and order in RELEASING:
            self.e.w.write(f"fence {self.scope}release")
        text = f"atomicrmw {kind} ptr addrspace(1) {self.place}, {value.typed} {self.scope}{order}"
        old = self.e.b.value(text, value.dtype, 1)
        if self.is_signal and self.is_read and order in ACQUIRING:
            self.e.w.write(f"fence {self.scope}acquire")
        return old

    def of_word(self, kind: str, value: Lane) -> Lane:
        """The same on the bits of a value."""
        return self.e.from_word(self.rmw(kind, self.e.to_word(value)), value.dtype)

    def extremum(self, kind: str, value: Lane) -> Lane:
        """Floats are ordered as their bits: signed ones, and below 0 unsigned ones backwards."""
        e = self.e
        bits = e.to_word(value)
        signed = signed_word(bits.dtype)
        negative = e.b.lt(e.b.bitcast(bits, signed), e.b.const(0, signed))
        other = {"max": "umin", "min": "umax"}[kind]
        below, above, join = (e.w.new_label(s) for s in ("below", "above", "join"))
        e.w.branch_if(negative.text, below, above)
        arms = []
        for label, name in ((below, other), (above, kind)):
            e.w.label(label)
            old = self.rmw(name, bits)
            arms.append(f"[{old.text}, %{e.w.here}]")
            e.w.branch(join)
        e.w.label(join)
        old = e.b.value(f"phi {bits.type} {', '.join(arms)}", bits.dtype, 1)
        return e.from_word(old, value.dtype)

    def exchange(self, expected: Lane, new: Lane) -> tuple[Lane, Lane]:
        """Compare and swap of words: what was there, and whether it was what was expected."""
        e, (success, failure) = self.e, self.orders
        pair = e.w.value(
            f"cmpxchg ptr addrspace(1) {self.place}, {expected.typed}, {new.typed} "
            f"{self.scope}{success} {failure}"
        )
        kind = f"{{ {expected.type}, i1 }}"
        old = e.b.value(f"extractvalue {kind} {pair}, 0", expected.dtype, 1)
        return old, e.b.value(f"extractvalue {kind} {pair}, 1", t.int1, 1)

    def loop(self, value: Lane) -> Lane:
        """Add what the hardware does not add: compute the sum, and swap it in if nothing came."""
        e = self.e
        word = WORDS[value.dtype.bits]
        align = f"align {word.bytes}"
        kind = f"i{word.bits}"
        first = e.w.value(f"load atomic {kind}, ptr addrspace(1) {self.place} monotonic, {align}")
        before, again, done = e.w.here, e.w.new_label("again"), e.w.new_label("done")
        e.w.branch(again)
        e.w.label(again)
        place = e.w.reserve()
        old = Lane(e.w.fresh("old"), word)
        total = e.b.add(e.from_word(old, value.dtype), value)
        found, fine = self.exchange(old, e.to_word(total))
        last = e.w.here
        e.w.branch_if(fine.text, done, again)
        phi = f"{old.text} = phi {kind} [{first}, %{before}], [{found.text}, %{last}]"
        e.w.fill(place, [phi])
        e.w.label(done)
        return e.from_word(old, value.dtype)


def signed_word(word: DType) -> DType:
    return {8: t.int8, 16: t.int16, 32: t.int32, 64: t.int64}[word.bits]
