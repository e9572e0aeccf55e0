"""Prefetches of the rows that a nest reads or stores later, after products filled the caches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.ir.inst import Inst, Value
from tilewright.targets.cpu.forms import Index, Steps
from tilewright.targets.cpu.gemm_prefetch import CACHE_LINE, PREFETCH

if TYPE_CHECKING:
    from tilewright.targets.cpu.nest import NestWriter
    from tilewright.targets.cpu.schedule import Anchor

ROWS = 16  # ahead: the time that a line takes from memory
MOST_BYTES = 2048  # of a row: longer ones are seen coming by the machine


def prefetch_rows(nest: NestWriter, row: Sequence[Index]) -> None:
    """Ask for the row that comes some rows after this one."""
    e, shape, axis = nest.e, nest.nest.shape, nest.nest.axis
    outer = [d for d, n in enumerate(shape) if d != axis and n > 1]
    if nest.nest.rare:
        return
    there, above = [*row], row[outer[-1]]
    there[outer[-1]] = Index(e.b.add(above.base, e.const(ROWS)), above.depth)
    for anchor in nest.nest.anchors:
        access = access_of(anchor)
        if access is not None and nest.foreseen.get(access.operands[0]):
            prefetch_row(nest, access, tuple(there), shape[axis])


def prefetch_row(nest: NestWriter, access: Inst, row: tuple[Index, ...], length: int) -> None:
    e, w, pointer = nest.e, nest.w, access.operands[0]
    size = pointer.type.dtype.element_ty.bytes
    form = e.eval(pointer, row)
    if not isinstance(form, Steps) or form.stride != size or length * size > MOST_BYTES:
        return
    w.declare(PREFETCH)
    writes = int(access.op.name == "store")
    # Rows begin anywhere in a line, so that the last element may be in one line more.
    for offset in (*range(0, length, CACHE_LINE // size), length - 1):
        at = e.b.offset(form.base, e.const(offset))
        w.write(f"call void @llvm.prefetch.p0({at.typed}, i32 {writes}, i32 3, i32 1)")


def access_of(anchor: Anchor) -> Inst | None:
    """The access that an anchor is there for: its store, or the load of a product's operand."""
    if anchor.kind == "store":
        return anchor.inst
    return load_behind(anchor.value) if anchor.kind == "pack" else None


def load_behind(value: Value) -> Inst | None:
    while value.inst is not None and value.inst.op.name == "cast":
        value = value.inst.operands[0]
    return value.inst if value.inst is not None and value.inst.op.name == "load" else None
