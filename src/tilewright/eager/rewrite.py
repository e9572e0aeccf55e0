"""Where Python and compiled kernels would disagree: `and`, `assert`, numbers that have names.

A kernel is rewritten only where that matters, keeps its lines and columns, and so looks the same
to a debugger.
"""

from __future__ import annotations
import __future__

import ast
import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import CodeType
from typing import Any
from weakref import WeakKeyDictionary

from tilewright.errors import CompileError
from tilewright.lang.arithmetic import logical_and, logical_not, logical_or
from tilewright.lang.expressions import binds_too_tightly
from tilewright.lang.jit import JITCallable
from tilewright.lang.meta import device_assert
from tilewright.lang.meta import range as tile_range
from tilewright.lang.promote import is_number, to_tensor
from tilewright.lang.source import Source
from tilewright.lang.statements import is_constexpr_note
from tilewright.lang.tensor import known, tensor
from tilewright.lang.typenames import type_of
from tilewright.lang.values import assigned

FUTURES = __future__.annotations.compiler_flag
ORDERINGS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
LOADERS = {"load", "program_id", "num_programs", "arange", "dot", "zeros"}  # what gives tiles
SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def check(condition: Any, message: Any = "") -> None:
    """`assert`: at run time on tiles, at once on what is known."""
    if isinstance(condition, tensor):
        device_assert(condition, str(message))
    elif not condition:
        raise AssertionError(message)


def as_carried(subject: Any, *values: Any) -> tuple:
    """What a run-time loop, or branch, makes of the numbers that it may change."""
    if not isinstance(known(subject), (tile_range, tensor)):
        return values
    return tuple(to_tensor(v) if is_number(v) else at_run_time(v) for v in values)


def at_run_time(value: Any) -> Any:
    """A scalar as one that compiled kernels would not know any more."""
    if not isinstance(value, tensor) or not value.handle.known:
        return value
    return tensor(replace(value.handle, known=False))


def merged(condition: Any, value: Any) -> Any:
    """What a conditional expression gives."""
    return as_carried(condition, value)[0]


def value_of(owner: Any) -> Any:
    """`x.value`: of a constexpr, which is in a kernel what it holds, that itself."""
    return owner.value if isinstance(owner, tensor) else getattr(owner, "value", owner)


def settled(value: Any, fixed: Any) -> Any:
    """A tuple that is unpacked into names; `fixed` tells which of them are constexprs."""
    if not isinstance(fixed, tuple):
        return known(value) if fixed else assigned(value)
    items = tuple(value)
    if len(items) != len(fixed):
        return items  # which Python will refuse
    return tuple(settled(v, f) for v, f in zip(items, fixed, strict=True))


def refuse(message: str) -> None:
    raise CompileError(message)


def refuse_change(text: str, value: Any) -> None:
    raise CompileError(
        f"cannot assign to `{text}`: tiles, tuples and objects cannot be changed in place; make a "
        "new one, or write to memory with tl.store"
    )


HELPERS = {
    "_is_tile": lambda x: isinstance(x, tensor),
    "_and": logical_and,
    "_or": logical_or,
    "_not": lambda x: logical_not(x) if isinstance(x, tensor) else not x,
    "_check": check,
    "_carried": as_carried,
    "_merged": merged,
    "_assigned": assigned,
    "_value": value_of,
    "_type": type_of,
    "_settled": settled,
    "_unchanging": refuse_change,
    "_refuse": refuse,
    "_known": known,
    "_tuple": tuple,
    "_run_time": tile_range(0),
    "_known_range": range,
}


def call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(args), [])


