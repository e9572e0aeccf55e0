"""Statements that do not branch: assignments, assertions, and what a kernel may not contain."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from tilewright.errors import CompileError, CompileTimeAssertionFailure
from tilewright.lang import meta
from tilewright.lang.expressions import binary, in_words, text_of
from tilewright.lang.tensor import known, tensor
from tilewright.lang.values import Undefined, assigned, describe
from tilewright.ops.debug import hint

if TYPE_CHECKING:
    from tilewright.lang.frontend import Frontend

REJECTED = {
    ast.Try: "`try` cannot be compiled: a running kernel raises no exceptions; use a mask, or "
    "tl.device_assert",
    ast.With: "`with` cannot be compiled; write the statements without it",
    ast.AsyncWith: "`async` cannot be compiled",
    ast.AsyncFor: "`async` cannot be compiled",
    ast.AsyncFunctionDef: "`async` cannot be compiled",
    ast.Global: "`global` cannot be compiled: a kernel cannot change Python variables; give the "
    "result back, or store it through a pointer",
    ast.Nonlocal: "`nonlocal` cannot be compiled: give the result back and assign it outside",
    ast.Import: "`import` cannot be compiled; import at the top of the file",
    ast.ImportFrom: "`import` cannot be compiled; import at the top of the file",
    ast.ClassDef: "a class cannot be defined in a kernel; define it outside",
}
for _name, _advice in (
    ("Match", "`match` cannot be compiled; write if and elif"),
    ("TryStar", REJECTED[ast.Try]),
    ("TypeAlias", "a type cannot be defined in a kernel; define it outside"),
):
    if hasattr(ast, _name):  # newer Pythons only
        REJECTED[getattr(ast, _name)] = _advice


def unsupported(f: Frontend, node: ast.stmt) -> CompileError:
    """The error for a statement that kernels cannot contain."""
    default = f"a {type(node).__name__} statement cannot be compiled"
    return f.error(REJECTED.get(type(node), default), node)


def assign(f: Frontend, node: ast.Assign) -> None:
    value = f.expr(node.value)
    f.at(node)
    if not f.scope.declared:
        value = assigned(value)
    for target in node.targets:
        store(f, target, value)


def held_by(f: Frontend, name: str, value: Any) -> Any:
    """What a name holds after a value was assigned to it."""
    return known(value) if name in f.scope.declared else assigned(value)


def store(f: Frontend, target: ast.expr, value: Any) -> None:
    """Assign to a target: a name, or a tuple of targets."""
    if type(target) is ast.Name:
        f.scope.names[target.id] = held_by(f, target.id, value) if f.scope.declared else value
        return
    if isinstance(target, (ast.Tuple, ast.List)):
        unpack(f, target, value)
        return
    if isinstance(target, ast.Subscript):
        raise f.error(
            f"cannot assign to `{text_of(target)}`: tiles, tuples, lists and dictionaries cannot "
            "be changed in place; make a new one (a tile with tl.where), or write to memory with "
            "tl.store",
            target,
        )
    raise f.error(
        f"cannot assign to `{text_of(target)}`: objects cannot be changed in a kernel; make a new "
        "one",
        target,
    )


def unpack(f: Frontend, target: ast.Tuple | ast.List, value: Any) -> None:
    if isinstance(value, tensor):
        raise f.error(
            f"cannot unpack a tile, got {describe(value)}; take it apart with tl.split, or reduce "
            "it",
            target,
        )
    try:
        items = tuple(value)
    except TypeError:
        raise f.error(f"cannot unpack {describe(value)} into several names", target) from None
    wanted = target.elts
    stars = [i for i, t in enumerate(wanted) if isinstance(t, ast.Starred)]
    names = len(wanted) - len(stars)
    if len(items) < names or (len(items) > names and not stars):
        raise f.error(f"{miscounted(len(items), names, bool(stars))}: {describe(items)}", target)
    if not stars:
        for t, item in zip(wanted, items):
            store(f, t, item)
        return
    first = stars[0]
    after = len(wanted) - first - 1
    middle = items[first : len(items) - after]
    for t, item in zip(wanted[:first], items):
        store(f, t, item)
    store(f, wanted[first].value, middle)
    for t, item in zip(wanted[first + 1 :], items[len(items) - after :]):
        store(f, t, item)


def miscounted(given: int, names: int, starred: bool = False) -> str:
    """That values are not as many as the names for them, in Python's words."""
    if given > names:
        return f"too many values to unpack (expected {names}, got {given})"
    least = "at least " if starred else ""
    return f"not enough values to unpack (expected {least}{names}, got {given})"


