"""The names of `triton.language.math`, and those of libdevice that used to be here."""

# ruff: noqa: F401 - the names are here to be imported from here

from typing import Any as _Any

from tilewright.lang.arithmetic import div_rn, fdiv, sqrt_rn
from tilewright.later import later as _later
from tilewright.ops.math import (
    abs,
    ceil,
    cos,
    erf,
    exp,
    exp2,
    floor,
    fma,
    log,
    log2,
    rsqrt,
    sin,
    sqrt,
    umulhi,
)

_libdevice = _later("tilewright.lang.libdevice")
_OWN = [name for name in globals() if not name.startswith("_")]


def __getattr__(name: str) -> _Any:
    if name == "__all__":
        return sorted({*_OWN, *_libdevice.__all__})
    if name.startswith("_") or name not in _libdevice.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_libdevice, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_libdevice.__all__})
