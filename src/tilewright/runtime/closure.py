"""Everything outside its arguments that a kernel's meaning rests on, as one digest.

The names that a function reads are looked up as the frontend would look them up: in its closure
and its globals, and in modules and objects found there. That is more than the frontend will use,
so a change that does not matter may recompile, and one that matters always does.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import linecache
import re
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from tilewright.ir.op import Op
from tilewright.ir.types import DType, Type
from tilewright.lang.constexpr import constexpr, constexpr_function
from tilewright.lang.jit import JITCallable
from tilewright.lang.source import missing_source
from tilewright.runtime.cache import digest

PLAIN = (
    bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range, slice,
    np.generic, np.dtype,
)  # fmt: skip
OPAQUE = {("torch", "dtype"), ("torch", "device")}  # objects whose repr says all
OURS = "tilewright"
VERSIONED = {"numpy", "torch", "ml_dtypes"}  # modules that are known by their version
MAX_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Place:
    """Where a function of the closure stands: its file, first line and number of lines."""

    file: str
    first: int
    count: int


@dataclass
class Closure:
    """What `scan` found. `is_stable` is false when something has no digest that lasts."""

    parts: list[str] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    functions: list[JITCallable] = field(default_factory=list)
    watched: list[tuple[dict[str, Any], str, Any]] = field(default_factory=list)
    is_stable: bool = True

    @property
    def digest(self) -> str:
        return digest(*self.parts)


class Scanner:
    """Visits values once, and writes down what they are."""

    def __init__(self) -> None:
        self.closure = Closure()
        self.seen: dict[Any, int] = {}
        self.kept: list[Any] = []  # what `seen` knows by id must not be freed meanwhile
        self.watched: set[tuple[int, str]] = set()
        self.names: set[str] = set()  # what the function being followed reads
        self.reader = 0  # and its number

    def note(self, *parts: Any) -> None:
        self.closure.parts.extend(map(str, parts))

    def value(self, value: Any, depth: int = 0) -> None:
        """Note what a value is, and follow it."""
        if isinstance(value, PLAIN):
            self.note(type(value).__name__, repr(value))
            return
        if isinstance(value, (DType, Type)):
            self.note("dtype", repr(value), str(value))
            return
        # Of a module or class each function may mean other attributes.
        holder = isinstance(value, (types.ModuleType, type))
        key = (id(value), self.reader) if holder else id(value)
        number = self.seen.get(key)
        if number is not None:
            self.note("again", number)
            return
        self.seen[key] = len(self.seen)
        self.kept.append(value)
        if depth > MAX_DEPTH:
            self.closure.is_stable = False
            return
        visit = next((v for kind, v in VISITS if isinstance(value, kind)), Scanner.unknown)
        visit(self, value, depth + 1)

    def jit(self, value: JITCallable, depth: int) -> None:
        text, place = text_of(value)
        self.note("jit", value.__qualname__, text)
        self.closure.places.append(place)
        self.closure.functions.append(value)
        code = value.fn.__code__
        if value._given is not None:
            whole = compile(text, place.file, "exec")
            name = value.source.node.name
            code = next((c for c in codes(whole) if c.co_name == name), whole)
        self.code(value.fn, code, depth)
        self.defaults(value.fn, depth)

    def function(self, value: types.FunctionType, depth: int) -> None:
        if is_ours(value.__module__):
            self.note("ours", value.__module__, value.__qualname__)
            return
        self.note("function", value.__qualname__)
        for code in codes(value.__code__):
            constants = [c for c in code.co_consts if not isinstance(c, types.CodeType)]
            self.note(code.co_code.hex(), repr(constants), code.co_names, code.co_varnames)
        self.code(value, value.__code__, depth)
        self.defaults(value, depth)

    def defaults(self, fn: Callable, depth: int) -> None:
        for default in (*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()):
            self.value(default, depth)

    def code(self, fn: types.FunctionType, code: types.CodeType, depth: int) -> None:
        """Follow the names that a function's code reads."""
        names = sorted({n for c in codes(code) for n in (*c.co_names, *c.co_freevars)})
        outer = self.names, self.reader
        self.names, self.reader = set(names), len(self.seen)
        cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or ()))
        for name in names:
            if name in cells:
                self.cell(name, cells[name], depth)
            elif name in fn.__globals__:
                found = fn.__globals__[name]
                known = (id(fn.__globals__), name) in self.watched
                if isinstance(found, (*PLAIN, constexpr, tuple)) and not known:
                    self.watched.add((id(fn.__globals__), name))
                    self.closure.watched.append((fn.__globals__, name, found))
                self.note("global", name)
                self.value(found, depth)
        self.names, self.reader = outer

    def cell(self, name: str, cell: types.CellType, depth: int) -> None:
        self.note("cell", name)
        try:
            value = cell.cell_contents
        except ValueError:
            self.note("empty")
            return
        self.value(value, depth)

    def module(self, value: types.ModuleType, depth: int) -> None:
        self.note("module", value.__name__)
        package = value.__name__.partition(".")[0]
        if package in VERSIONED:
            self.note(sys.modules[package].__version__)
        elif not is_ours(value.__name__):
            self.attributes(vars(value), depth)

    def type(self, value: type, depth: int) -> None:
        if value.__module__ == "builtins" or is_ours(value.__module__):
            self.note("class", value.__module__, value.__qualname__)
            return
        self.note("class", value.__qualname__)
        for base in value.__mro__[:-1]:
            self.attributes(vars(base), depth)

    def attributes(self, names: dict[str, Any], depth: int) -> None:
        """Those attributes that the function being followed may mean."""
        for name in sorted(self.names & names.keys()):
            self.note("attribute", name)
            self.value(names[name], depth)

    def constant(self, value: constexpr, depth: int) -> None:
        self.note("constexpr")
        self.value(value.value, depth)

    def constant_function(self, value: constexpr_function, depth: int) -> None:
        self.note("constexpr_function")
        self.value(value.function, depth)

    def op(self, value: Op, depth: int) -> None:
        self.note("op", value.name)

    def builtin(self, value: Any, depth: int) -> None:
        self.note("builtin", value.__module__, value.__qualname__)

    def method(self, value: types.MethodType, depth: int) -> None:
        self.note("method")
        self.value(value.__func__, depth)
        self.value(value.__self__, depth)

    def partial(self, value: functools.partial, depth: int) -> None:
        self.note("partial")
        for part in (value.func, value.args, value.keywords):
            self.value(part, depth)

    def sequence(self, value: Any, depth: int) -> None:
        self.note(type(value).__qualname__, len(value))
        items = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
        for item in items:
            self.value(item, depth)

    def mapping(self, value: dict, depth: int) -> None:
        self.note("dict", len(value))
        for key, item in value.items():
            self.value(key, depth)
            self.value(item, depth)

    def member(self, value: enum.Enum, depth: int) -> None:
        self.note("enum", type(value).__qualname__, value.name)
        self.value(value.value, depth)

    def wrapped(self, value: staticmethod | classmethod, depth: int) -> None:
        self.value(value.__func__, depth)

    def unknown(self, value: Any, depth: int) -> None:
        """An object of a class of the user's: what it holds, as far as that can be told."""
        cls = type(value)
        self.note("object", cls.__qualname__)
        if is_ours(cls.__module__) and hasattr(value, "fn"):  # a tuned kernel
            self.value(value.fn, depth)
            return
        if (cls.__module__, cls.__qualname__) in OPAQUE:
            self.note(repr(value))
            return
        if dataclasses.is_dataclass(value):
            held = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        else:
            held = getattr(value, "__dict__", None)
        if held is None:
            self.closure.is_stable = False
            return
        self.value(cls, depth)
        for name, item in sorted(held.items()):
            self.note(name)
            self.value(item, depth)


