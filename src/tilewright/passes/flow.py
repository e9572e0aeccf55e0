"""Find a fact for every value of a kernel, in program order, loops until nothing changes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from tilewright.ir.inst import Block, Inst, Kernel, Param, Value
from tilewright.ir.types import Type
from tilewright.ops import control
from tilewright.passes import loops

Fact = TypeVar("Fact")


class Analysis(Protocol, Generic[Fact]):
    """What one kind of fact says of parameters, of instructions, and where ways meet."""

    @abstractmethod
    def param(self, index: int, param: Param) -> Fact:
        """Of a parameter of the kernel."""

    @abstractmethod
    def result(self, inst: Inst, facts: list[Fact], position: int) -> Fact:
        """Of a result of an instruction whose operands have these facts."""

    @abstractmethod
    def counter(self, loop: Inst, facts: list[Fact]) -> Fact:
        """Of the index of a `for` with these facts of low, high and step."""

    @abstractmethod
    def unknown(self, type: Type) -> Fact:
        """Of a value of which nothing is known."""

    @abstractmethod
    def join(self, x: Fact, y: Fact, type: Type) -> Fact:
        """Of a value that is one of two."""

    def widen(self, old: Fact, new: Fact, type: Type) -> Fact:
        """As `join`, for a value that a loop changes again and again: must soon stop changing."""
        return self.join(old, new, type)

    def foresee(self, loop: Inst, facts: list[Fact]) -> dict[int, Fact]:
        """Of some of what a loop carries, by position, what holds in every turn."""
        return {}


def find_facts(kernel: Kernel, analysis: Analysis[Fact]) -> Callable[[Value], Fact]:
    """The facts of every value of `kernel` as it is now, as a function."""
    facts: dict[Value, Any] = {}
    for index, (param, value) in enumerate(zip(kernel.params, kernel.body.params, strict=True)):
        facts[value] = analysis.param(index, param)
    visit_block(kernel.body, analysis, facts)
    return facts.__getitem__


def visit_block(block: Block, analysis: Analysis, facts: dict[Value, Any]) -> None:
    for inst in block.insts:
        if inst.blocks:
            STRUCTURED.get(inst.op, visit_other)(inst, analysis, facts)
            continue
        known = [facts[x] for x in inst.operands]
        for position, value in enumerate(inst.results):
            facts[value] = analysis.result(inst, known, position)


def visit_loop(loop: Inst, analysis: Analysis, facts: dict[Value, Any]) -> None:
    start = loops.bounds(loop)
    known = [facts[x] for x in loop.operands]
    carried = known[start:]
    foreseen = analysis.foresee(loop, known) if hasattr(analysis, "foresee") else {}
    for k, fact in foreseen.items():
        carried[k] = fact
    while True:
        for block in loop.blocks:
            if loop.op is control.for_:
                facts[block.params[0]] = analysis.counter(loop, known)
            facts.update(zip(loops.carried_params(loop, block), carried, strict=True))
            visit_block(block, analysis, facts)
        after = [
            foreseen[k] if k in foreseen else analysis.widen(fact, facts[y], y.type)
            for k, (fact, y) in enumerate(zip(carried, loops.yields(loop), strict=True))
        ]
        if after == carried:
            break
        carried = after
    facts.update(zip(loop.results, carried, strict=True))


def visit_if(inst: Inst, analysis: Analysis, facts: dict[Value, Any]) -> None:
    ways = []
    for block in inst.blocks:
        visit_block(block, analysis, facts)
        if inst.results:
            ways.append([facts[x] for x in block.terminator.operands])
    for value, x, y in zip(inst.results, *ways or ((), ()), strict=True):
        facts[value] = analysis.join(x, y, value.type)


def visit_other(inst: Inst, analysis: Analysis, facts: dict[Value, Any]) -> None:
    """A combining function of a reduction, say: nothing is known of what it is given."""
    for block in inst.blocks:
        facts.update((p, analysis.unknown(p.type)) for p in block.params)
        visit_block(block, analysis, facts)
    facts.update((value, analysis.unknown(value.type)) for value in inst.results)


STRUCTURED = {
    control.for_: visit_loop,
    control.while_: visit_loop,
    control.if_: visit_if,
}
