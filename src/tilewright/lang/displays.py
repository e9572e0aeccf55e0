"""Displays: tuples, dictionaries, comprehensions, formatted strings."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from tilewright.lang.expressions import PYTHON_ERRORS, cannot_compute, iterate, text_of
from tilewright.lang.scope import Scope
from tilewright.lang.statements import held_by, miscounted
from tilewright.lang.tensor import known, tensor
from tilewright.lang.values import describe, is_runtime

if TYPE_CHECKING:
    from tilewright.lang.frontend import Frontend


def display(f: Frontend, node: ast.Tuple | ast.List) -> tuple:
    """A tuple; lists are tuples too, since nothing changes in place."""
    out: list[Any] = []
    for item in node.elts:
        if isinstance(item, ast.Starred):
            out.extend(iterate(f, item.value, f.expr(item.value)))
        else:
            out.append(f.expr(item))
    return tuple(out)


def dictionary(f: Frontend, node: ast.Dict) -> dict:
    out: dict[Any, Any] = {}
    for key, value in zip(node.keys, node.values):
        if key is None:
            out.update(f.expr(value))
            continue
        name = known(f.expr(key))
        if is_runtime(name):
            raise f.error(f"a key must be known at compile time, got {describe(name)}", key)
        out[name] = f.expr(value)
    return out


def set_display(f: Frontend, node: ast.Set) -> frozenset:
    items = [known(f.expr(item)) for item in node.elts]
    if any(is_runtime(item) for item in items):
        raise f.error("a set can only hold values known at compile time; use a tuple", node)
    return frozenset(items)


def formatted(f: Frontend, node: ast.JoinedStr) -> str:
    return "".join(
        part.value if isinstance(part, ast.Constant) else formatted_value(f, part, node)
        for part in node.values
    )


def formatted_value(f: Frontend, node: ast.FormattedValue, whole: ast.JoinedStr) -> str:
    """One part; errors show the whole string, since old Pythons misplace its parts."""
    value = known(f.expr(node.value))
    if is_runtime(value):
        raise f.error(
            f"`{text_of(node.value)}` is only known when the kernel runs, got {describe(value)}; "
            "print it with tl.device_print",
            whole,
        )
    spec = formatted(f, node.format_spec) if node.format_spec is not None else ""
    convert = {ord("r"): repr, ord("s"): str, ord("a"): ascii}.get(node.conversion)
    try:
        return format(convert(value) if convert else value, spec)
    except PYTHON_ERRORS as error:
        raise cannot_compute(f, whole, error) from error


def walrus(f: Frontend, node: ast.NamedExpr) -> Any:
    value = f.expr(node.value)
    f.at(node)
    f.scope.names[node.target.id] = value = held_by(f, node.target.id, value)
    return value


def comprehension(f: Frontend, node: ast.ListComp | ast.GeneratorExp) -> tuple:
    """A tuple of the results; what is iterated over must have a length known now."""
    out: list[Any] = []
    outer = f.scope
    f.scope = Scope(outer.name, outer.source, {}, outer.fn, outer, outer.caller, outer.depth)
    try:
        generate(f, node, 0, out)
    finally:
        f.scope = outer
    return tuple(out)


def generate(f: Frontend, node: ast.ListComp | ast.GeneratorExp, depth: int, out: list) -> None:
    if depth == len(node.generators):
        out.append(f.expr(node.elt))
        return
    part = node.generators[depth]
    for item in iterate(f, part.iter, f.expr(part.iter)):
        assign_targets(f, part.target, item)
        conditions = [known(f.expr(test)) for test in part.ifs]
        for test, verdict in zip(part.ifs, conditions):
            if isinstance(verdict, tensor):
                raise f.error(
                    "the condition of a comprehension must be known at compile time, got "
                    f"{describe(verdict)}",
                    test,
                )
        if all(conditions):
            generate(f, node, depth + 1, out)


def assign_targets(f: Frontend, target: ast.expr, item: Any) -> None:
    if isinstance(target, ast.Name):
        f.scope.names[target.id] = item
        return
    items = known(item)
    if not isinstance(items, tuple):
        raise f.error(f"cannot unpack non-iterable value: {describe(items)}", target)
    if len(items) != len(target.elts):
        raise f.error(f"{miscounted(len(items), len(target.elts))}: {describe(items)}", target)
    for part, value in zip(target.elts, items):
        assign_targets(f, part, value)


TABLE = {
    ast.Tuple: display,
    ast.List: display,
    ast.Dict: dictionary,
    ast.Set: set_display,
    ast.JoinedStr: formatted,
    ast.NamedExpr: walrus,
    ast.ListComp: comprehension,
    ast.GeneratorExp: comprehension,
}
