"""Dropout that stores no mask: the backward pass draws the same random numbers from the seed."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def dropout_kernel(x_ptr, y_ptr, n, p, seed, BLOCK: tl.constexpr):
    """Zero each element with probability `p`, scale the others so that the mean stays."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside)
    keep = tl.rand(seed, at) >= p
    tl.store(y_ptr + at, tl.where(keep, x / (1 - p), 0.0), mask=inside)


def dropout(x, p, seed, block=1024):
    """Dropout of `x`. Its gradient is the same function, with the same seed, of the gradient."""
    y = np.empty_like(x)
    dropout_kernel[(triton.cdiv(x.size, block),)](x, y, x.size, p, seed, BLOCK=block)
    return y


def inputs(n):
    return np.random.default_rng(0).standard_normal(n).astype(np.float32)


def example_scale(n, p, seed):
    """What was kept is scaled, the rest is zero."""
    x = inputs(n)
    y = dropout(x, p, seed)
    return y, np.where(y != 0, x.astype(np.float64) / (1 - p), 0), 1e-6


def example_rate(n, p, seed):
    """The share of zeros is `p`, to five standard deviations."""
    zeros = np.mean(dropout(np.ones(n, np.float32), p, seed) == 0)
    return zeros, np.float64(p), 5 * np.sqrt(p * (1 - p) / n)


def example_gradient(n, p, seed):
    """The gradient passes exactly where the forward pass kept, whatever the block size."""
    mask = dropout(np.ones(n, np.float32), p, seed, block=256)
    gradient = inputs(n)
    return dropout(gradient, p, seed), gradient.astype(np.float64) * mask, 1e-6


def example_seeds(n, p):
    """Two seeds agree on whether to keep an element as often as two coins do."""
    x = np.ones(n, np.float32)
    same = np.mean((dropout(x, p, 1) == 0) == (dropout(x, p, 2) == 0))
    return same, np.float64(p * p + (1 - p) * (1 - p)), 2.5 / np.sqrt(n)


def cases():
    """Small runs for the tests: name, function giving result, reference and tolerance."""
    return [
        ("scale", lambda: example_scale(4099, 0.5, 123)),
        ("rate", lambda: example_rate(10_007, 0.25, 7)),
        ("gradient", lambda: example_gradient(1823, 0.3, 99)),
        ("seeds", lambda: example_seeds(10_000, 0.4)),
        ("keep all", lambda: example_scale(100, 0.0, 5)),
    ]


def main():
    result, reference, tolerance = example_scale(1_000_003, 0.5, 123)
    np.testing.assert_allclose(result, reference, rtol=tolerance, atol=tolerance)
    zeros = np.mean(result == 0)
    print(f"dropout: {result.size} elements, {zeros:.2%} dropped at p = 50%, no mask stored")


if __name__ == "__main__":
    main()
