"""Which names a loop assigns, without branches whose conditions are known before it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.errors import CompileError
from tilewright.lang.statements import is_constexpr_note
from tilewright.lang.tensor import known, tensor
from tilewright.lang.values import Undefined

if TYPE_CHECKING:
    from tilewright.lang.frontend import Frontend

# What a condition may consist of to be computed ahead of the loop: nothing that emits.
QUIET = (
    ast.Name, ast.Constant, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Attribute,
    ast.Tuple, ast.List, ast.Subscript, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
    ast.expr_context,
)  # fmt: skip
QUIET_ATTRIBUTES = frozenset(("dtype", "type", "shape", "ndim"))


def assigned_names(f: Frontend, node: ast.For | ast.While) -> tuple[list[str], set[str]]:
    """The names that a loop assigns, in order, and those declared constexpr among them."""
    every: dict[str, None] = {}
    collect(node.body, every, set(), None)
    out: dict[str, None] = {}
    fixed: set[str] = set()
    collect(node.body, out, fixed, Choice(f, every))
    if f.scope.source.has_walrus:
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                out[inner.target.id] = None
    return list(out), fixed


class Choice:
    """Decides conditions that only depend on what is known before the loop."""

    def __init__(self, f: Frontend, assigned: dict[str, None]):
        self.f = f
        self.assigned = assigned

    def decide(self, test: ast.expr) -> bool | None:
        """What the condition is in every turn; None where that is not known."""
        if not self.is_quiet(test):
            return None
        try:
            value = known(self.f.expr(test))
        except CompileError:
            return None  # the loop's body will say it
        return None if isinstance(value, tensor) else bool(value)

    def is_quiet(self, test: ast.expr) -> bool:
        described = set()  # tiles of which only the type is read
        for node in ast.walk(test):
            if not isinstance(node, QUIET):
                return False
            if isinstance(node, ast.Attribute) and node.attr in QUIET_ATTRIBUTES:
                described.add(id(node.value))
            if isinstance(node, ast.Name):
                if node.id in self.assigned:
                    return False
                value = self.f.scope.names.get(node.id)
                if type(value) is Undefined:
                    return False
                if isinstance(known(value), tensor) and id(node) not in described:
                    return False
        return True


def collect(
    body: Sequence[ast.stmt], out: dict[str, None], fixed: set[str], choice: Choice | None
) -> None:
    for node in body:
        kind = type(node)
        if kind is ast.Assign:
            for target in node.targets:
                targets(target, out)
        elif kind is ast.AugAssign:
            targets(node.target, out)
        elif kind is ast.AnnAssign:
            targets(node.target, out)
            if is_constexpr_note(node.annotation):
                targets(node.target, fixed)
        elif kind is ast.For:
            targets(node.target, out)
            collect(node.body, out, fixed, choice)
            collect(node.orelse, out, fixed, choice)
        elif kind is ast.While:
            collect(node.body, out, fixed, choice)
            collect(node.orelse, out, fixed, choice)
        elif kind is ast.If:
            verdict = None if choice is None else choice.decide(node.test)
            if verdict is not False:
                collect(node.body, out, fixed, choice)
            if verdict is not True:
                collect(node.orelse, out, fixed, choice)
        elif kind is ast.FunctionDef:
            targets(ast.Name(node.name), out)


def targets(target: ast.expr, out: Any) -> None:
    """Add the names that a target assigns to a set or an ordered dictionary."""
    if isinstance(target, ast.Name):
        if isinstance(out, set):
            out.add(target.id)
        else:
            out[target.id] = None
        return
    if isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            targets(part, out)
    elif isinstance(target, ast.Starred):
        targets(target.value, out)
