"""Turned copies of kept matrices, so that reading along their columns is contiguous too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.ir import types as t
from tilewright.ir.inst import Value
from tilewright.later import later
from tilewright.targets.cpu.buffers import Buffer
from tilewright.targets.cpu.follow import follow
from tilewright.targets.cpu.kinds import is_large
from tilewright.targets.cpu.schedule import Anchor, Nest

if TYPE_CHECKING:
    from tilewright.targets.cpu.lower import Lowering

gemm = later("tilewright.targets.cpu.gemm")
gemm_pack = later("tilewright.targets.cpu.gemm_pack")

UNITS = {1: t.int8, 2: t.int16, 4: t.int32, 8: t.int64}


def turn(x: Lowering, source: Buffer, target: str) -> None:
    """Copy the transpose of a matrix in scratch to `target`."""
    rows, columns = source.type.shape
    unit = UNITS[source.type.dtype.bytes]
    panel = gemm.Panel(rows)
    routine = gemm_pack.pack_transposed_function(columns, rows, unit, unit, panel, x.machine)
    x.call(routine, f"ptr {target}, ptr {source.name}, i64 {columns}")


def turned_type(buffer: Buffer) -> t.Type:
    rows, columns = buffer.type.shape
    return buffer.type.with_shape((columns, rows))


def turn_for(x: Lowering, nest: Nest) -> list[str]:
    """Turn the kept matrices that a nest reads along their columns; gives what to forget."""
    e, names = x.e, []
    for anchor in nest.anchors:
        for root in anchor.roots:
            for value, dim in follow(root, anchor.along(nest.axis), x.plan.kept):
                buffer = e.buffers.get(value)
                if dim != 0 or buffer is None or not is_large(value):
                    continue
                if buffer.name in e.turned or written_in(value, nest):
                    continue
                copy = Buffer(x.turned_scratch(buffer), turned_type(buffer), buffer.reads_as)
                turn(x, buffer, copy.name)
                e.turned[buffer.name] = copy
                names.append(buffer.name)
    return names


def written_in(value: Value, nest: Nest) -> bool:
    return any(a.value is value or a.target is value for a in nest.anchors)


def kept_sideways(anchor: Anchor, axis: int) -> bool:
    """Whether a nest keeps a matrix column by column."""
    return anchor.kind == "keep" and axis == 0 and is_large(anchor.value)
