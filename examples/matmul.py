"""Matrix product with a fused activation; programs run in bands that reuse what is in cache."""

import ml_dtypes
import numpy as np
import triton
import triton.language as tl


@triton.jit
def leaky_relu(x):
    return tl.where(x > 0, x, 0.01 * x)


@triton.jit
def squared_relu(x):
    positive = tl.maximum(x, 0.0)
    return positive * positive


@triton.jit
def tile_of(pid, tiles_m, tiles_n, BAND: tl.constexpr):
    """Which tile of the result a program makes: down a band of BAND tiles, then one to the right.

    Neighbours in time then share BAND row blocks of A and a few column blocks of B.
    """
    first = pid // (BAND * tiles_n) * BAND
    height = tl.minimum(tiles_m - first, BAND)
    within = pid % (BAND * tiles_n)
    return first + within % height, within // height


@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    m,
    n,
    k,
    a_row,
    a_col,
    b_row,
    b_col,
    c_row,
    c_col,
    ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BAND: tl.constexpr,
):
    tile_m, tile_n = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), BAND)
    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    cols = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    depth = tl.arange(0, BLOCK_K)
    a_at = a_ptr + rows * a_row + depth[None, :] * a_col
    b_at = b_ptr + depth[:, None] * b_row + cols * b_col
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        left = k - start
        a = tl.load(a_at, mask=(rows < m) & (depth[None, :] < left), other=0.0)
        b = tl.load(b_at, mask=(depth[:, None] < left) & (cols < n), other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
        a_at += BLOCK_K * a_col
        b_at += BLOCK_K * b_row
    if ACTIVATION is not None:
        total = ACTIVATION(total)
    c_at = c_ptr + rows * c_row + cols * c_col
    tl.store(c_at, total.to(c_ptr.dtype.element_ty), mask=(rows < m) & (cols < n))


def strides(x):
    """Strides of an array in elements."""
    return [s // x.itemsize for s in x.strides]


def matmul(a, b, activation=None, block=(64, 64, 32), band=4):
    """`activation(a @ b)` in the dtype of `a`, accumulated in float32."""
    (m, k), n = a.shape, b.shape[1]
    c = np.empty((m, n), a.dtype)
    block_m, block_n, block_k = block

    def grid(meta):
        return (triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),)

    matmul_kernel[grid](
        a,
        b,
        c,
        m,
        n,
        k,
        *strides(a),
        *strides(b),
        *strides(c),
        ACTIVATION=activation,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        BAND=band,
    )
    return c


def reference_of(a, b, activation=None):
    product = a.astype(np.float64) @ b.astype(np.float64)
    if activation is leaky_relu:
        return np.where(product > 0, product, 0.01 * product)
    if activation is squared_relu:
        return np.maximum(product, 0) ** 2
    return product


# Rounding of the result in its own dtype decides; float32 also rounds while summing.
TOLERANCE = {np.float32: 1e-5, np.float16: 1e-3, ml_dtypes.bfloat16: 8e-3}


def example(m, n, k, dtype, activation=None, transposed=False, **options):
    """The kernel's product, the reference in float64, and the tolerance between them."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((m, k)).astype(dtype)
    b = (rng.standard_normal((k, n)) / np.sqrt(k)).astype(dtype)
    if transposed:
        a, b = np.ascontiguousarray(a.T).T, np.ascontiguousarray(b.T).T
    return matmul(a, b, activation, **options), reference_of(a, b, activation), TOLERANCE[dtype]


def cases():
    """Small runs for the tests: name, function giving result, reference and tolerance."""
    return [
        ("float32", lambda: example(128, 128, 64, np.float32)),
        ("float16", lambda: example(128, 64, 96, np.float16)),
        ("bfloat16", lambda: example(64, 128, 96, ml_dtypes.bfloat16)),
        ("odd", lambda: example(133, 71, 85, np.float32, block=(32, 32, 16), band=3)),
        ("odd float16", lambda: example(67, 131, 45, np.float16, block=(32, 64, 32))),
        ("one row", lambda: example(1, 100, 33, np.float32, block=(16, 32, 16))),
        ("transposed", lambda: example(97, 65, 50, np.float32, transposed=True)),
        ("leaky", lambda: example(100, 60, 70, np.float32, leaky_relu, block=(32, 32, 32))),
        ("squared", lambda: example(100, 60, 70, np.float32, squared_relu, block=(32, 32, 32))),
        ("wide", lambda: example(50, 781, 40, np.float32, block=(16, 128, 32), band=8)),
    ]


def main():
    for dtype in TOLERANCE:
        result, reference, tolerance = example(511, 383, 257, dtype, leaky_relu)
        np.testing.assert_allclose(
            result.astype(np.float64), reference, rtol=tolerance, atol=tolerance
        )
    print("matmul: 511 x 383 x 257 in float32, float16 and bfloat16 agrees with float64 NumPy")


if __name__ == "__main__":
    main()
