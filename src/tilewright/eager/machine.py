"""The machine that runs ops at once on NumPy arrays."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import numpy as np

from tilewright.eager.memory import Buffer, Memory
from tilewright.eager.port import Port, in_one_line
from tilewright.eager.waits import Waits
from tilewright.errors import (
    CompileError,
    InternalError,
    Loc,
    TypeRuleError,
    excerpt,
    want,
)
from tilewright.ir.op import Op
from tilewright.ir.types import DType, Type, pointer_to
from tilewright.lang.constexpr import unwrap
from tilewright.lang.tensor import tensor
from tilewright.ops import math as m
from tilewright.ops.rules import numpy_dtype
from tilewright.ops.shape import constant

# Ops for which a pointer is the address that it holds.
ADDRESS_OPS = {m.bitcast, m.cast, m.lt, m.le, m.gt, m.ge, m.eq, m.ne}
KINDS = {"read": "load", "write": "store", "atomic": "atomic"}


@dataclass(slots=True)
class Tile:
    """A value: its type, and a NumPy array of that shape.

    `known` marks scalars that a compiled kernel would know as numbers; `marks` is what an
    instrument that follows values notes of it.
    """

    type: Type
    data: np.ndarray
    known: bool = False
    marks: Any = None


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number as an argument of a launch."""

    dtype: DType
    value: int | float | bool


