"""What conversions of NVIDIA's chips give, as functions for this computer."""

from __future__ import annotations

import re

from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane
from tilewright.ir import types as t

FORMATS = {"e4m3x2": t.float8e4nv, "e5m2x2": t.float8e5}
TO_INT = re.compile(r"cvt\.rzi\.([su])(8|16|32)\.f32")
NARROW = re.compile(r"@llvm\.nvvm\.ff\.to\.(\w+)\.rn\(")
WIDE = re.compile(r"@llvm\.nvvm\.(e\w+x2)\.to\.f16x2\.rn\(")

PAIR = re.compile(r"(fadd|fsub|fmul) <2 x bfloat> (\S+), (\S+)")


class Function:
    """The body of one function, and what it needs."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.needs: list[str] = []
        self.count = 0

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def lanes(self) -> Lanes:
        return Lanes(self.lines.append, self.fresh, self.needs.append)


def to_int(head: str, text: str) -> str:
    sign, bits = TO_INT.match(text).groups()
    name = f"llvm.fpto{sign}i.sat.i{bits}.f32"
    lines = [f"%n = call i{bits} @{name}(float %a0)"]
    wide = "i16" if bits == "16" else "i32"
    if wide == f"i{bits}":
        lines.append(f"ret {wide} %n")
    else:
        lines += [f"%w = {sign.replace('u', 'z')}ext i{bits} %n to {wide}", f"ret {wide} %w"]
    return "\n".join([f"declare i{bits} @{name}(float)", head, *lines, "}"])


def rewritten(line: str, functions: dict) -> str:
    """A line without the chip's conversions of floats of 8 bits, and arithmetic of bf16."""
    match = PAIR.search(line)
    if match:
        functions.setdefault(match[1], pair(match[1]))
        x, y = (f"<2 x bfloat> {v}" for v in match.groups()[1:])
        return line.replace(match[0], f"call <2 x bfloat> @sim_{match[1]}({x}, {y})")
    for pattern, make in ((NARROW, narrow), (WIDE, wide)):
        match = pattern.search(line)
        if match:
            name = f"@sim_{make.__name__}_{match[1]}"
            if name not in functions:
                made = Function()
                head = make(made, name, FORMATS[match[1]])
                for need in made.needs:
                    functions.setdefault(need, need)
                functions[name] = "\n".join([head, *made.lines, "}"])
            line = line.replace(match[0], f"{name}(")
    return line


def narrow(made: Function, name: str, dtype: t.DType) -> str:
    b = made.lanes()
    first, second = (
        b.cast(b.bitcast(of_finite(b, Lane(x, t.float32), dtype), t.uint8), t.uint16)
        for x in ("%x", "%y")
    )
    out = b.bit_or(second, b.shl(first, b.like(first, 8)))
    b.write(f"ret {out.typed}")
    return f"define internal i16 {name}(float %x, float %y) {{"


def of_finite(b: Lanes, x: Lane, dtype: t.DType) -> Lane:
    """Saturated, as the chip does it in all formats."""
    code = b.bitcast(b.cast(x, dtype), t.uint8)
    if dtype is not t.float8e5:
        return b.bitcast(code, dtype)
    is_inf = b.eq(b.bit_and(code, b.like(code, 0x7F)), b.like(code, 0x7C))
    return b.bitcast(b.select(is_inf, b.sub(code, b.like(code, 1)), code), dtype)


def wide(made: Function, name: str, dtype: t.DType) -> str:
    b = made.lanes()
    word = Lane("%x", t.uint16)
    held = "poison"
    for k in (0, 1):
        byte = b.cast(b.shr(word, b.like(word, 8 * k)), t.uint8)
        half = b.cast(b.bitcast(byte, dtype), t.float16)
        next_held = made.fresh()
        b.write(f"{next_held} = insertelement <2 x half> {held}, {half.typed}, i32 {k}")
        held = next_held
    b.write(f"ret <2 x half> {held}")
    return f"define internal <2 x half> {name}(i16 %x) {{"


def pair(word: str) -> str:
    """An operation on two numbers of bf16, in fp32."""
    lines = [f"%{v}w = bitcast <2 x bfloat> %{v} to <2 x i16>" for v in "xy"]
    held = "poison"
    for k in (0, 1):
        for v in "xy":
            lines += [
                f"%{v}e{k} = extractelement <2 x i16> %{v}w, i32 {k}",
                f"%{v}z{k} = zext i16 %{v}e{k} to i32",
                f"%{v}s{k} = shl i32 %{v}z{k}, 16",
                f"%{v}f{k} = bitcast i32 %{v}s{k} to float",
            ]
        lines += [
            f"%r{k} = {word} float %xf{k}, %yf{k}",
            f"%c{k} = call i16 @sim_bf16(float %r{k})",
            f"%h{k} = insertelement <2 x i16> {held}, i16 %c{k}, i32 {k}",
        ]
        held = f"%h{k}"
    lines += [f"%out = bitcast <2 x i16> {held} to <2 x bfloat>", "ret <2 x bfloat> %out"]
    head = f"define internal <2 x bfloat> @sim_{word}(<2 x bfloat> %x, <2 x bfloat> %y) {{"
    return "\n".join([head, *lines, "}"])
