"""The loop over the programs of a launch: which number comes when, and what each is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.targets.cpu.forms import Uniform
from tilewright.targets.cpu.loops import Loop
from tilewright.targets.cpu.memory import GRID_SLOT
from tilewright.targets.cpu.turns import Turns, strided_loop

if TYPE_CHECKING:
    from tilewright.targets.cpu.evaluate import Evaluator
    from tilewright.targets.cpu.lower import Lowering


def write_programs(lowering: Lowering, swapped: bool, finish: Callable[[], None]) -> None:
    """The kernel for each program from `%begin` to `%end`, and around it the loop over turns.

    With `swapped`, axis 1 of the grid runs first. `finish` is called when all of it is known, and
    may still write before the loops.
    """
    kernel, w = lowering.kernel, lowering.e.w
    checks = lowering.memory.checks  # see programs one after the other, in order
    strided = None
    if checks is None and not swapped:
        strided = strided_loop(kernel, lowering.plan.kept)
    turns = None if strided is None else Turns(lowering, strided)
    if turns is not None:
        turns.open()
    loop = Loop(w, "%begin", "%end", "1")
    loop.open(counter="%number" if swapped else "%pid")
    bind_programs(lowering, swapped)
    if checks is not None:
        checks.shadow.begin_program()
    if turns is None:
        lowering.block(kernel.body)
    else:
        turns.body(loop)
    finish()
    lowering.e.forget(loop.close())
    if turns is not None:
        turns.close()


def bind_programs(lowering: Lowering, swapped: bool) -> None:
    """The program ids and the grid, as far as the kernel asks for them.

    With `swapped`, axis 1 runs first; `%pid` numbers the programs as if axis 0 did.
    """
    e, w = lowering.e, lowering.e.w
    used = [i for i in lowering.kernel.walk() if i.op.effect == "program"]
    axes = {i.attrs["axis"] for i in used if i.op.name == "program_id"}
    sizes: dict[int, Lane] = {}

    def size(axis: int) -> Lane:
        if axis not in sizes:
            with w.outside(0):
                place = w.fresh("slot")
                w.write(f"{place} = getelementptr i64, ptr %args, i64 {GRID_SLOT + axis}")
                sizes[axis] = e.b.value(f"load i32, ptr {place}", t.uint32, 1)
        return sizes[axis]

    ids: dict[int, Lane] = {}
    if swapped:
        number = e.b.value("trunc i64 %number to i32", t.uint32, 1)
        rest = e.b.value(f"udiv i32 {number.text}, {size(1).text}", t.uint32, 1)
        ids[1] = e.b.sub(number, e.b.mul(rest, size(1)))
        ids[2] = e.b.value(f"udiv i32 {rest.text}, {size(0).text}", t.uint32, 1)
        ids[0] = e.b.sub(rest, e.b.mul(ids[2], size(0)))
        row = e.b.add(ids[1], e.b.mul(ids[2], size(1)))
        pid = e.b.add(ids[0], e.b.mul(row, size(0)))
        w.write(f"%pid = zext i32 {pid.text} to i64")
    elif axes:
        rest = e.b.value("trunc i64 %pid to i32", t.uint32, 1)
        for axis in range(max(axes) + 1):
            if axis == 2:
                ids[axis] = rest
                break
            above = e.b.value(f"udiv i32 {rest.text}, {size(axis).text}", t.uint32, 1)
            ids[axis] = e.b.sub(rest, e.b.mul(above, size(axis)))
            rest = above
    for inst in used:
        if inst.op.name == "processor":
            e.bound[inst.result] = Uniform(Lane("0", t.int32), 0)
            continue
        axis = inst.attrs["axis"]
        lane = ids[axis] if inst.op.name == "program_id" else size(axis)
        depth = w.at if inst.op.name == "program_id" else 0
        e.bound[inst.result] = Uniform(Lane(lane.text, t.int32), depth)


def read_clock(e: Evaluator) -> Lane:
    """The cycles that the processor counted so far."""
    e.w.declare("declare i64 @llvm.readcyclecounter()")
    return e.b.value("call i64 @llvm.readcyclecounter()", t.int64, 1)
