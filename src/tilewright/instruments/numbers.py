"""Which ops make NaN, infinities and integers that are not what arithmetic says they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.eager.machine import Tile
from tilewright.errors import Loc
from tilewright.instruments.fillers import KEEPS, NONE, REAL
from tilewright.instruments.marks import MOVES, Lanes, Origin, lanes_of, through
from tilewright.ir import types as t
from tilewright.ir.op import Op
from tilewright.ops import dot as d
from tilewright.ops import math as m
from tilewright.ops import reduce as r
from tilewright.ops import shape as s

EXACT = {m.add: np.add, m.sub: np.subtract, m.mul: np.multiply}
# Where a number that ran over is meant: hashes, random numbers, indices that are cut to size.
ENDS = {m.bit_and, m.bit_or, m.bit_xor, m.bit_not, m.shl, m.shr, m.irem}
BITS = {m.bit_and, m.bit_or, m.bit_xor, m.bit_not, m.shl, m.shr, m.bitcast}
NARROW = (t.int8, t.int16, t.int32, t.uint8, t.uint16, t.uint32)
SMALL = (t.int8, t.int16, t.uint8, t.uint16)  # dtypes whose arithmetic hardly runs over on purpose
RUN_OVER = {m.add, m.sub, m.mul, m.fma, m.cast, r.reduce, r.scan, d.dot}
Where = Callable[[], Loc | None]
Made = Iterator[tuple[Origin, Lanes]]


def made(
    op: Op, operands: Sequence[Tile], out: Tile, part: int, attrs: dict[str, Any], where: Where
) -> Made:
    """What an op makes of operands that do not have it; `part` is the number of the result."""
    dtype = out.type.dtype
    if not operands or op is m.bitcast:
        return
    if op is s.gather:
        yield from gathered(operands, attrs["axis"], where)
        return
    if dtype.is_float:
        yield from floats_made(op, operands, out, part, attrs, where)
    elif dtype.is_integer and dtype is not t.int1:
        yield from integers_made(op, operands, out, where)
        if op in (r.reduce, r.scan) and attrs.get("combine") == "add":
            yield from totals_made(op, operands[0], out, attrs, where)


def keeps(origin: Origin, op: Op, out: Tile) -> Lanes | bool:
    """In which elements of a result what came in is still there."""
    dtype = out.type.dtype
    if origin.kind == "overflow":
        if origin.op is not None:  # a total
            return op not in ENDS
        if op is m.cast and dtype.is_integer and dtype.bits <= origin.dtype.bits:
            return origin.dtype in SMALL and dtype is origin.dtype  # others take the bits of it
        if dtype.is_float:
            return origin.dtype in SMALL
        whole = dtype.is_pointer or (dtype.is_integer and dtype is not t.int1)
        return whole and op not in ENDS
    if origin.kind in ("nan", "inf") and not origin.lost:
        test = np.isnan if origin.kind == "nan" else np.isinf
        if dtype.is_float:
            return test(wide(out))
        return dtype.is_integer and dtype is not t.int1  # what a cast made of it
    return True


def gathered(operands: Sequence[Tile], axis: int, where: Where) -> Made:
    """Elements of a `tl.gather` whose index is none."""
    index, size = operands[1].data, operands[0].type.shape[axis]
    lanes = (index < 0) | (index >= size)
    if lanes.any():
        text = f"tl.gather takes element {index[lanes].flat[0]} of {size}, which is not defined"
        yield Origin("arithmetic", where(), text), lanes


# --- floats


def wide(x: Tile) -> np.ndarray:
    return x.data if x.type.dtype is t.float64 else x.data.astype(np.float32)


def floats_made(
    op: Op, operands: Sequence[Tile], out: Tile, part: int, attrs: dict[str, Any], where: Where
) -> Made:
    data = wide(out)
    yield from divided(op, operands, where)
    yield from dropped(op, operands, data, where)
    if op is r.reduce and attrs.get("combine") in ("max", "min"):
        yield from passed_over(operands[0], data, attrs, where)
    if np.isfinite(data).all():
        return
    inside = [wide(x) if x.type.dtype.is_float else None for x in operands]
    nan = reached(op, operands, [x if x is None else np.isnan(x) for x in inside], part, attrs)
    inf = reached(op, operands, [x if x is None else np.isinf(x) for x in inside], part, attrs)
    if nan is None or inf is None:
        return
    new = np.isnan(data) & ~nan
    if new.any():
        yield from nan_made(op, operands, new, part, attrs, where)
    new = np.isinf(data) & ~inf & ~nan
    if new.any():
        yield Origin("inf", where(), f"{op.name} made {cause(op, operands)}", op=op), new


def divided(op: Op, operands: Sequence[Tile], where: Where) -> Made:
    """Quotients that are 0 only because their divisor ran over.

    That of `exp` is meant to, where it is the limit of a function such as the sigmoid.
    """
    divisor = operands[-1] if op in (m.div, m.rsqrt) else None
    if divisor is None or divisor.marks is None:
        return
    for origin, lanes in divisor.marks.lanes.items():
        if origin.kind == "inf" and origin.op in RUN_OVER:
            text = f"{origin.text}, by which {op.name} at {where()} divides"
            yield replace(origin, text=text, lost=True, op=None), lanes


def dropped(op: Op, operands: Sequence[Tile], data: np.ndarray, where: Where) -> Made:
    """NaN in place of which a maximum or minimum takes its other operand."""
    for x in operands if op in (m.max, m.min) else ():
        for origin, lanes in x.marks.lanes.items() if x.marks is not None else ():
            if origin.kind == "nan" and not origin.lost:
                lanes = lanes & np.isnan(wide(x)) & ~np.isnan(data)
                text = f"{origin.text}, in place of which {op.name} at {where()} takes a number"
                yield replace(origin, text=text, lost=True, op=None), lanes


def passed_over(x: Tile, data: np.ndarray, attrs: dict[str, Any], where: Where) -> Made:
    """NaN that an extreme along a dimension leaves out, in lanes that were not masked off."""
    name, axis = attrs["combine"], attrs["axis"]
    for origin, lanes in x.marks.lanes.items() if x.marks is not None else ():
        if origin.kind == "nan" and not origin.lost:
            lanes = lanes & np.isnan(wide(x))
            if x.marks.share is not None:
                lanes = lanes & ((x.marks.share == REAL) | (x.marks.share == NONE))
            lanes = np.broadcast_to(lanes, x.type.shape).any(axis=axis) & ~np.isnan(data)
            text = f"{origin.text}, which the {name} of others at {where()} leaves out"
            yield replace(origin, text=text, lost=True, op=None), lanes


def nan_made(
    op: Op, operands: Sequence[Tile], new: Lanes, part: int, attrs: dict[str, Any], where: Where
) -> Made:
    """NaN by where the infinity came from that it was made of, if one was made."""
    for origin in origins(operands):
        if origin.kind == "inf":
            lanes = reached(op, operands, [lanes_of(x, origin) for x in operands], part, attrs)
            if lanes is not None and (lanes & new).any():
                text = f"{origin.text}, of which {op.name} at {where()} made a NaN"
                yield Origin("nan", origin.loc, text), lanes & new
                new = new & ~lanes
    if new.any():
        yield Origin("nan", where(), f"{op.name} made a NaN of operands without one"), new


def cause(op: Op, operands: Sequence[Tile]) -> str:
    if op is m.cast:
        return f"an infinity of a number that {operands[0].type.dtype} holds"
    return "an infinity of finite numbers"


def legitimate(
    op: Op, operands: Sequence[Tile], part: int, attrs: dict[str, Any], test: Callable, kind: str
) -> Lanes | None:
    """Elements whose NaN or infinity comes from an operand that had it by right."""
    lanes = []
    for x in operands:
        if not x.type.dtype.is_float:
            lanes.append(None)
            continue
        some = test(wide(x))
        for origin, others in x.marks.lanes.items() if x.marks is not None else ():
            if origin.kind == kind:
                some = some & ~others
        lanes.append(some)
    return reached(op, operands, lanes, part, attrs)


def reached(
    op: Op,
    operands: Sequence[Tile],
    lanes: Sequence[Lanes | None],
    part: int,
    attrs: dict[str, Any],
) -> Lanes | None:
    """`through`, of one of the results."""
    if all(x is None for x in lanes):
        return np.False_
    found = through(op, operands, lanes, attrs)
    return found[part] if isinstance(found, tuple) else found


def origins(operands: Sequence[Tile]) -> list[Origin]:
    """All that is noted of some operand, in order."""
    found = [o for x in operands if x.marks is not None for o in x.marks.lanes]
    return list(dict.fromkeys(found))


# --- integers


def integers_made(op: Op, operands: Sequence[Tile], out: Tile, where: Where) -> Made:
    x = operands[0]
    if op in EXACT and out.type.dtype in NARROW:
        exact = EXACT[op](*(x.data.astype(np.int64) for x in operands))
        lanes = exact != out.data
        if lanes.any():
            dtype = out.type.dtype
            yield Origin("overflow", where(), f"{dtype} arithmetic ran over", dtype=dtype), lanes
    elif op in (m.idiv, m.irem):
        lanes = operands[1].data == 0
        if lanes.any():
            sign = "//" if op is m.idiv else "%"
            yield Origin("arithmetic", where(), f"integer {sign} by zero is not defined"), lanes
    elif op in (m.shl, m.shr):
        bits, amount = out.type.dtype.bits, operands[1].data
        lanes = (amount < 0) | (amount >= bits)
        if lanes.any():
            text = f"a shift of {bits} bits by {amount[lanes].flat[0]} is not defined"
            yield Origin("arithmetic", where(), text), lanes
    elif op is m.cast and x.type.dtype.is_float:
        yield from cast_from_float(x, out, where)
    elif op is m.cast and x.type.dtype is t.int64 and out.type.dtype is t.int32:
        lanes = x.data != out.data
        if lanes.any():
            text = "a cast to int32 lost the upper bits"
            yield Origin("overflow", where(), text, dtype=t.int32), lanes
    elif op is m.cast and out.type.dtype in (t.int8, t.int16):
        yield from cut(x, out, where)


def makes_word(op: Op, operands: Sequence[Tile]) -> bool:
    """Whether the bits of a result are what it is about."""
    if op in MOVES or op in KEEPS:
        return operands[0].marks is not None and operands[0].marks.is_word
    return op in BITS and operands[0].type.dtype is not t.int1


def cut(x: Tile, out: Tile, where: Where) -> Made:
    """Numbers of which a cast keeps the lower bits; those of words are taken on purpose."""
    if not x.type.dtype.is_integer or (x.marks is not None and x.marks.is_word):
        return
    dtype, wide = out.type.dtype, x.data.astype(np.int64)
    # The unsigned numbers of as many bits are kept as they are.
    lanes = (wide < -(1 << (dtype.bits - 1))) | (wide >= 1 << dtype.bits)
    if lanes.any():
        text = f"a cast to {dtype} lost the upper bits of {wide[lanes].flat[0]}"
        yield Origin("overflow", where(), text, dtype=dtype, advised=True), lanes


def totals_made(op: Op, x: Tile, out: Tile, attrs: dict[str, Any], where: Where) -> Made:
    """Sums along a dimension that ran over; unsigned ones may be checksums."""
    dtype = out.type.dtype
    if dtype not in (t.int8, t.int16, t.int32):
        return
    lanes = op.eager(x.data.astype(np.int64), **attrs) != out.data
    if lanes.any():
        yield Origin("overflow", where(), f"a sum in {dtype} ran over", dtype=dtype, op=op), lanes


def cast_from_float(x: Tile, out: Tile, where: Where) -> Made:
    limits = np.iinfo(out.data.dtype)
    numbers = x.data.astype(np.float64)
    whole = np.trunc(numbers)
    # The upper limit of 64 bits is no float64; the next number above it is.
    lanes = ~((whole >= float(limits.min)) & (whole < float(limits.max) + 1))
    for origin, others in x.marks.lanes.items() if x.marks is not None else ():
        if origin.kind in ("nan", "inf"):  # which says more
            lanes = lanes & ~others
    if lanes.any():
        number, dtype = numbers[lanes].flat[0], out.type.dtype
        yield Origin("arithmetic", where(), f"{number:g} as {dtype} is not defined"), lanes
