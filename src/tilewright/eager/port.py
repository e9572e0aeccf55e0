"""What ops with effects are given in eager mode: memory, program ids, printing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.eager.memory import Fault, Place, Touch
from tilewright.errors import (
    DeviceAssertError,
    LaunchError,
    OutOfBoundsError,
    out_of_bounds_message,
)
from tilewright.ir import types as t
from tilewright.ir.types import DType
from tilewright.ops.rules import numpy_dtype

if TYPE_CHECKING:
    from tilewright.eager.machine import Eager


class Port:
    """The outside world as one op of one program instance sees it."""

    __slots__ = ("machine", "kind", "dtype")

    def __init__(self, machine: Eager, kind: str, dtype: DType | None):
        self.machine = machine
        self.kind = kind
        self.dtype = dtype  # of the elements in memory

    # --- memory

    def load(self, pointers: np.ndarray, mask: Any, other: Any) -> np.ndarray:
        """What the pointers point to, `other` or 0 where the mask is false."""
        places = self.checked(pointers, mask)
        held = numpy_dtype(self.dtype)
        out = np.zeros(pointers.shape, held) if other is None else other.copy()
        flat = out.reshape(-1)
        for place in places:
            data, at = place.view(self.stored)
            flat[place.lanes] = data[at] if self.dtype is not t.int1 else data[at] != 0
        return flat.reshape(pointers.shape)

    def store(self, pointers: np.ndarray, value: np.ndarray, mask: Any) -> None:
        """Write the value; of several to one address, the last one stays."""
        flat = self.as_stored(value)
        places = self.checked(pointers, mask, flat)
        for place in places:
            data, at = place.view(self.stored)
            data[at] = flat[place.lanes]
            self.machine.memory.version += 1

    def rmw(self, pointers: np.ndarray, value: np.ndarray, mask: Any, kind: str) -> np.ndarray:
        """Combine into memory, one element after the other; what was there before."""
        update = COMBINE[kind]
        return self.exchange(pointers, mask, [value], lambda old, new: update(old, new))

    def cas(self, pointers: np.ndarray, expected: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Write where memory holds the expected bits; what was there before."""

        def update(old: np.ndarray, wanted: np.ndarray, new: np.ndarray) -> np.ndarray:
            bits = np.dtype(f"u{old.dtype.itemsize}")
            return np.where(old.view(bits) == wanted.view(bits), new, old)

        return self.exchange(pointers, None, [expected, value], update)

    def exchange(self, pointers: np.ndarray, mask: Any, operands: list, update: Any) -> np.ndarray:
        places = self.checked(pointers, mask)
        flats = [self.as_stored(x) for x in operands]
        out = np.zeros(pointers.size, self.stored)
        memory = self.machine.memory
        for place in places:
            data, at = place.view(self.stored)
            for some in rounds(at):
                lanes = place.lanes[some]
                old = data[at[some]]
                new = update(old, *[f[lanes] for f in flats])
                out[lanes] = old
                data[at[some]] = new
                changed = old.tobytes() != new.tobytes()
                memory.version += changed
                memory.polls += not changed
        return out.reshape(pointers.shape)

    @property
    def stored(self) -> np.dtype:
        """How elements lie in memory; booleans take a byte."""
        return np.dtype(np.uint8) if self.dtype is t.int1 else numpy_dtype(self.dtype)

    def as_stored(self, value: np.ndarray) -> np.ndarray:
        """The elements as they go to memory, in a row."""
        if self.dtype.is_pointer:
            value = self.machine.memory.addresses(value)
        return np.ascontiguousarray(value, self.stored).reshape(-1)

    def checked(
        self, pointers: np.ndarray, mask: Any, value: np.ndarray | None = None
    ) -> tuple[Place, ...]:
        """Where the active accesses go; nothing has happened when one of them may not."""
        machine = self.machine
        places = tuple(machine.memory.places(pointers, mask, self.stored.itemsize))
        for place in places:
            if isinstance(place, Fault):
                raise self.out_of_bounds(place)
            if self.kind != "load" and place.buffer is not None and not place.buffer.writable:
                raise LaunchError(
                    f"{machine.name}: {self.kind} to {place.buffer.name}, which is read-only\n"
                    f"{machine.excerpt()}"
                )
        if machine.observers:
            loc = machine.loc()
            program = machine.program
            touch = Touch(self.kind, self.dtype, pointers.shape, places, program, loc, value)
            for observer in machine.observers:
                observer(machine.op, touch)
        return places

    def out_of_bounds(self, fault: Fault) -> OutOfBoundsError:
        machine, buffer = self.machine, fault.buffer
        if buffer is None:
            return OutOfBoundsError(
                f"{machine.name}: {self.kind} through a pointer far outside every argument: "
                f"program {machine.program}\n{machine.excerpt()}"
            ).at(machine.program, machine.loc())
        loc = machine.loc()
        message = out_of_bounds_message(
            machine.name, self.kind, buffer.name, loc, machine.program,
            fault.element, buffer.elements, fault.outside,
        )  # fmt: skip
        return OutOfBoundsError(message).at(machine.program, loc, buffer.name, fault.element)

    # --- the program

    def program_id(self, axis: int) -> np.ndarray:
        return np.array(self.machine.program[axis], np.int32)

    def num_programs(self, axis: int) -> np.ndarray:
        return np.array(self.machine.grid[axis], np.int32)

    def print(self, *xs: np.ndarray, prefix: str = "", hex: bool = False) -> None:
        sys.stdout.write(printed_line(self.machine.program, xs, prefix, hex))

    def check(
        self, condition: np.ndarray, mask: Any = None, message: str = "", soft: str = ""
    ) -> None:
        """Raise unless the condition holds where the mask is true."""
        machine = self.machine
        if soft:
            return
        failed = ~condition if mask is None else ~condition & mask
        if not machine.debug or not failed.any():
            return
        where = f", element {tuple(int(i) for i in np.argwhere(failed)[0])}" if failed.shape else ""
        raise DeviceAssertError(
            f"{machine.name}: device-side assert failed: program {machine.program}{where}: "
            f"{message or 'the condition does not hold'}\n{machine.excerpt()}"
        )


