"""Run a kernel's IR on NumPy arrays: what passes and targets are compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.eager.kernel import full_grid, programs
from tilewright.eager.machine import Eager, Tile
from tilewright.errors import InternalError
from tilewright.ir.inst import Block, Inst, Kernel, Value
from tilewright.ir.op import running
from tilewright.ir.types import Type
from tilewright.ops import control, shape
from tilewright.ops.rules import numpy_dtype

Env = dict[Value, Tile]
FREE = (shape.constant, control.yield_)  # ops that do not mind how many elements there are


class Runner:
    """One launch of a kernel's IR."""

    def __init__(self, machine: Eager):
        self.machine = machine
        self.control = {
            control.for_: self.for_loop,
            control.while_: self.while_loop,
            control.if_: self.branch,
        }

    def block(self, block: Block, values: Sequence[Tile], env: Env) -> list[Tile]:
        """Run a block with values for its parameters; gives what it yields."""
        env.update(zip(block.params, values, strict=True))
        for inst in block.insts:
            operands = [env[x] for x in inst.operands]
            if inst.op is control.yield_:
                return operands
            results = self.inst(inst, operands, env)
            env.update(zip(inst.results, results, strict=True))
        return []

    def inst(self, inst: Inst, operands: list[Tile], env: Env) -> Sequence[Tile]:
        run = self.control.get(inst.op)
        if run is not None:
            return run(inst, operands, env)
        self.machine.here = inst.loc
        region = self.combining(inst.blocks[0], env) if inst.blocks else None
        out = self.machine.emit(inst.op, *operands, region=region, **inst.attrs)
        if out is None:
            return ()
        return out if isinstance(out, tuple) else (out,)

    def combining(self, block: Block, env: Env) -> Callable:
        """The region of a reduction as a function of two tuples of arrays."""
        at_once = all(i.op.is_elementwise or i.op in FREE for i in block.insts)

        def combine(xs: tuple, ys: tuple) -> tuple:
            arrays = (*xs, *ys)
            if at_once:  # the ops on scalars do the same to each element of an array
                return tuple(
                    np.broadcast_to(x, xs[0].shape) for x in self.scalars(block, arrays, env)
                )
            out = [np.empty_like(a) for a in xs]
            for place in np.ndindex(xs[0].shape):
                values = self.scalars(block, [np.asarray(a[place]) for a in arrays], env)
                for o, value in zip(out, values, strict=True):
                    o[place] = value
            return tuple(out)

        return combine

    def scalars(self, block: Block, arrays: Sequence[np.ndarray], env: Env) -> list[np.ndarray]:
        """What a region on scalars gives for these numbers."""
        values = [
            Tile(p.type, a.astype(numpy_dtype(p.type.dtype)))
            for p, a in zip(block.params, arrays, strict=True)
        ]
        return [x.data for x in self.block(block, values, dict(env))]

    def for_loop(self, inst: Inst, operands: list[Tile], env: Env) -> list[Tile]:
        low, high, step, *carried = operands
        held = numpy_dtype(low.type.dtype)
        with self.machine.waits.turning() as turn:
            for i in range(int(low.data), int(high.data), int(step.data)):
                turn()
                index = Tile(low.type, np.array(i, held))
                carried = self.block(inst.blocks[0], [index, *carried], env)
        return carried

    def while_loop(self, inst: Inst, carried: list[Tile], env: Env) -> list[Tile]:
        before, body = inst.blocks
        while True:
            condition = self.block(before, carried, env)[0]
            self.machine.here, self.machine.carried = inst.loc, carried
            if not self.machine.concrete(condition, "a condition"):
                return carried
            carried = self.block(body, carried, env)

    def branch(self, inst: Inst, operands: list[Tile], env: Env) -> list[Tile]:
        taken = inst.blocks[0] if bool(operands[0].data) else inst.blocks[1]
        return self.block(taken, [], env)


def run_ir(
    kernel: Kernel,
    grid: Sequence[int],
    values: Sequence[Any],
    *,
    observers: Sequence[Callable] = (),
    order_seed: int = 0,
    only: Sequence[int | None] | None = None,
    debug: bool = False,
) -> Eager:
    """Run a launch of a kernel's IR; `values` are Buffers and Scalars for its parameters."""
    machine = Eager(kernel.name, full_grid(grid), observers, debug)
    runner = Runner(machine)
    with running(machine), np.errstate(all="ignore"):
        tiles = [machine.argument(v).handle for v in values]
        for tile, param in zip(tiles, kernel.params, strict=True):
            check_argument(kernel, param.name, tile.type, param.type)
        for program in programs(machine.grid, order_seed, only):
            machine.start(program)
            runner.block(kernel.body, tiles, {})
    return machine


def check_argument(kernel: Kernel, name: str, found: Type, wanted: Type) -> None:
    same = found == wanted or (
        found.dtype.is_pointer
        and wanted.dtype.is_pointer
        and found.dtype.element_ty == wanted.dtype.element_ty
    )
    if not same:
        raise InternalError(f"{kernel.name}: {name} is {found}, the kernel wants {wanted}")
