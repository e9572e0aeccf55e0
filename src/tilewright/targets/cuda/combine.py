"""Combining functions of reductions and scans: an op by name, or a region."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.errors import UnsupportedError
from tilewright.ir import types as t
from tilewright.ir.inst import Block, Inst, Value
from tilewright.ir.op import OPS
from tilewright.ir.types import DType
from tilewright.passes.commutes import commutes

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering

Group = tuple[Lane, ...]  # one value of each operand
NARROW = (t.float16, t.bfloat16)


class Combiner:
    """What makes one group of values of two."""

    def __init__(self, x: Lowering, inst: Inst):
        self.x = x
        self.inst = inst
        self.name = inst.attrs.get("combine", "")

    def __call__(self, xs: Sequence[Lane], ys: Sequence[Lane], on: Lane | None = None) -> Group:
        """Both combined; assertions count where `on` holds."""
        b = self.x.e.b
        if self.name:
            return (OPS[self.name].emit(b, xs[0], ys[0]),)
        block = self.inst.blocks[0]
        known = dict(zip(block.params, [*xs, *ys], strict=True))
        return tuple(run(self.x, block, known, on))

    def dtype(self, dtype: DType) -> DType:
        """What is combined: sums and products of 16-bit floats are kept in fp32."""
        return t.float32 if dtype in NARROW and self.name in ("add", "mul") else dtype

    @property
    def commutes(self) -> bool:
        """Whether the order of operands makes no difference, save for which NaN is chosen."""
        if self.name:
            return self.name not in ("sub", "div")
        return commutes(self.inst.blocks[0], with_nan=False)


def run(x: Lowering, block: Block, known: dict[Value, Lane], on: Lane | None = None) -> list[Lane]:
    """What a region of elementwise instructions gives for these lanes."""
    b = x.e.b

    def both(p: Lane | None, q: Lane) -> Lane:
        return q if p is None else b.bit_and(p, q)

    def lane(value: Value) -> Lane:
        return known[value] if value in known else x.scalar(value)

    for inst in block.insts:
        name = inst.op.name
        if name == "yield":
            return [lane(v) for v in inst.operands]
        if name == "constant":
            results = [b.const(inst.attrs["value"], inst.result.type.dtype)]
        elif name == "if":
            condition = lane(inst.operands[0])
            sides = (both(on, condition), both(on, b.bit_not(condition)))
            yes, no = (
                run(x, inner, dict(known), side)
                for inner, side in zip(inst.blocks, sides, strict=True)
            )
            results = [b.select(condition, p, q) for p, q in zip(yes, no, strict=True)]
        elif name == "device_assert":
            holds, *mask = map(lane, inst.operands)
            wrong = both(mask[0] if mask else None, b.bit_not(holds))
            x.guard.report(inst, b.const(0, t.uint64), both(on, wrong))
            results = []
        elif inst.op.is_elementwise:
            results = [inst.op.emit(b, *[lane(v) for v in inst.operands], **inst.attrs)]
        else:
            raise UnsupportedError(f"a combining function cannot use {name}", inst.loc)
        known.update(zip(inst.results, results, strict=True))
    return []