def printed_line(
    program: tuple[int, int, int], xs: Sequence[np.ndarray], prefix: str, hex: bool
) -> str:
    """One line: the program, the prefix, the values."""
    words = [f"pid {program}", prefix.strip(), *[in_one_line(x, hex) for x in xs]]
    return " ".join(word for word in words if word) + "\n"


def in_one_line(x: np.ndarray, hex: bool) -> str:
    """An array in one line of text."""
    if hex:
        width = 2 * x.dtype.itemsize
        bits = np.asarray(x).view(f"u{x.dtype.itemsize}")
        text = np.array2string(bits, formatter={"int": lambda n: f"0x{int(n):0{width}x}"})
    elif not x.shape:
        text = str(x.item())
    else:
        text = np.array2string(np.asarray(x), threshold=1024, edgeitems=4)
    return " ".join(text.split())


def rounds(at: np.ndarray) -> list[np.ndarray | slice]:
    """Positions in groups without repetition, each number's repetitions in order."""
    order = np.argsort(at, kind="stable")
    ordered = at[order]
    starts = np.r_[True, ordered[1:] != ordered[:-1]]
    if starts.all():
        return [slice(None)]
    first = np.maximum.accumulate(np.where(starts, np.arange(at.size), 0))
    rank = np.empty(at.size, np.int64)
    rank[order] = np.arange(at.size) - first
    return [np.flatnonzero(rank == r) for r in range(int(rank.max()) + 1)]


def by_order_of_bits(pick_signed: Any, pick_unsigned: Any) -> Any:
    """Extremes of floats as Triton takes them on GPUs: by comparing bits as integers."""

    def apply(old: np.ndarray, new: np.ndarray) -> np.ndarray:
        if old.dtype.kind in "iu":
            return pick_signed(old, new)
        size = old.dtype.itemsize
        signed, unsigned = np.dtype(f"i{size}"), np.dtype(f"u{size}")
        positive = pick_signed(old.view(signed), new.view(signed))
        negative = pick_unsigned(old.view(unsigned), new.view(unsigned)).view(signed)
        return np.where(new.view(signed) < 0, negative, positive).view(old.dtype)

    return apply


COMBINE = {
    "add": np.add,
    "max": by_order_of_bits(np.maximum, np.minimum),
    "min": by_order_of_bits(np.minimum, np.maximum),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "xchg": lambda old, new: new,
}
