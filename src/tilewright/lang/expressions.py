"""Expressions: constants, names, operators, attributes and subscripts."""

from __future__ import annotations

import ast
import operator
import types
from typing import TYPE_CHECKING, Any

from tilewright.errors import CompileError, TypeRuleError
from tilewright.lang.arithmetic import logical_and, logical_not, logical_or
from tilewright.lang.constexpr import constexpr, held
from tilewright.lang.promote import to_tensor
from tilewright.lang.scope import is_constant, suggestion
from tilewright.lang.source import Source
from tilewright.lang.tensor import METHODS, known, tensor
from tilewright.lang.typenames import type_of
from tilewright.lang.values import NUMBERS, Undefined, describe, is_runtime

if TYPE_CHECKING:
    from tilewright.lang.frontend import Frontend

BINARY = {
    ast.Add: ("+", "__add__", operator.add),
    ast.Sub: ("-", "__sub__", operator.sub),
    ast.Mult: ("*", "__mul__", operator.mul),
    ast.Div: ("/", "__truediv__", operator.truediv),
    ast.FloorDiv: ("//", "__floordiv__", operator.floordiv),
    ast.Mod: ("%", "__mod__", operator.mod),
    ast.Pow: ("**", "__pow__", operator.pow),
    ast.LShift: ("<<", "__lshift__", operator.lshift),
    ast.RShift: (">>", "__rshift__", operator.rshift),
    ast.BitAnd: ("&", "__and__", operator.and_),
    ast.BitOr: ("|", "__or__", operator.or_),
    ast.BitXor: ("^", "__xor__", operator.xor),
    ast.MatMult: ("@", "__matmul__", operator.matmul),
}
COMPARISONS = {
    ast.Lt: ("<", "__lt__", operator.lt),
    ast.LtE: ("<=", "__le__", operator.le),
    ast.Gt: (">", "__gt__", operator.gt),
    ast.GtE: (">=", "__ge__", operator.ge),
    ast.Eq: ("==", "__eq__", operator.eq),
    ast.NotEq: ("!=", "__ne__", operator.ne),
}
UNARY = {
    ast.USub: ("-", "__neg__", operator.neg),
    ast.UAdd: ("+", "__pos__", operator.pos),
    ast.Invert: ("~", "__invert__", operator.invert),
}
INSTEAD = {
    "**": "use tl.exp2 or tl.math.pow, or multiply",
    "@": "use tl.dot",
}
PYTHON_ERRORS = (
    TypeError, ValueError, ZeroDivisionError, OverflowError, IndexError, KeyError, AttributeError,
)  # fmt: skip
TILE_ATTRIBUTES = ("dtype", "shape", "type", "ndim", "numel", "T")
REJECTED = {
    ast.Await: "`await` cannot be compiled",
    ast.Yield: "`yield` cannot be compiled; give a tuple back",
    ast.YieldFrom: "`yield` cannot be compiled; give a tuple back",
    ast.Starred: "a starred expression has no meaning here",
}


def text_of(node: ast.AST) -> str:
    """The expression as text, shortened for messages."""
    text = ast.unparse(node)
    return text if len(text) <= 60 else text[:57] + "..."


def in_words(value: Any) -> str:
    """A value as an f-string or a message shows it."""
    return describe(value) if isinstance(value, tensor) else str(value)


def unsupported(f: Frontend, node: ast.expr) -> CompileError:
    """The error for an expression that kernels cannot contain."""
    default = f"a {type(node).__name__} expression cannot be compiled"
    return f.error(REJECTED.get(type(node), default), node)


def constant(f: Frontend, node: ast.Constant) -> Any:
    return node.value


def name(f: Frontend, node: ast.Name) -> Any:
    value = f.scope.names.get(node.id, Undefined)
    if value is Undefined or type(value) is Undefined:
        return f.scope.read(node, f.captured)
    return value


def iterate(f: Frontend, node: ast.AST, value: Any) -> list[Any]:
    """The items of something whose length is known at compile time."""
    if isinstance(value, tensor):
        raise f.error(
            f"cannot loop over the elements of a tile, got {describe(value)}; compute on the whole "
            "tile, or load one element at a time",
            node,
        )
    f.at(node)
    try:
        return list(value)
    except TypeError:
        raise f.error(f"cannot iterate over {describe(value)}", node) from None


# --- operators


def operate(f: Frontend, node: ast.BinOp) -> Any:
    left = f.expr(node.left)
    right = f.expr(node.right)
    return binary(f, node, type(node.op), left, right)


def binary(f: Frontend, node: ast.AST, kind: type, left: Any, right: Any) -> Any:
    """An operator on two values: now where both are known, else by the tile's method."""
    symbol, method, function = BINARY[kind]
    if isinstance(left, tensor) or isinstance(right, tensor):
        f.at(node)
        return apply(f, node, symbol, method, left, right)
    try:
        return function(left, right)
    except PYTHON_ERRORS as error:
        raise cannot_compute(f, node, error) from error


