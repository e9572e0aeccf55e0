"""Variables that each turn of a loop hands to the next: their types, and what does not change."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.errors import CompileError
from tilewright.ir.inst import Block, Value, walk
from tilewright.ir.types import Type
from tilewright.lang.promote import scalar_dtype
from tilewright.lang.source import last_assignment
from tilewright.lang.tensor import tensor
from tilewright.lang.values import (
    NUMBERS,
    Undefined,
    as_number,
    as_type,
    common_type,
    describe,
    fits,
    flatten,
    is_scalar_leaf,
    rebuild,
    same_static,
)

if TYPE_CHECKING:
    from tilewright.lang.frontend import Frontend


class TypeChange(Exception):
    """A carried variable must start with another type; `types` are all of them anew."""

    def __init__(self, types: list[Type | None]):
        self.types = types


class Carried:
    """The variables that each turn of a loop hands to the next."""

    def __init__(self, f: Frontend, node: ast.For | ast.While, names: list[str]):
        self.f = f
        self.node = node
        self.names = names
        self.values = [f.scope.names[name] for name in names]
        pairs = [p for n, v in zip(names, self.values) for p in flatten(v, n)]
        self.paths = [path for path, _ in pairs]
        self.leaves = [leaf for _, leaf in pairs]
        self.types = [first_type(path, leaf) for path, leaf in pairs]

    def enter(self, params: Sequence[Value]) -> None:
        """Let the names hold the parameters of a block."""
        tensors = iter(params)
        leaves = iter(
            leaf if kind is None else tensor(next(tensors))
            for leaf, kind in zip(self.leaves, self.types)
        )
        for name, value in zip(self.names, self.values):
            self.f.scope.names[name] = rebuild(value, leaves)

    def add_params(self, block: Block) -> list[Value]:
        return [block.add_param(kind) for kind in self.types if kind is not None]

    def initial(self) -> list[Value]:
        """What the variables hold before the loop, as values of the types that they are given."""
        return [
            as_type(leaf, kind).handle
            for leaf, kind in zip(self.leaves, self.types)
            if kind is not None
        ]

    def after_turn(self) -> list[Any]:
        """The leaves at the end of the body that become the next turn's.

        Raises:
            TypeChange: when numbers must start with other types.
            CompileError: when a variable changes its type.
        """
        names = self.f.scope.names
        found: list[Any] = []
        for name, value in zip(self.names, self.values):
            now = names.get(name)
            if type(now) is Undefined:
                self.f.scope.read(ast.copy_location(ast.Name(name, ast.Load()), self.node), {})
            pairs, before = flatten(now, name), flatten(value, name)
            if [p for p, _ in pairs] != [p for p, _ in before]:
                raise self.changed(name, value, now)
            found += [leaf for _, leaf in pairs]
        types = [self.settle(i, leaf) for i, leaf in enumerate(found)]
        if types != self.types:
            raise TypeChange(types)
        return [leaf for leaf, kind in zip(found, types) if kind is not None]

    def settle(self, position: int, after: Any) -> Type | None:
        """The type that a leaf must have in every turn."""
        before, kind = self.leaves[position], self.types[position]
        path = self.paths[position]
        if kind is None:
            if not isinstance(after, tensor) and same_static(before, after):
                return None
            both = is_scalar_leaf(before) and is_scalar_leaf(after)
            found = common_type(before, after) if both else None
            if found is None:
                raise self.changed(path, before, after)
            return found
        if isinstance(after, tensor) and after.handle.type == kind:
            return kind
        first, last = as_number(before), as_number(after)
        if last is not None and not kind.shape and fits(last, kind.dtype):
            return kind
        found = after.handle.type if isinstance(after, tensor) else None
        if last is not None:
            found = Type(scalar_dtype(last))
        if found is None or first is None or found.shape or not fits(first, found.dtype):
            raise self.changed(path, before, after)
        return found

    def changed(self, path: str, before: Any, after: Any) -> CompileError:
        line = last_assignment(self.node.body, path.split("[")[0].split(".")[0])
        where = f" (line {line + self.f.scope.source.shift})" if line else ""
        return self.f.error(
            f"`{path}` must keep its type in a loop: {describe(before)} before, {describe(after)} "
            f"after the first turn{where}; {advice(path, before, after)}",
            self.node,
        )


def advice(path: str, before: Any, after: Any) -> str:
    """How to give a carried variable one type."""
    if not isinstance(after, tensor):
        return f"`{path}` can change its value, but not what it is; use another name"
    kind = after.handle.type
    if isinstance(before, tensor) and as_number(before) is None:
        if before.shape != kind.shape:
            return "use another name for what has another shape"
        return f"start with {kind.dtype.spelled}, or end with {path}.to({before.dtype.spelled})"
    if not kind.shape:
        return f"start with a value of that type, e.g. {path} = 0"
    first = as_number(before)
    if first:
        return (
            f"start with {path} = tl.full({list(kind.shape)}, {first}, dtype={kind.dtype.spelled})"
        )
    return f"start with {path} = tl.zeros({list(kind.shape)}, dtype={kind.dtype.spelled})"


def first_type(path: str, leaf: Any) -> Type | None:
    """The type that a leaf is carried in, None for one that stays known at compile time.

    A number inside a tuple or a record counts as one that stays, such as the shape of a block
    pointer, until a turn changes it.
    """
    if isinstance(leaf, tensor):
        return leaf.handle.type
    return Type(scalar_dtype(leaf)) if type(leaf) in NUMBERS and path.isidentifier() else None


def finish(f: Frontend, carried: Carried, results: Sequence[Value], same: set[int]) -> None:
    """Let the names hold what the loop gives; what no turn changed is what it was."""
    given = iter(results)
    leaves: list[Any] = []
    position = 0
    for leaf, kind in zip(carried.leaves, carried.types):
        if kind is None:
            leaves.append(leaf)
            continue
        leaves.append(leaf if position in same else tensor(next(given)))
        position += 1
    stream = iter(leaves)
    for name, value in zip(carried.names, carried.values):
        f.scope.names[name] = rebuild(value, stream)


def drop_unchanged(
    carried: Carried, blocks: Sequence[tuple[Block, int]], initial: list[Value], leaves: list[Any]
) -> set[int]:
    """Carried variables that no turn changes become what they were before; their positions.

    Each block comes with the number of its parameters before the carried ones; the last is the
    one whose end gives `leaves`.
    """
    last, offset = blocks[-1]
    same = {
        i
        for i, leaf in enumerate(leaves)
        if isinstance(leaf, tensor) and leaf.handle is last.params[offset + i]
    }
    if not same:
        return same
    for block, offset in blocks:
        names = {block.params[offset + i]: initial[i] for i in same}
        for inst in walk(block):
            if any(x in names for x in inst.operands):
                inst.operands = tuple(names.get(x, x) for x in inst.operands)
        block.params[:] = [p for p in block.params if p not in names]
        for leaf in leaves:
            if isinstance(leaf, tensor):
                leaf.handle = names.get(leaf.handle, leaf.handle)
    return same
