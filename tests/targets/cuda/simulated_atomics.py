"""Sums in memory by one instruction of NVIDIA's chips, as functions for this computer."""

from __future__ import annotations

import re

from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane
from tilewright.ir import types as t

SUM = re.compile(
    r"(?:@\$(?P<on>\d+) )?(?P<word>red|atom)\.relaxed\.\w+\.global\.add(?:\.noftz)?"
    r"(?:\.v\d)?\.(?P<kind>bf16|f16|f32)(?P<two>x2)? .*\[\$(?P<at>\d+)(?: \+ (?P<far>-?\d+))?\]"
)
DTYPES = {"f32": t.float32, "f16": t.float16, "bf16": t.bfloat16}
WORDS = {32: t.uint32, 16: t.uint16}


def function(name: str, result: str, text: str, kinds: list[str], needs: dict) -> str:
    """The function for an instruction, whose operands have these types."""
    match = SUM.match(text)
    dtype, lines, count = DTYPES[match["kind"]], [], 0

    def fresh() -> str:
        nonlocal count
        count += 1
        return f"%v{count}"

    b = Lanes(lines.append, fresh, lambda need: needs.setdefault(need, need))
    before = 0 if match["word"] == "red" else result.count("i32") + result.count("i16")
    on = f"%a{len(kinds) - 1}" if match["on"] else "true"
    last = len(kinds) - (1 if match["on"] else 0)
    word = WORDS[int(kinds[before + 1].removeprefix("i"))]
    zeros = [Lane(f"%a{k}", word) for k in range(before)]
    lines += [f"br i1 {on}, label %go, label %off", "go:"]
    place, olds, far = f"%a{before}", [], int(match["far"] or 0)
    for k in range(before + 1, last):
        parts = []
        each = 2 if match["two"] else 1
        for half in range(each):
            shifted = b.shr(Lane(f"%a{k}", word), b.const(16 * half, word)) if each > 1 else None
            own = Lane(f"%a{k}", word) if shifted is None else b.cast(shifted, t.uint16)
            at = fresh()
            lines.append(f"{at} = getelementptr i8, ptr {place}, i64 {far}")
            old = b.value(f"load i{own.dtype.bits}, ptr {at}", own.dtype, 1)
            total = b.add(b.bitcast(old, dtype), b.bitcast(own, dtype))
            lines.append(f"store {b.bitcast(total, own.dtype).typed}, ptr {at}")
            far += dtype.bytes
            parts.append(b.shl(b.cast(old, word), b.const(16 * half, word)) if each > 1 else old)
        olds.append(parts[0] if each == 1 else b.bit_or(*parts))
    lines += [*returned(b, result, olds if before else []), "off:", *returned(b, result, zeros)]
    params = ", ".join(f"{kind} %a{i}" for i, kind in enumerate(kinds))
    return "\n".join([f"define internal {result} {name}({params}) {{", *lines, "}"])


def returned(b: Lanes, result: str, values: list[Lane]) -> list[str]:
    if not values:
        return ["ret void"]
    if len(values) == 1:
        return [f"ret {values[0].typed}"]
    lines, held = [], "poison"
    for k, value in enumerate(values):
        name = b.fresh()
        lines.append(f"{name} = insertvalue {result} {held}, {value.typed}, {k}")
        held = name
    return [*lines, f"ret {result} {held}"]
