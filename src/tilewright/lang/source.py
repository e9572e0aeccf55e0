"""The source of a function: its syntax tree, and where each node stands in the user's file."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from zlib import crc32

from tilewright.errors import CompileError, Loc

# Parsed under this line, an indented function needs no dedenting and its columns stay true.
HEADER = "if True:\n"


@dataclass(eq=False)
class Source:
    """One function as it was written. Line numbers of the tree plus `shift` are the file's."""

    file: str
    shift: int
    text: str
    node: ast.FunctionDef | ast.Lambda
    lines: list[str] | None = field(default=None, repr=False)  # only where not all is ASCII

    def loc(self, node: ast.AST, function: str = "", caller: Loc | None = None) -> Loc:
        """Where a node stands."""
        column, end = node.col_offset, node.end_col_offset
        if self.lines is not None:
            column = self.characters(node.lineno, column)
            end = self.characters(node.end_lineno, end)
        shift = self.shift
        return Loc(
            self.file, node.lineno + shift, column, node.end_lineno + shift, end, function, caller
        )

    def in_parentheses(self, node: ast.expr) -> bool:
        """Whether parentheses stand around an expression, or might, out of its line."""
        where = self.loc(node)
        line = linecache.getline(self.file, where.line)
        before, after = line[: where.col].rstrip(), line[where.end_col :].lstrip()
        if not before or not after or where.line != where.end_line:
            return True
        return before.endswith("(") and after.startswith(")")

    def characters(self, line: int, column: int) -> int:
        """A column of the parser, which counts UTF-8 bytes, in characters."""
        return len(self.lines[line - 1].encode()[:column].decode(errors="ignore"))

    @cached_property
    def loads(self) -> Counter[str]:
        """How often each name is read."""
        return reads(self.node)

    @cached_property
    def has_walrus(self) -> bool:
        return any(isinstance(n, ast.NamedExpr) for n in ast.walk(self.node))


def reads(node: ast.AST) -> Counter[str]:
    """How often each name is read under a node; `x += 1` reads x. Kept on the node."""
    counts = getattr(node, "reads", None)
    if counts is None:
        counts = Counter()
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
                counts[inner.id] += 1
            elif isinstance(inner, ast.AugAssign) and isinstance(inner.target, ast.Name):
                counts[inner.target.id] += 1
        node.reads = counts
    return counts


def read_source(fn: Callable, text: str | None = None) -> Source:
    """The source of a function; `text` stands in for what its file says.

    Raises:
        CompileError: when the text cannot be found or read.
    """
    if text is not None:
        defined = re.search(r"^[ \t]*def\s+(\w+)", text, re.MULTILINE)
        name = defined[1] if defined else fn.__name__
        return parse(given_file(name, text), 1, text, name)
    code = fn.__code__
    if code.co_name == "<lambda>":
        return lambda_source(fn)
    try:
        lines, first = inspect.getsourcelines(fn)
    except (OSError, TypeError) as error:
        raise missing_source(fn) from error
    return parse(code.co_filename, first, "".join(lines), code.co_name)


def missing_source(fn: Callable) -> CompileError:
    return CompileError(
        f"cannot read the source of {fn.__qualname__}: it was defined by exec() or typed at a "
        f"prompt (file {fn.__code__.co_filename!r}); write it to a file and import it, or set "
        "the text with `_unsafe_update_src`"
    )


def given_file(name: str, text: str) -> str:
    """A file name under which `linecache` shows a text that stands in no file."""
    file = f"<source of {name}>"
    lines = text.splitlines(keepends=True)
    if linecache.cache.get(file, (0, None, lines))[2] != lines:
        file = f"<source of {name}, {crc32(text.encode()):08x}>"
    linecache.cache[file] = (len(text), None, lines, file)
    return file


def parse(file: str, first: int, text: str, name: str) -> Source:
    """The function called `name` in a text that begins at line `first` of a file."""
    indented = text[:1] in (" ", "\t")
    padded = HEADER + text if indented else text
    try:
        tree = ast.parse(padded)
    except SyntaxError as error:
        line = first + (error.lineno or 1) - 1 - indented
        column = (error.offset or 1) - 1
        where = Loc(file, line, column, line, column + 1, name)
        raise CompileError(f"cannot parse {name}: {error.msg}", where) from error
    shift = first - 1 - indented
    lines = None if padded.isascii() else padded.splitlines()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return Source(file, shift, textwrap.dedent(text), node, lines)
    raise CompileError(f"no function {name} in its own source", Loc(file, first))


def lambda_source(fn: Callable) -> Source:
    """A lambda's source: its file is parsed whole, since a part of a line is no program."""
    code = fn.__code__
    lines = linecache.getlines(code.co_filename)
    if not lines:
        raise missing_source(fn)
    names = code.co_varnames[: code.co_argcount]
    found = [
        node
        for node in ast.walk(ast.parse("".join(lines)))
        if isinstance(node, ast.Lambda)
        and node.lineno == code.co_firstlineno
        and tuple(a.arg for a in (*node.args.posonlyargs, *node.args.args)) == names
    ]
    if len(found) != 1:
        raise CompileError(
            f"{len(found)} lambdas with these parameters stand in one line; give each its own line",
            Loc(code.co_filename, code.co_firstlineno),
        )
    text = "".join(lines)
    shown = ast.get_source_segment(text, found[0]) or ""
    return Source(code.co_filename, 0, shown, found[0], None if text.isascii() else lines)


def last_assignment(body: Sequence[ast.stmt], name: str) -> int | None:
    """The last line of a body that assigns to a name."""
    lines = [
        inner.lineno
        for statement in body
        for inner in ast.walk(statement)
        if isinstance(inner, ast.Name) and inner.id == name and isinstance(inner.ctx, ast.Store)
    ]
    return max(lines, default=None)
