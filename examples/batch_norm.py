"""Batch normalisation of (batch, channel, length) arrays with three-dimensional tiles."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def batch_norm_kernel(
    x_ptr,
    w_ptr,
    b_ptr,
    y_ptr,
    batch,
    channels,
    length,
    eps,
    BLOCK_B: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK_L: tl.constexpr,
):
    """BLOCK_C channels: one walk over batch and length for the statistics, one to normalise."""
    b = tl.arange(0, BLOCK_B)[:, None, None]
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    wide_c = c[None, :, None]
    i = tl.arange(0, BLOCK_L)[None, None, :]
    count = batch * length
    pivot = tl.load(x_ptr + c * length, mask=c < channels, other=0.0)[None, :, None]
    total = tl.zeros([BLOCK_C], tl.float32)
    squares = tl.zeros([BLOCK_C], tl.float32)
    for first in range(0, batch, BLOCK_B):
        for start in range(0, length, BLOCK_L):
            inside = (first + b < batch) & (wide_c < channels) & (start + i < length)
            at = ((first + b) * channels + wide_c) * length + start + i
            # Distances from one sample keep the squares small when the mean is large.
            x = tl.load(x_ptr + at, mask=inside, other=0.0)
            x = tl.where(inside, x - pivot, 0.0)
            total += tl.sum(tl.sum(x, axis=2), axis=0)
            squares += tl.sum(tl.sum(x * x, axis=2), axis=0)
    mean = total / count
    variance = squares / count - mean * mean
    w = tl.load(w_ptr + c, mask=c < channels, other=0.0)
    bias = tl.load(b_ptr + c, mask=c < channels, other=0.0)
    scale = (w / tl.sqrt(variance + eps))[None, :, None]
    shift = bias[None, :, None] - (mean[None, :, None] + pivot) * scale
    for first in range(0, batch, BLOCK_B):
        for start in range(0, length, BLOCK_L):
            inside = (first + b < batch) & (wide_c < channels) & (start + i < length)
            at = ((first + b) * channels + wide_c) * length + start + i
            x = tl.load(x_ptr + at, mask=inside, other=0.0)
            tl.store(y_ptr + at, x * scale + shift, mask=inside)


def batch_norm(x, w, b, eps=1e-5, block=(4, 4, 64)):
    """Every channel of `x` with mean 0 and variance 1, then times `w` plus `b`."""
    batch, channels, length = x.shape
    y = np.empty_like(x)
    block_b, block_c, block_l = block
    batch_norm_kernel[(triton.cdiv(channels, block_c),)](
        x,
        w,
        b,
        y,
        batch,
        channels,
        length,
        eps,
        BLOCK_B=block_b,
        BLOCK_C=block_c,
        BLOCK_L=block_l,
    )
    return y


def example(batch, channels, length, offset=0.0, tolerance=1e-5, **options):
    """The normalised channels, the reference in float64, and the tolerance between them."""
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((batch, channels, length)) + offset).astype(np.float32)
    w, b = rng.standard_normal((2, channels)).astype(np.float32)
    wide = x.astype(np.float64)
    scale = w[:, None] / np.sqrt(wide.var(axis=(0, 2), keepdims=True) + 1e-5)
    reference = (wide - wide.mean(axis=(0, 2), keepdims=True)) * scale + b[:, None]
    return batch_norm(x, w, b, **options), reference, tolerance


def cases():
    """Small runs for the tests: name, function giving result, reference and tolerance."""
    return [
        ("even", lambda: example(8, 8, 128)),
        ("odd", lambda: example(7, 13, 183)),
        ("one channel each", lambda: example(5, 3, 50, block=(8, 1, 32))),
        ("one sample", lambda: example(1, 6, 100)),
        ("far from zero", lambda: example(6, 5, 70, offset=100.0, tolerance=2e-4)),
    ]


def main():
    result, reference, tolerance = example(29, 67, 781, block=(4, 4, 256))
    np.testing.assert_allclose(result, reference, rtol=tolerance, atol=tolerance)
    print("batch_norm: 29 x 67 x 781 agrees with float64 NumPy")


if __name__ == "__main__":
    main()
