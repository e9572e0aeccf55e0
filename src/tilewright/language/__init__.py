"""`tl`: the language of kernels under Triton's names."""

# ruff: noqa: F401, F403 - the names are here to be imported from here

from tilewright.language import core, extra, math, random, standard, target_info
from tilewright.language.core import *
from tilewright.language.core import (
    _aggregate,
    _experimental_descriptor_load,
    _experimental_descriptor_store,
    _experimental_make_tensor_descriptor,
)
from tilewright.language.math import (
    abs,
    ceil,
    cos,
    div_rn,
    erf,
    exp,
    exp2,
    fdiv,
    floor,
    fma,
    log,
    log2,
    rsqrt,
    sin,
    sqrt,
    sqrt_rn,
    umulhi,
)
from tilewright.language.random import *
from tilewright.language.standard import *

__all__ = [name for name in globals() if not name.startswith("__")]
