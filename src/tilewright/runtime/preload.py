"""What a kernel was compiled for, as text that another process compiles it from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tilewright.errors import TilewrightError
from tilewright.ir.types import BY_NAME, DType
from tilewright.runtime.signature import Leaf, Tree
from tilewright.runtime.wrapped import MockTensor

if TYPE_CHECKING:
    from tilewright.runtime.call import Call
    from tilewright.runtime.kernel import JITFunction


class PreloadError(TilewrightError, RuntimeError):
    """A text that is not of this kernel."""


def describe(call: Call) -> str | None:
    """The types, constants and options of a call; None where they cannot be written down."""
    try:
        return json.dumps({
            "name": name_of(call.jit),
            "arguments": {name: described(tree) for name, tree in call.trees.items()},
            "options": call.options,
            "key": str(call.key),
        })  # fmt: skip
    except TypeError:
        return None


def arguments_of(jit: JITFunction, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of the kinds that a text tells, and options."""
    told = json.loads(text)
    if told["name"] != name_of(jit):
        raise PreloadError(
            f"Specialization data is for {told['name']} but trying to preload for {name_of(jit)}"
        )
    arguments = {name: example(item) for name, item in told["arguments"].items()}
    return arguments, told["options"]


def name_of(jit: JITFunction) -> str:
    return f"{jit.__module__}.{jit.__qualname__}"


def described(tree: Tree) -> dict[str, Any]:
    if not isinstance(tree, Leaf):
        return {"items": [described(item) for item in tree]}
    if tree.type is None:
        return constant(tree.value)
    dtype = tree.type.dtype
    if dtype.is_pointer:
        return {"pointer": dtype.element_ty.name}
    return {"scalar": dtype.name, "divisible": tree.divisible}


def constant(value: Any) -> dict[str, Any]:
    if isinstance(value, DType):
        return {"dtype": value.name}
    if isinstance(value, tuple):
        return {"items": [constant(item) for item in value]}
    return {"constant": value}


def example(told: dict[str, Any]) -> Any:
    """An argument of the kind that was described."""
    if "items" in told:
        return tuple(example(item) for item in told["items"])
    if "constant" in told:
        return told["constant"]
    if "dtype" in told:
        return BY_NAME[told["dtype"]]
    if "pointer" in told:
        return MockTensor(BY_NAME[told["pointer"]])
    dtype = BY_NAME[told["scalar"]]
    if dtype.is_floating():
        return 0.5
    if dtype.bits == 1:
        return True
    wide = {"int64": 2**40, "uint64": 2**63}.get(dtype.name, 0)
    return wide + (16 if told["divisible"] > 1 else 3)
