"""Running sums and a linear recurrence by scans, for rows longer than a tile."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def running_sum_kernel(x_ptr, y_ptr, cols, REVERSE: tl.constexpr, BLOCK: tl.constexpr):
    """One row: scan each chunk and carry its total to the next; REVERSE starts at the end."""
    row = tl.program_id(0).to(tl.int64) * cols
    lanes = tl.arange(0, BLOCK)
    carry = tl.zeros([], x_ptr.dtype.element_ty)
    chunks = tl.cdiv(cols, BLOCK)
    for i in range(chunks):
        start = (chunks - 1 - i if REVERSE else i) * BLOCK
        at = start + lanes
        x = tl.load(x_ptr + row + at, mask=at < cols, other=0)
        tl.store(y_ptr + row + at, tl.cumsum(x, axis=0, reverse=REVERSE) + carry, mask=at < cols)
        carry += tl.sum(x, axis=0)


@triton.jit
def after(decay, value, next_decay, next_value):
    """Two steps of `h -> decay * h + value`, one after the other, as one step."""
    return decay * next_decay, value * next_decay + next_value


@triton.jit
def recurrence_kernel(decay_ptr, value_ptr, h_ptr, cols, BLOCK: tl.constexpr):
    """One row of `h[t] = decay[t] * h[t-1] + value[t]`, in parallel within each chunk."""
    row = tl.program_id(0).to(tl.int64) * cols
    lanes = tl.arange(0, BLOCK)
    carry = 0.0
    for start in range(0, cols, BLOCK):
        at = start + lanes
        decay = tl.load(decay_ptr + row + at, mask=at < cols, other=1.0)
        value = tl.load(value_ptr + row + at, mask=at < cols, other=0.0)
        decay, value = tl.associative_scan((decay, value), axis=0, combine_fn=after)
        h = decay * carry + value
        tl.store(h_ptr + row + at, h, mask=at < cols)
        # Masked steps keep h as it is, so the last lane holds the state after this chunk.
        carry = tl.sum(tl.where(lanes == BLOCK - 1, h, 0.0), axis=0)


@triton.jit
def column_product_kernel(x_ptr, y_ptr, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Running products down the columns of one tile."""
    r = tl.arange(0, ROWS)[:, None]
    c = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    inside = (r < rows) & (c < cols)
    x = tl.load(x_ptr + r * cols + c, mask=inside, other=1.0)
    tl.store(y_ptr + r * cols + c, tl.cumprod(x, axis=0), mask=inside)


def running_sum(x, reverse=False, block=256):
    """Running sum along the rows of a matrix."""
    rows, cols = x.shape
    y = np.empty_like(x)
    running_sum_kernel[(rows,)](x, y, cols, REVERSE=reverse, BLOCK=block)
    return y


def recurrence(decay, value, block=128):
    rows, cols = decay.shape
    h = np.empty_like(value)
    recurrence_kernel[(rows,)](decay, value, h, cols, BLOCK=block)
    return h


def column_product(x, block=32):
    rows, cols = x.shape
    y = np.empty_like(x)
    column_product_kernel[(triton.cdiv(cols, block),)](
        x, y, rows, cols, ROWS=triton.next_power_of_2(rows), COLS=block
    )
    return y


def example_sum(rows, cols, dtype, tolerance, reverse=False, block=256):
    x = np.random.default_rng(0).integers(-50, 50, (rows, cols)).astype(dtype)
    if reverse:
        reference = np.cumsum(x[:, ::-1], axis=1, dtype=np.float64)[:, ::-1]
    else:
        reference = np.cumsum(x, axis=1, dtype=np.float64)
    return running_sum(x, reverse, block), reference, tolerance


def example_recurrence(rows, cols, block=128):
    rng = np.random.default_rng(0)
    decay = rng.uniform(0.5, 1, (rows, cols)).astype(np.float32)
    value = rng.standard_normal((rows, cols)).astype(np.float32)
    reference = np.empty((rows, cols))
    h = np.zeros(rows)
    for t in range(cols):
        h = decay[:, t].astype(np.float64) * h + value[:, t]
        reference[:, t] = h
    return recurrence(decay, value, block), reference, 2e-5


def example_product(rows, cols):
    x = np.random.default_rng(0).uniform(0.8, 1.25, (rows, cols)).astype(np.float32)
    return column_product(x), np.cumprod(x, axis=0, dtype=np.float64), 1e-5


def cases():
    """Small runs for the tests: name, function giving result, reference and tolerance."""
    return [
        ("int32", lambda: example_sum(7, 1823, np.int32, 0)),
        ("int64 reversed", lambda: example_sum(5, 781, np.int64, 0, reverse=True)),
        ("float32", lambda: example_sum(7, 781, np.float32, 1e-5)),
        ("float32 reversed", lambda: example_sum(3, 300, np.float32, 1e-5, reverse=True)),
        ("one chunk", lambda: example_sum(2, 100, np.int32, 0, block=128)),
        ("recurrence", lambda: example_recurrence(9, 781)),
        ("recurrence, one chunk", lambda: example_recurrence(2, 60, block=64)),
        ("column product", lambda: example_product(45, 97)),
    ]


def main():
    runs = [
        example_sum(183, 7810, np.int32, 0, block=1024),
        example_sum(183, 7810, np.float32, 1e-5, reverse=True, block=1024),
        example_recurrence(183, 2001, block=512),
    ]
    for result, reference, tolerance in runs:
        np.testing.assert_allclose(result, reference, rtol=tolerance, atol=tolerance)
    print("prefix_sum: sums both ways and a linear recurrence agree with float64 NumPy")


if __name__ == "__main__":
    main()
