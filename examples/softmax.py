"""Softmax of every row in one pass over memory, and the five NumPy steps that it replaces.

`--torch` uses torch tensors on the device that is active, instead of NumPy arrays.
"""

import sys

import numpy as np
import triton
import triton.language as tl

import tilewright as tw

PROGRAMS = 256  # of the persistent kernel: enough for many cores, each with several rows to overlap


@triton.jit
def softmax_kernel(x_ptr, y_ptr, x_stride, y_stride, cols, BLOCK: tl.constexpr):
    """One program, one row: read once, written once, everything between stays on the chip."""
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    inside = lane < cols
    x = tl.load(x_ptr + row * x_stride + lane, mask=inside, other=-float("inf"))
    weight = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * y_stride + lane, weight / tl.sum(weight, axis=0), mask=inside)


@triton.jit
def softmax_persistent_kernel(
    x_ptr, y_ptr, x_stride, y_stride, rows, cols, BLOCK: tl.constexpr, STAGES: tl.constexpr
):
    """A fixed number of programs share the rows, so a row's load can overlap the row before."""
    lane = tl.arange(0, BLOCK)
    inside = lane < cols
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        x = tl.load(x_ptr + row * x_stride + lane, mask=inside, other=-float("inf"))
        weight = tl.exp(x - tl.max(x, axis=0))
        tl.store(y_ptr + row * y_stride + lane, weight / tl.sum(weight, axis=0), mask=inside)


def softmax(x, y):
    """Fill `y` with the softmax of every row of `x`; both are contiguous."""
    rows, cols = x.shape
    softmax_kernel[(rows,)](x, y, cols, cols, cols, BLOCK=triton.next_power_of_2(cols))
    return y


def softmax_persistent(x, y, programs=PROGRAMS, stages=2):
    """The same, with at most `programs` programs."""
    rows, cols = x.shape
    softmax_persistent_kernel[(min(rows, programs),)](
        x, y, cols, cols, rows, cols, BLOCK=triton.next_power_of_2(cols), STAGES=stages
    )
    return y


def softmax_naive(x, xp=np):
    """The same in five steps, each of which reads and writes whole arrays."""
    highest = xp.amax(x, axis=1, keepdims=True)
    shifted = x - highest
    weight = xp.exp(shifted)
    total = xp.sum(weight, axis=1, keepdims=True)
    return weight / total


def inputs(rows, cols):
    return np.random.default_rng(0).standard_normal((rows, cols)).astype(np.float32)


def example(function, rows, cols, **options):
    """The kernel's rows, the reference in float64, and the tolerance between them."""
    x = inputs(rows, cols)
    return function(x, np.empty_like(x), **options), softmax_naive(x.astype(np.float64)), 1e-6


def cases():
    """Small runs for the tests: name, function giving result, reference and tolerance."""
    return [
        ("odd", lambda: example(softmax, 183, 781)),
        ("one column", lambda: example(softmax, 5, 1)),
        ("full block", lambda: example(softmax, 16, 256)),
        ("persistent", lambda: example(softmax_persistent, 183, 781, programs=7)),
        ("persistent, more programs than rows", lambda: example(softmax_persistent, 3, 100)),
        ("large", lambda: example(softmax_persistent, 1823, 781, programs=64, stages=4)),
    ]


def main(use_torch=False):
    x = inputs(4096, 1024)
    reference = softmax_naive(x.astype(np.float64))
    if use_torch:
        import torch

        device = triton.runtime.driver.active.get_active_torch_device()
        x = torch.from_numpy(x).to(device)
        y, z, naive = torch.empty_like(x), torch.empty_like(x), softmax_naive(x, torch)
    else:
        y, z, naive = np.empty_like(x), np.empty_like(x), softmax_naive(tw.watch(x))
    softmax(x, y)
    softmax_persistent(x, z)
    results = [r.cpu().numpy() if use_torch else np.asarray(r) for r in (y, z, naive)]
    for result in results:
        np.testing.assert_allclose(result, reference, rtol=1e-5, atol=1e-6)
    rows, cols = reference.shape
    print(f"softmax: {rows} x {cols}, fused, persistent and naive agree with float64 NumPy")


if __name__ == "__main__":
    main("--torch" in sys.argv[1:])