def apply(f: Frontend, node: ast.AST, symbol: str, method: str, *operands: Any) -> Any:
    """The method that a tile has for an operator."""
    function = METHODS.get(method)
    if function is None:
        numbers = known(operands)
        if not is_runtime(numbers):
            return binary(f, node, type(node.op), *numbers)
        advice = f"; {INSTEAD[symbol]}" if symbol in INSTEAD else ""
        raise f.error(
            f"tiles have no operator `{symbol}`, got {' and '.join(map(describe, operands))}"
            + advice,
            node,
        )
    for x in operands:
        if not isinstance(x, tensor) and type(x) not in NUMBERS:
            raise wrong_operand(f, node, symbol, operands, x)
    try:
        return function(*operands)
    except TypeRuleError as error:
        if error.loc in (None, f.builder.loc):
            shown = f" {symbol} ".join(map(describe, operands))
            shown = shown if len(operands) > 1 else f"{symbol}{shown}"
            error.message = f"cannot compute {shown}: {error.message}"
            error.loc = f.builder.loc
        raise


def wrong_operand(
    f: Frontend, node: ast.AST, symbol: str, operands: tuple, wrong: Any
) -> CompileError:
    shown = f" {symbol} ".join(map(describe, operands))
    if wrong is None:
        advice = "; an argument that may be None must be tested with `is None` first"
    elif isinstance(wrong, tuple):
        advice = "; take an element of the tuple"
    else:
        advice = "; both must be tiles or numbers"
    return f.error(f"cannot compute {shown}{advice}", node)


def cannot_compute(f: Frontend, node: ast.AST, error: Exception) -> CompileError:
    """A Python error of an expression that was computed at compile time."""
    reason = f"no key {error}" if isinstance(error, KeyError) else str(error)
    return f.error(f"cannot compute `{text_of(node)}` at compile time: {reason}", node)


def negate(f: Frontend, node: ast.UnaryOp) -> Any:
    value = f.expr(node.operand)
    if type(node.op) is ast.Not:
        value = known(value)
        if isinstance(value, tensor):
            f.at(node)
            return logical_not(value)
        return not value
    symbol, method, function = UNARY[type(node.op)]
    if isinstance(value, tensor):
        f.at(node)
        return apply(f, node, symbol, method, value)
    try:
        return function(value)
    except PYTHON_ERRORS as error:
        raise cannot_compute(f, node, error) from error


def combine(f: Frontend, node: ast.BoolOp) -> Any:
    """`and`, `or`: short cuts where a side is known; elementwise on tiles."""
    both = type(node.op) is ast.And
    result = f.expr(node.values[0])
    for part in node.values[1:]:
        verdict = known(result)
        if not isinstance(verdict, tensor):
            if bool(verdict) is not both:
                return result
            result = f.expr(part)
            continue
        other = known(f.expr(part))
        if not isinstance(other, tensor):
            if type(other) not in NUMBERS:
                raise f.error(
                    f"`{'and' if both else 'or'}` needs conditions, got {describe(result)} and "
                    f"{describe(other)}",
                    part,
                )
            other = bool(other)
        f.at(node)
        result = logical_and(result, other) if both else logical_or(result, other)
    return result


def binds_too_tightly(source: Source, node: ast.Compare) -> str | None:
    """What is wrong about `a < n & b < m`, which means `a < (n & b) < m`."""
    for part in node.comparators[:-1]:
        if not isinstance(part, ast.BinOp) or not isinstance(part.op, (ast.BitAnd, ast.BitOr)):
            continue
        if not source.in_parentheses(part):
            sign = "&" if isinstance(part.op, ast.BitAnd) else "|"
            return (
                f"`{sign}` binds tighter than comparisons, so this compares with "
                f"`{text_of(part)}`; put each comparison in parentheses: (a < n) {sign} (b < m)"
            )
    return None


def compare(f: Frontend, node: ast.Compare) -> Any:
    mistake = binds_too_tightly(f.scope.source, node)
    if mistake is not None:
        raise f.error(mistake, node)
    left = f.expr(node.left)
    result: Any = True
    for position, (kind, right_node) in enumerate(zip(node.ops, node.comparators)):
        right = f.expr(right_node)
        one = compare_two(f, node, type(kind), left, right)
        if position == 0:
            result = one
        elif isinstance(result, tensor) or isinstance(one, tensor):
            f.at(node)
            result = logical_and(result, one)
        else:
            result = result and one
        left = right
    return result


def compare_two(f: Frontend, node: ast.Compare, kind: type, left: Any, right: Any) -> Any:
    if kind is ast.Is:
        return left is right or (type(left) in NUMBERS and same_number(left, right))
    if kind is ast.IsNot:
        return not (left is right or (type(left) in NUMBERS and same_number(left, right)))
    if kind in (ast.In, ast.NotIn):
        return contains(f, node, left, right) is (kind is ast.In)
    symbol, method, function = COMPARISONS[kind]
    if isinstance(left, tensor) or isinstance(right, tensor):
        f.at(node)
        return apply(f, node, symbol, method, left, right)
    try:
        return function(left, right)
    except PYTHON_ERRORS as error:
        raise cannot_compute(f, node, error) from error


