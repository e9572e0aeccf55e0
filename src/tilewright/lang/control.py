"""Branches and returns: `if` on values of the run, conditional expressions, early returns."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.ir.inst import Block, Value
from tilewright.ir.types import Type
from tilewright.lang import loops
from tilewright.lang.arithmetic import where
from tilewright.lang.conversion import truth
from tilewright.lang.expressions import text_of
from tilewright.lang.outcome import FALL, Returned
from tilewright.lang.promote import constant
from tilewright.lang.shapes import item
from tilewright.lang.source import last_assignment, reads
from tilewright.lang.tensor import known, tensor
from tilewright.lang.values import (
    Undefined,
    as_type,
    common_type,
    describe,
    flatten,
    is_scalar_leaf,
    rebuild,
    same_static,
)
from tilewright.ops.control import if_, yield_
from tilewright.ops.math import select
from tilewright.ops.shape import constant as make_constant
from tilewright.ops.shape import splat

if TYPE_CHECKING:
    from tilewright.lang.frontend import Frontend


@dataclass(slots=True)
class Side:
    """One side of a branch: its instructions, what names hold at its end, how it ended."""

    block: Block
    names: dict[str, Any]
    result: Any


@dataclass(frozen=True, slots=True)
class Merged:
    """A value that depends on which side was taken: what both have, and a leaf each elsewhere."""

    leaves: list[tuple[Any, Any, Type | None]]  # then, else, the type of what is yielded
    shape: Any  # a value to rebuild


class Disagreement(Exception):
    """Two sides give values that are not of one type: what it is called, and what it is."""

    def __init__(self, path: str, one: Any, other: Any):
        self.path = path
        self.one = one
        self.other = other

    def words(self, one: str = "in one case", other: str = "in the other") -> str:
        """What disagrees, where, and what to do."""
        if self.one is None or self.other is None:
            advice = "a value that is None in one case must be None in both"
        elif getattr(self.one, "shape", ()) != getattr(self.other, "shape", ()):
            advice = "bring both to one shape, or use another name"
        else:
            advice = "cast one of them with .to(...)"
        return (
            f"{self.path} is {describe(self.one)} {one} and {describe(self.other)} {other}; "
            + advice
        )


def branch(f: Frontend, node: ast.If, after: Callable | None = None) -> Any:
    condition = known(f.expr(node.test))
    if not isinstance(condition, tensor):
        return f.block(node.body if condition else node.orelse, after)
    f.at(node.test)
    if condition.shape and f.mapping:
        return branch_by_element(f, node, truth(condition), after)
    condition = scalar_condition(f, node.test, condition, "an `if`")
    then = side(f, lambda: run_side(f, node.body, after))
    other = side(f, lambda: run_side(f, node.orelse, after))
    f.at(node)
    if after is None and not then.result is other.result is FALL:
        raise loops.leaves_branch(f, node)
    if after is not None:
        return merge_returns(f, node, condition, then, other)
    merge_names(f, node, condition, then, other)
    return FALL


def run_side(f: Frontend, body: Sequence[ast.stmt], after: Callable | None) -> Any:
    """One side of a branch; one that returns takes what follows the branch in."""
    outcome = f.block(body, after)
    if outcome is FALL and after is not None:
        return after()
    return outcome


def side(f: Frontend, compile: Callable) -> Side:
    """What `compile` does, in a block and with names of its own."""
    names, block = f.scope.names, Block()
    f.scope.names = dict(names)
    f.regions += 1
    with f.builder.inside(block):
        result = compile()
    f.regions -= 1
    made = Side(block, f.scope.names, result)
    f.scope.names = names
    return made


def scalar_condition(f: Frontend, node: ast.expr, value: tensor, what: str) -> tensor:
    """A run-time condition as one boolean."""
    if value.shape and math.prod(value.shape) == 1:
        value = item(value)
    if value.shape:
        raise f.error(
            f"{what} needs one condition, got a tile {describe(value)}; choose element by element "
            "with tl.where or a mask, or reduce it, e.g. with tl.max(x.to(tl.int32), 0) > 0",
            node,
        )
    return truth(value)


def merge_names(f: Frontend, node: ast.If, condition: tensor, then: Side, other: Side) -> None:
    """Names that either side assigned hold what the side taken gave them."""
    before = f.scope.names
    merged: dict[str, Merged] = {}
    for name in {**then.names, **other.names}:
        a, b = then.names.get(name), other.names.get(name)
        if a is b and name in then.names and name in other.names:
            before[name] = a
        elif name not in then.names or name not in other.names:
            before[name] = Undefined(one_sided(f, node, name in then.names))
        elif type(a) is Undefined or type(b) is Undefined:
            before[name] = a if type(a) is Undefined else b
        elif f.scope.source.loads[name] == reads(node)[name] and not loops.is_carried(f, name):
            before[name] = Undefined(f"it is local to the `if` of {line_of(f, node)}")
        else:
            try:
                merged[name] = merge(name, a, b)
            except Disagreement as error:
                message = f"Mismatched type for {name}: {error.words(*places(f, node, name))}"
                if type(before.get(name, Undefined(""))) is not Undefined:
                    raise f.error(message, node) from None
                before[name] = Undefined(message)
    values = emit_if(f, condition, then.block, other.block, list(merged.values()))
    before.update(zip(merged, values))


def one_sided(f: Frontend, node: ast.If, in_then: bool) -> str:
    holds = "holds" if in_then else "does not hold"
    return (
        f"it is assigned only where the condition of {line_of(f, node)} {holds}; give it a value "
        "before the `if`"
    )


def line_of(f: Frontend, node: ast.AST) -> str:
    return f"line {node.lineno + f.scope.source.shift}"


def merge(path: str, a: Any, b: Any) -> Merged:
    """Two values as one that depends on the side taken.

    Raises:
        Disagreement: where they have no common type.
    """
    left, right = flatten(a, path), flatten(b, path)
    if [p for p, _ in left] != [p for p, _ in right]:
        raise Disagreement(f"`{path}`", a, b)
    leaves: list[tuple[Any, Any, Type | None]] = []
    for (place, x), (_, y) in zip(left, right):
        x, y = outside(x), outside(y)
        if x is y or (not isinstance(x, tensor) and same_static(x, y)):
            leaves.append((x, y, None))
            continue
        if same_constant(x, y):
            leaves.append((x, x, None))
            continue
        kind = common_type(x, y) if is_scalar_leaf(x) and is_scalar_leaf(y) else None
        if kind is None:
            raise Disagreement(f"`{place}`", x, y)
        leaves.append((x, y, kind))
    return Merged(leaves, a)


def outside(leaf: Any) -> Any:
    """A scalar that is known as one that is made before the branch."""
    number = known(leaf) if isinstance(leaf, tensor) else leaf
    return leaf if number is leaf else constant(number, leaf.handle.type)


def same_constant(x: Any, y: Any) -> bool:
    """Whether both sides assign one number."""
    return isinstance(x, tensor) and isinstance(y, tensor) and x.handle is y.handle


def places(f: Frontend, node: ast.If, name: str) -> list[str]:
    """Where each branch gets the value of a name."""
    out = []
    for body in (node.body, node.orelse):
        line = last_assignment(body, name)
        out.append(f"(line {line + f.scope.source.shift})" if line else "(before the `if`)")
    return out


def emit_if(
    f: Frontend, condition: tensor, then: Block, other: Block, values: list[Merged]
) -> list[Any]:
    """The `if` that gives these values; a `select` where no side computes anything."""
    chosen = [leaf for value in values for leaf in value.leaves if leaf[2] is not None]
    pairs = [(as_type(x, kind).handle, as_type(y, kind).handle) for x, y, kind in chosen]
    if all(inst.op is make_constant for inst in (*then.insts, *other.insts)):
        handles = [choose(f, condition.handle, x, y) for x, y in pairs]
    else:
        for block, position in ((then, 0), (other, 1)):
            with f.builder.inside(block):
                f.emit(yield_, *[pair[position] for pair in pairs])
        kinds = [str(kind) for _, _, kind in chosen]
        handles = f.emit(if_, condition.handle, region=(then, other), types=kinds)
    results = iter(handles)
    out = []
    for value in values:
        leaves = [x if kind is None else tensor(next(results)) for x, _, kind in value.leaves]
        out.append(rebuild(value.shape, iter(leaves)))
    return out


def choose(f: Frontend, condition: Value, x: Value, y: Value) -> Value:
    if x is y:
        return x
    if x.type.shape:
        condition = f.emit(splat, condition, shape=x.type.shape)
    return f.emit(select, condition, x, y)


def conditional(f: Frontend, node: ast.IfExp) -> Any:
    condition = known(f.expr(node.test))
    if not isinstance(condition, tensor):
        return f.expr(node.body if condition else node.orelse)
    f.at(node.test)
    if condition.shape and f.mapping:
        return by_element(truth(condition), f.expr(node.body), f.expr(node.orelse))
    condition = scalar_condition(f, node.test, condition, "a conditional expression")
    then = side(f, lambda: f.expr(node.body))
    other = side(f, lambda: f.expr(node.orelse))
    f.at(node)
    try:
        merged = merge("", then.result, other.result)
    except Disagreement as error:
        error.path = f"`{text_of(node)}`"
        what = "Ternary expression with dynamic condition has inconsistent type"
        raise f.error(f"{what}: {error.words()}", node) from None
    return emit_if(f, condition, then.block, other.block, [merged])[0]


# --- branches of functions that are mapped over elements


def branch_by_element(
    f: Frontend, node: ast.If, condition: tensor, after: Callable | None = None
) -> Any:
    """Both sides on all elements, of which each then has the result of its side."""
    before = f.scope.names
    sides: list[tuple[dict[str, Any], Any]] = []
    for body in (node.body, node.orelse):
        f.scope.names = dict(before)
        outcome = run_side(f, body, after)
        sides.append((f.scope.names, outcome))
    f.scope.names = before
    f.at(node)
    (then, one), (other, two) = sides
    if isinstance(one, Returned) and isinstance(two, Returned):
        return Returned(by_element(condition, one.value, two.value), one.node or two.node)
    for name in then.keys() & other.keys():
        a, b = then[name], other[name]
        before[name] = a if a is b else by_element(condition, a, b)
    return FALL


def by_element(condition: tensor, a: Any, b: Any) -> Any:
    """Leaf by leaf, one value where the condition holds and another elsewhere."""
    leaves = [
        x if x is y else where(condition, x, y) for (_, x), (_, y) in zip(flatten(a), flatten(b))
    ]
    return rebuild(a, iter(leaves))


# --- returns


def contains_return(node: ast.AST) -> bool:
    """Whether a statement may return from the function it is in. Kept on the node."""
    known = getattr(node, "contains_return", None)
    if known is None:
        known = any(
            isinstance(child, ast.Return)
            or (not isinstance(child, (ast.FunctionDef, ast.Lambda)) and contains_return(child))
            for child in ast.iter_child_nodes(node)
            if isinstance(child, (ast.stmt, ast.ExceptHandler))
        )
        node.contains_return = known
    return known


def give_back(f: Frontend, node: ast.Return) -> Returned:
    loop = next((x for x in reversed(f.scope.loops) if x.at_run_time), None)
    if loop is not None:
        raise f.error(
            "Cannot have `return` statements inside `while` or `for` statements in triton: this "
            f"one is in the {loop.kind} loop of line {loop.line}; keep the result in a variable "
            "and return it after the loop",
            node,
        )
    return Returned(None if node.value is None else f.expr(node.value), node)


def merge_returns(f: Frontend, node: ast.If, condition: tensor, then: Side, other: Side) -> Any:
    """What the function returns, by the side taken."""
    for part in (then, other):
        if not isinstance(part.result, Returned):  # break or continue out of an unrolled loop
            raise loops.leaves_branch(f, node)
    try:
        merged = merge(f"{f.scope.name}(...)", then.result.value, other.result.value)
    except Disagreement as error:
        where = [
            f"({line_of(f, p.result.node)})" if p.result.node else f"(the end of `{f.scope.name}`)"
            for p in (then, other)
        ]
        raise f.error(f"Inconsistent return types: {error.words(*where)}", node) from None
    value = emit_if(f, condition, then.block, other.block, [merged])[0]
    return Returned(value, then.result.node or other.result.node)


STATEMENTS = {ast.If: branch, ast.Return: give_back, **loops.STATEMENTS}
EXPRESSIONS = {ast.IfExp: conditional}
