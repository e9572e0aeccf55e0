"""Root-mean-square normalisation with the residual addition fused in, several rows a program."""

import ml_dtypes
import numpy as np
import triton
import triton.language as tl


@triton.jit
def rms_norm_kernel(
    x_ptr,
    residual_ptr,
    w_ptr,
    y_ptr,
    rows,
    cols,
    eps,
    HAS_RESIDUAL: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A tile of ROWS whole rows; the sum with the residual is written back for the next layer."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (col < cols)
    at = row.to(tl.int64) * cols + col
    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    if HAS_RESIDUAL:
        x += tl.load(residual_ptr + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(residual_ptr + at, x.to(residual_ptr.dtype.element_ty), mask=inside)
    mean_square = tl.sum(x * x, axis=1, keep_dims=True) / cols
    w = tl.load(w_ptr + col, mask=col < cols, other=0.0).to(tl.float32)
    y = x * tl.rsqrt(mean_square + eps) * w
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=inside)


def rms_norm(x, w, residual=None, eps=1e-6, rows_each=4):
    """Rows of `x` (plus `residual`, which becomes that sum) over their root mean square."""
    rows, cols = x.shape
    y = np.empty_like(x)
    rms_norm_kernel[(triton.cdiv(rows, rows_each),)](
        x,
        residual,
        w,
        y,
        rows,
        cols,
        eps,
        HAS_RESIDUAL=residual is not None,
        ROWS=rows_each,
        BLOCK=triton.next_power_of_2(cols),
    )
    return y


# Half a unit in the last place of the result, with room for the float32 steps.
TOLERANCE = {np.float32: 2e-6, np.float16: 1e-3, ml_dtypes.bfloat16: 8e-3}


def example(rows, cols, dtype, with_residual=False, **options):
    """The kernel's rows (and updated residual), the reference, and the tolerance."""
    rng = np.random.default_rng(0)
    x, residual = rng.standard_normal((2, rows, cols)).astype(dtype)
    w = rng.standard_normal(cols).astype(dtype)
    total = x.astype(np.float64)
    if with_residual:
        total = total + residual.astype(np.float64)
    mean_square = np.mean(total**2, axis=1, keepdims=True)
    reference = total / np.sqrt(mean_square + 1e-6) * w.astype(np.float64)
    if not with_residual:
        return rms_norm(x, w, **options), reference, TOLERANCE[dtype]
    y = rms_norm(x, w, residual, **options)
    return np.stack([y, residual]), np.stack([reference, total]), TOLERANCE[dtype]


def cases():
    """Small runs for the tests: name, function giving result, reference and tolerance."""
    return [
        ("float32", lambda: example(64, 512, np.float32)),
        ("odd", lambda: example(183, 781, np.float32, rows_each=8)),
        ("one row each", lambda: example(5, 300, np.float32, rows_each=1)),
        ("float16", lambda: example(30, 200, np.float16)),
        ("bfloat16", lambda: example(30, 200, ml_dtypes.bfloat16)),
        ("residual", lambda: example(31, 97, np.float32, with_residual=True)),
        ("residual bfloat16", lambda: example(31, 97, ml_dtypes.bfloat16, with_residual=True)),
    ]


def main():
    for with_residual in (False, True):
        result, reference, tolerance = example(1823, 781, np.float32, with_residual)
        np.testing.assert_allclose(result, reference, rtol=tolerance, atol=tolerance)
    print("rms_norm: 1823 x 781, with and without residual, agrees with float64 NumPy")


if __name__ == "__main__":
    main()
