"""The short way of a launch: one Python function, written for the types of its arguments.

`outer` is what `kernel[grid](...)` calls; it picks, by the classes of the arguments, the function
that `inner` wrote. That one reads addresses, finds the code for the dtypes and constants at hand,
and passes the values on. Whatever either does not know goes the long way, `Launcher.slow`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import LaunchError
from tilewright.lang.constexpr import constexpr
from tilewright.lang.jit import JITCallable
from tilewright.runtime import arrays
from tilewright.runtime.grid import sizes
from tilewright.runtime.settings import current
from tilewright.runtime.signature import Parameter, Signature, is_constant

if TYPE_CHECKING:
    from tilewright.runtime.kernel import JITFunction

MISSING = type("MISSING", (), {"__repr__": lambda self: "<missing>"})()
# Classes whose values are dictionary keys that equal only what means the same.
KEYED = (int, bool, str, type(None))

OUTER = """\
def {name}(__grid, {params}*{rest}, **__options):
    __settings = __current()
    __launch = __table.get((__settings.number, {classes}))
    if __launch is None or {rest} or __special or __is_stale():
        return __slow(__grid, ({values}), {rest}, __options)
    return __launch(__grid, {values_}__options)
"""

INNER = """\
def {name}(__grid, {values_}__options):
    try:
{reads}
        __found = __entries.get(({key}__options and __frozen(__options)))
        if __found is None:
            return __slow(__grid, ({values}), (), __options, ({key}__options and __frozen(__options)))
    except __LaunchError:
        return __slow(__grid, ({values}), (), __options)
    if not ({writable}):
        __found.check_writable(({writables}))
    if __grid.__class__ is not tuple and callable(__grid):
        __grid = __grid(dict(zip(__names, ({values}), strict=True), **__options))
    return __found.launch(__sizes(__grid, {kernel!r}), ({slots}))
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
