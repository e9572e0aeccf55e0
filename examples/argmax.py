"""Where the largest value of each row is: within a tile, across tiles, and the two largest."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def argmax_kernel(x_ptr, index_ptr, value_ptr, cols, BLOCK: tl.constexpr):
    """One row in one tile; the first of equal values wins."""
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + lane, mask=lane < cols, other=-float("inf"))
    value, index = tl.max(x, axis=0, return_indices=True)
    tl.store(index_ptr + row, index)
    tl.store(value_ptr + row, value)


@triton.jit
def larger(value, index, other_value, other_index):
    """The pair with the larger value; the smaller index if they are equal."""
    take = (other_value > value) | ((other_value == value) & (other_index < index))
    return tl.where(take, other_value, value), tl.where(take, other_index, index)


@triton.jit
def argmax_long_kernel(x_ptr, index_ptr, value_ptr, cols, BLOCK: tl.constexpr):
    """One row of any length: every lane keeps its best pair, a last reduction picks among them."""
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    best = tl.full([BLOCK], -float("inf"), tl.float32)
    best_at = tl.zeros([BLOCK], tl.int32)
    for start in range(0, cols, BLOCK):
        at = start + lane
        x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf"))
        best, best_at = larger(best, best_at, x, at)
    value, index = tl.reduce((best, best_at), axis=0, combine_fn=larger)
    tl.store(index_ptr + row, index)
    tl.store(value_ptr + row, value)


@triton.jit
def two_largest_kernel(
    x_ptr, index_ptr, value_ptr, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """The indices and values of the two largest of each of ROWS rows, larger one first."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lane = tl.arange(0, BLOCK)[None, :]
    inside = (row[:, None] < rows) & (lane < cols)
    x = tl.load(x_ptr + row[:, None] * cols + lane, mask=inside, other=-float("inf"))
    for i in tl.static_range(2):
        index = tl.argmax(x, axis=1)
        tl.store(index_ptr + row * 2 + i, index, mask=row < rows)
        tl.store(value_ptr + row * 2 + i, tl.max(x, axis=1), mask=row < rows)
        x = tl.where(lane == index[:, None], -float("inf"), x)


def argmax(x, block=None):
    """Index and value of the largest element of each row, in tiles of `block` if given."""
    rows, cols = x.shape
    index, value = np.empty(rows, np.int32), np.empty(rows, np.float32)
    if block is None:
        argmax_kernel[(rows,)](x, index, value, cols, BLOCK=triton.next_power_of_2(cols))
    else:
        argmax_long_kernel[(rows,)](x, index, value, cols, BLOCK=block)
    return index, value


def two_largest(x, rows_each=4):
    rows, cols = x.shape
    index, value = np.empty((rows, 2), np.int32), np.empty((rows, 2), np.float32)
    block = triton.next_power_of_2(cols)
    two_largest_kernel[(triton.cdiv(rows, rows_each),)](
        x, index, value, rows, cols, ROWS=rows_each, BLOCK=block
    )
    return index, value


def inputs(rows, cols):
    """Few different values, so that most rows have equal ones."""
    return np.random.default_rng(0).integers(-20, 20, (rows, cols)).astype(np.float32)


def example(rows, cols, block=None):
    """Indices and values in one vector, NumPy's, and a tolerance of zero."""
    x = inputs(rows, cols)
    result = np.concatenate(argmax(x, block))
    return result, np.concatenate([x.argmax(axis=1), x.max(axis=1)]), 0


def example_two(rows, cols):
    x = inputs(rows, cols)
    order = np.argsort(-x, axis=1, kind="stable")[:, :2]
    reference = np.concatenate([order, np.take_along_axis(x, order, axis=1)])
    return np.concatenate(two_largest(x)), reference, 0


def cases():
    """Small runs for the tests: name, function giving result, reference and tolerance."""
    return [
        ("one tile", lambda: example(61, 781)),
        ("one tile, full", lambda: example(8, 64)),
        ("across tiles", lambda: example(61, 781, block=128)),
        ("across tiles, even", lambda: example(5, 512, block=64)),
        ("two largest", lambda: example_two(31, 97)),
    ]


def main():
    for block in (None, 256):
        result, reference, _ = example(1823, 781, block)
        np.testing.assert_array_equal(result, reference)
    print("argmax: 1823 x 781, within a tile and across tiles, equal to NumPy, ties included")


if __name__ == "__main__":
    main()