class Eager:
    """Runs one launch, program instance after program instance."""

    # Rounds of a `while` loop in which memory stays as it is: any, and with an atomic operation.
    most_rounds = 1_000_000
    most_polls = 100_000
    most_turns = 1 << 40  # of a `while` loop in one program

    def __init__(
        self,
        name: str = "kernel",
        grid: tuple[int, int, int] = (1, 1, 1),
        observers: Sequence[Callable] = (),
        debug: bool = False,
    ):
        self.name = name
        self.grid = grid
        self.observers = tuple(observers)
        self.debug = debug
        self.sanitize = False
        self.warps = 4
        self.padding = ""
        self.calls = 0  # of functions of the language that are being made, where it matters
        self.program = (0, 0, 0)
        self.memory = Memory()
        self.codes: set[CodeType] = set()  # of the user's functions
        self.caller: Callable | None = None  # how a jit function is called
        self.here: Loc | None = None  # where the instruction stands, when IR is run
        self.op: Op | None = None  # the op that is being run, and how, for observers
        self.attrs: dict[str, Any] = {}
        self.waits = Waits()
        self.carried: Sequence[Tile] = ()  # what a loop hands on, when IR is run

    def start(self, program: tuple[int, int, int]) -> None:
        """From now on this program instance runs."""
        self.program = program
        self.waits.start()

    # --- the machine

    def emit(self, op: Op, *operands: Tile, region: Any = None, **attrs: Any) -> Any:
        """Run one op; gives its value, a tuple of values, or None."""
        types = [x.type for x in operands]
        try:
            result = op.rule(*types, **attrs)
        except CompileError as error:
            if error.loc is None:
                error.loc = self.loc()
            raise
        except TypeError as error:
            raise TypeRuleError(f"{op.name}: {error}", self.loc()) from error
        data = [x.data for x in operands]
        if op.effect == "pure":
            if op in ADDRESS_OPS and types[0].dtype.is_pointer:
                data = self.as_addresses(op, data, attrs)
            out = (
                op.eager(*data, **attrs)
                if region is None
                else op.eager(*data, region=region, **attrs)
            )
        else:
            self.op, self.attrs = op, attrs
            out = op.eager(self.port(op, types), *data, **attrs)
        if isinstance(result, Type):
            fixed = not result.shape and self.is_fixed(op, operands)
            return Tile(result, np.asarray(out), fixed)
        if result is None:
            return None
        return tuple(Tile(kind, np.asarray(x)) for kind, x in zip(result, out, strict=True))

    def is_fixed(self, op: Op, operands: Sequence[Tile]) -> bool:
        """Whether an op makes a scalar that a compiled kernel would know."""
        if not operands:
            return op is constant
        return op.emit is not None and all(x.known for x in operands)

    def known(self, handle: Tile) -> Any:
        """The number that a scalar holds, None if a compiled kernel would not know it."""
        return handle.data.item() if handle.known else None

    def port(self, op: Op, types: list[Type]) -> Port:
        if op.effect == "control":
            raise InternalError(f"{op.name} cannot be run as an op")
        kind = KINDS.get(op.effect, "")
        return Port(self, kind, types[0].dtype.element_ty if kind else None)

    def as_addresses(self, op: Op, data: list, attrs: dict[str, Any]) -> list:
        if op is m.bitcast and attrs["to"].startswith("*"):
            return data
        return [self.memory.addresses(x) for x in data]

    def region(self, function: Callable, types: list[Type]) -> Callable:
        """The function on tuples of arrays, one for each group of scalars that it combines."""
        dtypes = [kind.dtype for kind in types]
        half = len(types) // 2

        def combine(xs: tuple, ys: tuple) -> tuple:
            arrays = [a.astype(numpy_dtype(d)) for a, d in zip((*xs, *ys), dtypes, strict=True)]
            try:
                return self.apply(function, arrays, dtypes)[:half]
            except TypeRuleError:
                # It decides on numbers, as compiled code may, which sees one element at a time.
                return self.apply_each(function, arrays, dtypes)[:half]

        return combine

    def acts(self, region: Callable) -> bool:
        """Python does what the function does where it is called."""
        return False

    def apply(self, function: Callable, arrays: list, dtypes: list[DType]) -> tuple:
        operands = [tensor(Tile(Type(d, a.shape), a)) for a, d in zip(arrays, dtypes, strict=True)]
        out = self.call(function, operands, {})
        out = out if isinstance(out, tuple) else (out,)
        return tuple(
            np.broadcast_to(self.number(x, d), a.shape) for x, d, a in zip(out, dtypes, arrays)
        )

    def apply_each(self, function: Callable, arrays: list, dtypes: list[DType]) -> tuple:
        shape = arrays[0].shape
        rows = [self.apply(function, [a[i] for a in arrays], dtypes) for i in np.ndindex(shape)]
        columns = zip(*rows, strict=True)
        return tuple(np.array(c, dtype=c[0].dtype).reshape(shape) for c in columns)

    def number(self, x: Any, dtype: DType) -> np.ndarray:
        """What a combining function gave, as an array."""
        if not isinstance(x, tensor):
            return np.asarray(x, numpy_dtype(dtype))
        want(x.dtype == dtype, f"the combining function must give {dtype}, gave {x.dtype}")
        return x.handle.data

    def map(self, function: Callable, tiles: Sequence[tensor]) -> Any:
        """A function of scalars on tiles: at once, or element by element where it branches."""
        try:
            return self.call(function, tiles, {})
        except TypeRuleError:
            return self.map_each(function, tiles)

    def map_each(self, function: Callable, tiles: Sequence[tensor]) -> Any:
        shape = tiles[0].shape
        rows = []
        for place in np.ndindex(shape):
            scalars = [tensor(Tile(Type(x.dtype), x.handle.data[place])) for x in tiles]
            out = self.call(function, scalars, {})
            rows.append(out if isinstance(out, tuple) else (out,))
        columns = [
            tensor(Tile(Type(c[0].dtype, shape), np.array([x.numpy() for x in c]).reshape(shape)))
            for c in zip(*rows, strict=True)
        ]
        return tuple(columns) if isinstance(out, tuple) else columns[0]

    def call(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """A function of the user's, called by a kernel or by a function of the language."""
        if self.caller is None:
            return function(*args, **kwargs)
        return self.caller(function, args, kwargs)

    def iterate(self, start: tensor, end: tensor, step: tensor) -> Iterator[tensor]:
        """The numbers of a loop, as scalars."""
        kind = start.handle.type
        bounds = [int(x.handle.data) for x in (start, end, step)]
        want(bounds[2] != 0, "the step of a loop cannot be 0")
        held = numpy_dtype(kind.dtype)
        with self.waits.turning() as turn:
            for i in range(*bounds):
                turn()
                yield tensor(Tile(kind, np.array(i, held)))

    def concrete(self, handle: Tile, purpose: str) -> Any:
        """The array or number that a value holds."""
        data = handle.data
        if handle.type.dtype.is_pointer:
            data = self.memory.addresses(data)
        if purpose == "a condition":
            self.waits.count(self)
        return data.item() if not handle.type.shape and purpose != "a NumPy array" else data

    def show(self, handle: Tile) -> str:
        data = handle.data
        if handle.type.dtype.is_pointer:
            return f"tensor({handle.type}, {in_one_line(self.memory.addresses(data), True)})"
        return f"tensor({handle.type}, {in_one_line(data, False)})"

    def show_static(self, handle: Tile) -> str:
        """Here it is known what a tile holds."""
        return self.show(handle)

    # --- arguments

    def argument(self, value: Any) -> Any:
        """An argument of a launch as the kernel sees it; buffers may be inside tuples."""
        if isinstance(value, Buffer):
            data = np.array(self.memory.add(value), np.int64)
            return tensor(Tile(Type(pointer_to(value.dtype, value.const)), data))
        if isinstance(value, Scalar):
            return tensor(Tile(Type(value.dtype), scalar_array(value)))
        if isinstance(value, tuple):
            items = [self.argument(v) for v in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        return unwrap(value)

    # --- where the user's code is

    def frame(self) -> FrameType | None:
        """The innermost frame of the user's code."""
        frame = sys._getframe(1)
        while frame is not None and frame.f_code not in self.codes:
            frame = frame.f_back
        return frame

    def loc(self) -> Loc | None:
        """Where in the user's source the current op stands, and the calls that led there."""
        if self.here is not None:
            return self.here
        frames = []
        frame = self.frame()
        while frame is not None:
            if frame.f_code in self.codes:
                frames.append(frame)
            frame = frame.f_back
        loc = None
        for frame in reversed(frames):
            loc = frame_loc(frame, loc)
        return loc

    def raised_at(self, error: BaseException) -> Loc | None:
        """The innermost place in the user's code that an error passed through."""
        loc = None
        step = error.__traceback__
        while step is not None:
            if step.tb_frame.f_code in self.codes:
                loc = code_loc(step.tb_frame.f_code, step.tb_lasti, step.tb_lineno, loc)
            step = step.tb_next
        return loc

    def excerpt(self) -> str:
        """The user's line with carets."""
        loc = self.loc()
        return "" if loc is None else excerpt(loc)


def scalar_array(scalar: Scalar) -> np.ndarray:
    """A number in its dtype; integers wrap around."""
    held = numpy_dtype(scalar.dtype)
    if scalar.dtype.is_integer and scalar.dtype.bits > 1:
        value = int(scalar.value) & ((1 << scalar.dtype.bits) - 1)
        return np.array(value, np.uint64).astype(held)
    return np.array(scalar.value).astype(held)


def frame_loc(frame: FrameType, caller: Loc | None) -> Loc:
    return code_loc(frame.f_code, frame.f_lasti, frame.f_lineno, caller)


def code_loc(code: CodeType, position: int, line: int, caller: Loc | None) -> Loc:
    """The place of an instruction of Python's; to the column, where Python keeps columns."""
    file, name = code.co_filename, code.co_name
    positions = getattr(code, "co_positions", None)
    if positions is not None:
        at = next(itertools.islice(positions(), position // 2, None), None)
        if at is not None and None not in at:
            line, end_line, column, end_column = at
            return Loc(file, line, column, end_line, end_column, name, caller)
    return Loc(file, line, function=name, caller=caller)
