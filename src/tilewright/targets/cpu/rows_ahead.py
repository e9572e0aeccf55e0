"""Prefetches of the rows that a nest is going to store to, after products filled the caches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.targets.cpu.forms import Index, Steps
from tilewright.targets.cpu.gemm_prefetch import CACHE_LINE, PREFETCH

if TYPE_CHECKING:
    from tilewright.targets.cpu.nest import NestWriter

ROWS = 16  # ahead: the time that a line takes from memory
MOST_BYTES = 2048  # of a row: longer ones are seen coming by the machine


def prefetch_rows(nest: NestWriter, row: Sequence[Index]) -> None:
    """Ask for the row that comes some rows after this one in each store."""
    e, w, shape, axis = nest.e, nest.w, nest.nest.shape, nest.nest.axis
    outer = [d for d, n in enumerate(shape) if d != axis and n > 1]
    if not outer:
        return
    there, above = [*row], row[outer[-1]]
    there[outer[-1]] = Index(e.b.add(above.base, e.const(ROWS)), above.depth)
    for anchor in nest.nest.anchors:
        if anchor.kind != "store" or not nest.foreseen.get(anchor.inst.operands[0]):
            continue
        pointer = anchor.inst.operands[0]
        size = pointer.type.dtype.element_ty.bytes
        length = shape[axis] * size
        form = e.eval(pointer, tuple(there))
        if not isinstance(form, Steps) or form.stride != size or length > MOST_BYTES:
            continue
        w.declare(PREFETCH)
        for offset in range(0, length, CACHE_LINE):
            at = e.b.offset(form.base, e.const(offset // size))
            w.write(f"call void @llvm.prefetch.p0({at.typed}, i32 1, i32 3, i32 1)")