def same_number(left: Any, right: Any) -> bool:
    """`is` on numbers: Python does not promise one object for one value, so the value counts."""
    return type(left) is type(right) and left == right


def contains(f: Frontend, node: ast.Compare, item: Any, container: Any) -> bool:
    item, container = known(item), known(container)
    if is_runtime(item) or isinstance(container, tensor):
        raise f.error(
            "`in` needs values known at compile time, got "
            f"{describe(item)} in {describe(container)}; compare with == and combine with |",
            node,
        )
    try:
        return item in container
    except PYTHON_ERRORS as error:
        raise cannot_compute(f, node, error) from error


# --- parts of values


def attribute(f: Frontend, node: ast.Attribute) -> Any:
    base = f.expr(node.value)
    if isinstance(base, tensor):
        f.at(node)
    try:
        value = getattr(base, node.attr)
    except AttributeError:
        if node.attr == "value" and not isinstance(base, tensor):
            return base  # of a constexpr, which arrives unwrapped
        if node.attr == "type" and not isinstance(base, tensor):
            return type_of(base)
        if type(base) in NUMBERS and (node.attr in METHODS or node.attr in TILE_ATTRIBUTES):
            f.at(node)
            return getattr(to_tensor(base), node.attr)
        raise no_attribute(f, node, base) from None
    kind = type(value)
    if kind is constexpr:
        value = held(value)
    if isinstance(base, (types.ModuleType, type)):
        value = outside_value(f, node, base, value)
    return value


def outside_value(f: Frontend, node: ast.Attribute, owner: Any, value: Any) -> Any:
    """What a kernel reads from a module or class; constants are noted for the cache key."""
    if type(value) in (*NUMBERS, str, tuple):
        name = owner.__name__
        if isinstance(owner, type):
            name = f"{owner.__module__}.{owner.__qualname__}"
        f.captured[f"{name}.{node.attr}"] = value
    elif not is_constant(value):
        if callable(value) and node.attr in METHODS:
            raise f.error(f"cannot call `{text_of(node)}` in a kernel; use tl.{node.attr}", node)
        raise f.error(
            f"the kernel reads `{text_of(node)}`, which is a {type(value).__name__}: it can change "
            "after the kernel is compiled; pass what the kernel needs of it as arguments",
            node,
        )
    return value


def no_attribute(f: Frontend, node: ast.Attribute, base: Any) -> CompileError:
    if isinstance(base, tensor):
        known = [*METHODS, *TILE_ATTRIBUTES]
        what = f"tiles have no attribute `{node.attr}`, got {describe(base)}"
        known = [k for k in known if not k.startswith("_")]
    elif isinstance(base, tuple) and hasattr(list, node.attr):
        owner = text_of(node.value)
        known = ()
        what = (
            f"`{owner}` cannot change: lists are tuples in a kernel, got {describe(base)}; make a "
            f"new one, e.g. {owner} = (*{owner}, x)"
        )
    else:
        known = dir(base)
        owner = text_of(node.value)
        what = f"`{owner}` has no attribute `{node.attr}`"
        if not isinstance(base, types.ModuleType):
            what += f"; it is {describe(base)}"
    return f.error(what + suggestion(node.attr, known), node)


def subscript(f: Frontend, node: ast.Subscript) -> Any:
    base = f.expr(node.value)
    index = f.expr(node.slice)
    f.at(node)
    index = known(index)
    if isinstance(base, tensor):
        if any(isinstance(i, tensor) for i in (index if isinstance(index, tuple) else (index,))):
            raise f.error(
                f"a tile cannot be indexed by run-time values, got {describe(base)}; load what is "
                "needed with pointers, or use tl.gather",
                node,
            )
        return METHODS["__getitem__"](base, index)
    if isinstance(index, tensor):
        raise f.error(
            f"the index of {describe(base)} must be known at compile time, got {describe(index)}; "
            "use tl.static_range for the loop",
            node.slice,
        )
    try:
        value = base[index]
    except PYTHON_ERRORS as error:
        raise cannot_compute(f, node, error) from error
    return value.value if isinstance(value, constexpr) else value


def slice_of(f: Frontend, node: ast.Slice) -> slice:
    parts = [None if p is None else known(f.expr(p)) for p in (node.lower, node.upper, node.step)]
    for part, where in zip(parts, (node.lower, node.upper, node.step)):
        if isinstance(part, tensor):
            raise f.error(
                f"the bounds of a slice must be known at compile time, got {describe(part)}", where
            )
    return slice(*parts)


TABLE = {
    ast.Constant: constant,
    ast.Name: name,
    ast.BinOp: operate,
    ast.UnaryOp: negate,
    ast.BoolOp: combine,
    ast.Compare: compare,
    ast.Attribute: attribute,
    ast.Subscript: subscript,
    ast.Slice: slice_of,
}
