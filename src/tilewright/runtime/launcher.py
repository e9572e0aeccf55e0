"""The short way of a launch: one Python function, written for the types of its arguments.

`outer` is what `kernel[grid](...)` calls; it picks, by the classes of the arguments, the function
that `inner` wrote. That one reads addresses, finds the code for the dtypes and constants at hand,
and passes the values on. Whatever either does not know goes the long way, `slow`. Their frames, as
those of the long way, are hidden from the tracebacks of pytest and IPython.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from tilewright.errors import LaunchError
from tilewright.ir.types import DType
from tilewright.lang.constexpr import constexpr
from tilewright.lang.jit import JITCallable
from tilewright.runtime import arrays
from tilewright.runtime.descriptor import TensorDescriptor
from tilewright.runtime.grid import sizes
from tilewright.runtime.settings import current
from tilewright.runtime.signature import ALIGNMENT, Parameter, Signature, is_constant
from tilewright.runtime.typed import TypedFloat, TypedInt

MISSING = type("MISSING", (), {"__repr__": lambda self: "<missing>"})()
# Classes whose values are dictionary keys that equal only what means the same.
KEYED = (int, bool, str, type(None), DType, JITCallable, FunctionType, type, enum.Enum)

OUTER = """\
def {name}(__grid, {params}*__rest, **__options):
    __tracebackhide__ = True
    __launch = __table.get((__current().number, {classes}))
    if __launch is None or __rest or __special or __hooks or (__watched and __is_stale()):
        return __slow(__grid, ({values}), __rest, __options)
    return __launch(__grid, {values}__options)
"""

INNER = """\
def {name}(__grid, {values}__options):
    __tracebackhide__ = True
    try:
        {reads}
        __key = ({key}__frozen(__options) if __options else None)
    except __LaunchError:
        return __slow(__grid, ({values}), (), __options)
    __found = __entries.get(__key)
    if __found is None:
        __found = __entries[__key] = __find(({values}), __options)
    if not ({writable}):
        __found.check_writable({{{writables}}})
    if __found.is_due():
        __learn(__found, ({values}), __options)
    if __grid.__class__ is not tuple and __callable(__grid):
        __grid = __grid({{**__options, **__dict(__zip(__names, ({values})))}})
    return __found.launch(__sizes(__grid, {name!r}), ({slots}))
