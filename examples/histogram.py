"""Count values into bins: one atomic addition an element, or one a bin after a private count."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def scatter_kernel(x_ptr, bins_ptr, n, BLOCK: tl.constexpr):
    """Every element goes to memory: simple, slow where many elements share a bin."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0)
    tl.atomic_add(bins_ptr + x, 1, mask=inside)


@triton.jit
def private_kernel(x_ptr, bins_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    """Count the block on the chip first; what was masked off is taken out of bin 0 again."""
    first = tl.program_id(0) * BLOCK
    at = first + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    counts = tl.histogram(x, BINS)
    bins = tl.arange(0, BINS)
    counts -= tl.where(bins == 0, tl.maximum(first + BLOCK - n, 0), 0)
    tl.atomic_add(bins_ptr + bins, counts, mask=counts > 0)


@triton.jit
def weighted_kernel(x_ptr, weight_ptr, bins_ptr, n, BLOCK: tl.constexpr):
    """Add a weight instead of one; the order of additions, so the last bits, may vary."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0)
    tl.atomic_add(bins_ptr + x, tl.load(weight_ptr + at, mask=inside), mask=inside)


@triton.jit
def extremes_kernel(x_ptr, low_ptr, high_ptr, n, BLOCK: tl.constexpr):
    """Smallest and largest value of the whole array, kept by atomic minimum and maximum."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    tl.atomic_min(low_ptr, tl.min(tl.where(at < n, x, 2147483647), axis=0))
    tl.atomic_max(high_ptr, tl.max(tl.where(at < n, x, -2147483648), axis=0))


def inputs(n, bins):
    """Values that crowd around the middle bin."""
    values = np.random.default_rng(0).normal(bins / 2, bins / 8, n)
    return np.clip(values, 0, bins - 1).astype(np.int32)


def scatter(x, bins, block):
    out = np.zeros(bins, np.int32)
    scatter_kernel[(triton.cdiv(x.size, block),)](x, out, x.size, BLOCK=block)
    return out


def private(x, bins, block):
    out = np.zeros(bins, np.int32)
    private_kernel[(triton.cdiv(x.size, block),)](x, out, x.size, BINS=bins, BLOCK=block)
    return out


def example(count, n, bins, block=256):
    """The counts, NumPy's, and a tolerance of zero."""
    x = inputs(n, bins)
    return count(x, bins, block), np.bincount(x, minlength=bins), 0


def example_weighted(n, bins, block=256):
    x = inputs(n, bins)
    weight = np.random.default_rng(1).random(n).astype(np.float32)
    out = np.zeros(bins, np.float32)
    weighted_kernel[(triton.cdiv(n, block),)](x, weight, out, n, BLOCK=block)
    return out, np.bincount(x, weight.astype(np.float64), minlength=bins), 1e-4


def example_extremes(n, block=256):
    x = np.random.default_rng(0).integers(-(2**31), 2**31, n).astype(np.int32)
    low = np.full(1, 2**31 - 1, np.int32)
    high = np.full(1, -(2**31), np.int32)
    extremes_kernel[(triton.cdiv(n, block),)](x, low, high, n, BLOCK=block)
    return np.concatenate([low, high]), np.array([x.min(), x.max()]), 0


def cases():
    """Small runs for the tests: name, function giving result, reference and tolerance."""
    return [
        ("scatter", lambda: example(scatter, 4097, 64)),
        ("scatter, odd bins", lambda: example(scatter, 1823, 37)),
        ("private", lambda: example(private, 4097, 64)),
        ("private, one block", lambda: example(private, 100, 16)),
        ("weighted", lambda: example_weighted(1823, 32)),
        ("extremes", lambda: example_extremes(1823)),
    ]


def main():
    for count in (scatter, private):
        result, reference, _ = example(count, 1_000_003, 256, block=1024)
        np.testing.assert_array_equal(result, reference)
    print("histogram: 1000003 values in 256 bins, scattered and private counts equal NumPy's")


if __name__ == "__main__":
    main()
