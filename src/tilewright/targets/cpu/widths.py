"""How many lanes a nest takes at once: as many of its widest numbers as fill a vector."""

from __future__ import annotations

from tilewright.ir.inst import Value
from tilewright.targets.cpu.evaluate import Evaluator
from tilewright.targets.cpu.schedule import Nest


def lanes_of_chunk(e: Evaluator, nest: Nest, vector_bytes: int) -> int:
    return min(nest.shape[nest.axis], max(1, vector_bytes // element_bytes(e, nest)))


def element_bytes(e: Evaluator, nest: Nest) -> int:
    """The size of the widest numbers that the nest computes with."""
    sizes = {1}
    seen: set[Value] = set()
    for anchor in nest.anchors:
        values = (anchor.value,) if anchor.value is not None else anchor.inst.operands
        stack = list(values)
        while stack:
            x = stack.pop()
            if x in seen or not x.type.shape:
                continue
            seen.add(x)
            add_size(e, x, sizes)
            if (
                x.inst is not None
                and x not in e.buffers
                or x.inst is not None
                and anchor.kind == "keep"
                and x is anchor.value
            ):
                stack.extend(x.inst.operands)
    return max(sizes)


def add_size(e: Evaluator, x: Value, sizes: set[int]) -> None:
    """Note the size of the numbers that a value is computed with, if it needs registers."""
    dtype = x.type.dtype
    if dtype.is_float:
        computed = x.inst is not None and x.inst.op.is_elementwise and x not in e.buffers
        narrow = dtype.bits < 32 and computed and x.inst.op.name not in ("cast", "select")
        sizes.add(4 if narrow else dtype.bytes)
    elif dtype.is_integer and (x in e.buffers or (x.inst and x.inst.op.name == "load")):
        sizes.add(dtype.bytes)
