"""The names of `triton.language.math`, and those of libdevice that used to be here."""

from tilewright.lang.arithmetic import div_rn, fdiv, sqrt_rn
from tilewright.lang.libdevice import *  # noqa: F403
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
