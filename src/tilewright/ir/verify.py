"""Check a kernel: every rule asked again, every operand defined before its use, regions closed."""

from __future__ import annotations

from tilewright.errors import InternalError
from tilewright.ir.inst import Block, Inst, Kernel, Value
from tilewright.ir.types import Type, int1


def verify(kernel: Kernel) -> Kernel:
    """Raise InternalError unless the kernel is well formed; gives the kernel back."""
    if [p.type for p in kernel.params] != [v.type for v in kernel.body.params]:
        raise InternalError(f"{kernel.name}: parameters and their values differ")
    check_block(kernel.body, set())
    return kernel


def check_block(block: Block, visible: set[Value]) -> None:
    seen = visible | set(block.params)
    for position, inst in enumerate(block.insts):
        for x in inst.operands:
            if x not in seen:
                raise InternalError(f"{inst!r} uses a value that is not defined before it")
        check_rule(inst)
        if inst.op.name in REGIONS and not inst.blocks:
            raise InternalError(f"{inst!r} has no region")
        if inst.op.name == "yield" and position != len(block.insts) - 1:
            raise InternalError(f"{inst!r} is not the last of its block")
        for inner in inst.blocks:
            check_block(inner, seen)
        if inst.blocks:
            check_regions(inst)
        seen.update(inst.results)


def check_rule(inst: Inst) -> None:
    types = inst.op.rule(*[x.type for x in inst.operands], **inst.attrs)
    want = () if types is None else (types,) if isinstance(types, Type) else tuple(types)
    found = tuple(r.type for r in inst.results)
    if want != found:
        raise InternalError(f"{inst!r}: the rule says {want}, the instruction has {found}")


def check_regions(inst: Inst) -> None:
    """Each region of an instruction takes and yields what the instruction says."""
    check = REGIONS.get(inst.op.name, check_combining)
    check(inst, [[p.type for p in b.params] for b in inst.blocks], [given(b) for b in inst.blocks])


def given(block: Block) -> list[Type]:
    """The types of what a region yields."""
    return [x.type for x in block.terminator.operands] if block.terminator else []


Types = list[list[Type]]


def check_for(inst: Inst, taken: Types, yielded: Types) -> None:
    index, *carried = [x.type for x in (inst.operands[0], *inst.operands[3:])]
    expect(inst, "takes", taken, [[index, *carried]])
    expect(inst, "yields", yielded, [carried])


def check_while(inst: Inst, taken: Types, yielded: Types) -> None:
    carried = [x.type for x in inst.operands]
    expect(inst, "takes", taken, [carried, carried])
    expect(inst, "yields", yielded, [[Type(int1)], carried])


def check_if(inst: Inst, taken: Types, yielded: Types) -> None:
    results = [r.type for r in inst.results]
    count = 2 if results else len(inst.blocks)
    expect(inst, "takes", taken, [[]] * count)
    expect(inst, "yields", yielded, [results] * count)


def check_combining(inst: Inst, taken: Types, yielded: Types) -> None:
    """The region of a reduction takes two elements of each tile and gives one."""
    elements = [Type(x.type.dtype) for x in inst.operands]
    expect(inst, "takes", taken, [[*elements, *elements]])
    expect(inst, "yields", yielded, [elements])


def expect(inst: Inst, what: str, found: Types, wanted: Types) -> None:
    if found != wanted:
        shown = [", ".join(map(str, row)) for row in found]
        right = [", ".join(map(str, row)) for row in wanted]
        raise InternalError(f"a region of {inst!r} {what} {shown}, it should be {right}")


REGIONS = {"for": check_for, "while": check_while, "if": check_if}
