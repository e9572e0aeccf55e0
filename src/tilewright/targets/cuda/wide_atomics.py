"""Sums of several neighbours in memory by one instruction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst
from tilewright.targets.cuda.memory import CONSTRAINTS, Place, offset_text

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering

KINDS = {t.float32: "f32", t.float16: "noftz.f16", t.bfloat16: "noftz.bf16"}


def wide_add(
    x: Lowering, inst: Inst, place: Place, on: Lane | None, values: Sequence[Lane]
) -> list[Lane]:
    """Add to neighbours, where the condition holds; gives what was there before, or zeros."""
    e, dtype = x.e, values[0].dtype
    held = e.chunks([e.to_word(v) for v in values])
    count, letter = len(held), CONSTRAINTS[held[0].dtype.bits]
    kind = KINDS[dtype] + ("x2" if held[0].dtype.bits > dtype.bits else "")
    flush, _, kind = kind.rpartition(".")
    vector = f".v{count}" if count > 1 else ""
    name = f".relaxed.{inst.attrs.get('scope', 'gpu')}.global.add"
    name += f"{'.' + flush if flush else ''}{vector}.{kind}"
    is_read = x.is_used(inst.result)
    outputs = count if is_read else 0
    target = braced(range(count)) + ", " if is_read else ""
    at = 2 * outputs  # where the operands after the outputs, and what these were before, begin
    source = braced(range(at + 1, at + 1 + count))
    predicate = "" if on is None else f"@${at + 1 + count} "
    word = "atom" if is_read else "red"
    text = f"{predicate}{word}{name} {target}[{offset_text(f'${at}', place.bytes)}], {source};"
    zero = e.b.const(0, held[0].dtype)
    constraints = [
        *[f"={letter}"] * outputs, *map(str, range(outputs)), "l", *[letter] * count,
        *(["b"] if on is not None else []), "~{memory}",
    ]  # fmt: skip
    operands = [zero.typed] * outputs
    operands.append(f"ptr addrspace(1) {x.memory.global_pointer(place.pointer)}")
    operands += [h.typed for h in held]
    operands += [on.typed] if on is not None else []
    result = "void" if not is_read else zero.type
    if outputs > 1:
        result = "{" + ", ".join([zero.type] * outputs) + "}"
    call = (
        f'call {result} asm sideeffect "{text}", "{",".join(constraints)}"({", ".join(operands)})'
    )
    if not is_read:
        e.w.write(call)
        return [e.b.const(0, dtype)] * len(values)
    made = e.w.value(call)
    old = [Lane(made, zero.dtype)]
    if outputs > 1:
        old = [
            e.b.value(f"extractvalue {result} {made}, {k}", zero.dtype, 1) for k in range(outputs)
        ]
    words = [w for o in old for w in e.unpack(o, dtype.bits)]
    return [e.from_word(w, dtype) for w in words]


def braced(numbers: range) -> str:
    """Operands by their numbers, as a vector where there are several."""
    text = ", ".join(f"${k}" for k in numbers)
    return f"{{{text}}}" if len(numbers) > 1 else text
