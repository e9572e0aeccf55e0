"""Instructions of PTX that touch memory, or wait for others that did, as functions of `tl`."""

from __future__ import annotations

import re
from typing import Any

from tilewright.ir import types as t
from tilewright.ir.types import DType, pointer_to
from tilewright.lang import memory, meta
from tilewright.lang.conversion import cast_function
from tilewright.lang.tensor import tensor

ATOMICS = {
    "add": memory.atomic_add, "min": memory.atomic_min, "max": memory.atomic_max,
    "and": memory.atomic_and, "or": memory.atomic_or, "xor": memory.atomic_xor,
    "exch": memory.atomic_xchg, "cas": memory.atomic_cas,
}  # fmt: skip
SEMANTICS = ("relaxed", "acquire", "release", "acq_rel")
SCOPES = ("gpu", "sys", "cta")
FENCES = ("fence", "membar", "bar", "barrier")
NAMES = ("ld", "ldu", "st", "atom", "red", *FENCES)


class Access:
    """One instruction: its words, its type, where it holds, and the registers of its text."""

    def __init__(self, text: Any, words: list[str], dtype: DType, mask: tensor | None):
        self.text = text
        self.words = words
        self.dtype = dtype
        self.mask = mask
        if "shared" in words or "local" in words:
            raise text.refuse(f"`{'.'.join(words)}` is not of the memory of arguments")

    def place(self, operand: str) -> tensor:
        """The pointers of `[register + bytes]`."""
        parts = re.fullmatch(r"\[\s*([^\s+]+)\s*(?:\+\s*(-?\d+))?\s*\]", operand)
        if parts is None:
            raise self.text.refuse(f"`{operand}` is no address that is known")
        base = self.text.register(parts[1])
        if parts[2]:
            base = cast_function(base, pointer_to(t.uint8), bitcast=True) + int(parts[2])
        return cast_function(base, pointer_to(self.dtype), bitcast=True)

    def is_signal(self, sem: str) -> bool:
        """Whether other programs wait for a store, or a load for them, by a word in memory."""
        return sem in self.words and self.mask is None and self.dtype.bits >= 32

    def order(self) -> dict[str, Any]:
        """What an atomic operation is told besides its operands."""
        sem = next((w for w in self.words if w in SEMANTICS), "relaxed")
        scope = next((w for w in self.words if w in SCOPES), "gpu")
        return {"sem": sem, "scope": scope} | ({} if self.mask is None else {"mask": self.mask})

    def load(self, target: str, source: str) -> None:
        place = self.place(source)
        for k, name in enumerate(names_of(target)):
            before = self.text.registers.get(name) if self.mask is not None else None
            other = None if before is None else self.text.operand(name, self.dtype)
            if self.is_signal("acquire"):
                found = memory.atomic_or(place + k, 0, **self.order())
            else:
                anew = any(w in ("volatile", *SEMANTICS) for w in self.words)
                found = memory.load(place + k, mask=self.mask, other=other, volatile=anew)
            self.text.registers[name] = found

    def store(self, target: str, source: str) -> None:
        place = self.place(target)
        for k, name in enumerate(names_of(source)):
            value = self.text.operand(name, self.dtype)
            if self.is_signal("release"):
                memory.atomic_xchg(place + k, value, **self.order())
            else:
                memory.store(place + k, value, mask=self.mask)

    def update(self, target: str | None, source: str, values: list[str]) -> None:
        """An atomic operation, whose target gets what was there before."""
        function = next((ATOMICS[w] for w in self.words if w in ATOMICS), None)
        if function is None or (function is memory.atomic_cas and self.mask is not None):
            raise self.text.refuse(f"`{'.'.join(self.words)}` is not known")
        given = [self.text.operand(v, self.dtype) for v in values]
        before = function(self.place(source), *given, **self.order())
        if target is not None and target != "_":
            self.text.registers[target] = before


def names_of(operand: str) -> list[str]:
    """The registers of an operand, which may be a vector."""
    return [name.strip() for name in operand.strip("{} ").split(",")]


def follow(
    text: Any, words: list[str], operands: list[str], mask: tensor | None, types: dict[str, DType]
) -> None:
    """One instruction of those in `NAMES`."""
    name = words[0]
    if name in FENCES:
        meta.debug_barrier()
        return
    dtype = types.get(words[-1])
    if dtype is None:
        raise text.refuse(f"no type of {'.'.join(words)} is known")
    access = Access(text, words, dtype, mask)
    if name in ("ld", "ldu"):
        access.load(*operands)
    elif name == "st":
        access.store(*operands)
    elif name == "atom":
        access.update(operands[0], operands[1], operands[2:])
    else:
        access.update(None, operands[0], operands[1:])
