"""The last launches of a kernel: their parameters, by which a late report names an element."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

from tilewright.ir.types import Type
from tilewright.targets.cuda.fastcall import (
    HEAD,
    LAUNCHES,
    OWN,
    REMEMBERED,
    STATE,
    STATE_WORDS,
)

HEAD_FIELDS = 10
OWN_FIELDS = 3


class History:
    """The state of a kernel that native launches share: a counter, and a row for each launch."""

    def __init__(self, types: Sequence[Type]):
        formats = [slot_format(kind) for kind in types]
        packer = struct.Struct(HEAD + OWN + "".join(formats))
        self.pack_into, self.unpack_from = packer.pack_into, packer.unpack_from
        self.size = packer.size
        # Where each parameter begins, counted from the configuration.
        self.places = [
            struct.calcsize(f"{HEAD}{OWN}{''.join(formats[:k])}0{text[0]}")
            for k, text in enumerate(formats)
        ]
        self.row_bytes = -(-self.size // 8) * 8
        self.memory = (ctypes.c_int64 * (STATE_WORDS + self.row_bytes // 8 * REMEMBERED))()
        self.address = ctypes.addressof(self.memory)

    def next(self) -> int:
        """The number of a new launch."""
        number = self.memory[STATE["count"]] = (self.memory[STATE["count"]] + 1) % LAUNCHES
        return number

    def remember(self, number: int, address: int) -> None:
        """Keep the configuration and parameters of a launch."""
        ctypes.memmove(self.address + self.offset(number), address, self.size)

    def find(self, number: int) -> tuple[tuple[int, int, int], tuple[Any, ...]] | None:
        """The grid and the values of a launch, if it was one of the last."""
        fields = self.unpack_from(self.memory, self.offset(number))
        if fields[HEAD_FIELDS + 1] != number or not fields[HEAD_FIELDS]:
            return None
        return fields[:3], fields[HEAD_FIELDS + OWN_FIELDS :]

    def offset(self, number: int) -> int:
        return 8 * STATE_WORDS + number % REMEMBERED * self.row_bytes

    @property
    def is_captured(self) -> bool:
        """Whether a graph may hold the kernel."""
        return bool(self.memory[STATE["captured"]])

    def note_capture(self) -> None:
        self.memory[STATE["captured"]] = 1


def slot_format(kind: Type) -> str:
    """How `struct` writes the slots of a parameter; alignment is the native one."""
    dtype = kind.dtype
    if dtype.is_pointer:
        return "QQQ"
    if dtype.is_float:
        return "d" if dtype.bits == 64 else "f"
    code = {1: "b", 8: "b", 16: "h", 32: "i", 64: "q"}[dtype.bits]
    return code.upper() if dtype.kind == "uint" else code
