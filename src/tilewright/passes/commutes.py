"""Whether a combining function commutes, asked of the function itself, on samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.ir.inst import Block, Inst
from tilewright.ir.types import DType
from tilewright.ops.rules import numpy_dtype

SAMPLES = (0, 1, 2, 3, -1, 7, 100, -100)
COUNT = 512
ROUNDING = 1e-3  # of numbers around 1, in the dtypes that have so many digits
CHOOSES = ("max", "min", "if")


def commutes(block: Block, with_nan: bool = True) -> bool:
    """Whether a region gives the same for its two groups swapped, but perhaps for rounding."""
    return commutes_exactly(block, with_nan) or commutes_but_for_rounding(block)


def commutes_exactly(block: Block, with_nan: bool = True) -> bool:
    """Whether it does so to the bit, on many samples; among them NaN if they are to be."""
    rng = np.random.default_rng(0)
    half = block.params[: len(block.params) // 2]
    columns = [samples(p.type.dtype) for p in half]
    if not with_nan:
        columns = [c[c == c] for c in columns]
    groups = [[c[rng.integers(0, len(c), COUNT)] for c in columns] for _ in range(2)]
    results = swapped(block, *groups)
    return results is not None and all(p.tobytes() == q.tobytes() for p, q in zip(*results))


def commutes_but_for_rounding(block: Block) -> bool:
    """Whether a region that computes floats, and chooses none, would commute in exact numbers.

    So do the functions that merge means and variances; which number is chosen, of two that are
    equal in part, may tell orders apart where no sample does.
    """
    half = block.params[: len(block.params) // 2]
    if not all(p.type.dtype.is_float for p in half) or any(map(chooses, block.insts)):
        return False
    rng = np.random.default_rng(0)
    groups = [
        [rng.uniform(0.5, 1.5, COUNT).astype(numpy_dtype(p.type.dtype)) for p in half]
        for _ in range(2)
    ]
    results = swapped(block, *groups)
    return results is not None and all(
        np.allclose(p.astype(np.float64), q.astype(np.float64), ROUNDING, ROUNDING)
        for p, q in zip(*results)
    )


def chooses(inst: Inst) -> bool:
    """Whether an instruction gives one of several operands; a constant stands in for an error."""
    if inst.op.name == "select":
        return not any(x.inst is not None and x.inst.op.name == "constant" for x in inst.operands)
    return inst.op.name in CHOOSES


def swapped(block: Block, xs: list, ys: list) -> tuple[list, list] | None:
    """What a region gives for two groups, and for the same in the other order."""
    one, two = evaluate(block, [*xs, *ys]), evaluate(block, [*ys, *xs])
    return None if one is None or two is None else (one, two)


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