def stored(nodes: Sequence[ast.AST]) -> set[str]:
    """The names that statements assign, those of nested functions apart."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, *SCOPES)):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        found |= stored(list(ast.iter_child_nodes(node)))
    return found


def places(targets: Sequence[ast.expr]) -> Iterator[ast.expr]:
    """What targets assign to that is not a name: items and attributes."""
    for target in targets:
        if isinstance(target, (ast.Tuple, ast.List)):
            yield from places(target.elts)
        elif isinstance(target, (ast.Subscript, ast.Attribute)):
            yield target


def assigned_for_sure(node: ast.stmt) -> set[str]:
    """The names that a statement assigns whichever way control goes."""
    if isinstance(node, ast.Assign):
        return stored(node.targets)
    if isinstance(node, ast.AnnAssign):
        return stored([node.target]) if node.value is not None else set()
    if isinstance(node, ast.If):
        sides = [set().union(*map(assigned_for_sure, s)) for s in (node.body, node.orelse)]
        return sides[0] & sides[1]
    return set()


def number_names(node: ast.FunctionDef) -> set[str]:
    """Names to which something may be assigned that is a number and no tile."""
    found: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Assign) and may_be_number(inner.value):
            found |= stored(inner.targets)
    return found


def may_be_number(value: ast.expr) -> bool:
    """Not what a function of the language gives, which is a tile."""
    calls = (n for n in ast.walk(value) if isinstance(n, ast.Call))
    return not any(isinstance(c.func, ast.Attribute) for c in calls)


def may_hold_number(value: ast.expr) -> bool:
    """Not what is surely a tile."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return True
    return value.func.attr not in LOADERS


def declared_constexpr(node: ast.FunctionDef) -> set[str]:
    """Names that are declared constexpr by a line of their own, without a value."""
    return {
        inner.target.id
        for inner in ast.walk(node)
        if isinstance(inner, ast.AnnAssign)
        and inner.value is None
        and isinstance(inner.target, ast.Name)
        and is_constexpr_note(inner.annotation)
    }


