"""Loops: run-time `for` and `while` as regions that carry variables, unrolled ones written out."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilewright.errors import CompileError
from tilewright.ir.inst import Block
from tilewright.lang import meta
from tilewright.lang.assigned import assigned_names
from tilewright.lang.carried import Carried, TypeChange, drop_unchanged, finish
from tilewright.lang.conversion import truth
from tilewright.lang.expressions import iterate, text_of
from tilewright.lang.outcome import BREAK, CONTINUE, FALL, Mark
from tilewright.lang.statements import store
from tilewright.lang.tensor import known, tensor
from tilewright.lang.values import (
    Undefined,
    as_type,
    describe,
)
from tilewright.ops.control import for_, while_, yield_
from tilewright.ops.math import add, sub

if TYPE_CHECKING:
    from tilewright.lang.frontend import Frontend

HINTS = (
    "num_stages", "loop_unroll_factor", "disallow_acc_multi_buffer", "flatten", "warp_specialize",
    "disable_licm",
)  # fmt: skip
FIXED_POINT = 4  # a number may change its type once for each of bool, int, wider int, float


@dataclass(slots=True)
class Loop:
    """A loop around the statements that are being compiled."""

    kind: str
    line: int
    at_run_time: bool
    regions: int  # around its body
    names: frozenset[str] = field(default_factory=frozenset)  # what a run-time one carries


def is_carried(f: Frontend, name: str) -> bool:
    """Whether a loop takes the name's value into its next turn."""
    return any(not loop.at_run_time or name in loop.names for loop in f.scope.loops)


def carry(f: Frontend, node: ast.For | ast.While, loop: Loop, turn: Callable) -> Any:
    """Compile a loop; `turn(carried)` gives its blocks and the leaves after a turn.

    A number that turns out to change its type starts with that type, and the body is compiled
    again. Gives the carried variables, the blocks and the leaves of the turn that counts.
    """
    outer = f.scope.names
    assigned, fixed = assigned_names(f, node)
    names = [n for n in assigned if n not in fixed and type(outer.get(n, MISSING)) not in UNKNOWN]
    carried = Carried(f, node, names)
    loop.names = frozenset(names)
    for _ in range(FIXED_POINT):
        f.scope.names = dict(outer)
        f.scope.loops.append(loop)
        f.regions += 1
        try:
            blocks, leaves = turn(carried)
        except TypeChange as change:
            carried.types = change.types
            continue
        finally:
            f.regions -= 1
            f.scope.loops.pop()
            inside, f.scope.names = f.scope.names, outer
        forget(f, node, inside, names)
        return carried, blocks, leaves
    raise f.error("the types of the loop's variables do not settle; cast them with .to(...)", node)


MISSING = Undefined("")
UNKNOWN = (Undefined,)


def forget(f: Frontend, node: ast.AST, inside: dict[str, Any], carried: Sequence[str]) -> None:
    """Names that only the body knows have no value after the loop."""
    line = node.lineno + f.scope.source.shift
    outer = f.scope.names
    for name, value in inside.items():
        if name not in carried and outer.get(name, MISSING) is not value:
            outer[name] = Undefined(
                f"it is assigned only inside the loop of line {line}, which may run no turn; give "
                "it a value before the loop"
            )


# --- for


def loop_for(f: Frontend, node: ast.For, after: Callable | None = None) -> Any:
    subject = f.expr(node.iter)
    if isinstance(subject, meta.range):
        count(f, node, subject)
        return f.block(node.orelse, after)
    return unroll(f, node, iterate(f, node.iter, subject), after)


def count(f: Frontend, node: ast.For, subject: meta.range) -> None:
    """A loop that the kernel runs: the op `for`."""
    if not isinstance(node.target, ast.Name):
        raise f.error(
            f"a loop over range counts with one name, got `{text_of(node.target)}`", node.target
        )
    f.at(node.iter)
    low, high, step, backwards = bounds_of(f, node, subject)
    loop = Loop("for", f.scope.loc(node).line, True, f.regions + 1)

    def turn(carried: Carried) -> tuple[Block, list[Any]]:
        block = Block()
        index = block.add_param(low.handle.type)
        with f.builder.inside(block):
            if backwards:  # from high down: high + low - index, where low is the end
                total = f.emit(add, low.handle, high.handle)
                index = f.emit(sub, total, index)
            carried.enter(carried.add_params(block))
            f.scope.names[node.target.id] = tensor(index)
            run_body(f, node)
            return block, carried.after_turn()

    carried, block, leaves = carry(f, node, loop, turn)
    f.at(node)
    initial = carried.initial()
    same = drop_unchanged(carried, [(block, 1)], initial, leaves)
    close(f, carried, block, leaves, same)
    hints = {h: v for h in HINTS if (v := known(getattr(subject, h, None)))}
    f.at(node)
    kept = [x for i, x in enumerate(initial) if i not in same]
    results = f.emit(for_, low.handle, high.handle, step.handle, *kept, region=block, **hints)
    finish(f, carried, results, same)


