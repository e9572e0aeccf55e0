"""The names of `triton.language.math`, and those of libdevice that used to be here."""

# ruff: noqa: F401, F403 - the names are here to be imported from here

from tilewright.lang.arithmetic import div_rn, fdiv, sqrt_rn
from tilewright.lang.libdevice import *
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

__all__ = [name for name in globals() if not name.startswith("_")]
