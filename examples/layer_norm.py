"""Layer normalisation, forward and backward; weight gradients are summed under a lock."""

import numpy as np
import triton
import triton.language as tl

SLOTS = 16  # partial sums of the weight gradients: more slots, less waiting for locks


@triton.jit
def forward_kernel(x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, scale_ptr, cols, eps, BLOCK: tl.constexpr):
    """Normalise one row, chunk by chunk, so that a row may be longer than a tile."""
    row = tl.program_id(0)
    x_ptr += row.to(tl.int64) * cols
    y_ptr += row.to(tl.int64) * cols
    lanes = tl.arange(0, BLOCK)
    sums = tl.zeros([BLOCK], tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + lanes
        sums += tl.load(x_ptr + at, mask=at < cols, other=0.0).to(tl.float32)
    mean = tl.sum(sums, axis=0) / cols
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + lanes
        x = tl.load(x_ptr + at, mask=at < cols, other=0.0).to(tl.float32)
        centred = tl.where(at < cols, x - mean, 0.0)
        squares += centred * centred
    scale = 1 / tl.sqrt(tl.sum(squares, axis=0) / cols + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(scale_ptr + row, scale)
    for start in range(0, cols, BLOCK):
        at = start + lanes
        inside = at < cols
        x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + at, mask=inside).to(tl.float32)
        b = tl.load(b_ptr + at, mask=inside).to(tl.float32)
        tl.store(y_ptr + at, (x - mean) * scale * w + b, mask=inside)


@triton.jit
def backward_kernel(
    dy_ptr,
    x_ptr,
    w_ptr,
    mean_ptr,
    scale_ptr,
    dx_ptr,
    dw_ptr,
    db_ptr,
    lock_ptr,
    cols,
    SLOTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The gradient of one row; its share of the weights' gradients goes to one of SLOTS sums."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < cols
    offset = row.to(tl.int64) * cols + at
    dy = tl.load(dy_ptr + offset, mask=inside, other=0.0).to(tl.float32)
    x = tl.load(x_ptr + offset, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(scale_ptr + row)
    normal = tl.where(inside, (x - tl.load(mean_ptr + row)) * scale, 0.0)
    flow = w * dy
    along = tl.sum(flow * normal, axis=0) / cols
    mean_flow = tl.sum(flow, axis=0) / cols
    tl.store(dx_ptr + offset, (flow - mean_flow - normal * along) * scale, mask=inside)

    slot = row % SLOTS
    dw_at = dw_ptr + slot * cols + at
    db_at = db_ptr + slot * cols + at
    while tl.atomic_cas(lock_ptr + slot, 0, 1) == 1:
        pass
    tl.store(dw_at, tl.load(dw_at, mask=inside) + dy * normal, mask=inside)
    tl.store(db_at, tl.load(db_at, mask=inside) + dy, mask=inside)
    tl.debug_barrier()  # every thread of the program has stored before the lock opens
    tl.atomic_xchg(lock_ptr + slot, 0)


@triton.jit
def add_slots_kernel(
    dw_parts, db_parts, dw_ptr, db_ptr, cols, SLOTS: tl.constexpr, BLOCK: tl.constexpr
):
    """Add up the partial sums of one block of columns."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < cols
    parts = tl.arange(0, SLOTS)[:, None] * cols + at[None, :]
    dw = tl.load(dw_parts + parts, mask=inside[None, :], other=0.0)
    db = tl.load(db_parts + parts, mask=inside[None, :], other=0.0)
    tl.store(dw_ptr + at, tl.sum(dw, axis=0), mask=inside)
    tl.store(db_ptr + at, tl.sum(db, axis=0), mask=inside)


def forward(x, w, b, eps=1e-5, block=256):
    """Normalised rows of `x`, with each row's mean and 1 / standard deviation for `backward`."""
    rows, cols = x.shape
    y = np.empty_like(x)
    mean, scale = np.empty(rows, np.float32), np.empty(rows, np.float32)
    forward_kernel[(rows,)](x, w, b, y, mean, scale, cols, eps, BLOCK=block)
    return y, mean, scale


def backward(dy, x, w, mean, scale, slots=SLOTS):
    """Gradients of the input, the weight and the bias."""
    rows, cols = x.shape
    dx = np.empty_like(x)
    dw_parts = np.zeros((slots, cols), np.float32)
    db_parts = np.zeros((slots, cols), np.float32)
    locks = np.zeros(slots, np.int32)
    backward_kernel[(rows,)](
        dy,
        x,
        w,
        mean,
        scale,
        dx,
        dw_parts,
        db_parts,
        locks,
        cols,
        SLOTS=slots,
        BLOCK=triton.next_power_of_2(cols),
    )
    dw, db = np.empty_like(w), np.empty_like(w)
    add_slots_kernel[(triton.cdiv(cols, 128),)](
        dw_parts, db_parts, dw, db, cols, SLOTS=slots, BLOCK=128
    )
    return dx, dw, db


def inputs(rows, cols, dtype=np.float32):
    rng = np.random.default_rng(0)
    x, dy = rng.standard_normal((2, rows, cols))
    w, b = rng.standard_normal((2, cols))
    return [v.astype(dtype) for v in (2 * x + 0.5, w, b, dy)]


def reference_forward(x, w, b, eps=1e-5):
    x, w, b = (v.astype(np.float64) for v in (x, w, b))
    scale = 1 / np.sqrt(x.var(axis=1, keepdims=True) + eps)
    normal = (x - x.mean(axis=1, keepdims=True)) * scale
    return normal * w + b, normal, scale


def reference_backward(dy, x, w, b):
    _, normal, scale = reference_forward(x, w, b)
    dy = dy.astype(np.float64)
    flow = dy * w
    along = (flow * normal).mean(axis=1, keepdims=True)
    dx = (flow - flow.mean(axis=1, keepdims=True) - normal * along) * scale
    return dx, (dy * normal).sum(axis=0), dy.sum(axis=0)


def example_forward(rows, cols, dtype, tolerance, block):
    x, w, b, _ = inputs(rows, cols, dtype)
    return forward(x, w, b, block=block)[0], reference_forward(x, w, b)[0], tolerance


def example_backward(rows, cols, slots):
    """All three gradients, one after the other in one vector."""
    x, w, b, dy = inputs(rows, cols)
    _, mean, scale = forward(x, w, b)
    result = backward(dy, x, w, mean, scale, slots)
    reference = reference_backward(dy, x, w, b)
    return *(np.concatenate([g.ravel() for g in gs]) for gs in (result, reference)), 5e-5


def cases():
    """Small runs for the tests: name, function giving result, reference and tolerance."""
    return [
        ("forward odd", lambda: example_forward(61, 781, np.float32, 1e-5, 256)),
        ("forward one chunk", lambda: example_forward(7, 100, np.float32, 1e-5, 128)),
        ("forward float16", lambda: example_forward(13, 300, np.float16, 4e-3, 64)),
        ("backward", lambda: example_backward(40, 128, 16)),
        ("backward odd", lambda: example_backward(61, 781, 8)),
        ("backward one lock", lambda: example_backward(33, 97, 1)),
    ]


def main():
    forward_run = example_forward(1823, 781, np.float32, 1e-5, 1024)
    backward_run = example_backward(1823, 781, SLOTS)
    for result, reference, tolerance in (forward_run, backward_run):
        np.testing.assert_allclose(result, reference, rtol=tolerance, atol=tolerance)
    print("layer_norm: 1823 x 781, forward and all gradients agree with float64 NumPy")


if __name__ == "__main__":
    main()