def bounds_of(f: Frontend, node: ast.For, subject: meta.range) -> tuple:
    """Bounds and step to count up with, and whether the loop means to count down."""
    bounds = (subject.start, subject.end, known(subject.step))
    if not all(is_count(x) for x in bounds):
        raise f.error(
            f"a loop counts in integers, got {describe(bounds)}; divide with //, or cast with "
            ".to(tl.int32)",
            node.iter,
        )
    start, end, step = bounds
    if not isinstance(step, int) or step > 0:
        return *meta.loop_bounds(start, end, step), False
    if step == 0:
        raise f.error("the step of a loop cannot be 0", node.iter)
    return *meta.loop_bounds(end, start, -step), True


def is_count(x: Any) -> bool:
    if isinstance(x, tensor):
        return x.dtype.is_integer and not x.shape
    return isinstance(x, int)


def run_body(f: Frontend, node: ast.For | ast.While) -> None:
    outcome = f.block(node.body)
    if isinstance(outcome, Mark) and outcome is not FALL:
        raise f.error("`break` and `continue` cannot end a run-time loop", node)


def close(f: Frontend, carried: Carried, block: Block, leaves: Sequence[Any], same: set[int]):
    """End the body's block with what it hands on."""
    kinds = [kind for kind in carried.types if kind is not None]
    pairs = [p for i, p in enumerate(zip(leaves, kinds)) if i not in same]
    f.at(carried.node)
    with f.builder.inside(block):
        f.emit(yield_, *[as_type(leaf, kind).handle for leaf, kind in pairs])


# --- while


def loop_while(f: Frontend, node: ast.While, after: Callable | None = None) -> Any:
    loop = Loop("while", f.scope.loc(node).line, True, f.regions + 1)
    holds: list[Any] = []
    if any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(node.test)):
        raise f.error("assign in the body of a `while`, not in its condition", node.test)

    def turn(carried: Carried) -> tuple[tuple[Block, Block], list[Any]]:
        test, body = Block(), Block()
        with f.builder.inside(test):
            carried.enter(carried.add_params(test))
            holds[:] = [known(f.expr(node.test))]
            if isinstance(holds[0], tensor):
                f.at(node.test)
                f.emit(yield_, check_condition(f, node.test, holds[0]).handle)
        if not isinstance(holds[0], tensor):
            return (test, body), []
        with f.builder.inside(body):
            carried.enter(carried.add_params(body))
            run_body(f, node)
            return (test, body), carried.after_turn()

    carried, (test, body), leaves = carry(f, node, loop, turn)
    if not isinstance(holds[0], tensor):
        return known_condition(f, node, holds[0], after)
    f.at(node)
    initial = carried.initial()
    same = drop_unchanged(carried, [(test, 0), (body, 0)], initial, leaves)
    close(f, carried, body, leaves, same)
    f.at(node)
    kept = [x for i, x in enumerate(initial) if i not in same]
    finish(f, carried, f.emit(while_, *kept, region=(test, body)), same)
    return f.block(node.orelse, after)


def check_condition(f: Frontend, node: ast.expr, value: tensor) -> tensor:
    if value.shape:
        raise f.error(
            f"a `while` needs one condition, got a tile {describe(value)}; reduce it, e.g. with "
            "tl.max(x.to(tl.int32), 0) > 0",
            node,
        )
    return truth(value)


def known_condition(f: Frontend, node: ast.While, holds: Any, after: Callable | None) -> Any:
    """A `while` whose condition no turn changes: it never runs, or for ever."""
    if holds:
        raise f.error(
            f"this loop never ends: no turn changes `{text_of(node.test)}`, which holds; test a "
            "variable that the body assigns",
            node.test,
        )
    return f.block(node.orelse, after)


# --- loops written out


def unroll(f: Frontend, node: ast.For, items: list[Any], after: Callable | None) -> Any:
    """The body once for each item, known now."""
    loop = Loop("for", f.scope.loc(node).line, False, f.regions)

    def turns(first: int) -> Any:
        for position in range(first, len(items)):
            store(f, node.target, items[position])
            rest = None if after is None else (lambda p=position: follow(p + 1))
            f.scope.loops.append(loop)
            try:
                outcome = f.block(node.body, rest)
            finally:
                f.scope.loops.pop()
            if outcome is BREAK:
                return FALL
            if outcome is not FALL and outcome is not CONTINUE:
                return outcome
        return f.block(node.orelse, after)

    def follow(first: int) -> Any:
        outcome = turns(first)
        return after() if outcome is FALL else outcome

    return turns(0)


def leave(f: Frontend, node: ast.Break | ast.Continue) -> Mark:
    """`break`, `continue`: of a loop that is written out, under conditions known now."""
    word = "break" if isinstance(node, ast.Break) else "continue"
    loop = f.scope.loops[-1]
    if loop.at_run_time:
        instead = "use `while` with the condition" if word == "break" else "put the rest under `if`"
        raise f.error(
            f"`{word}` in a {loop.kind} loop that the kernel runs cannot be compiled; {instead}, "
            "or count with tl.static_range and a condition known at compile time",
            node,
        )
    if f.regions != loop.regions:
        raise f.error(
            f"`{word}` under a condition that is only known when the kernel runs cannot be "
            "compiled; put the rest of the loop's body under `if`",
            node,
        )
    return BREAK if word == "break" else CONTINUE


def leaves_branch(f: Frontend, node: ast.AST) -> CompileError:
    return f.error("a branch cannot leave a loop", node)


STATEMENTS = {
    ast.For: loop_for,
    ast.While: loop_while,
    ast.Break: leave,
    ast.Continue: leave,
}