"""


def frozen(options: dict[str, Any]) -> tuple:
    """Launch options as a part of a dictionary key."""
    out = []
    for name, value in options.items():
        try:
            hash(value)
        except TypeError:
            value = repr(value)
        out.append((name, value.__class__, value))
    return tuple(out)


@dataclass
class Ways:
    """What the written functions call: the long way, and tables that they share with it."""

    slow: Callable  # (grid, values, rest, options) -> handle
    find: Callable  # (values, options) -> Entry
    learn: Callable  # (entry, values, options), after 4, 8, 16, ... launches of an entry
    is_stale: Callable[[], bool]
    table: dict[tuple, Callable]  # by settings and classes of the arguments
    watched: list
    special: list
    hooks: list


def write(text: str, name: str, names: dict[str, Any]) -> Callable:
    code = compile(text, f"<launch of {name}>", "exec")
    exec(code, names)
    return names[name]


def outer(signature: Signature, ways: Ways) -> Callable:
    """`launch(grid, *args, **kwargs)` for a kernel of this signature."""
    params, names = [], {}
    for parameter in signature.params:
        given = parameter.default is not inspect.Parameter.empty
        names[f"__default{parameter.index}"] = parameter.default if given else MISSING
        params.append(f"{parameter.name}=__default{parameter.index}, ")
    text = OUTER.format(
        name=signature.kernel,
        params="".join(params),
        classes="".join(f"{n}.__class__, " for n in signature.names),
        values="".join(f"{n}, " for n in signature.names),
    )
    names.update(
        __table=ways.table, __current=current, __special=ways.special, __hooks=ways.hooks,
        __watched=ways.watched, __is_stale=ways.is_stale, __slow=ways.slow,
    )  # fmt: skip
    return write(text, signature.kernel, names)


@dataclass(frozen=True, slots=True)
class Reading:
    """How one argument is read: statement, parts of the key, and values that are passed."""

    read: str = ""
    key: str = ""
    slots: str = ""
    array: bool = False


def inner(
    signature: Signature, arguments: Sequence[Any], facts: frozenset[str], device: str, ways: Ways
) -> Callable | None:
    """The launch for arguments of the classes of these; None when the long way must be taken."""
    names: dict[str, Any] = {}
    readings = []
    for parameter, value in zip(signature.params, arguments, strict=True):
        reading = reading_of(parameter, value, facts, device, names)
        if reading is None:
            return None
        readings.append((parameter, reading))
    text = INNER.format(
        name=signature.kernel,
        values="".join(f"{n}, " for n in signature.names),
        reads="\n        ".join(r.read for _, r in readings if r.read),
        key="".join(r.key for _, r in readings),
        writable=" and ".join(f"__w{p.index}" for p, r in readings if r.array) or "True",
        writables="".join(f"{p.name!r}: __w{p.index}, " for p, r in readings if r.array),
        slots="".join(r.slots for _, r in readings),
    )
    names.update(
        __entries={}, __find=ways.find, __learn=ways.learn, __slow=ways.slow,
        __frozen=frozen, __sizes=sizes, __LaunchError=LaunchError,
        __names=signature.names, __callable=callable, __dict=dict, __zip=zip,
        __wide=arrays.integer_dtype,
    )  # fmt: skip
    return write(text, signature.kernel, names)


def is_fixed(parameter: Parameter, value: Any) -> bool:
    """Whether a value is the same constant wherever it is the same object."""
    return (parameter.is_constexpr or is_constant(value)) and isinstance(value, KEYED)


def reading_of(
    parameter: Parameter, value: Any, facts: frozenset[str], device: str, names: dict[str, Any]
) -> Reading | None:
    name, index = parameter.name, parameter.index
    if parameter.is_constexpr or is_constant(value):
        if isinstance(value, float):
            return Reading(key=f"{name}.__repr__(), ")  # -0.0 and 0.0 are equal, NaN is not
        if isinstance(value, constexpr) or not isinstance(value, KEYED):
            return None
        return Reading(key=f"{name}, ")
    if parameter.dtype is not None or isinstance(value, (tuple, TensorDescriptor)):
        return None
    if isinstance(value, TypedInt | TypedFloat):
        return Reading(key=f"{name}.dtype, ", slots=f"{name}, ")
    what = arrays.kind(value, name)
    if what == "array":
        names[f"__read{index}"] = arrays.find_family(value, name).pointer
        a, low, high, d, w = (f"__{letter}{index}" for letter in "alhdw")
        read = f"{a}, {low}, {high}, {d}, {w} = __read{index}({name}, {name!r}, {device!r})"
        aligned = "divisible" in facts and parameter.align
        key = f"{d}, not {a} % {ALIGNMENT}, " if aligned else f"{d}, "
        return Reading(read, key, f"{a}, {low}, {high}, ", array=True)
    convert = {"int": int, "float": float, "bool": bool}[what]
    names[f"__plain{index}"] = convert
    read = "" if value.__class__ is convert else f"{name} = __plain{index}({name})"
    if what != "int":
        return Reading(read, "", f"{name}, ")
    wide = f"32 if -2147483648 <= {name} < 2147483648 else __wide({name})"
    key = f"1 if {name} == 1 else {wide}" if parameter.specialize else wide
    key = f"{key}, "
    if "divisible" in facts and parameter.align:
        key += f"not {name} % {ALIGNMENT}, "
    return Reading(read, key, f"{name}, ")
