"""How control leaves a list of statements."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Returned:
    """The function ends here with a value; `node` is the statement that says so."""

    value: Any
    node: ast.AST | None


class Mark:
    """An outcome without a value."""

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return self.name


FALL = Mark("falls through")
BREAK = Mark("breaks")
CONTINUE = Mark("continues")
NOTHING = Returned(None, None)
