"""A machine that follows what nobody can rely on from where it is made to where it matters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.eager.deciding import is_awaited
from tilewright.eager.machine import KINDS, Eager, Tile
from tilewright.instruments import fillers, losses, meaning, numbers, sways
from tilewright.instruments.findings import Finding
from tilewright.instruments.hints import broken
from tilewright.instruments.lock_order import Held, LockOrder
from tilewright.instruments.marks import Lanes, Marks, Origin, Source, through
from tilewright.instruments.unwritten import Unwritten
from tilewright.ir import types as t
from tilewright.ir.op import Op
from tilewright.lang.tensor import tensor
from tilewright.ops import atomic, debug, memory
from tilewright.ops import math as m

# What of each kind may be at fault: where a number is an address, is stored, or decides something.
ADDRESSES = {"overflow", "masked", "undefined", "arithmetic", "nan", "inf"}
VALUES = {"nan", "inf", "masked", "undefined", "arithmetic"}
DECISIONS = {"masked", "undefined", "arithmetic"}
ADVICE = {
    "overflow": "make one operand wider, e.g. with .to(tl.int64)",
    "undefined": meaning.FILL,
    "precision": "add up in tl.float32 and round once",
    "masked": "give `other` the number that leaves the result as it is, or use tl.where",
}
STORED = "is stored"
MOST = 8  # origins that are followed of one tile


class Origins(Eager):
    """The eager machine; reports where a number with such an origin ends."""

    report: Callable[[Finding], None]
    unwritten: Unwritten | None = None
    locks: LockOrder | None = None
    most_rounds = most_polls = 1000  # few, because what does not change in two rounds never will

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.padding = "zero"  # as Triton does it, though it promises nothing

    def emit(self, op: Op, *operands: Tile, region: Any = None, **attrs: Any) -> Any:
        for x in operands:
            if x.marks is not None and x.marks.on_use is not None:
                use, x.marks.on_use = x.marks.on_use, None
                use()
        if op.effect in KINDS:
            self.look_at_address(op, operands)
        elif op is debug.device_assert:
            return self.look_at_assertion(*operands, **attrs)
        elif op is debug.hint:
            self.look_at_hint(operands[0], attrs)
        out = super().emit(op, *operands, region=region, **attrs)
        if op.effect == "pure":
            self.follow(op, operands, out if isinstance(out, tuple) else (out,), attrs, region)
        if op.effect in KINDS:  # after it: what is out of bounds is no more than that
            self.look_at_operands(op, operands)
        if op.effect in KINDS and self.locks is not None:
            self.look_at_lock(op, operands, out, attrs)
        if op is memory.load:
            self.look_at_lanes(operands, out)
        elif op.effect == "atomic":
            self.after_atomic(out)
        return out

    def after_atomic(self, out: Tile) -> None:
        """Whoever orders programs may want to know when the result is used."""
        for observer in self.observers:
            on_use = getattr(observer, "on_use", None)
            if on_use is not None:
                out.marks = Marks(on_use=on_use())

    # --- from operands to results

    def follow(
        self,
        op: Op,
        operands: Sequence[Tile],
        outs: Sequence[Tile],
        attrs: dict[str, Any],
        region: Callable | None,
    ) -> None:
        marked = [x.marks for x in operands if x.marks is not None]
        for part, out in enumerate(outs):
            marks = Marks()
            for origin in numbers.origins(operands) if marked else ():
                self.carry(origin, op, operands, out, part, attrs, marks)
            for origin, lanes in numbers.made(op, operands, out, part, attrs, self.loc):
                add(marks, origin, lanes)
            if marked:
                marks.share = fillers.shares(op, operands, part, attrs)
                marks.source = fillers.source_of(operands) if marks.share is not None else None
            marks.loss = losses.loss_of(op, operands, out, attrs, self.loc)
            marks.is_word = numbers.makes_word(op, operands)
            has_any = marks.lanes or marks.share is not None or marks.loss or marks.is_word
            out.marks = marks if has_any else None
        if marked:
            for origin, lanes in sways.swayed(op, operands, outs, attrs, region, self.loc):
                for out in outs:
                    out.marks = out.marks or Marks()
                    add(out.marks, origin, lanes)

    def carry(
        self,
        origin: Origin,
        op: Op,
        operands: Sequence[Tile],
        out: Tile,
        part: int,
        attrs: dict[str, Any],
        marks: Marks,
    ) -> None:
        lanes = [numbers.lanes_of(x, origin) for x in operands]
        found = through(op, operands, lanes, attrs)
        found = found[part] if isinstance(found, tuple) else found
        if found is None:
            return
        found = found & numbers.keeps(origin, op, out)
        if origin.counts and op in (m.add, m.sub):
            found = found & ~corrected(operands, lanes)
        if origin.kind in ("nan", "inf") and not origin.lost and found.any():
            test = np.isnan if origin.kind == "nan" else np.isinf
            right = numbers.legitimate(op, operands, part, attrs, test, origin.kind)
            found = found if right is None else found & ~right
        if out.type.dtype is t.int1:
            origin = replace(origin, chosen=True)
        add(marks, origin, found)

    def look_at_lanes(self, operands: Sequence[Tile], out: Tile) -> None:
        """What a load gives: memory, and what its mask leaves out."""
        self.look_at_mask(operands, out)
        pointer = operands[0].marks
        for origin, lanes in pointer.lanes.items() if pointer is not None else ():
            if origin.chosen:
                add(out.marks, origin, lanes & (operands[1].data if len(operands) > 1 else True))
        for observer in self.observers:
            use = getattr(observer, "polled", None)
            if use is not None:
                origin = Origin("polled", self.loc(), str(self.program), use=use)
                add(out.marks, origin, np.ones(out.type.shape, bool))
        new = self.unwritten
        if new is not None and new.lanes is not None:
            text = f"element {new.element} of {new.argument} is loaded, which {meaning.NOBODY}"
            origin = Origin("undefined", self.loc(), text, new.argument, new.element)
            add(out.marks, origin, new.lanes)

    def look_at_mask(self, operands: Sequence[Tile], out: Tile) -> None:
        on = operands[1].data if len(operands) > 1 else np.True_
        if on.all():
            out.marks = Marks(share=fillers.REAL)
            return
        argument, loc = self.argument_of(operands[0], np.True_), self.loc()
        if len(operands) > 2:
            share = np.where(on, fillers.REAL, fillers.RAW)
            other = operands[2].data[~on].flat[0]
            out.marks = Marks(share=share, source=Source(loc, argument, f"other={other:g}"))
            return
        text = f"lanes that the load of {argument} masks off have no `other`, and are not defined"
        share = np.where(on, fillers.REAL, fillers.NONE)
        out.marks = Marks({Origin("masked", loc, text, argument): ~on}, share)

    # --- where they end

    def look_at_address(self, op: Op, operands: Sequence[Tile]) -> None:
        pointer, mask = operands[op.access.pointer], active(op, operands)
        what = KINDS[op.effect]
        for origin in self.ends(pointer, ADDRESSES, mask):
            if not (origin.chosen and op is memory.load):  # one of the places that are there
                self.tell(origin, pointer, mask, f"is an offset of the {what}")

    def look_at_operands(self, op: Op, operands: Sequence[Tile]) -> None:
        access, what = op.access, KINDS[op.effect]
        pointer, mask = operands[access.pointer], active(op, operands)
        if access.value >= 0:
            for origin in self.ends(operands[access.value], VALUES, mask):
                done = STORED if op is memory.store else "goes into an atomic operation"
                self.tell(origin, pointer, mask, done)
            self.look_at_loss(operands[access.value], pointer, mask)
        if op is atomic.atomic_cas:
            for origin in self.ends(operands[1], VALUES, mask):
                self.tell(origin, pointer, mask, "is compared with memory")
        elif access.value >= 0:  # compare and swap tries again with what it found
            for origin in self.ends(operands[access.value], {"polled"}, mask):
                origin.use()
        if 0 <= access.mask < len(operands):
            for origin in self.ends(operands[access.mask], DECISIONS, np.True_):
                self.tell(origin, pointer, np.True_, f"decides the mask of the {what}")

    def look_at_loss(self, value: Tile, pointer: Tile, mask: Any) -> None:
        loss = None if value.marks is None else value.marks.loss
        lanes = None if loss is None else loss.too_much() & mask
        if lanes is not None and lanes.any():
            self.tell(Origin("precision", loss.loc, loss.text(lanes)), pointer, mask, STORED)

    def concrete(self, handle: Tile, purpose: str) -> Any:
        self.look_at_decision(handle, "decides a branch or loop")
        return super().concrete(handle, purpose)

    def iterate(self, start: tensor, end: tensor, step: tensor) -> Iterator[tensor]:
        for bound in (start, end, step):
            self.look_at_decision(bound.handle, "bounds a loop")
        return super().iterate(start, end, step)

    def look_at_decision(self, handle: Tile, what: str) -> None:
        if handle.marks is not None and handle.marks.on_use is not None:
            use, handle.marks.on_use = handle.marks.on_use, None
            use()
        for origin in self.ends(handle, DECISIONS, np.True_):
            self.tell(origin, None, np.True_, what)

    def ends(self, tile: Tile, kinds: set[str], mask: Any) -> Iterator[Origin]:
        """The origins of some kinds that active elements of a tile have."""
        if tile.marks is not None:
            for origin, lanes in tile.marks.lanes.items():
                # Hashes and random numbers are computed in 32 bits and run over on purpose.
                is_total = origin.kind == "overflow" and origin.op is not None
                narrow = (is_total or origin.dtype in numbers.SMALL) and kinds is VALUES
                if (origin.kind in kinds or narrow) and (lanes & mask).any():
                    yield origin

    def look_at_assertion(
        self, condition: Tile, mask: Tile | None = None, message: str = "", **_: Any
    ) -> None:
        self.look_at_decision(condition, "decides an assertion")
        failed = ~condition.data if mask is None else ~condition.data & mask.data
        if failed.any():
            at = tuple(int(i) for i in np.argwhere(failed)[0]) if failed.shape else None
            where = "" if at is None else f", element {at}"
            text = f"program {self.program}{where}: {message or 'the condition does not hold'}"
            self.report(Finding("assert", self.name, "", self.program, self.loc(), text))

    def look_at_hint(self, x: Tile, attrs: dict[str, Any]) -> None:
        text = broken(x, attrs)
        if text:
            text = f"{text} in program {self.program}; code may be generated that relies on it"
            self.report(Finding("hint", self.name, "", self.program, self.loc(), text))

    def look_at_lock(
        self, op: Op, operands: Sequence[Tile], out: Tile | None, attrs: dict[str, Any]
    ) -> None:
        """A word that is exchanged, or asked for, until it was free, or made free again."""
        pointer, value = operands[0], out if op is memory.load else operands[op.access.value]
        frame = None if pointer.type.shape or not value.type.dtype.is_integer else self.frame()
        if frame is None:
            return
        awaited = is_awaited(frame.f_code.co_filename, frame.f_lineno)
        if op is memory.load and not awaited:
            return
        where, new = self.element_of(pointer), int(value.data)
        before = new if out is None else int(out.data)
        found = None
        if op is atomic.atomic_cas and before != int(operands[1].data):
            self.locks.ask_in_vain(self.program, where, self.loc())
            return
        is_sum = attrs.get("kind") == "add"
        if op is memory.load or (is_sum and new == 0):
            self.locks.poll(self.program, where, before)
        elif awaited and op is not memory.store and before != new:
            found = self.locks.take(self.name, self.program, Held(where, before, self.loc()))
        else:
            found = self.locks.write(self.name, self.program, where, new, self.loc())
        if found is not None:
            self.report(found)

    # --- how that is told

    def tell(self, origin: Origin, pointer: Tile | None, mask: Any, what: str) -> None:
        name = "" if pointer is None else self.argument_of(pointer, mask)
        loc = self.loc()
        place = "there" if loc == origin.loc else f"at {loc}"
        advice = "" if origin.advised else ADVICE.get(origin.kind, "")
        if origin.dtype in numbers.SMALL:
            advice = advice.replace("int64", "int32")
        into = f" to {name}" if name and what == STORED else ""
        text = f"{origin.text}; in program {self.program} it {what} {place}{into}"
        self.report(
            Finding(
                origin.kind, self.name, origin.argument or name, self.program, origin.loc,
                f"{text}; {advice}" if advice else text, origin.element,
            )
        )  # fmt: skip

    def element_of(self, pointer: Tile) -> tuple[str, int]:
        """The array that a single pointer belongs to, and which element it is."""
        number = self.memory.number(pointer.data)
        if not 0 < number <= len(self.memory.buffers):
            return "", int(pointer.data)
        buffer = self.memory.buffers[number - 1]
        distance = int(self.memory.addresses(pointer.data)) - buffer.address
        return buffer.name, distance // buffer.dtype.bytes

    def argument_of(self, pointer: Tile, mask: Any) -> str:
        """The array that the first active pointer belongs to."""
        active = pointer.data[np.broadcast_to(mask, pointer.type.shape)]
        number = self.memory.number(active.flat[0]) if active.size else 0
        buffers = self.memory.buffers
        return buffers[number - 1].name if 0 < number <= len(buffers) else ""


def corrected(operands: Sequence[Tile], lanes: Sequence[Lanes | None]) -> Lanes:
    """Where a number is taken from counts, as of the lanes that count for nothing."""
    x, y = operands
    return y.data != 0 if lanes[1] is None else x.data != 0


def active(op: Op, operands: Sequence[Tile]) -> np.ndarray:
    """The mask of an access."""
    given = 0 <= op.access.mask < len(operands)
    return operands[op.access.mask].data if given else np.True_


def add(marks: Marks, origin: Origin, lanes: Any) -> None:
    """Note an origin of some elements, if there are any."""
    if np.any(lanes) and (origin in marks.lanes or len(marks.lanes) < MOST):
        marks.lanes[origin] = marks.lanes[origin] | lanes if origin in marks.lanes else lanes
