"""Short PTX texts of `inline_asm_elementwise`, written with functions of the language."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.errors import UnsupportedError, want
from tilewright.ir import types as t
from tilewright.ir.types import DType, Type
from tilewright.lang import arithmetic as a
from tilewright.lang import libdevice_bits as bits
from tilewright.lang.builtin import builtin
from tilewright.lang.constexpr import unwrap
from tilewright.lang.conversion import as_dtype, cast, cast_function
from tilewright.lang.promote import constant, same_shape, to_tensor
from tilewright.lang.tensor import tensor
from tilewright.ops import math as m

TYPES: dict[str, DType] = {
    "pred": t.int1, "s8": t.int8, "u8": t.uint8, "b8": t.uint8, "s16": t.int16, "u16": t.uint16,
    "b16": t.uint16, "s32": t.int32, "u32": t.uint32, "b32": t.uint32, "s64": t.int64,
    "u64": t.uint64, "b64": t.uint64, "f16": t.float16, "bf16": t.bfloat16, "f32": t.float32,
    "f64": t.float64,
}  # fmt: skip


def mad(x: tensor, y: tensor, z: tensor) -> tensor:
    return x * y + z


def logic(x: tensor, y: tensor, z: tensor, table: tensor) -> tensor:
    """`lop3`: bit i of the table says what the three bits of i give."""
    number = table.concrete("the table of lop3")
    out = x ^ x
    for i in range(8):
        if number >> i & 1:
            out = out | (x if i & 4 else ~x) & (y if i & 2 else ~y) & (z if i & 1 else ~z)
    return out


def nth_set(mask: tensor, base: tensor, offset: tensor) -> tensor:
    """`fns`: where the offset-th set bit is, from the base up or down; all ones where none is."""
    offset = cast(offset, t.int32)
    wanted, upward = cast(a.abs(offset), t.uint32), offset > 0
    none = mask ^ mask
    found, met = ~none, (none, none)
    for i in range(32):
        met = tuple(
            n + cast(reached & ((mask >> place & 1) != 0), t.uint32)
            for n, place, reached in zip(met, (i, 31 - i), (base <= i, base >= 31 - i))
        )
        found = a.where(upward & (met[0] == wanted) & (found == ~none), none + i, found)
        found = a.where((offset < 0) & (met[1] == wanted) & (found == ~none), none + 31 - i, found)
    return a.where((offset == 0) & ((mask >> base & 1) != 0), base, found)


def funnel(left: bool) -> Callable:
    """`shf`: the upper, or lower, half of two registers shifted together."""

    def shift(low: tensor, high: tensor, by: tensor) -> tensor:
        both = cast(low, t.uint64) | (cast(high, t.uint64) << 32)
        by = cast(by & 31, t.uint64)
        return cast((both << by) >> 32 if left else both >> by, t.uint32)

    return shift


def shift_by(function: Callable) -> Callable:
    """A shift, in PTX by at most the width."""

    def shift(x: tensor, by: tensor) -> tensor:
        width = x.dtype.bits
        by = cast(by, getattr(t, f"uint{width}"))
        inside = function(x, cast(by & (width - 1), x.dtype))
        far = function(function(x, width - 1), 1) if x.dtype.is_signed else x ^ x
        return a.where(by < width, inside, far)

    return shift


def to_tf32(x: tensor) -> tensor:
    """fp32 rounded to 10 bits of mantissa, halves away from zero, as bits."""
    return (bits.bits_of(x) + 0x1000) & 0xFFFFE000


# By the first word: what an instruction does, its operands in the type that it ends with.
PLAIN: dict[str, Callable] = {
    "mov": lambda x: x, "add": a.add, "sub": a.sub, "mul": a.mul, "mad": mad, "fma": m.fma,
    "div": lambda x, y: a.fdiv(x, y) if x.dtype.is_float else a.integer_divide(x, y),
    "rem": a.remainder, "min": a.minimum, "max": a.maximum, "abs": a.abs, "neg": a.negative,
    "and": a.bit_and, "or": a.bit_or, "xor": a.bit_xor, "not": a.invert,
    "shl": shift_by(a.shift_left), "shr": shift_by(a.shift_right), "ex2": m.exp2, "lg2": m.log2,
    "rcp": lambda x: 1.0 / x, "sqrt": m.sqrt, "rsqrt": m.rsqrt, "sin": m.sin, "cos": m.cos,
    "tanh": m.tanh, "popc": bits.popc, "clz": bits.clz, "brev": bits.brev,
    "prmt": bits.byte_perm, "lop3": logic, "fns": nth_set,
}  # fmt: skip
COMPARE: dict[str, Callable] = {
    "eq": m.eq, "ne": m.ne, "lt": m.lt, "le": m.le, "gt": m.gt, "ge": m.ge, "lo": m.lt,
    "ls": m.le, "hi": m.gt, "hs": m.ge,
}  # fmt: skip
# Modifiers that change nothing beyond how an approximation is rounded.
QUIET = {"approx", "ftz", "rn", "full", "lo", "rz", "rni", "wrap", "sat", "NaN", "b32", "rna"}


class Text:
    """The registers of one text while its instructions are followed."""

    def __init__(self, asm: str, inputs: Sequence[tensor], outputs: Sequence[DType]):
        self.asm = asm
        self.outputs = outputs
        self.registers = {f"${len(outputs) + i}": x for i, x in enumerate(inputs)}

    def run(self) -> list[tensor]:
        text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", self.asm, flags=re.S).strip()
        text = text.strip("{} \n\t")
        for line in filter(None, (part.strip(" \n\t{}") for part in text.split(";"))):
            if not line.startswith(".reg"):
                self.follow(" ".join(line.split()))
        names = [f"${i}" for i in range(len(self.outputs))]
        for name in names:
            if name not in self.registers:
                raise self.refuse(f"nothing writes {name}")
        return [read_as(self.registers[n], d) for n, d in zip(names, self.outputs, strict=True)]

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
        target, *sources = [part.strip() for part in rest.split(",")]
        result = self.compute(name.split("."), sources)
        if guard is not None:
            holds = self.register(guard.lstrip("@!"))
            before = read_as(self.registers.get(target, result), result.dtype)
            one, other = (before, result) if guard.startswith("@!") else (result, before)
            result = a.where(holds, one, other)
        self.registers[target] = result

    def register(self, name: str) -> tensor:
        if name not in self.registers:
            raise self.refuse(f"`{name}` is not known")
        return self.registers[name]

    def operand(self, text: str, dtype: DType) -> tensor:
        """A register or an immediate, in a type."""
        if re.fullmatch(r"0[fFdD][0-9a-fA-F]+", text):
            form, digits = (">f", text[2:]) if text[1] in "fF" else (">d", text[2:])
            return constant(struct.unpack(form, bytes.fromhex(digits))[0], Type(dtype))
        if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)U?", text):
            number = int(text.rstrip("U"), 0) & ((1 << dtype.bits) - 1)
            signed = dtype.is_signed and number >> (dtype.bits - 1)
            return constant(number - (1 << dtype.bits) if signed else number, Type(dtype))
        if re.fullmatch(r"-?\d+\.\d*", text):
            return constant(float(text), Type(dtype))
        return read_as(self.register(text), dtype)

    def compute(self, words: list[str], sources: list[str]) -> tensor:
        name, *modifiers = words
        types = [TYPES[w] for w in modifiers if w in TYPES]
        others = [w for w in modifiers if w not in TYPES and w not in QUIET]
        if name == "cvt" and ("tf32" in others or len(types) == 2):
            return self.convert(others, types, sources)
        if not types:
            raise self.refuse(f"no type of {'.'.join(words)} is known")
        dtype = types[-1]
        if name == "setp" and others and others[0] in COMPARE:
            return a.binary(COMPARE[others[0]], *[self.operand(s, dtype) for s in sources])
        if name == "selp":
            x, y = (self.operand(s, dtype) for s in sources[:2])
            return a.where(self.register(sources[2]), x, y)
        if name == "shf":
            left = others[:1] == ["l"]
            return funnel(left)(*[self.operand(s, t.uint32) for s in sources])
        values = [self.operand(s, dtype) for s in sources]
        if name == "mul" and others == ["hi"]:
            return bits.mulhi(*values)
        if name in ("mul", "mad") and others == ["wide"]:
            wide = getattr(t, f"{'' if dtype.is_signed else 'u'}int{2 * dtype.bits}")
            product = cast(values[0], wide) * cast(values[1], wide)
            return product if name == "mul" else product + self.operand(sources[2], wide)
        if name not in PLAIN or others:
            raise self.refuse(f"`{'.'.join(words)}` is not among the instructions that are known")
        return PLAIN[name](*values)

    def convert(self, others: list[str], types: list[DType], sources: list[str]) -> tensor:
        if others == ["tf32"]:
            return to_tf32(self.operand(sources[0], t.float32))
        if others not in ([], ["rzi"], ["rmi"], ["rpi"]) or len(sources) != 1:
            raise self.refuse(f"`cvt` with {', '.join(others) or 'several sources'} is not known")
        x = self.operand(sources[0], types[1])
        if others == ["rmi"]:
            x = m.floor(x)
        elif others == ["rpi"]:
            x = m.ceil(x)
        return cast(x, types[0])


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


@builtin
def inline_asm_elementwise(
    asm: str, constraints: str, args: Sequence, dtype: Any, is_pure: bool, pack: int
) -> Any:
    """What a short PTX text computes for each element, where its instructions are known."""
    several = isinstance(dtype, (tuple, list))
    dtypes = [as_dtype(d) for d in (dtype if several else (dtype,))]
    inputs = same_shape(*[to_tensor(unwrap(x)) for x in args]) if len(args) else ()
    count = sum(part.strip().startswith("=") for part in constraints.split(","))
    text = Text(asm, inputs, dtypes)
    if pack != 1 or count != len(dtypes):
        raise text.refuse(f"it works on {pack} elements at once in {count} registers")
    want(bool(inputs), "inline_asm_elementwise needs a tile to know how many elements to compute")
    results = tuple(text.run())
    return results if several else results[0]