VISITS: tuple[tuple[Any, Callable], ...] = (
    (JITCallable, Scanner.jit),
    (constexpr, Scanner.constant),
    (constexpr_function, Scanner.constant_function),
    (Op, Scanner.op),
    (types.ModuleType, Scanner.module),
    (enum.Enum, Scanner.member),
    (type, Scanner.type),
    (types.FunctionType, Scanner.function),
    (types.MethodType, Scanner.method),
    (types.BuiltinFunctionType, Scanner.builtin),
    (functools.partial, Scanner.partial),
    ((staticmethod, classmethod), Scanner.wrapped),
    ((tuple, list, set, frozenset), Scanner.sequence),
    (dict, Scanner.mapping),
)


def text_of(function: JITCallable) -> tuple[str, Place]:
    """The text of a function without its decorators, and where it stands; nothing is parsed.

    Raises:
        CompileError: when the text cannot be found.
    """
    if function._given is not None:
        source = function.source
        return from_def(source.text, source.file, 1)
    code = function.fn.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.fn.__globals__)
    first = code.co_firstlineno
    last = max(line for c in codes(code) for *_, line in c.co_lines() if line)
    if last > len(lines):
        raise missing_source(function.fn)
    # inspect.getsource finds the end with Python's tokenizer, which takes 20 times as long.
    depth = indentation(lines[first - 1])
    while last < len(lines) and indentation(lines[last]) > depth:
        last += 1
    return from_def("".join(lines[first - 1 : last]), code.co_filename, first)


def from_def(text: str, file: str, first: int) -> tuple[str, Place]:
    """A text that begins in line `first`, from its `def` on: decorators change no meaning."""
    start = re.search(r"^[ \t]*def\s+\w+\s*\(", text, re.MULTILINE)
    if start is not None:
        first += text.count("\n", 0, start.start())
        text = text[start.start() :]
    text = textwrap.dedent(text).rstrip()
    return text, Place(file, first, text.count("\n") + 1)


def indentation(line: str) -> float:
    """How deep a line stands; blank lines belong to what is around them."""
    bare = line.lstrip()
    return len(line) - len(bare) if bare else inf


def is_ours(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] == OURS


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and those of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def scan(*values: Any) -> Closure:
    """The closure of kernels, functions and other constants."""
    scanner = Scanner()
    for value in values:
        scanner.value(value)
    return scanner.closure
