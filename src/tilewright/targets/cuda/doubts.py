"""Accesses that lay outside of their arguments, told when the loops around them are over.

A branch beside each access would keep the assembler from moving loads of one turn before
computations of another. So what lay outside is remembered in two registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value

if TYPE_CHECKING:
    from tilewright.targets.cuda.guard import Guard

MOST = 4  # accesses of a thread for one load, store or atomic that are remembered together


class FirstWrong:
    """Remembers the address of the first access of a thread that lies outside."""

    def __init__(self, guard: Guard, any: Lane | None = None, where: Lane | None = None):
        self.guard = guard
        self.any = any
        self.where = where

    def add(self, address: Lane, wrong: Lane) -> None:
        b = self.guard.e.b
        if self.any is None:
            self.any, self.where = wrong, address
        else:
            self.where = b.select(self.any, self.where, address)
            self.any = b.bit_or(self.any, wrong)

    def report(self, inst: Inst) -> None:
        if self.any is not None:
            self.guard.report(inst, self.where, self.any)


class Frame:
    """What was found in a block; in a loop, also the phis that begin a turn."""

    def __init__(self, is_loop: bool = False):
        self.is_loop = is_loop
        self.found: dict[Inst, FirstWrong] = {}
        self.phis: dict[Inst, tuple[Lane, Lane]] = {}

    def phi_lines(self, before: str, last: str) -> list[str]:
        lines = []
        for inst, phis in self.phis.items():
            ends = self.found[inst].any, self.found[inst].where
            for phi, first, end in zip(phis, ("false", "0"), ends, strict=True):
                arms = f"[{first}, %{before}], [{end.text}, %{last}]"
                lines.append(f"{phi.text} = phi {phi.type} {arms}")
        return lines


class Doubts:
    """The accesses of a kernel that are told later, by the block that is being written."""

    def __init__(self, guard: Guard):
        self.guard = guard
        self.frames = [Frame()]
        self.is_off = False
        self.loaded: dict[Value, bool] = {}

    def takes(self, inst: Inst, count: int) -> bool:
        """Whether an access by so many instructions of a thread is to be told later.

        Outside of loops a branch costs little, unless it waits for what was loaded before.
        """
        if self.is_off or self.guard.e.w.is_apart:
            return False
        if self.frames[-1].is_loop:
            return count <= MOST
        return count == 1 and self.is_loaded(inst.operands[inst.op.access.pointer])

    def is_loaded(self, value: Value) -> bool:
        """Whether a value is computed from something in memory."""
        if value not in self.loaded:
            inst = value.inst
            self.loaded[value] = inst is not None and (
                inst.op.access is not None or any(map(self.is_loaded, inst.operands))
            )
        return self.loaded[value]

    def of(self, inst: Inst) -> FirstWrong:
        """What was found of an instruction before, to be added to."""
        frame = self.frames[-1]
        if inst not in frame.found:
            any = where = None
            if frame.is_loop:
                w = self.guard.e.w
                any, where = Lane(w.fresh("any"), t.int1), Lane(w.fresh("where"), t.uint64)
                frame.phis[inst] = any, where
            frame.found[inst] = FirstWrong(self.guard, any, where)
        return frame.found[inst]

    @contextmanager
    def off(self, when: bool = True) -> Iterator[None]:
        """Within, what lies outside is told at once."""
        before, self.is_off = self.is_off, self.is_off or when
        yield
        self.is_off = before

    @contextmanager
    def loop(self) -> Iterator[Frame]:
        """Within, one turn of a loop is written; afterwards, `join` what it has found."""
        frame = Frame(is_loop=True)
        self.frames.append(frame)
        yield frame
        self.frames.pop()

    def join(self, frame: Frame) -> None:
        """Behind a loop: what was found in it was found here."""
        for inst, (any, where) in frame.phis.items():
            self.of(inst).add(where, any)

    @contextmanager
    def block(self) -> Iterator[None]:
        """Within, code is written that need not be run; what it finds it tells at its end."""
        self.frames.append(Frame())
        yield
        self.tell(self.frames.pop())

    def tell(self, frame: Frame | None = None) -> None:
        """Report what a block has found, or else what the kernel has."""
        e = self.guard.e
        if frame is None:
            frame, self.frames = self.frames[-1], [Frame()]
        for inst, found in frame.found.items():
            with e.w.when(found.any.text, rarely=True):
                found.report(inst)
