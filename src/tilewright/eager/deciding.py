"""What decides whether a `while` loop goes on: which names, and whether memory does."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

BUILTINS = {"min", "max", "abs", "range", "int", "float", "bool", "len"}


@dataclass
class Deciding:
    """The names that the condition of a loop depends on, and those that they are computed from."""

    names: set[str] = field(default_factory=set)
    reads: bool = False  # whether any of it is read from memory

    def take(self, expressions: Iterable[ast.AST]) -> None:
        for node in (inner for x in expressions for inner in ast.walk(x)):
            if isinstance(node, ast.Name):
                self.names.add(node.id)
            elif isinstance(node, ast.Call):
                self.reads = self.reads or may_read(node)

    def look(self, statements: Iterable[ast.stmt], tests: tuple[ast.AST, ...]) -> None:
        """Take what statements assign to a name that decides, and under which conditions."""
        for node in statements:
            for targets, value in assignments(node):
                if self.names & {x.id for x in ast.walk(targets) if isinstance(x, ast.Name)}:
                    self.take((value, *tests))
            if isinstance(node, ast.If | ast.While):
                inner = (*tests, node.test)
            elif isinstance(node, ast.For):
                inner = (*tests, node.iter)
            else:
                continue
            self.look([*node.body, *node.orelse], inner)


def may_read(node: ast.Call) -> bool:
    """Whether a call may read memory: the user's functions may."""
    if isinstance(node.func, ast.Attribute):
        name = node.func.attr
        return "load" in name or name.startswith(("atomic", "inline_asm", "extern"))
    return not (isinstance(node.func, ast.Name) and node.func.id in BUILTINS)


def assignments(node: ast.stmt) -> Iterable[tuple[ast.AST, ast.AST]]:
    """What a statement itself assigns, blocks inside of it apart."""
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, ast.AugAssign | ast.AnnAssign) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.For):
        yield node.target, node.iter
    heads = [node] if not hasattr(node, "body") else [getattr(node, "test", None)]
    for head in (h for h in heads if h is not None):
        for inner in ast.walk(head):
            if isinstance(inner, ast.NamedExpr):
                yield inner.target, inner.value


@lru_cache(maxsize=64)
def loops_of(file: str) -> list[ast.While]:
    """The `while` loops in a file, outer ones first."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.While)]


@lru_cache(maxsize=1024)
def deciding(file: str, line: int) -> Deciding | None:
    """What decides the `while` loop whose condition is at a line; None: no loop is known there."""
    loops = [x for x in loops_of(file) if x.lineno <= line <= x.test.end_lineno]
    return decided_by(loops[-1]) if loops else None


def decided_by(loop: ast.While) -> Deciding:
    found = Deciding()
    found.take([loop.test])
    size = -1
    while size < len(found.names):
        size = len(found.names)
        found.look(loop.body, ())
    return found


@lru_cache(maxsize=1024)
def is_awaited(file: str, line: int) -> bool:
    """Whether what is computed at a line decides if a `while` loop around it goes on."""
    if deciding(file, line) is not None:
        return True
    for loop in loops_of(file):
        for node in loop.body:
            if node.lineno <= line <= node.end_lineno:
                names = {
                    x.id for t, _ in assignments(node) for x in ast.walk(t) if hasattr(x, "id")
                }
                return bool(names & decided_by(loop).names)
    return False
