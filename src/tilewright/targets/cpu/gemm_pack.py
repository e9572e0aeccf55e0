"""Bring the operands of a matrix product into the layout that the microkernel reads."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tilewright.codegen.lanes import Lane, llvm_type
from tilewright.codegen.literals import suffix
from tilewright.codegen.llvm import Machine
from tilewright.ir import types as ty
from tilewright.ir.types import DType, pointer_to
from tilewright.targets.cpu.gemm import Gemm, Left, Panel
from tilewright.targets.cpu.gemm_prefetch import CACHE_LINE
from tilewright.targets.cpu.routine import Function, Routine

# Arguments: where to, 64-byte aligned; where from; elements between rows of the source; with
# `live`, how many rows (a multiple of the panel's group) and columns of the tile there are. With
# `gathered`, which implies `live`, the source is an array of the addresses of all rows.
_OUT, _SOURCE, _STRIDE = "%out", "%source", Lane("%ld", ty.int64)
_DEPTH, _COLUMNS = Lane("%depth", ty.int64), Lane("%columns", ty.int64)


def pack_function(
    g: Gemm, side: int, source: DType, machine: Machine, *, along_rows: bool, **options: bool
) -> Function:
    """What brings an operand to where the microkernel looks for it.

    `along_rows` says whether it is rows that are contiguous in memory. The routine takes the steps
    of k before the rows or columns, but for left operands that are not turned.
    """
    if side == 0 and g.left is not Left.TURNED:
        make = pack_rows_function if along_rows else pack_transposed_function
        return make(g.m, g.k, source, g.operand, Panel(g.k, bias=g.bias), machine, **options)
    if side == 0:
        make = pack_transposed_function if along_rows else pack_rows_function
        return make(g.k, g.m, source, g.operand, g.left_panel, machine, **options)
    make = pack_rows_function if along_rows else pack_transposed_function
    return make(g.k, g.n, source, g.operand, g.panel, machine, **options)


@cache
def pack_rows_function(
    k: int, n: int, source: DType, operand: DType, panel: Panel, machine: Machine,
    *, live: bool = False, gathered: bool = False,
) -> Function:  # fmt: skip
    """`void (ptr out, ptr source, i64 ld)`: a row-major k x n tile into panels of `operand`."""
    r = Routine(machine)
    width, group = panel.width, panel.k_group
    out, row_at = Lane(_OUT, pointer_to(operand)), _rows(r, source, gathered)
    live = live or gathered
    lanes = min(width, machine.vector_bytes // operand.bytes)
    step = min(width, 8 * lanes)

    def group_at(i: Lane) -> list[Lane]:
        return [row_at(r.b.add(i, r.index(u)) if u else i) for u in range(group)]

    def piece(rows: list[Lane], there: Lane, left: Lane | None = None) -> None:
        """Some columns of a group of rows."""
        parts = [_converted(r, load_part(r, row, lanes, left), operand, panel) for row in rows]
        for h, x in enumerate(_interleave(r, parts)):
            r.store(x, r.at(there, h * lanes), lanes * operand.bytes)

    def every_row(take: Callable[[Lane], None]) -> None:
        if live:
            r.count(r.index(0), _DEPTH, group, take)
        else:
            r.loop(k, group, take)

    def columns_of_panel(j: Lane) -> None:
        first, there = r.times(j, width), r.at(out, r.times(j, k * width))

        def row(i: Lane) -> None:
            sources = [r.at(row, first) for row in group_at(i)]
            target = r.at(there, r.times(i, width))

            def columns(c: Lane) -> None:
                for u in range(0, step, lanes):
                    rows = [r.at(row, c, u) for row in sources]
                    piece(rows, r.at(target, r.times(c, group), u * group))

            r.loop(width, step, columns)

        every_row(row)

    def rest(c: Lane) -> None:
        within = r.b.bit_and(c, r.index(width - 1))
        there = r.at(out, r.times(r.b.sub(c, within), k), r.times(within, group))
        left = r.b.sub(_COLUMNS, c)

        def row(i: Lane) -> None:
            piece([r.at(row, c) for row in group_at(i)], r.at(there, r.times(i, width)), left)

        every_row(row)

    if live:
        whole = r.b.shr(_COLUMNS, r.index(width.bit_length() - 1))
        r.count(r.index(0), whole, 1, columns_of_panel)
        r.count(r.times(whole, width), _COLUMNS, lanes, rest)
    else:
        r.loop(n // width, 1, columns_of_panel)
    return _finish(r, "rows", k, n, source, operand, panel, live, gathered)


@cache
def pack_transposed_function(
    k: int, n: int, source: DType, operand: DType, panel: Panel, machine: Machine,
    *, live: bool = False, gathered: bool = False,
) -> Function:  # fmt: skip
    """As `pack_rows_function`, for a source that is the row-major n x k transpose of the tile."""
    r = Routine(machine)
    width, group = panel.width, panel.k_group
    out, row_at = Lane(_OUT, pointer_to(operand)), _rows(r, source, gathered)
    live = live or gathered
    # A group of k's of one column moves as one element.
    bits = group * operand.bits
    unit = {8: ty.int8, 16: ty.int16, 32: ty.int32, 64: ty.int64}[bits]
    side = transposed_side(k, panel, operand, machine)
    line = CACHE_LINE // source.bytes
    last = r.b.sub(_COLUMNS, r.index(1)) if live else None

    def square(column: Lane, i: Lane, there: Lane) -> None:
        parts = []
        for u in range(side):
            number = r.b.add(column, r.index(u)) if u else column
            number = r.b.minimum(number, last) if live and u else number
            ptr = r.at(row_at(number), i)
            x = load_part(r, ptr, side * group, r.b.sub(_DEPTH, i) if live else None)
            parts.append(_as_units(r, _converted(r, x, operand, panel), unit))
        for u, x in enumerate(_transpose(r, parts)):
            r.store(x, r.at(there, u * width * group), side * bits // 8)

    def columns(column: Lane) -> None:
        within = r.b.bit_and(column, r.index(width - 1))
        panel_start = r.times(r.b.sub(column, within), k)
        following = r.b.add(column, r.index(side))

        def ask(u: Lane) -> None:
            row = row_at(r.b.add(following, u))
            for i in range(0, k, line):
                r.prefetch(r.at(row, i))

        # What was asked for a product ago may be gone: rows a power of two apart push each other
        # out of the caches.
        if not gathered:
            r.loop(side, 1, ask)

        def rows(i: Lane) -> None:
            there = r.at(out, panel_start, r.times(i, width), r.times(within, group))
            square(column, i, there)

        if live:
            r.count(r.index(0), _DEPTH, side * group, rows)
        else:
            r.loop(k, side * group, rows)

    if live:
        r.count(r.index(0), _COLUMNS, side, columns)
    else:
        r.loop(n, side, columns)
    return _finish(r, "transposed", k, n, source, operand, panel, live, gathered)


def transposed_side(k: int, panel: Panel, operand: DType, machine: Machine) -> int:
    """How many groups of rows, and columns, are transposed at a time."""
    unit_bytes = panel.k_group * operand.bytes
    return min(panel.width, k // panel.k_group, machine.vector_bytes // unit_bytes, 16)


def cheap_masks(dtype: DType, machine: Machine) -> bool:
    """Whether a part of a vector can be read as fast as all of it."""
    if machine.arch != "x86_64":
        return False
    return machine.vector_bytes == 64 or (machine.vector_bytes == 32 and dtype.bytes >= 4)


def load_part(r: Routine, ptr: Lane, width: int, left: Lane | None) -> Lane:
    """The first `left` of some elements, zeros for the rest; all of them if it is not told."""
    dtype = ptr.dtype.element_ty
    if left is None:
        return r.load(ptr, width)
    if width == 1:
        return r.load(ptr)
    number = {1: ty.int8, 2: ty.int16, 4: ty.int32, 8: ty.int64}[dtype.bytes]
    mask = r.b.lt(r.b.iota(number, width), r.b.cast(r.b.minimum(left, r.index(width)), number))
    zero = r.b.const(0, dtype, width)
    name = f"llvm.masked.load.{suffix(dtype, width)}.p0"
    r.b.require(f"declare {zero.type} @{name}(ptr, {mask.type}, {zero.type})")
    text = (
        f"call {zero.type} @{name}(ptr align {dtype.bytes} {ptr.text}, {mask.typed}, {zero.typed})"
    )
    return r.b.value(text, dtype, width)


def _converted(r: Routine, x: Lane, operand: DType, panel: Panel) -> Lane:
    x = r.b.cast(x, operand)
    return r.b.add(x, r.b.const(panel.bias, operand, x.width)) if panel.bias else x


def _rows(r: Routine, source: DType, gathered: bool) -> Callable[[Lane], Lane]:
    """Where a row of the source begins, by its number."""
    start, addresses = (Lane(_SOURCE, pointer_to(x)) for x in (source, ty.int64))

    def row_at(number: Lane) -> Lane:
        if not gathered:
            return r.at(start, r.b.mul(number, _STRIDE))
        place = r.at(addresses, number)
        return r.b.value(f"load ptr, ptr {place.text}", start.dtype, 1)

    return row_at


def _finish(
    r: Routine, kind: str, k: int, n: int, source: DType, operand: DType, panel: Panel,
    live: bool, gathered: bool,
) -> Function:  # fmt: skip
    shape = f"{k}x{n}_{panel.width}x{panel.k_group}"
    pointer = pointer_to(operand)
    parameters = [Lane(_OUT, pointer), Lane(_SOURCE, pointer), _STRIDE]
    parameters += [_DEPTH, _COLUMNS] if live else []
    name = f"tw_pack_{kind}_{shape}_{source.short}_{operand.short}"
    name += "_biased" * bool(panel.bias) + "_live" * live + "_gathered" * gathered
    return r.finish(name, parameters)


def _interleave(r: Routine, parts: list[Lane]) -> list[Lane]:
    """Vectors whose concatenation has the lanes of each part in turn."""
    if len(parts) == 1:
        return parts
    half = len(parts) // 2
    evens, odds = _interleave(r, parts[::2]), _interleave(r, parts[1::2])
    width = parts[0].width
    order = [lane for i in range(width) for lane in (i, width + i)]
    orders = (order[:width], order[width:])
    return [_shuffle(r, evens[h], odds[h], o) for h in range(half) for o in orders]


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
