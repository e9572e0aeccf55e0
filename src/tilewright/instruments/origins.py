"""A machine that follows offsets that ran over 2^31, and numbers that are none, to memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..eager.machine import Eager, Tile
from ..errors import Loc
from ..ir import types as t
from ..ir.op import Op
from ..ops import math as m
from ..ops import shape
from .findings import Finding

EXACT = {m.add: np.add, m.sub: np.subtract, m.mul: np.multiply}
# Where a number that ran over is meant: hashes, random numbers, indices that are cut to size.
ENDS = {m.bit_and, m.bit_or, m.bit_xor, m.bit_not, m.shl, m.shr, m.irem}
MOVES = {shape.splat, shape.broadcast, shape.reshape, shape.permute}
ACCESSES = {"read": "load", "write": "store", "atomic": "atomic"}


class Origins(Eager):
    """The eager machine; reports where such a number is used as an address or stored."""

    report: Callable[[Finding], None]

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        # By the identity of a tile: the tile, which elements ran over, and where that was.
        self.over: dict[int, tuple[Tile, np.ndarray, Loc | None]] = {}
        # By the identity of a tile: the tile, the op that made its first NaN, and where.
        self.made: dict[int, tuple[Tile, str, Loc | None]] = {}

    def start(self, program: tuple[int, int, int]) -> None:
        super().start(program)
        self.over.clear()
        self.made.clear()

    def emit(self, op: Op, *operands: Tile, region: Any = None, **attrs: Any) -> Any:
        if op.effect in ACCESSES:
            self.look_at_access(op, operands)
        out = super().emit(op, *operands, region=region, **attrs)
        if op.effect == "pure":
            for tile in out if isinstance(out, tuple) else (out,):
                if tile.type.dtype.is_float:
                    self.follow_nan(op, operands, tile)
                elif not isinstance(out, tuple):
                    self.follow_overflow(op, operands, tile, attrs)
        return out

    # --- integers

    def follow_overflow(
        self, op: Op, operands: tuple[Tile, ...], out: Tile, attrs: dict[str, Any]
    ) -> None:
        over, loc = self.overflow(op, operands, out), None
        if over is not None:
            loc = self.loc()
        for x in operands if op not in ENDS else ():
            if id(x) in self.over:
                _, before, loc = self.over[id(x)]
                before = op.eager(before, **attrs) if op in MOVES else before
                if np.shape(before) not in (out.type.shape, ()):
                    before = np.asarray(before.any())
                over = before if over is None else over | before
        if over is not None and (out.type.dtype.is_integer or out.type.dtype.is_pointer):
            self.over[id(out)] = (out, np.asarray(over), loc)

    def overflow(self, op: Op, operands: tuple[Tile, ...], out: Tile) -> np.ndarray | None:
        if op not in EXACT or out.type.dtype is not t.int32:
            return None
        exact = EXACT[op](*(x.data.astype(np.int64) for x in operands))
        over = exact != out.data
        return over if over.any() else None

    # --- floats

    def follow_nan(self, op: Op, operands: tuple[Tile, ...], out: Tile) -> None:
        if not operands or op is m.bitcast or not has_nan(out):
            return
        sources = [x for x in operands if x.type.dtype.is_float and has_nan(x)]
        if not sources:
            self.made[id(out)] = (out, op.name, self.loc())
            return
        found = next((self.made[id(x)] for x in sources if id(x) in self.made), None)
        if found is not None:
            self.made[id(out)] = (out, *found[1:])

    # --- where they end

    def look_at_access(self, op: Op, operands: tuple[Tile, ...]) -> None:
        pointer, access = operands[0], op.access
        mask = operands[access.mask].data if 0 <= access.mask < len(operands) else np.True_
        if id(pointer) in self.over:
            _, over, loc = self.over[id(pointer)]
            if (over & mask).any():
                self.tell(
                    "overflow", pointer, mask, loc,
                    f"int32 arithmetic ran over 2^31 in program {self.program}, and the result is "
                    f"an offset of the {ACCESSES[op.effect]} at {self.loc()}; make one factor "
                    "int64, e.g. with .to(tl.int64)",
                )  # fmt: skip
        value = operands[access.value] if access.value >= 0 else None
        if id(value) in self.made and (np.isnan(value.data.astype(np.float64)) & mask).any():
            _, source, loc = self.made[id(value)]
            self.tell(
                "nan", pointer, mask, loc,
                f"{source} made a NaN of operands without one in program {self.program}; it is "
                f"stored at {self.loc()}",
            )  # fmt: skip

    def tell(
        self, kind: str, pointer: Tile, mask: np.ndarray, loc: Loc | None, message: str
    ) -> None:
        active = np.broadcast_to(mask, pointer.type.shape)
        number = self.memory.number(pointer.data[active].flat[0])
        buffers = self.memory.buffers
        name = buffers[number - 1].name if 0 < number <= len(buffers) else ""
        self.report(Finding(kind, self.name, name, self.program, loc, message))


def has_nan(tile: Tile) -> bool:
    return bool(np.isnan(tile.data.astype(np.float64)).any())
