"""The names of `triton.language.random`."""

# ruff: noqa: F401 - the names are here to be imported from here

from tilewright.lang.random import (
    N_ROUNDS_DEFAULT,
    pair_uniform_to_normal,
    philox,
    philox_impl,
    rand,
    rand4x,
    randint,
    randint4x,
    randn,
    randn4x,
    uint_to_uniform_float,
)

uint32_to_uniform_float = uint_to_uniform_float

__all__ = [name for name in globals() if not name.startswith("_")]
