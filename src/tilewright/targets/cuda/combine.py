"""Combining functions of reductions and scans: an op by name, or a region."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tilewright.codegen.literals import Lane
from tilewright.errors import UnsupportedError
from tilewright.ir import types as t
from tilewright.ir.inst import Block, Inst, Value
from tilewright.ir.op import OPS
from tilewright.ir.types import DType
from tilewright.ops.rules import numpy_dtype

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering

Group = tuple[Lane, ...]  # one value of each operand
NARROW = (t.float16, t.bfloat16)
ROUNDING = 1e-2  # of the largest number around: what rounding, at worst after cancelling, changes
SAMPLES = (0, 1, 2, 3, -1, 7, 100, -100)


class Combiner:
    """What makes one group of values of two."""

    def __init__(self, x: Lowering, inst: Inst):
        self.x = x
        self.inst = inst
        self.name = inst.attrs.get("combine", "")

    def __call__(self, xs: Sequence[Lane], ys: Sequence[Lane]) -> Group:
        b = self.x.e.b
        if self.name:
            return (OPS[self.name].emit(b, xs[0], ys[0]),)
        block = self.inst.blocks[0]
        known = dict(zip(block.params, [*xs, *ys], strict=True))
        return tuple(run(self.x, block, known))

    def dtype(self, dtype: DType) -> DType:
        """What is combined: sums and products of 16-bit floats are kept in fp32."""
        return t.float32 if dtype in NARROW and self.name in ("add", "mul") else dtype

    @property
    def commutes(self) -> bool:
        """Whether the order of operands makes no difference."""
        if self.name:
            return self.name not in ("sub", "div")
        return commutes(self.inst.blocks[0])


def run(x: Lowering, block: Block, known: dict[Value, Lane]) -> list[Lane]:
    """What a region of elementwise instructions gives for these lanes."""
    b = x.e.b

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
            yes, no = (run(x, inner, dict(known)) for inner in inst.blocks)
            results = [b.select(condition, p, q) for p, q in zip(yes, no, strict=True)]
        elif inst.op.is_elementwise:
            results = [inst.op.emit(b, *[lane(v) for v in inst.operands], **inst.attrs)]
        else:
            raise UnsupportedError(f"a combining function cannot use {name}", inst.loc)
        known.update(zip(inst.results, results, strict=True))
    return []


# --- does the order matter? Asked of the function itself, on samples


def commutes(block: Block) -> bool:
    """Whether a region gives the same for its two groups swapped, on many samples.

    What only rounds in another way counts as the same, as does which NaN comes first.
    """
    count = len(block.params) // 2
    columns = [samples(p.type.dtype) for p in block.params[:count]]
    rng = np.random.default_rng(0)
    size = 512
    xs = [column[rng.integers(0, len(column), size)] for column in columns]
    ys = [column[rng.integers(0, len(column), size)] for column in columns]
    one = evaluate(block, [*xs, *ys])
    two = evaluate(block, [*ys, *xs])
    if one is None or two is None:
        return False
    numbers = [x.astype(np.float64) for x in (*xs, *ys, *one, *two)]
    usual = np.isfinite(numbers).all(axis=0)
    scale = np.abs(numbers).max(axis=0)[usual]
    for p, q in zip(one, two, strict=True):
        rounding = 0 if p.dtype.kind in "biu" else ROUNDING
        apart = np.abs(p[usual].astype(np.float64) - q[usual].astype(np.float64))
        if (apart > rounding * scale).any():
            return False
    return True


def samples(dtype: DType) -> np.ndarray:
    held = numpy_dtype(dtype)
    numbers = np.array(SAMPLES).astype(held)
    if dtype.is_float and dtype.bits >= 16:
        extra = np.array([np.nan, np.inf, -np.inf, 0.5, -2.5]).astype(held)
        return np.concatenate([numbers, extra])
    return numbers


def evaluate(block: Block, values: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """A region on arrays; None where it does more than compute element by element."""
    known = dict(zip(block.params, values, strict=True))
    for inst in block.insts:
        if any(v not in known for v in inst.operands):
            return None
        operands = [known[v] for v in inst.operands]
        if inst.op.name == "yield":
            return [np.broadcast_to(o, values[0].shape) for o in operands]
        if not (inst.op.is_elementwise or inst.op.name == "constant"):
            return None
        with np.errstate(all="ignore"):
            known[inst.result] = np.asarray(inst.op.eager(*operands, **inst.attrs))
    return None