class Rewriter(ast.NodeTransformer):
    """Rewrites one function; `changed` tells whether anything had to be."""

    def __init__(self, node: ast.FunctionDef, source: Source):
        self.source = source
        self.changed = False
        self.count = 0
        self.numbers = number_names(node)
        self.defined = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
        self.declared = declared_constexpr(node)

    def fresh(self) -> str:
        self.count += 1
        self.changed = True
        return f"_{self.count}"

    def skip(self, node: ast.AST) -> ast.AST:
        """Scopes of their own cannot hold what is kept in between."""
        return node

    visit_Lambda = skip

    def visit_comprehension_scope(self, node: ast.expr) -> ast.expr:
        """A comprehension is written out by the compiler, with numbers known then."""
        for part in node.generators:
            if isinstance(part.iter, ast.Call) and getattr(part.iter.func, "id", "") == "range":
                part.iter.func = ast.copy_location(
                    ast.Name("_known_range", ast.Load()), part.iter.func
                )
                self.changed = True
        return node

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_comprehension_scope

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        """A tuple, as list displays are."""
        self.changed = True
        return ast.copy_location(call("_tuple", self.visit_comprehension_scope(node)), node)

    def visit_List(self, node: ast.List) -> ast.expr:
        """A list display as a tuple, which it is to the compiler: `x.shape[:-1] + [2]`."""
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            return node
        self.changed = True
        return ast.copy_location(ast.Tuple(node.elts, ast.Load()), node)

    def settle(self, value: ast.expr, helper: str = "_assigned") -> ast.expr:
        """The value of an assignment as what the name then holds."""
        if not may_hold_number(value):
            return value
        self.changed = True
        return ast.copy_location(call(helper, value), value)

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        self.generic_visit(node)
        changed = next(places(node.targets), None)
        if changed is not None:
            return self.refuse_change(node, changed, node.value)
        if len(node.targets) == 1 and stored(node.targets) & self.declared:
            self.changed = True
            value = call("_settled", node.value, self.fixed(node.targets[0]))
            node.value = ast.copy_location(value, node.value)
            return node
        node.value = self.settle(node.value)
        return node

    def refuse_change(self, node: ast.stmt, target: ast.expr, value: ast.expr) -> ast.stmt:
        self.changed = True
        refusal = call("_unchanging", ast.Constant(ast.unparse(target)), value)
        return ast.copy_location(ast.Expr(refusal), node)

    def fixed(self, target: ast.expr) -> ast.expr:
        """For each name of a target, whether it is declared constexpr."""
        if isinstance(target, (ast.Tuple, ast.List)):
            return ast.Tuple([self.fixed(t) for t in target.elts], ast.Load())
        return ast.Constant(isinstance(target, ast.Name) and target.id in self.declared)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            return node
        helper = "_known" if is_constexpr_note(node.annotation) else "_assigned"
        node.value = self.settle(self.visit(node.value), helper)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        """`x += y` as `x = x + y`."""
        if not isinstance(node.target, ast.Name):
            return self.refuse_change(node, node.target, node.value)
        before = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        whole = ast.copy_location(ast.BinOp(before, node.op, node.value), node)
        return ast.copy_location(ast.Assign([node.target], self.settle(self.visit(whole))), node)

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        if node.value is not None:
            node.value = self.settle(self.visit(node.value))
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        helper = "_known" if node.target.id in self.declared else "_assigned"
        node.value = self.settle(self.visit(node.value), helper)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        """A function inside a kernel, with names of its own."""
        inner = Rewriter(node, self.source)
        node.body = inner.body(node.body)
        self.changed |= inner.changed
        return node

    # --- statements

    def body(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """A list of statements, rewritten in order; what is assigned is known afterwards."""
        out: list[ast.stmt] = []
        for node in statements:
            new = self.visit(node)
            out += new if isinstance(new, list) else [new]
            self.defined |= assigned_for_sure(node)
        return out

    def inner(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """The same for a block that may not be run."""
        before = set(self.defined)
        out = self.body(statements)
        self.defined = before
        return out

    def carry(self, subject: ast.expr, names: set[str], node: ast.stmt) -> list[ast.stmt]:
        """`a, b = _carried(subject, a, b)`, at the line of `node`."""
        chosen = sorted(names & self.numbers & self.defined)
        if not chosen:
            return []
        self.changed = True
        targets = ast.Tuple([ast.Name(n, ast.Store()) for n in chosen], ast.Store())
        loads = [ast.Name(n, ast.Load()) for n in chosen]
        return [ast.copy_location(ast.Assign([targets], call("_carried", subject, *loads)), node)]

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        names = stored(node.body) & self.numbers & self.defined
        node.iter = self.visit(node.iter)
        before: list[ast.stmt] = []
        if names:
            kept = self.fresh()
            keep = ast.Assign([ast.Name(kept, ast.Store())], node.iter)
            before = [ast.copy_location(keep, node)]
            before += self.carry(ast.Name(kept, ast.Load()), names, node)
            node.iter = ast.copy_location(ast.Name(kept, ast.Load()), node.iter)
        node.body, node.orelse = self.inner(node.body), self.inner(node.orelse)
        return [*before, node]

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        before = self.carry(ast.Name("_run_time", ast.Load()), stored(node.body), node)
        node.test = self.visit(node.test)
        node.body, node.orelse = self.inner(node.body), self.inner(node.orelse)
        return [*before, node]

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        sure = assigned_for_sure(node) | (stored([*node.body, *node.orelse]) & self.defined)
        names = sure & self.numbers
        node.test = self.visit(node.test)
        node.body, node.orelse = self.inner(node.body), self.inner(node.orelse)
        if not names:
            return [node]
        kept = self.fresh()
        test = ast.NamedExpr(ast.Name(kept, ast.Store()), node.test)
        node.test = ast.copy_location(test, node.test)
        self.defined |= names
        return [node, *self.carry(ast.Name(kept, ast.Load()), names, node)]

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        self.generic_visit(node)
        self.changed = True
        parts = [node.test] if node.msg is None else [node.test, node.msg]
        return ast.copy_location(ast.Expr(call("_check", *parts)), node)

    # --- expressions

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if node.attr not in ("value", "type") or not isinstance(node.ctx, ast.Load):
            return node
        self.changed = True
        return ast.copy_location(call(f"_{node.attr}", node.value), node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        kept = self.fresh()
        test = ast.NamedExpr(ast.Name(kept, ast.Store()), node.test)
        node.test = ast.Name(kept, ast.Load())
        return ast.copy_location(call("_merged", test, node), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        self.changed = True
        return ast.copy_location(call("_not", node.operand), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """Elementwise where the left side is a tile, else Python's short cut."""
        self.generic_visit(node)
        out = node.values[0]
        for part in node.values[1:]:
            out = ast.copy_location(self.both(node.op, out, part), node)
        return out

    def both(self, op: ast.boolop, left: ast.expr, right: ast.expr) -> ast.expr:
        kept = self.fresh()
        held = ast.NamedExpr(ast.Name(kept, ast.Store()), left)
        known = ast.Name(kept, ast.Load())
        joined = call("_and" if isinstance(op, ast.And) else "_or", known, right)
        return ast.IfExp(call("_is_tile", held), joined, ast.BoolOp(op, [known, right]))

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """a < b < c as a < b and b < c, each evaluated once."""
        mistake = binds_too_tightly(self.source, node)
        if mistake is not None:
            self.changed = True
            return ast.copy_location(call("_refuse", ast.Constant(mistake)), node)
        self.generic_visit(node)
        if len(node.ops) == 1 or not all(isinstance(op, ORDERINGS) for op in node.ops):
            return node
        out: ast.expr | None = None
        left = node.left
        for position, (op, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            following = right
            if position < len(node.ops) - 1:
                kept = self.fresh()
                right = ast.NamedExpr(ast.Name(kept, ast.Store()), right)
                following = ast.Name(kept, ast.Load())
            one = ast.copy_location(ast.Compare(left, [op], [right]), node)
            out = one if out is None else ast.copy_location(self.both(ast.And(), out, one), node)
            left = following
        return out


_codes: WeakKeyDictionary[JITCallable, tuple[Source, CodeType]] = WeakKeyDictionary()


def code_of(jit: JITCallable) -> CodeType:
    """The code to run for a jit function: its own, unless it had to be rewritten."""
    own = jit.fn.__code__
    try:
        source = jit.source
    except CompileError:
        return own
    known = _codes.get(jit)
    if known is None or known[0] is not source:
        same_text = source.file == own.co_filename
        known = _codes[jit] = (source, rewritten(source, own, same_text))
    return known[1]


def rewritten(source: Source, own: CodeType, same_text: bool) -> CodeType:
    """The code of a source after rewriting; `own` where nothing changes."""
    if not isinstance(source.node, ast.FunctionDef):
        return own
    node = copy.deepcopy(source.node)
    rewriter = Rewriter(node, source)
    node.body = rewriter.body(node.body)
    if same_text and not rewriter.changed:
        return own
    node.decorator_list = []
    node.name = "_body"  # its own name must stay that of a global: a function may call itself
    names = [ast.arg(name) for name in own.co_freevars]
    outer = ast.FunctionDef(
        "_closure", ast.arguments([], names, None, [], [], None, []), [node], [], lineno=1,
        col_offset=0, end_lineno=1, end_col_offset=0,
    )  # fmt: skip
    if "type_params" in ast.FunctionDef._fields:
        outer.type_params = []
    module = ast.fix_missing_locations(ast.Module([outer], []))
    ast.increment_lineno(node, source.shift)
    flags = own.co_flags & FUTURES
    code = compile(module, source.file, "exec", flags=flags, dont_inherit=True)
    body = inner_code(inner_code(code, "_closure"), "_body")
    labels = {"co_name": own.co_name}
    if hasattr(own, "co_qualname"):
        labels["co_qualname"] = own.co_qualname
    return body.replace(**labels)


def inner_code(code: CodeType, name: str) -> CodeType:
    """The code of a function that is defined directly in another one."""
    return next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)
