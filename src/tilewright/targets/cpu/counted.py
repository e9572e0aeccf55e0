"""A counted loop of a kernel as a loop of the code: its bounds, its counter and its scalars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.codegen.counting import either_way
from tilewright.codegen.literals import Lane
from tilewright.ir.inst import Inst
from tilewright.targets.cpu.forms import Uniform
from tilewright.targets.cpu.loops import Carried, Loop

if TYPE_CHECKING:
    from tilewright.targets.cpu.evaluate import Evaluator


def counted_loop(e: Evaluator, inst: Inst) -> tuple[Loop, dict[int, Carried]]:
    """A loop that is not open yet, and what it carries for each scalar, by number."""
    low, high, step = (e.scalar(v).lane for v in inst.operands[:3])
    high, mirror = either_way(e.b, low, high, step)
    loop = Loop(
        e.w, low.text, high.text, step.text, low.type, low.dtype.is_signed,
        downwards=step.known is not None and step.known < 0,
        mirror="" if mirror is None else mirror.text,
    )  # fmt: skip
    scalars = {
        k: loop.carry(e.scalar(v).lane) for k, v in enumerate(inst.operands[3:]) if not v.type.shape
    }
    return loop, scalars


def open_counted(e: Evaluator, inst: Inst, loop: Loop, scalars: dict[int, Carried]) -> None:
    """Begin a turn: the counter and the scalars are known in it."""
    counter, *params = inst.blocks[0].params
    e.bound[counter] = Uniform(Lane(loop.open(), counter.type.dtype), e.w.at)
    for k, entry in scalars.items():
        e.bound[params[k]] = Uniform(entry.phi, e.w.at)


def hand_on_scalars(e: Evaluator, inst: Inst, scalars: dict[int, Carried]) -> None:
    """Let the next turn begin with what this one makes of the scalars."""
    for k, entry in scalars.items():
        entry.next = e.scalar(inst.blocks[0].terminator.operands[k]).lane
