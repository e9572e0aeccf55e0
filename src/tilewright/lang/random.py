"""Counter-based random numbers: Philox 4x32 and 4x64, bit for bit as Triton makes them."""

from __future__ import annotations

from typing import Any

from tilewright.errors import want
from tilewright.ir import types as t
from tilewright.lang import arithmetic as a
from tilewright.lang.builtin import builtin
from tilewright.lang.conversion import cast, cast_function
from tilewright.lang.promote import constant, to_tensor
from tilewright.lang.shapes import full
from tilewright.lang.tensor import tensor
from tilewright.ops import math as m

N_ROUNDS_DEFAULT = 10
# By dtype: what the keys grow by, and what the counters are multiplied with.
CONSTANTS = {
    t.uint32: (0x9E3779B9, 0xBB67AE85, 0xD2511F53, 0xCD9E8D57),
    t.uint64: (
        0x9E3779B97F4A7C15,
        0xBB67AE8584CAA73B,
        0xD2E7470EE14C6C93,
        0xCA5A826395121157,
    ),
}
# Below 1 also after rounding, when multiplied with the largest signed integer.
SCALES = {t.int32: 4.6566127342e-10, t.int64: 1.0842020432385337e-19}


@builtin
def philox_impl(
    c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any, n_rounds: int = N_ROUNDS_DEFAULT
) -> tuple[tensor, ...]:
    """n_rounds rounds of Philox on the counters c with the keys k."""
    dtype = c0.dtype
    want(dtype in CONSTANTS, f"the counters must be uint32 or uint64, got {c0.handle.type}")
    grow0, grow1, factor0, factor1 = (constant(n, t.Type(dtype)) for n in CONSTANTS[dtype])
    for _ in range(n_rounds):
        high0, high1 = m.umulhi(factor0, c0), m.umulhi(factor1, c2)
        low0, low1 = factor0 * c0, factor1 * c2
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + grow0, k1 + grow1
    return c0, c1, c2, c3


@builtin
def philox(
    seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: int = N_ROUNDS_DEFAULT
) -> tuple[tensor, ...]:
    """Philox on the counters c with an integer seed as key."""
    seed = to_tensor(seed)
    want(seed.dtype.is_integer, f"the seed must be an integer, got {seed.handle.type}")
    seed = cast(seed, t.uint64)
    counters = [to_tensor(c) for c in (c0, c1, c2, c3)]
    bits = counters[0].dtype.bits
    want(bits in (32, 64), f"the counters must have 32 or 64 bits, got {counters[0].dtype}")
    if bits == 32:
        dtype = t.uint32
        low, high = cast(seed & 0xFFFFFFFF, dtype), cast(seed >> 32, dtype)
    else:
        dtype = t.uint64
        low, high = seed, full((1,), 0, dtype)
    counters = [cast_function(c, dtype, bitcast=True) for c in counters]
    return philox_impl(*counters, low, high, n_rounds)


@builtin
def randint4x(seed: Any, offset: Any, n_rounds: int = N_ROUNDS_DEFAULT) -> tuple[tensor, ...]:
    """Four tiles of random uint32 that depend on the seed and the offset only."""
    offset = to_tensor(offset)
    low = cast(offset, t.uint32)
    zero = low * 0
    high = cast(offset >> 32, t.uint32) if offset.dtype.bits > 32 else zero
    return philox(seed, low, high, zero, zero, n_rounds)


@builtin
def randint(seed: Any, offset: Any, n_rounds: int = N_ROUNDS_DEFAULT) -> tensor:
    """Random uint32 that depend on the seed and the offset only."""
    return randint4x(seed, offset, n_rounds)[0]


@builtin
def uint_to_uniform_float(x: Any) -> tensor:
    """Random bits as floats in [0, 1)."""
    x = to_tensor(x)
    want(
        x.dtype.is_integer and x.dtype.bits in (32, 64),
        f"needs integers of 32 or 64 bits, got {x.handle.type}",
    )
    signed = t.int32 if x.dtype.bits == 32 else t.int64
    x = cast_function(x, signed, bitcast=True)
    return a.where(x < 0, -x - 1, x) * SCALES[signed]


@builtin
def rand(seed: Any, offset: Any, n_rounds: int = N_ROUNDS_DEFAULT) -> tensor:
    """Random fp32 numbers, uniform in [0, 1)."""
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


@builtin
def rand4x(seed: Any, offsets: Any, n_rounds: int = N_ROUNDS_DEFAULT) -> tuple[tensor, ...]:
    """Four tiles of random fp32 numbers, uniform in [0, 1)."""
    return tuple(uint_to_uniform_float(i) for i in randint4x(seed, offsets, n_rounds))


@builtin
def pair_uniform_to_normal(u1: Any, u2: Any) -> tuple[tensor, tensor]:
    """Two tiles of normally distributed numbers from two uniform ones (Box and Muller)."""
    u1 = a.maximum(1.0e-7, u1)
    angle = u2 * 6.283185307179586
    radius = m.sqrt(m.log(u1) * -2.0)
    return radius * m.cos(angle), radius * m.sin(angle)


@builtin
def randn(seed: Any, offset: Any, n_rounds: int = N_ROUNDS_DEFAULT) -> tensor:
    """Random fp32 numbers of mean 0 and variance 1, normally distributed."""
    i1, i2, _, _ = randint4x(seed, offset, n_rounds)
    return pair_uniform_to_normal(uint_to_uniform_float(i1), uint_to_uniform_float(i2))[0]


@builtin
def randn4x(seed: Any, offset: Any, n_rounds: int = N_ROUNDS_DEFAULT) -> tuple[tensor, ...]:
    """Four tiles of normally distributed fp32 numbers."""
    u1, u2, u3, u4 = rand4x(seed, offset, n_rounds)
    return (*pair_uniform_to_normal(u1, u2), *pair_uniform_to_normal(u3, u4))
