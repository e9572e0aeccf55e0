"""Add two vectors: each program takes one block of elements, a mask cuts the last one short."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside)
    y = tl.load(y_ptr + at, mask=inside)
    tl.store(out_ptr + at, x + y, mask=inside)


def add(x, y, block=1024):
    """`x + y` for two arrays of one shape and dtype."""
    out = np.empty_like(x)
    add_kernel[(triton.cdiv(x.size, block),)](x, y, out, x.size, BLOCK=block)
    return out


def example(n, dtype, block=1024):
    """The sum from the kernel, the reference, and the tolerance between them."""
    rng = np.random.default_rng(0)
    x = (20 * rng.standard_normal(n)).astype(dtype)
    y = (20 * rng.standard_normal(n)).astype(dtype)
    return add(x, y, block), x + y, 0


def cases():
    """Small runs for the tests: name, function giving result, reference and tolerance."""
    return [
        ("float32", lambda: example(4097, np.float32)),
        ("float16", lambda: example(1000, np.float16)),
        ("float64", lambda: example(781, np.float64, block=256)),
        ("int32", lambda: example(1823, np.int32, block=64)),
        ("int8", lambda: example(129, np.int8, block=128)),
        ("one element", lambda: example(1, np.float32)),
    ]


def main():
    result, reference, _ = example(1_000_003, np.float32)
    np.testing.assert_array_equal(result, reference)
    print(f"vector_add: {result.size} elements, equal to NumPy")


if __name__ == "__main__":
    main()
