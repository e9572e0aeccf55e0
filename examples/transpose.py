"""Transpose a matrix by tiles, so that both the reads and the writes run along memory."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def transpose_kernel(x_ptr, y_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    col = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = (row[:, None] < rows) & (col[None, :] < cols)
    tile = tl.load(x_ptr + row[:, None] * cols + col[None, :], mask=inside)
    tl.store(y_ptr + col[:, None] * rows + row[None, :], tl.trans(tile), mask=tl.trans(inside))


@triton.jit
def transpose_scattered_kernel(
    x_ptr, y_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr
):
    """The same without turning the tile: each lane writes far from its neighbour."""
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    col = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    inside = (row < rows) & (col < cols)
    tile = tl.load(x_ptr + row * cols + col, mask=inside)
    tl.store(y_ptr + col * rows + row, tile, mask=inside)


def transpose(x, kernel=transpose_kernel, block=(32, 32)):
    """A contiguous copy of `x.T`."""
    rows, cols = x.shape
    y = np.empty((cols, rows), x.dtype)
    block_r, block_c = block
    grid = (triton.cdiv(rows, block_r), triton.cdiv(cols, block_c))
    kernel[grid](x, y, rows, cols, BLOCK_R=block_r, BLOCK_C=block_c)
    return y


def example(rows, cols, dtype, **options):
    """The transposed copy, NumPy's, and a tolerance of zero: bits are only moved."""
    x = np.random.default_rng(0).integers(-100, 100, (rows, cols)).astype(dtype)
    return transpose(x, **options), x.T, 0


def cases():
    """Small runs for the tests: name, function giving result, reference and tolerance."""
    scattered = transpose_scattered_kernel
    return [
        ("square", lambda: example(64, 64, np.float32)),
        ("odd", lambda: example(183, 78, np.float32)),
        ("tall tile", lambda: example(131, 45, np.float32, block=(64, 8))),
        ("float16", lambda: example(50, 33, np.float16)),
        ("int64", lambda: example(33, 50, np.int64, block=(16, 16))),
        ("one row", lambda: example(1, 100, np.float32)),
        ("scattered", lambda: example(83, 78, np.float32, kernel=scattered)),
    ]


def main():
    for kernel in (transpose_kernel, transpose_scattered_kernel):
        result, reference, _ = example(1823, 781, np.float32, kernel=kernel)
        np.testing.assert_array_equal(result, reference)
    print("transpose: 1823 x 781, turned on the chip and scattered, both equal to NumPy")


if __name__ == "__main__":
    main()
