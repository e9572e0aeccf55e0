"""Short PTX texts of `inline_asm_elementwise`, written with functions of the language."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.errors import UnsupportedError, want
from tilewright.ir import types as t
from tilewright.ir.types import DType, Type
from tilewright.lang import arithmetic as a
from tilewright.lang import libdevice_bits as bits
from tilewright.lang.constexpr import unwrap
from tilewright.lang.conversion import as_dtype, cast, cast_function
from tilewright.lang.promote import constant, same_shape, to_tensor
from tilewright.lang.reductions import dealt, gathered
from tilewright.lang.shapes import ravel, reshape
from tilewright.lang.tensor import tensor
from tilewright.ops import math as m
from tilewright.ops.shape import is_power_of_two

TYPES: dict[str, DType] = {
    "pred": t.int1, "s8": t.int8, "u8": t.uint8, "b8": t.uint8, "s16": t.int16, "u16": t.uint16,
    "b16": t.uint16, "e4m3": t.float8e4nv, "e5m2": t.float8e5, "s32": t.int32, "u32": t.uint32,
    "b32": t.uint32, "s64": t.int64,
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
PAIRS = {"f16x2", "bf16x2", "u16x2", "s16x2", "e4m3x2", "e5m2x2"}
# Modifiers that change nothing beyond how an approximation is rounded.
QUIET = {
    "approx",
    "ftz",
    "rn",
    "full",
    "lo",
    "rz",
    "rni",
    "wrap",
    "sat",
    "NaN",
    "b32",
    "rna",
    "satfinite",
}


class Text:
    """The registers of one text while its instructions are followed."""

    def __init__(self, asm: str, inputs: Sequence[tensor], outputs: Sequence[DType]):
        self.asm = asm
        self.outputs = outputs
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
        target, *sources = [part.strip() for part in re.split(r",(?![^{]*})", rest)]
        if name.startswith("mov.") and "{" in rest:
            self.move_parts(TYPES[name.split(".")[1]], target, sources[0])
            return
        result = self.compute(name.split("."), sources)
        if guard is not None:
            holds = self.register(guard.lstrip("@!"))
            before = read_as(self.registers.get(target, result), result.dtype)
            one, other = (before, result) if guard.startswith("@!") else (result, before)
            result = a.where(holds, one, other)
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
        if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)U?", text):
            number = int(text.rstrip("U"), 0) & ((1 << dtype.bits) - 1)
            signed = dtype.is_signed and number >> (dtype.bits - 1)
            return constant(number - (1 << dtype.bits) if signed else number, Type(dtype))
        if re.fullmatch(r"-?\d+\.\d*", text):
            return constant(float(text), Type(dtype))
        return read_as(self.register(text), dtype)

    def compute(self, words: list[str], sources: list[str]) -> tensor:
        if any(w in PAIRS for w in words):
            return self.compute_pairs(words, sources)
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

    def halves(self, kind: str, sources: list[str]) -> list[tensor]:
        """What a `cvt` to a pair reads: a pair, or two registers, the upper half first."""
        if kind in PAIRS and len(sources) == 1:
            width = TYPES[kind.removesuffix("x2")].bits
            return split_register(self.operand(sources[0], unsigned(2 * width)), 2)
        if kind in PAIRS or len(sources) != 2:
            raise self.refuse(f"`cvt` of {len(sources)} registers of {kind} is not known")
        return [self.register(s) for s in reversed(sources)]

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
    want(bool(inputs), "inline_asm_elementwise needs a tile to know how many elements to compute")
    if pack != 1:
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
