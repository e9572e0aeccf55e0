"""Bring the operands of a matrix product into the layout that the microkernel reads."""

from __future__ import annotations

from tilewright.codegen.lanes import Lane, llvm_type
from tilewright.codegen.llvm import Machine
from tilewright.ir import types as ty
from tilewright.ir.types import DType, pointer_to
from tilewright.targets.cpu.gemm import Panel
from tilewright.targets.cpu.routine import Function, Routine

# Arguments: where to, 64-byte aligned; where from; elements between rows of the source.
_OUT, _SOURCE, _STRIDE = "%out", "%source", Lane("%ld", ty.int64)


def pack_rows_function(
    k: int, n: int, source: DType, operand: DType, panel: Panel, machine: Machine
) -> Function:
    """`void (ptr out, ptr source, i64 ld)`: a row-major k x n tile into panels of `operand`."""
    r = Routine(machine)
    width, group = panel.width, panel.k_group
    out, start = Lane(_OUT, pointer_to(operand)), Lane(_SOURCE, pointer_to(source))
    lanes = min(width, machine.vector_bytes // operand.bytes)
    step = min(width, 8 * lanes)

    def rows(i: Lane) -> None:
        def panels(j: Lane) -> None:
            def columns(c: Lane) -> None:
                here = r.at(start, r.b.mul(i, _STRIDE), r.times(j, width), c)
                there = r.at(out, r.times(j, k * width), r.times(i, width), r.times(c, group))
                for u in range(0, step, lanes):
                    parts = [
                        r.load(r.at(here, r.times(_STRIDE, row) if row else 0, u), lanes)
                        for row in range(group)
                    ]
                    parts = [r.b.cast(x, operand) for x in parts]
                    for h, x in enumerate(_interleave(r, parts)):
                        r.store(x, r.at(there, u * group + h * lanes), lanes * operand.bytes)

            r.loop(width, step, columns)

        r.loop(n // width, 1, panels)

    r.loop(k, group, rows)
    return _finish(r, "rows", k, n, source, operand, panel)


def pack_transposed_function(
    k: int, n: int, source: DType, operand: DType, panel: Panel, machine: Machine
) -> Function:
    """As `pack_rows_function`, for a source that is the row-major n x k transpose of the tile."""
    r = Routine(machine)
    width, group = panel.width, panel.k_group
    out, start = Lane(_OUT, pointer_to(operand)), Lane(_SOURCE, pointer_to(source))
    # A group of k's of one column moves as one element.
    bits = group * operand.bits
    unit = {8: ty.int8, 16: ty.int16, 32: ty.int32, 64: ty.int64}[bits]
    side = min(width, k // group, machine.vector_bytes // (bits // 8), 16)

    def columns(j: Lane) -> None:
        def within(c: Lane) -> None:
            def rows(i: Lane) -> None:
                column = r.b.add(r.times(j, width), c)
                here = r.at(start, r.b.mul(column, _STRIDE), i)
                there = r.at(out, r.times(j, k * width), r.times(i, width), r.times(c, group))
                square = []
                for u in range(side):
                    ptr = r.at(here, r.times(_STRIDE, u) if u else 0)
                    square.append(_as_units(r, r.b.cast(r.load(ptr, side * group), operand), unit))
                for u, x in enumerate(_transpose(r, square)):
                    r.store(x, r.at(there, u * width * group), side * bits // 8)

            r.loop(k, side * group, rows)

        r.loop(width, side, within)

    r.loop(n // width, 1, columns)
    return _finish(r, "transposed", k, n, source, operand, panel)


def pack_a_function(
    m: int, k: int, source: DType, operand: DType, machine: Machine, *, transposed: bool = False
) -> Function:
    """`void (ptr out, ptr source, i64 ld)`: an m x k tile to row-major `operand`, rows k apart.

    The source is row-major too, or with `transposed` the k x m transpose.
    """
    pack = pack_transposed_function if transposed else pack_rows_function
    return pack(m, k, source, operand, Panel(k), machine)


def _finish(
    r: Routine, kind: str, k: int, n: int, source: DType, operand: DType, panel: Panel
) -> Function:
    shape = f"{k}x{n}_{panel.width}x{panel.k_group}"
    pointer = pointer_to(operand)
    parameters = [Lane(_OUT, pointer), Lane(_SOURCE, pointer), _STRIDE]
    return r.finish(f"tw_pack_{kind}_{shape}_{source.short}_{operand.short}", parameters)


def _interleave(r: Routine, parts: list[Lane]) -> list[Lane]:
    """Vectors whose concatenation has the lanes of each part in turn."""
    if len(parts) == 1:
        return parts
    x, y = parts
    order = [lane for i in range(x.width) for lane in (i, x.width + i)]
    return [_shuffle(r, x, y, order[: x.width]), _shuffle(r, x, y, order[x.width :])]


def _shuffle(r: Routine, x: Lane, y: Lane, order: list[int]) -> Lane:
    mask = ", ".join(f"i32 {i}" for i in order)
    text = f"shufflevector {x.typed}, {y.typed}, <{len(order)} x i32> <{mask}>"
    return r.b.value(text, x.dtype, len(order))


def _as_units(r: Routine, x: Lane, unit: DType) -> Lane:
    """The bits of a vector as fewer, wider lanes."""
    width = x.width * x.dtype.bits // unit.bits
    return r.b.value(f"bitcast {x.typed} to {llvm_type(unit, width)}", unit, width)


def _transpose(r: Routine, rows: list[Lane]) -> list[Lane]:
    """The columns of a square of lanes: at each stage, pairs of rows swap halves of their runs."""
    side = len(rows)
    run = 1
    while run < side:
        out: list[Lane] = [*rows]
        for i in range(side):
            if i & run:
                continue
            x, y = rows[i], rows[i + run]
            low = [lane if not lane & run else side + lane - run for lane in range(side)]
            out[i] = _shuffle(r, x, y, low)
            out[i + run] = _shuffle(r, x, y, [lane + run for lane in low])
        rows = out
        run *= 2
    return rows
