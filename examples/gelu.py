"""GELU in its exact form and its tanh form, each with its gradient."""

import math

import numpy as np
import triton
import triton.language as tl

ROOT_HALF: tl.constexpr = tl.constexpr(math.sqrt(0.5))
ROOT_2_OVER_PI: tl.constexpr = tl.constexpr(math.sqrt(2 / math.pi))
DENSITY_AT_0: tl.constexpr = tl.constexpr(1 / math.sqrt(2 * math.pi))
CUBIC: tl.constexpr = tl.constexpr(0.044715)


@triton.jit
def tanh(x):
    """From the sigmoid, which stays finite for every x."""
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def gelu_exact(x):
    return 0.5 * x * (1 + tl.erf(x * ROOT_HALF))


@triton.jit
def gelu_exact_slope(x):
    return 0.5 * (1 + tl.erf(x * ROOT_HALF)) + x * DENSITY_AT_0 * tl.exp(-0.5 * x * x)


@triton.jit
def gelu_tanh(x):
    return 0.5 * x * (1 + tanh(ROOT_2_OVER_PI * x * (1 + CUBIC * x * x)))


@triton.jit
def gelu_tanh_slope(x):
    t = tanh(ROOT_2_OVER_PI * x * (1 + CUBIC * x * x))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * ROOT_2_OVER_PI * (1 + 3 * CUBIC * x * x)


@triton.jit
def map_kernel(x_ptr, y_ptr, n, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    """`y = FUNCTION(x)`, computed in float32 whatever the arrays hold."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(y_ptr + at, FUNCTION(x).to(y_ptr.dtype.element_ty), mask=at < n)


def apply(function, x, block=1024):
    """An elementwise jit function on every element of `x`."""
    y = np.empty_like(x)
    map_kernel[(triton.cdiv(x.size, block),)](x, y, x.size, FUNCTION=function, BLOCK=block)
    return y


def reference_of(function, x):
    x = x.astype(np.float64)
    if function in (gelu_exact, gelu_exact_slope):
        area = 0.5 * (1 + np.vectorize(math.erf)(x * math.sqrt(0.5)))
        density = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        return x * area if function is gelu_exact else area + x * density
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    if function is gelu_tanh:
        return 0.5 * x * (1 + np.tanh(inner))
    steep = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)
    return 0.5 * (1 + np.tanh(inner)) + 0.5 * x * steep / np.cosh(inner) ** 2


TOLERANCE = {np.float32: 2e-6, np.float16: 1e-3}


def example(function, n, dtype=np.float32, block=1024):
    """The kernel's values, the reference in float64, and the tolerance between them."""
    x = np.linspace(-6, 6, n).astype(dtype)
    return apply(function, x, block), reference_of(function, x), TOLERANCE[dtype]


def cases():
    """Small runs for the tests: name, function giving result, reference and tolerance."""
    return [
        ("exact", lambda: example(gelu_exact, 1823)),
        ("exact slope", lambda: example(gelu_exact_slope, 1823, block=256)),
        ("tanh", lambda: example(gelu_tanh, 1823)),
        ("tanh slope", lambda: example(gelu_tanh_slope, 1823, block=256)),
        ("exact float16", lambda: example(gelu_exact, 781, np.float16)),
        ("tanh float16", lambda: example(gelu_tanh, 781, np.float16)),
    ]


def main():
    for function in (gelu_exact, gelu_exact_slope, gelu_tanh, gelu_tanh_slope):
        result, reference, tolerance = example(function, 200_003)
        np.testing.assert_allclose(result, reference, rtol=tolerance, atol=tolerance)
    print("gelu: 200003 elements, both forms and both gradients agree with float64 NumPy")


if __name__ == "__main__":
    main()
