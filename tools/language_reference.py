"""Write docs/language.md: every name of the language, what it takes, and where it runs.

Run `python tools/language_reference.py` after a change of the language.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import tilewright.language as tl
from tilewright.eager.machine import Eager, Tile
from tilewright.errors import CompileError
from tilewright.ir import types as t
from tilewright.ir.op import Op, running
from tilewright.ir.types import DType, Type
from tilewright.lang.tensor import METHODS, tensor
from tilewright.ops import control
from tilewright.ops.rules import numpy_dtype
from tilewright.targets.cuda import rules as cuda

PAGE = Path(__file__).parents[1] / "docs" / "language.md"
TILE_NAMES = frozenset(
    ("x", "y", "z", "a", "b", "input", "other", "seed", "offset", "offsets", "c0", "c1", "c2", "c3",
     "u1", "u2", "n", "min", "max", "w", "div", "p", "q")
)  # fmt: skip
CONTROL = {control.for_.name, control.while_.name, control.if_.name, control.yield_.name}
SHAPE = (4, 4)
GROUPS = {
    "integers": [d for d in t.SCALARS if d.is_integer and d is not t.int1],
    "floats": [d for d in t.SCALARS if d.is_float],
    "fp16 to fp64": [t.float16, t.bfloat16, t.float32, t.float64],
}
HEADER = """\
# The language

Every name of `triton.language` as Tilewright has it; written by `tools/language_reference.py`.
`eager` is stepping in Python, `cpu` and `cuda` are compiled code. Dtypes are those of the first
operand for which a call with tiles of one dtype is accepted; nothing stands there for functions
that take no tiles, or more than tiles.

Numbers follow Triton: a literal takes the dtype of the tile that it meets (`f16_tile * 0.5` is
fp16), a number that was assigned to a name is a scalar of its own (`x = 0.5` is fp32, `n = 4` is
int32), unless the name is annotated `tl.constexpr`. Beyond Triton, such a name may still stand
where a number must be known: shapes, axes, bounds of `tl.arange` and `tl.static_range`, `if`.
"""


class Recorder(Eager):
    """The eager machine, which notes the ops that it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: set[Op] = set()

    def emit(self, op: Op, *operands: Tile, **attrs: Any) -> Any:
        self.ops.add(op)
        return super().emit(op, *operands, **attrs)


def tile_of(dtype: DType) -> tensor:
    return tensor(Tile(Type(dtype, SHAPE), np.ones(SHAPE).astype(numpy_dtype(dtype))))


def tiles_needed(function: Callable) -> int:
    """How many tiles a call takes; 0 where it takes something else."""
    count = 0
    for p in inspect.signature(function).parameters.values():
        if p.default is not p.empty:
            continue
        if p.name not in TILE_NAMES or p.kind is not p.POSITIONAL_OR_KEYWORD:
            return 0
        count += 1
    return count


def accepted(function: Callable) -> tuple[list[DType], set[Op]]:
    """The dtypes for which a call with tiles works, and the ops that it runs."""
    count, found, ops = tiles_needed(function), [], set()
    if not count:
        return [], set()
    for dtype in t.SCALARS:
        machine = Recorder()
        with running(machine), np.errstate(all="ignore"):
            try:
                function(*[tile_of(dtype) for _ in range(count)])
            except (CompileError, IndexError):
                continue
        found.append(dtype)
        ops |= machine.ops
    return found, ops


def in_words(dtypes: list[DType]) -> str:
    """A list of dtypes, groups by their names."""
    if len(dtypes) == len(t.SCALARS):
        return "all"
    out, rest = [], list(dtypes)
    for name, group in GROUPS.items():
        if all(d in rest for d in group):
            out.append(name)
            rest = [d for d in rest if d not in group]
    return ", ".join([*out, *(d.name for d in rest)])


def text_of(p: inspect.Parameter) -> str:
    star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    if p.default is p.empty:
        return star + p.name
    default = getattr(p.default, "name", None) if hasattr(p.default, "value") else None
    return f"{p.name}={default or getattr(p.default, 'spelled', repr(p.default))}"


def refusal(function: Callable) -> str:
    """Why a function is not there, if it is not."""
    doc = inspect.getdoc(function) or ""
    return doc if doc.startswith("Not supported") else ""


def where_it_runs(value: Any, function: Callable, ops: set[Op]) -> tuple[str, str, str]:
    if refusal(function):
        return "no", "no", "no"
    needed = ops | ({value} if isinstance(value, Op) else set())
    missing = [
        op.name for op in needed
        if op.emit is None and op.name not in cuda.RULES and op.name not in CONTROL
    ]  # fmt: skip
    return "yes", "yes", f"no ({', '.join(sorted(missing))})" if missing else "yes"


def row(name: str, value: Any) -> str:
    """The line of a table about one function."""
    function = value.public if isinstance(value, Op) else value
    signature = ", ".join(map(text_of, inspect.signature(function).parameters.values()))
    dtypes, ops = accepted(function)
    note = (inspect.getdoc(value) or "").split("\n")[0].replace("|", "\\|")
    method = "" if name not in METHODS else " Also a method."
    cells = [f"`{name}({signature})`".replace("|", "\\|"), in_words(dtypes)]
    return " | ".join(["", *cells, *where_it_runs(value, function, ops), note + method, ""]).strip()


def functions(module: ModuleType) -> Iterator[tuple[str, Any]]:
    for name in sorted(vars(module)):
        value = getattr(module, name)
        ours = isinstance(value, Op) or getattr(value, "is_tile_builtin", False)
        if not name.startswith("_") and ours:
            yield name, value


def table(rows: list[str]) -> str:
    head = "| name | dtypes | eager | cpu | cuda | meaning |\n| --- | --- | --- | --- | --- | --- |"
    return "\n".join([head, *rows])


def page() -> str:
    """The text of docs/language.md."""
    main = {name: row(name, value) for name, value in functions(tl)}
    seen = {id(value) for _, value in functions(tl)}
    parts = [HEADER, "## triton.language\n", table(list(main.values()))]
    for title, module in (
        ("core", tl.core), ("standard", tl.standard), ("random", tl.random),
        ("extra.libdevice", tl.extra.libdevice), ("extra.cuda", tl.extra.cuda),
        ("extra.hip", tl.extra.hip),
    ):  # fmt: skip
        rows = [row(n, v) for n, v in functions(module) if id(v) not in seen]
        if rows:
            parts += [f"\n## triton.language.{title}\n", table(rows)]
    dtypes = ", ".join(f"`{d.spelled}`".replace("tl.", "") for d in t.SCALARS)
    parts += ["\n## Dtypes\n", f"{dtypes}. A call of one is a cast: `tl.float32(0)`."]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
