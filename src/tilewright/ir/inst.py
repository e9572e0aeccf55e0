"""Values, instructions, blocks and kernels, and the builder that appends with value numbering."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.errors import CompileError, Loc, TypeRuleError
from tilewright.ir.op import Op
from tilewright.ir.types import Type


class Value:
    """One SSA value: a result of an instruction or a parameter of a block."""

    __slots__ = ("type", "inst", "block")

    def __init__(self, type: Type, inst: Inst | None = None, block: Block | None = None):
        self.type = type
        self.inst = inst
        self.block = block

    def __repr__(self) -> str:
        what = self.inst.op.name if self.inst else "param"
        return f"<{what}: {self.type}>"


@dataclass(eq=False, slots=True)
class Inst:
    """One use of an op."""

    op: Op
    operands: tuple[Value, ...]
    attrs: dict[str, Any]
    blocks: tuple[Block, ...] = ()
    results: tuple[Value, ...] = ()
    loc: Loc | None = None
    frozen: tuple | None = None  # the attributes as a key, once that is known

    @property
    def result(self) -> Value:
        (value,) = self.results
        return value

    def __repr__(self) -> str:
        return f"<inst {self.op.name} at {self.loc}>"


@dataclass(eq=False, slots=True)
class Block:
    """A straight list of instructions with parameters; the last one may be a `yield`."""

    params: list[Value] = field(default_factory=list)
    insts: list[Inst] = field(default_factory=list)

    def add_param(self, type: Type) -> Value:
        value = Value(type, block=self)
        self.params.append(value)
        return value

    @property
    def terminator(self) -> Inst | None:
        return self.insts[-1] if self.insts and self.insts[-1].op.name == "yield" else None


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a kernel: its name, type, and what is known about every argument."""

    name: str
    type: Type
    divisible: int = 1


@dataclass(eq=False, slots=True)
class Kernel:
    """A whole kernel. `body.params` are the values of `params`, in order."""

    name: str
    params: list[Param]
    body: Block
    loc: Loc | None = None
    meta: dict[str, Any] = field(default_factory=dict)

    def walk(self) -> Iterator[Inst]:
        """Every instruction, outer before inner, in program order."""
        yield from walk(self.body)


def walk(block: Block) -> Iterator[Inst]:
    """Every instruction of a block and of the blocks inside it, in program order."""
    for inst in block.insts:
        yield inst
        for inner in inst.blocks:
            yield from walk(inner)


def freeze(attr: Any) -> Any:
    """An attribute as a dictionary key; floats by their text, so that NaN equals itself."""
    if isinstance(attr, float):
        return repr(attr)
    if isinstance(attr, (list, tuple)):
        return tuple(freeze(a) for a in attr)
    return attr


class Builder:
    """Appends instructions to a block; equal pure instructions become one value."""

    def __init__(self, block: Block | None = None):
        self.block = block if block is not None else Block()
        self.loc: Loc | None = None
        self.known: dict[tuple, tuple[Value, ...]] = {}
        self.added: list[tuple] = []  # keys of `known`, in order
        self.region_builder: Callable | None = None  # set by the frontend

    def emit(self, op: Op, *operands: Value, region: Any = None, **attrs: Any) -> Any:
        """Append one instruction; gives its value, a tuple of values, or None."""
        try:
            types = op.rule(*[x.type for x in operands], **attrs)
        except CompileError as error:
            if error.loc is None:
                error.loc = self.loc
            raise
        except TypeError as error:
            raise TypeRuleError(f"{op.name}: {error}", self.loc) from error
        blocks = () if region is None else (region,)
        if isinstance(region, (list, tuple)):
            blocks = tuple(region)
        kinds = () if types is None else (types,) if isinstance(types, Type) else tuple(types)
        made = self.place(Inst(op, operands, attrs, blocks, loc=self.loc), kinds)
        if types is None:
            return None
        return made[0] if isinstance(types, Type) else made

    def place(self, inst: Inst, types: Sequence[Type]) -> tuple[Value, ...]:
        """Append an instruction with results of these types, or find an equal one."""
        if not inst.op.is_pure or inst.blocks:
            return self.append(inst, types).results
        if inst.frozen is None:
            inst.frozen = tuple(sorted([(k, freeze(v)) for k, v in inst.attrs.items()]))
        key = (inst.op, inst.operands, inst.frozen)
        found = self.known.get(key)
        if found is not None:
            return found
        self.known[key] = results = self.append(inst, types).results
        self.added.append(key)
        return results

    def append(self, inst: Inst, types: Sequence[Type]) -> Inst:
        inst.results = tuple([Value(t, inst=inst) for t in types])
        self.block.insts.append(inst)
        return inst

    def region(self, function: Callable, types: list[Type]) -> Block:
        """A block that holds what `function` does to values of these types."""
        if self.region_builder is None:
            raise TypeRuleError("a function cannot be passed to an op here", self.loc)
        return self.region_builder(function, types)

    def inside(self, block: Block) -> _Inside:
        """`with b.inside(block):` appends there; values known outside stay known."""
        return _Inside(self, block)


class _Inside:
    def __init__(self, builder: Builder, block: Block):
        self.builder = builder
        self.block = block

    def __enter__(self) -> Block:
        self.outer = self.builder.block
        self.builder.block = self.block
        self.count = len(self.builder.added)
        return self.block

    def __exit__(self, *exc: Any) -> None:
        self.builder.block = self.outer
        added = self.builder.added
        for key in added[self.count :]:
            del self.builder.known[key]
        del added[self.count :]
