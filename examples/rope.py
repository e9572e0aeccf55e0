"""Rotary position embedding, for pairs that are half a head apart and for neighbours."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def rotate(x, y, cos, sin):
    return x * cos - y * sin, x * sin + y * cos


@triton.jit
def rope_kernel(
    x_ptr,
    cos_ptr,
    sin_ptr,
    out_ptr,
    heads,
    INVERSE: tl.constexpr,
    NEIGHBOURS: tl.constexpr,
    HALF: tl.constexpr,
    HEADS: tl.constexpr,
):
    """All heads of one token; the heads are rounded up to a power of two and masked."""
    token = tl.program_id(0)
    head = tl.arange(0, HEADS)[:, None]
    pair = tl.arange(0, HALF)
    cos = tl.load(cos_ptr + token * HALF + pair)[None, :]
    sin = tl.load(sin_ptr + token * HALF + pair)[None, :]
    if INVERSE:
        sin = -sin
    base = token.to(tl.int64) * heads * (2 * HALF)
    if NEIGHBOURS:
        at = base + head * (2 * HALF) + tl.arange(0, 2 * HALF)[None, :]
        tile = tl.load(x_ptr + at, mask=head < heads, other=0.0)
        x, y = tl.split(tl.reshape(tile, [HEADS, HALF, 2]))
        x, y = rotate(x, y, cos, sin)
        out = tl.reshape(tl.join(x, y), [HEADS, 2 * HALF])
        tl.store(out_ptr + at, out, mask=head < heads)
    else:
        at = base + head * (2 * HALF) + pair[None, :]
        x = tl.load(x_ptr + at, mask=head < heads, other=0.0)
        y = tl.load(x_ptr + at + HALF, mask=head < heads, other=0.0)
        x, y = rotate(x, y, cos, sin)
        tl.store(out_ptr + at, x, mask=head < heads)
        tl.store(out_ptr + at + HALF, y, mask=head < heads)


def angles(tokens, half):
    """Angle of every position and pair, in float64."""
    return np.arange(tokens)[:, None] * 10_000.0 ** (-np.arange(half) / half)[None, :]


def rope(x, cos, sin, inverse=False, neighbours=False):
    """Rotate `(tokens, heads, dim)`; `inverse` turns back, which is also the gradient."""
    tokens, heads, dim = x.shape
    out = np.empty_like(x)
    rope_kernel[(tokens,)](
        x,
        cos,
        sin,
        out,
        heads,
        INVERSE=inverse,
        NEIGHBOURS=neighbours,
        HALF=dim // 2,
        HEADS=triton.next_power_of_2(heads),
    )
    return out


def inputs(tokens, heads, dim):
    x = np.random.default_rng(0).standard_normal((tokens, heads, dim)).astype(np.float32)
    angle = angles(tokens, dim // 2)
    return x, np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def example(tokens, heads, dim, neighbours):
    """The rotated heads, the reference by complex numbers in float64, and the tolerance."""
    x, cos, sin = inputs(tokens, heads, dim)
    wide = x.astype(np.float64)
    if neighbours:
        pairs = wide[..., 0::2] + 1j * wide[..., 1::2]
    else:
        pairs = wide[..., : dim // 2] + 1j * wide[..., dim // 2 :]
    turned = pairs * np.exp(1j * angles(tokens, dim // 2))[:, None, :]
    axis = -1 if neighbours else -2
    reference = np.stack([turned.real, turned.imag], axis=axis).reshape(x.shape)
    return rope(x, cos, sin, neighbours=neighbours), reference, 1e-6


def example_back(tokens, heads, dim, neighbours):
    """There and back again."""
    x, cos, sin = inputs(tokens, heads, dim)
    there = rope(x, cos, sin, neighbours=neighbours)
    return rope(there, cos, sin, inverse=True, neighbours=neighbours), x, 1e-6


def cases():
    """Small runs for the tests: name, function giving result, reference and tolerance."""
    return [
        ("halves", lambda: example(37, 4, 64, False)),
        ("halves, odd heads", lambda: example(19, 5, 32, False)),
        ("neighbours", lambda: example(37, 4, 64, True)),
        ("neighbours, odd heads", lambda: example(19, 3, 32, True)),
        ("halves and back", lambda: example_back(11, 2, 16, False)),
        ("neighbours and back", lambda: example_back(11, 2, 16, True)),
    ]


def main():
    for neighbours in (False, True):
        result, reference, tolerance = example(1823, 7, 64, neighbours)
        np.testing.assert_allclose(result, reference, rtol=tolerance, atol=tolerance)
    print("rope: 1823 tokens, 7 heads of 64, both pairings agree with float64 NumPy")


if __name__ == "__main__":
    main()
