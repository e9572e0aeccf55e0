"""Constants of every kind, and Python that runs while a kernel is compiled."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tilewright
import tilewright.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
SIZES = tl.constexpr((2, 4, 8))
KIND: tl.constexpr = tl.constexpr("gelu")
TWICE = tl.constexpr(2)


@tilewright.constexpr_function
def log2(n):
    return int(math.log2(n))


@tilewright.constexpr_function
def digits(n, base=10):
    return tuple(int(d) for d in str(n)) if base == 10 else ()


@tilewright.constexpr_function
def table(n):
    return [[i * j for j in range(n)] for i in range(n)]


@tilewright.jit
def globals_used(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.exp2(tl.load(x + i) * LOG2E)
    if KIND == "gelu":
        v *= TWICE
    tl.store(out + i, v + SIZES[1] + len(SIZES))


def test_global_constants(target):
    x, out = np.linspace(-2, 2, 8).astype(np.float32), np.zeros(8, np.float32)
    globals_used[(1,)](x, out, 8)
    np.testing.assert_allclose(out, 2 * np.exp(x.astype(float)) + 7, rtol=1e-5)


@tilewright.jit
def host_functions(out, N: tl.constexpr):
    levels: tl.constexpr = log2(N)
    ds: tl.constexpr = digits(N)
    total = 0
    for k in tl.static_range(len(ds)):
        total += ds[k] * (10**k)
    t: tl.constexpr = table(3)
    tl.store(out, levels)
    tl.store(out + 1, total)
    tl.store(out + 2, t[2][2] + t[1][2])
    tl.store(out + 3 + tl.arange(0, 2 ** log2(N)), 1)


@pytest.mark.parametrize("n", [1, 2, 16, 64])
def test_functions_that_run_on_the_host(target, n):
    out = np.zeros(3 + n, np.int32)
    host_functions[(1,)](out, n)
    assert out.tolist() == [n.bit_length() - 1, int(str(n)[::-1]), 6] + [1] * n


@tilewright.jit
def static_loops(x, out, N: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    for k in tl.static_range(N):
        half: tl.constexpr = k // 2
        if k % 2 == 0:
            v += half
        elif k == 3:
            v *= 2
        else:
            v -= k
    for k in tl.static_range(N, 0, -2):
        v += k
    for j in tl.static_range(2):
        for k in tl.static_range(j, 3):
            v += j * k
    tl.store(out + i, v)


@pytest.mark.parametrize("n", [0, 1, 4, 7])
def test_loops_that_are_unrolled(target, n):
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    static_loops[(1,)](x, out, n, 8)
    v = x.copy()
    for k in range(n):
        v = v + k // 2 if k % 2 == 0 else v * 2 if k == 3 else v - k
    v += sum(range(n, 0, -2)) + 3
    np.testing.assert_array_equal(out, v)


@tilewright.jit
def ternaries(x, out, n, FLAG: tl.constexpr, DTYPE: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    acc_type = tl.float32 if tl.float16 == DTYPE else DTYPE
    v = tl.load(x + i, i < n).to(acc_type)
    v = v * 2 if FLAG else v
    v += 1 if FLAG and n > 2 else 0
    v = v if n > 5 else -v
    tl.static_assert(v.dtype == acc_type)
    tl.store(out + i, v, i < n)


@pytest.mark.parametrize("flag", [True, False, 0, 1, "x", ""])
@pytest.mark.parametrize("kind", ["float16", "float32", "int32"])
def test_choices_while_compiling(target, kind, flag):
    x, out = np.arange(6).astype(kind), np.zeros(6, np.float32)
    ternaries[(1,)](x, out, 6, flag, getattr(tl, kind), 8)
    np.testing.assert_array_equal(out, x.astype(float) * 2 + 1 if flag else x.astype(float))


@tilewright.jit
def numbers_of_constants(out, A: tl.constexpr, C: tl.constexpr):
    tl.store(out, A // C)
    tl.store(out + 1, A % C)
    tl.store(out + 2, A / C)
    tl.store(out + 3, A**2)
    tl.store(out + 4, (A << 2) | (C & 3))
    tl.store(out + 5, -A + ~C)
    tl.store(out + 6, min(A, C) * max(A, C, 1))
    tl.store(out + 7, tl.cdiv(A, C))
    tl.store(out + 8, abs(-A))
    tl.store(out + 9, (A > C) + (A == A) + (not C))
    tl.store(out + 10, A if A > C > 0 else C)
    tl.store(out + 11, int(A / C))
    tl.store(out + 12, float(A))


@pytest.mark.parametrize(("a", "c"), [(7, 2), (-7, 2), (64, 8), (100, 9)])
def test_arithmetic_of_constants_is_pythons(target, a, c):
    out = np.zeros(13)
    numbers_of_constants[(1,)](out, a, c)
    expected = [a // c, a % c, a / c, a**2, (a << 2) | (c & 3), -a + ~c, min(a, c) * max(a, c, 1)]
    expected += [-(-a // c), abs(a), (a > c) + 1, a if a > c > 0 else c, int(a / c), a]
    np.testing.assert_allclose(out, expected, rtol=1e-7)


@tilewright.jit
def defaults(x, out, n=6, scale: tl.constexpr = 2.0, B: tl.constexpr = 8, *, shift=1):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, i < n) * scale + shift, i < n)


def test_defaults_and_names(target):
    x, out = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    defaults[(1,)](x, out)
    np.testing.assert_array_equal(out, x * 2 + 1)
    defaults[(1,)](out=out, x=x, scale=3, shift=0.5)
    np.testing.assert_array_equal(out, x * 3 + 0.5)
    defaults[(1,)](x, out, 2, B=16, num_warps=2, num_stages=3)
    np.testing.assert_array_equal(out[:2], x[:2] * 2 + 1)


def make_kernel(op, factor):
    scale = tl.constexpr(factor)

    @tilewright.jit
    def kernel(x, out, B: tl.constexpr):
        i = tl.arange(0, B)
        tl.store(out + i, op(tl.load(x + i), scale))

    return kernel


@tilewright.jit
def times(x, y):
    return x * y


@tilewright.jit
def plus(x, y):
    return x + y


@pytest.mark.parametrize("factor", [2, -0.5])
def test_kernels_made_by_a_function(target, factor):
    x = np.arange(8, dtype=np.float32)
    for op, expected in ((times, x * factor), (plus, x + factor)):
        out = np.zeros(8, np.float32)
        make_kernel(op, factor)[(1,)](x, out, 8)
        np.testing.assert_array_equal(out, expected)


@tilewright.jit
def functions_as_constants(x, out, FN: tl.constexpr, NEXT: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    v = FN(tl.load(x + i), 3.0)
    if NEXT is not None:
        v = NEXT(v)
    tl.store(out + i, v)


def test_functions_as_constants(target):
    x, out = np.linspace(0.5, 2, 8).astype(np.float32), np.zeros(8, np.float32)
    functions_as_constants[(1,)](x, out, times, None, 8)
    np.testing.assert_allclose(out, x * 3)
    functions_as_constants[(1,)](x, out, plus, tl.exp, 8)
    np.testing.assert_allclose(out, np.exp(x.astype(float) + 3), rtol=1e-6)
    functions_as_constants[(1,)](x, out, tl.maximum, tl.sqrt, 8)
    np.testing.assert_allclose(out, np.sqrt(np.maximum(x, 3)), rtol=1e-6)


@tilewright.jit
def scalars_of_kinds(out, a, b, c, flag, nothing):
    tl.store(out, a * 2)
    tl.store(out + 1, b)
    tl.store(out + 2, c)
    if flag:
        tl.store(out + 3, 1)
    if nothing is None:
        tl.store(out + 4, 2)
    tl.store(out + 5, 1.0 if flag else -1.0)


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("a", [1, 16, 0, -3, 2**33])
def test_scalars_of_kinds(target, a, flag):
    out = np.zeros(6)
    scalars_of_kinds[(1,)](out, a, 0.5, np.float64(1 / 3), flag, None)
    third = out[2]
    assert abs(third - 1 / 3) < 1e-7
    assert out.tolist() == [a * 2, 0.5, third, int(flag), 2, 1 if flag else -1]


@tilewright.jit
def shape_arithmetic(x, out, N: tl.constexpr, STRIDES: tl.constexpr):
    B: tl.constexpr = tilewright.next_power_of_2(N)
    i = tl.arange(0, B)
    v = tl.load(x + i * STRIDES[-1], i < N, 0)
    rows: tl.constexpr = v.shape[0] // 2
    folded = v.reshape([rows, 2])
    tl.static_assert(folded.shape == [rows, 2], "a shape is a list")
    tl.store(out + tl.arange(0, rows), tl.sum(folded, 1))


@pytest.mark.parametrize("n", [2, 5, 16, 31])
def test_shapes_from_constants(target, n):
    block = 1 << (n - 1).bit_length()
    x, out = np.arange(2 * n, dtype=np.int32), np.zeros(block // 2, np.int32)
    shape_arithmetic[(1,)](x, out, n, (100, 2))
    padded = np.zeros(block, int)
    padded[:n] = x[::2]
    assert out.tolist() == padded.reshape(-1, 2).sum(1).tolist()


@tilewright.jit
def rows_apart(out, stride, B: tl.constexpr):
    tl.store(out + stride.to(tl.int64) * B, stride.dtype == tl.int32)
    tl.store(out, B.to(tl.float32) / 2)


@pytest.mark.parametrize("stride", [1, 3])
def test_a_stride_that_is_compiled_in_is_still_a_scalar(target, stride):
    """Stepping had a plain number of Python's for a stride of 1."""
    out = np.zeros(32, np.float32)
    rows_apart[(1,)](out, stride, 8)
    assert out[8 * stride] == 1 and out[0] == 4 and out.sum() == 5