def assign_annotated(f: Frontend, node: ast.AnnAssign) -> None:
    if node.value is None:
        if is_constexpr_note(node.annotation) and isinstance(node.target, ast.Name):
            f.scope.declared.add(node.target.id)
        return
    value = f.expr(node.value)
    f.at(node)
    if not is_constexpr_note(node.annotation):
        store(f, node.target, assigned(value))
    elif isinstance(node.target, ast.Name):
        # Triton takes a constexpr annotation of what only the run knows for no more than a wish.
        f.scope.names[node.target.id] = known(value)
    else:
        store(f, node.target, value)  # an error


def is_constexpr_note(note: ast.expr) -> bool:
    """Whether an annotation says `constexpr`, by that name or as an attribute."""
    if isinstance(note, ast.Constant) and isinstance(note.value, str):
        return note.value.split("[")[0].split(".")[-1] == "constexpr"
    if isinstance(note, ast.Subscript):
        note = note.value
    return "constexpr" in (getattr(note, "id", ""), getattr(note, "attr", ""))


def assign_augmented(f: Frontend, node: ast.AugAssign) -> None:
    target = node.target
    if type(target) is not ast.Name:
        store(f, target, None)  # an error
    before = f.scope.read(ast.copy_location(ast.Name(target.id, ast.Load()), target), f.captured)
    value = f.expr(node.value)
    f.scope.names[target.id] = held_by(f, target.id, binary(f, node, type(node.op), before, value))


def expression(f: Frontend, node: ast.Expr) -> None:
    if type(node.value) is not ast.Constant:  # else a docstring
        keep_promise(f, node.value, f.expr(node.value))


def keep_promise(f: Frontend, node: ast.expr, value: Any) -> None:
    """`tl.multiple_of(x, 16)`, and the like, as a statement is of x from there on.

    Only where a region's end does not take back what x is.
    """
    inst = value.handle.inst if type(value) is tensor else None
    if inst is None or inst.op is not hint or not node.args or type(node.args[0]) is not ast.Name:
        return
    name, loops = node.args[0].id, f.scope.loops
    before = f.scope.names.get(name)
    if type(before) is not tensor or before.handle is not inst.operands[0]:
        return
    if loops:
        stays = f.regions == loops[-1].regions and name in loops[-1].names
    else:
        stays = f.regions == 0
    if stays:
        f.scope.names[name] = value


def nothing(f: Frontend, node: ast.Pass) -> None:
    """`pass`."""


def check(f: Frontend, node: ast.Assert) -> None:
    condition = known(f.expr(node.test))
    message = f.expr(node.msg) if node.msg is not None else ""
    if isinstance(condition, tensor):
        f.at(node)
        meta.device_assert(condition, str(message))
        return
    if not condition:
        said = f": {message}" if message != "" else ""
        raise CompileTimeAssertionFailure(
            f"the assertion `{text_of(node.test)}` does not hold{said}", f.scope.loc(node)
        )


def fail(f: Frontend, node: ast.Raise) -> None:
    """`raise`, where the compiler comes to it."""
    raised = node.exc
    said = "raise"
    if isinstance(raised, ast.Call):
        parts = ", ".join(in_words(f.expr(a)) for a in raised.args)
        said = f"{text_of(raised.func)}: {parts}" if parts else text_of(raised.func)
    elif raised is not None:
        said = text_of(raised)
    advice = (
        "; a running kernel raises nothing, so this ends the compilation whether or not the "
        "condition around it holds: use tl.device_assert"
        if f.regions
        else ""
    )
    raise f.error(said + advice, node)


def delete(f: Frontend, node: ast.Delete) -> None:
    for target in node.targets:
        if not isinstance(target, ast.Name):
            raise f.error(f"cannot delete `{text_of(target)}`; only names can be deleted", target)
        line = f.scope.loc(node).line
        f.scope.names[target.id] = Undefined(f"it was deleted in line {line}")


TABLE = {
    ast.Assign: assign,
    ast.AnnAssign: assign_annotated,
    ast.AugAssign: assign_augmented,
    ast.Expr: expression,
    ast.Pass: nothing,
    ast.Assert: check,
    ast.Raise: fail,
    ast.Delete: delete,
}
