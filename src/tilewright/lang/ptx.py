"""Short PTX texts of `inline_asm_elementwise`, written with functions of the language."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from typing import Any

from tilewright.errors import UnsupportedError, want
from tilewright.ir import types as t
from tilewright.ir.op import emit
from tilewright.ir.types import DType, Type
from tilewright.lang import arithmetic as a
from tilewright.lang import libdevice_bits as bits
from tilewright.lang import ptx_memory
from tilewright.lang.constexpr import unwrap
from tilewright.lang.conversion import as_dtype, cast, cast_function
from tilewright.lang.promote import constant, same_shape, to_tensor
from tilewright.lang.ptx_words import (
    JOIN,
    PLAIN,
    ROUND,
    TESTS,
    compare,
    dot_of_bytes,
    extremum,
    finished,
    funnel,
    narrowed,
    of_e2m1,
    of_ue8m0,
    to_e2m1,
    to_tf32,
    to_ue8m0,
)
from tilewright.lang.reductions import dealt, gathered
from tilewright.lang.shapes import broadcast_to, ravel, reshape
from tilewright.lang.tensor import tensor
from tilewright.ops import program
from tilewright.ops.shape import is_power_of_two

TYPES: dict[str, DType] = {
    "pred": t.int1, "s8": t.int8, "u8": t.uint8, "b8": t.uint8, "s16": t.int16, "u16": t.uint16,
    "b16": t.uint16, "e4m3": t.float8e4nv, "e5m2": t.float8e5, "s32": t.int32, "u32": t.uint32,
    "b32": t.uint32, "s64": t.int64,
    "u64": t.uint64, "b64": t.uint64, "f16": t.float16, "bf16": t.bfloat16, "f32": t.float32,
    "f64": t.float64,
}  # fmt: skip


PAIRS = {"f16x2", "bf16x2", "u16x2", "s16x2", "e4m3x2", "e5m2x2"}
CODES = {"e2m1x2": (4, of_e2m1), "ue8m0x2": (8, of_ue8m0)}  # pairs without a type of their own
# Modifiers that change nothing beyond how an approximation is rounded.
QUIET = {"approx", "ftz", "rn", "full", "lo", "rz", "wrap", "b32", "rna"}
LATER = {"sat", "relu", "satfinite"}  # what is made of the result

SPECIAL = {
    "%globaltimer": program.clock, "%clock64": program.clock, "%clock": program.clock,
    "%smid": program.processor,
}  # fmt: skip


class Text:
    """The registers of one text while its instructions are followed."""

    def __init__(self, asm: str, inputs: Sequence[tensor], outputs: Sequence[DType]):
        self.asm = asm
        self.outputs = outputs
        self.shape = inputs[0].shape if inputs else ()
        self.registers = {f"${len(outputs) + i}": x for i, x in enumerate(inputs)}

    def run(self) -> list[tensor]:
        text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", self.asm, flags=re.S).strip()
        for part in text.split(";"):
            line = " ".join(part.split()).lstrip("{} ")  # blocks of the text, not operands
            if line.count("}") > line.count("{"):
                line = line.rstrip("} ")
            if line and not line.startswith(".reg"):
                self.follow(line)
        names = [f"${i}" for i in range(len(self.outputs))]
        for name in names:
            if name not in self.registers:
                raise self.refuse(f"nothing writes {name}")
        results = [read_as(self.registers[n], d) for n, d in zip(names, self.outputs, strict=True)]
        # What no input went into is one number so far.
        return [x if x.shape == self.shape else broadcast_to(x, self.shape) for x in results]

    def refuse(self, reason: str) -> UnsupportedError:
        return UnsupportedError(
            f"inline_asm_elementwise is not supported for `{' '.join(self.asm.split())}`: "
            f"{reason}; write what it computes with functions of the language"
        )

    def follow(self, line: str) -> None:
        """One instruction."""
        guard = None
        if line.startswith("@"):
            guard, line = line.split(" ", 1)
        name, _, rest = line.partition(" ")
        target, *sources = [part.strip() for part in re.split(r",(?![^{]*})", rest)]
        if name.startswith("mov.") and "{" in rest:
            self.move_parts(TYPES[name.split(".")[1]], target, sources[0])
            return
        holds = None if guard is None else self.register(guard.lstrip("@!"))
        if guard is not None and guard.startswith("@!"):
            holds = a.logical_not(holds)
        words = name.split(".")
        if words[0] in ptx_memory.NAMES:
            ptx_memory.follow(self, words, [target, *sources], holds, TYPES)
            return
        result = self.compute(words, sources)
        target, _, opposite = target.partition("|")
        if opposite:
            self.registers[opposite] = ~result
        if holds is not None:
            before = read_as(self.registers.get(target, result), result.dtype)
            result = a.where(holds, result, before)
        self.registers[target] = result

    def move_parts(self, dtype: DType, target: str, source: str) -> None:
        """`mov` between a register and those of its parts, the lowest bits first."""
        if target.startswith("{"):
            names = [n.strip() for n in target.strip("{}").split(",")]
            parts = split_register(self.operand(source, dtype), len(names))
            self.registers.update(zip(names, parts, strict=True))
            return
        names = [n.strip() for n in source.strip("{}").split(",")]
        part = unsigned(dtype.bits // len(names))
        self.registers[target] = join_register([self.operand(n, part) for n in names], dtype)

    def register(self, name: str) -> tensor:
        if name not in self.registers:
            raise self.refuse(f"`{name}` is not known")
        return self.registers[name]

    def operand(self, text: str, dtype: DType) -> tensor:
        """A register or an immediate, in a type."""
        if re.fullmatch(r"0[fFdD][0-9a-fA-F]+", text):
            form, digits = (">f", text[2:]) if text[1] in "fF" else (">d", text[2:])
            return constant(struct.unpack(form, bytes.fromhex(digits))[0], Type(dtype))
        if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?", text):
            octal = re.sub(r"^(-?)0(?=\d)", r"\g<1>0o", text)
            number = int(octal.rstrip("U"), 0) & ((1 << dtype.bits) - 1)
            signed = dtype.is_signed and number >> (dtype.bits - 1)
            return constant(number - (1 << dtype.bits) if signed else number, Type(dtype))
        if re.fullmatch(r"-?\d+\.\d*", text):
            return constant(float(text), Type(dtype))
        if text in SPECIAL and text not in self.registers:
            return read_as(tensor(emit(SPECIAL[text])), dtype)
        return read_as(self.register(text), dtype)

    def compute(self, words: list[str], sources: list[str]) -> tensor:
        if any(w in CODES for w in words):
            return self.convert_codes(words, sources)
        if any(w in PAIRS for w in words):
            return self.compute_pairs(words, sources)
        name, *modifiers = words
        types = [TYPES[w] for w in modifiers if w in TYPES]
        others = [w for w in modifiers if w not in TYPES and w not in QUIET | LATER]
        later = [w for w in modifiers if w in LATER]
        if name == "cvt" and ("tf32" in others or len(types) == 2):
            return self.convert(others, later, types, sources)
        if not types:
            raise self.refuse(f"no type of {'.'.join(words)} is known")
        if "sat" in later and types[-1].is_integer:
            return self.compute_saturated(words, types[-1], sources)
        try:
            result = self.plain(name, others, types, sources)
        except KeyError:
            message = f"`{'.'.join(words)}` is not among the instructions that are known"
            raise self.refuse(message) from None
        return finished(result, later)

    def compute_saturated(self, words: list[str], dtype: DType, sources: list[str]) -> tensor:
        """A sum of integers that stops at the ends of its type."""
        wide = [w.replace(str(dtype.bits), "64") for w in words if w != "sat"]
        names = [f"{s}.wide" for s in sources]
        values = [cast(self.operand(s, dtype), t.int64) for s in sources]
        self.registers.update(zip(names, values, strict=True))
        return narrowed(self.compute(wide, names), dtype)

    def plain(self, name: str, others: list[str], types: list[DType], sources: list) -> tensor:
        """What an instruction that writes one register computes.

        Raises:
            KeyError: when it is not known.
        """
        dtype = types[-1]
        if name in ("setp", "set"):
            return self.comparison(name, others, types, sources)
        if name == "selp":
            x, y = (self.operand(s, dtype) for s in sources[:2])
            return a.where(self.register(sources[2]), x, y)
        if name == "slct":
            x, y = (self.operand(s, types[0]) for s in sources[:2])
            return a.where(self.operand(sources[2], dtype) >= 0, x, y)
        if name == "dp4a":
            pair = [self.operand(s, d) for s, d in zip(sources, types)]
            return dot_of_bytes(*pair, self.operand(sources[2], t.int32))
        if name == "shf":
            left = others[:1] == ["l"]
            return funnel(left)(*[self.operand(s, t.uint32) for s in sources])
        values = [self.operand(s, dtype) for s in sources]
        if name in ("min", "max"):
            return extremum(name, others, *values)
        if name == "testp":
            return TESTS[others[0]](*values)
        if name in ("mul", "mad") and others == ["hi"]:
            high = bits.mulhi(*values[:2])
            return high if name == "mul" else high + values[2]
        if name in ("mul", "mad") and others == ["wide"]:
            wide = getattr(t, f"{'' if dtype.is_signed else 'u'}int{2 * dtype.bits}")
            product = cast(values[0], wide) * cast(values[1], wide)
            return product if name == "mul" else product + self.operand(sources[2], wide)
        return PLAIN[".".join([name, *others])](*values)

    def comparison(
        self, name: str, others: list[str], types: list[DType], sources: list[str]
    ) -> tensor:
        """`setp` and `set`, whose result another predicate may join."""
        holds = compare(others[0], *[self.operand(s, types[-1]) for s in sources[:2]])
        if len(sources) == 3:
            other = self.register(sources[2].lstrip("!"))
            holds = JOIN[others[1]](holds, ~other if sources[2].startswith("!") else other)
        if name == "setp":
            return holds
        one = 1.0 if types[0].is_float else -1
        return cast(a.where(holds, one, 0), types[0])

    def compute_pairs(self, words: list[str], sources: list[str]) -> tensor:
        """An instruction on two halves of a register, e.g. `fma.rn.bf16x2`."""
        one = [w.removesuffix("x2") for w in words]
        if words[0] == "cvt":
            halves = self.halves(words[-1], sources)
            self.registers.update(zip(("low.half", "high.half"), halves, strict=True))
            parts = [self.compute(one, [name]) for name in ("low.half", "high.half")]
            return join_register(parts, unsigned(2 * parts[0].dtype.bits))
        halves = [split_register(self.operand(s, t.uint32), 2) for s in sources]
        parts = []
        for k in range(2):
            names = [f"{s}.half" for s in sources]
            self.registers.update(zip(names, [h[k] for h in halves], strict=True))
            parts.append(self.compute(one, names))
        return join_register(parts, t.uint32)

    def convert_codes(self, words: list[str], sources: list[str]) -> tensor:
        """`cvt` between a pair of numbers and the codes of a pair."""
        kind = next(w for w in words if w in CODES)
        width, decode = CODES[kind]
        if kind == words[-1]:
            pair = self.operand(sources[0], unsigned(2 * width))
            dtype = TYPES[words[-2].removesuffix("x2")]
            parts = [pair & ((1 << width) - 1), pair >> width]
            return join_register([cast(decode(p), dtype) for p in parts], unsigned(2 * dtype.bits))
        low, high = (self.operand(s, t.float32) for s in reversed(sources))
        if kind == "ue8m0x2":
            low, high = (to_ue8m0(x, "rp" in words) for x in (low, high))
        else:
            low, high = to_e2m1(low), to_e2m1(high)
        return cast(low | high << width, unsigned(2 * width))

    def halves(self, kind: str, sources: list[str]) -> list[tensor]:
        """What a `cvt` to a pair reads: a pair, or two registers, the upper half first."""
        if kind in PAIRS and len(sources) == 1:
            width = TYPES[kind.removesuffix("x2")].bits
            return split_register(self.operand(sources[0], unsigned(2 * width)), 2)
        if kind in PAIRS or len(sources) != 2:
            raise self.refuse(f"`cvt` of {len(sources)} registers of {kind} is not known")
        return [self.register(s) for s in reversed(sources)]

    def convert(
        self, others: list[str], later: list[str], types: list[DType], sources: list[str]
    ) -> tensor:
        if others == ["tf32"]:
            return to_tf32(finished(self.operand(sources[0], t.float32), later))
        if len(others) > 1 or any(w not in ROUND for w in others) or len(sources) != 1:
            raise self.refuse(f"`cvt` with {', '.join(others) or 'several sources'} is not known")
        x = self.operand(sources[0], types[1])
        if others and x.dtype.is_float:
            x = ROUND[others[0]](x)
        if types[0].is_integer:
            return narrowed(x, types[0]) if "sat" in later else cast(x, types[0])
        return finished(x, later, types[0])


def read_as(x: tensor, dtype: DType) -> tensor:
    """A register in another type: the same bits; integers are cut or filled up to the width."""
    if x.dtype is dtype:
        return x
    if x.dtype.bits == dtype.bits:
        return cast_function(x, dtype, bitcast=True)
    if x.dtype.is_float:
        x = bits.bits_of(x)
    whole = dtype if dtype.is_integer else getattr(t, f"uint{dtype.bits}")
    return cast_function(cast(x, whole), dtype, bitcast=True)


# --- several elements at once


def unsigned(width: int) -> DType:
    return getattr(t, f"uint{width}")


def split_register(x: tensor, count: int) -> list[tensor]:
    """The parts of a register, the lowest bits first."""
    whole, width = bits.bits_of(x), x.dtype.bits // count
    return [cast(whole >> (k * width), unsigned(width)) for k in range(count)]


def join_register(parts: Sequence[tensor], dtype: DType) -> tensor:
    """A register of parts, which come from the lowest bits on."""
    out = None
    for k, part in enumerate(parts):
        moved = cast(bits.bits_of(part), unsigned(dtype.bits)) << (k * part.dtype.bits)
        out = moved if out is None else out | moved
    return read_as(out, dtype)


def per_register(dtype: DType, pack: int) -> int:
    """How many elements share a register of 32 bits."""
    return min(pack, max(1, 32 // dtype.bits))


def packed(x: tensor, pack: int) -> list[tensor]:
    """The registers of a row for each `pack` neighbours of it."""
    parts, each = dealt(x, pack), per_register(x.dtype, pack)
    if each == 1:
        return parts
    return [join_register(parts[i : i + each], t.uint32) for i in range(0, pack, each)]


def unpacked(registers: Sequence[tensor], dtype: DType, pack: int) -> tensor:
    """The row of which these are the registers."""
    each = per_register(dtype, pack)
    if each == 1:
        return gathered([read_as(r, dtype) for r in registers])
    parts = [p for r in registers for p in split_register(r, 32 // dtype.bits)[:each]]
    return gathered([read_as(p, dtype) for p in parts])


def run_packed(
    asm: str, inputs: Sequence[tensor], dtypes: Sequence[DType], pack: int, count: int
) -> list[tensor]:
    """The text on `pack` elements at a time, neighbours sharing registers where they fit."""
    each = [per_register(d, pack) for d in dtypes]
    sizes = [pack // n for n in each]
    held = [
        t.uint32 if n > 1 else d for n, d, size in zip(each, dtypes, sizes) for _ in range(size)
    ]
    shape = inputs[0].shape
    text = Text(asm, [r for x in inputs for r in packed(ravel(x), pack)], held)
    if count != len(held):
        raise text.refuse(f"{pack} elements at once take {len(held)} registers, not {count}")
    registers = text.run()
    out = []
    for dtype, size in zip(dtypes, sizes):
        out.append(reshape(unpacked(registers[:size], dtype, pack), shape))
        registers = registers[size:]
    return out


def run_elementwise(asm: str, constraints: str, args: Sequence, dtype: Any, pack: int) -> Any:
    """What `inline_asm_elementwise` gives."""
    several = isinstance(dtype, (tuple, list))
    dtypes = [as_dtype(d) for d in (dtype if several else (dtype,))]
    inputs = same_shape(*[to_tensor(unwrap(x)) for x in args]) if len(args) else ()
    count = sum(part.strip().startswith("=") for part in constraints.split(","))
    if pack != 1:
        want(bool(inputs), "packed elements need a tile that says how many there are")
        size = math.prod(inputs[0].shape)
        want(
            is_power_of_two(pack) and size % pack == 0,
            f"pack must be a power of two that divides {size}, the number of elements, got {pack}",
        )
        results = tuple(run_packed(asm, inputs, dtypes, pack, count))
    else:
        text = Text(asm, inputs, dtypes)
        if count != len(dtypes):
            raise text.refuse(f"it writes {count} registers for {len(dtypes)} results")
        results = tuple(text.run())
    return results if several else results[0]
