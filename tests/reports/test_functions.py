"""Functions of `tl`, `tl.math` and libdevice, where they are looked up, and special values."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

import tilewright
import tilewright.language as tl
import tilewright.language.extra.cuda.libdevice as cuda_libdevice
from tilewright.language import core, standard
from tilewright.language import math as tlm
from tilewright.language.extra import libdevice
from tilewright.language.extra.libdevice import erf, fast_expf
from tilewright.language.math import rsqrt, umulhi

INF, NAN = float("inf"), float("nan")
SPECIAL = [0.0, -0.0, 1, -1, 2.5, -2.5, 0.5, 1.5, 1e-30, 1e30, INF, -INF, NAN, 3, 100, -0.3]


@tilewright.jit
def unary(x, out, FN: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, FN(tl.load(x + i)))


UNARY = {
    "exp": (tl.exp, np.exp), "exp2": (tl.exp2, np.exp2), "log": (tl.log, np.log),
    "log2": (tlm.log2, np.log2), "sqrt": (tl.sqrt, np.sqrt), "sqrt_rn": (tl.sqrt_rn, np.sqrt),
    "sin": (tlm.sin, np.sin), "cos": (tl.cos, np.cos), "floor": (tl.floor, np.floor),
    "ceil": (tlm.ceil, np.ceil), "abs": (tl.abs, np.abs), "rint": (libdevice.rint, np.rint),
    "round": (libdevice.round, lambda x: np.trunc(x + np.copysign(0.5, x))),
    "trunc": (libdevice.trunc, np.trunc), "tanh": (libdevice.tanh, np.tanh),
    "expm1": (libdevice.expm1, np.expm1), "log1p": (cuda_libdevice.log1p, np.log1p),
    "sinh": (libdevice.sinh, np.sinh), "cbrt": (libdevice.cbrt, np.cbrt),
    "acos": (libdevice.acos, np.arccos), "asinh": (libdevice.asinh, np.arcsinh),
    "nearbyint": (libdevice.nearbyint, np.rint), "log10": (libdevice.log10, np.log10),
    "erf": (erf, np.vectorize(math.erf)), "rsqrt": (rsqrt, lambda x: 1 / np.sqrt(x)),
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_at_special_values(target, name, dtype):
    fn, expected = UNARY[name]
    x = np.array(SPECIAL, dtype)
    if name in ("sin", "cos"):
        x[9] = 8  # what is far from 0 keeps no digits
    out = np.zeros_like(x)
    unary[(1,)](x, out, fn, 16)
    with np.errstate(all="ignore"):
        wanted = expected(x.astype(np.float64)).astype(dtype)
    np.testing.assert_allclose(out, wanted, rtol=2e-6 if dtype is np.float32 else 1e-12)


@tilewright.jit
def sigmoids(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(out + i, tl.sigmoid(v))
    tl.store(out + B + i, v * standard.sigmoid(v))
    tl.store(out + 2 * B + i, tl.softmax(v, 0))
    tl.store(out + 3 * B + i, tl.where(v > 0, v, 0.01 * v))


def test_common_activations(target):
    x, out = np.linspace(-30, 30, 16).astype(np.float32), np.zeros((4, 16), np.float32)
    sigmoids[(1,)](x, out, 16)
    s, e = 1 / (1 + np.exp(-x.astype(float))), np.exp(x.astype(float) - x.max())
    parts = [s, x * s, e / e.sum(), np.where(x > 0, x, 0.01 * x)]
    np.testing.assert_allclose(out, parts, rtol=1e-5)


@tilewright.jit
def extremes(x, y, out, NAN_TOO: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.load(x + i), tl.load(y + i)
    if NAN_TOO:
        tl.store(out + i, tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL))
        tl.store(out + B + i, tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL))
        tl.store(out + 2 * B + i, tl.clamp(a, -1.0, 1.0, propagate_nan=tl.PropagateNan.ALL))
    else:
        tl.store(out + i, tl.maximum(a, b))
        tl.store(out + B + i, core.minimum(a, b))
        tl.store(out + 2 * B + i, tl.clamp(a, -1.0, 1.0))


@pytest.mark.parametrize("nan", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_extremes_with_nan(target, dtype, nan):
    x = np.array([1, NAN, 3, NAN, -INF, 0.5, -2, 7], dtype)
    y = np.array([2, 1, NAN, NAN, INF, -0.5, -3, 7], dtype)
    out = np.zeros((3, 8), dtype)
    extremes[(1,)](x, y, out, nan, 8)
    high, low = (np.maximum, np.minimum) if nan else (np.fmax, np.fmin)
    a, b = x.astype(np.float32), y.astype(np.float32)
    np.testing.assert_array_equal(out[:2].astype(np.float32), [high(a, b), low(a, b)])
    bound = np.minimum(np.maximum(a, -1), 1) if nan else np.fmin(np.fmax(a, -1), 1)
    some = np.isnan(a) & (not nan)
    np.testing.assert_array_equal(out[2].astype(np.float32)[~some], bound[~some])


@tilewright.jit
def two_arguments(x, y, out, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, libdevice.atan2(a, b))
    tl.store(out + B + i, libdevice.pow(tl.abs(a), b))
    tl.store(out + 2 * B + i, libdevice.copysign(a, b))
    tl.store(out + 3 * B + i, libdevice.hypot(a, b))
    tl.store(out + 4 * B + i, libdevice.fmod(a, b))
    tl.store(out + 5 * B + i, tl.fma(a, b, a))
    tl.store(out + 6 * B + i, tl.div_rn(a, b))
    tl.store(out + 7 * B + i, tl.fdiv(a, b))
    tl.store(out + 8 * B + i, libdevice.ldexp(a, 3))
    tl.store(out + 9 * B + i, libdevice.isnan(a / b).to(tl.int32) + libdevice.signbit(a))


def test_functions_of_two(target):
    x = np.array([1, -2, 3.5, -0.5, 10, 0.25, -7, 5], np.float32)
    y = np.array([2, 3, -1, -2, 0.5, 4, 2, -3], np.float32)
    out = np.zeros((10, 8), np.float32)
    two_arguments[(1,)](x, y, out, 8)
    a, b = x.astype(float), y.astype(float)
    parts = [np.arctan2(a, b), np.abs(a) ** b, np.copysign(a, b), np.hypot(a, b), np.fmod(a, b)]
    parts += [a * b + a, a / b, a / b, a * 8, (a < 0) * 1.0]
    np.testing.assert_allclose(np.abs(out), np.abs(parts), rtol=1e-5)
    np.testing.assert_array_equal(np.sign(out[:9]), np.sign(parts[:9]))


@tilewright.jit
def of_scalars(out, a, n):
    tl.store(out, tl.exp(a))
    tl.store(out + 1, tl.maximum(a, n))
    tl.store(out + 2, fast_expf(a))
    tl.store(out + 3, umulhi(n, n))
    tl.store(out + 4, tl.math.floor(a) + tl.abs(n - 10))
    tl.store(out + 5, libdevice.popc(n) + libdevice.clz(n) + libdevice.ffs(n))
    tl.store(out + 6, tl.cdiv(n, 4) + core.cdiv(n, 3) if hasattr_cdiv() else tl.cdiv(n, 4))
    tl.store(out + 7, tl.where(a > 1, n, 2 * n))


@tilewright.constexpr_function
def hasattr_cdiv():
    return False


def test_functions_of_scalars(target):
    out = np.zeros(8)
    of_scalars[(1,)](out, 1.5, 7)
    e = math.exp(1.5)
    np.testing.assert_allclose(out, [e, 7, e, 0, 4, 3 + 29 + 1, 2, 7], rtol=1e-5)


@tilewright.jit
def halves(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(out + i, v * 3 + 0.1)
    tl.store(out + B + i, v / 3)
    tl.store(out + 2 * B + i, tl.exp(v.to(tl.float32)).to(v.dtype))
    tl.store(out + 3 * B + i, v.to(tl.float32) * 3 + 0.1)
    tl.store(out + 4 * B + i, -v)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_numbers_of_16_bits_are_rounded_at_each_step(target, dtype):
    x, out = np.linspace(-3, 3, 32).astype(dtype), np.zeros((5, 32), dtype)
    halves[(1,)](x, out, 32)
    wide, unit = x.astype(np.float32), 2**-9 if dtype is np.float16 else 2**-6
    parts = [wide * 3 + 0.1, wide / 3, np.exp(wide), wide * 3 + 0.1, -wide]
    np.testing.assert_allclose(out.astype(np.float32), parts, rtol=unit, atol=unit / 4)


@tilewright.jit
def random_numbers(out, words, seed, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.rand(seed, i))
    tl.store(out + B + i, tl.randn(seed, i))
    tl.store(words + i, tl.randint(seed, i))
    a, b, c, d = tl.randint4x(seed, i)
    tl.store(words + B + i, a)
    tl.store(words + 2 * B + i, b ^ c ^ d)
    e, f, g, h = tl.rand4x(seed, i)
    tl.store(out + 2 * B + i, (e + f + g + h) / 4)


def philox(counter, seed):
    """Ten rounds on four words."""
    mask, c, k = 0xFFFFFFFF, [counter, 0, 0, 0], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & mask, (a >> 32) ^ c[3] ^ k[1], a & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


@pytest.mark.parametrize("seed", [0, 42, 2**40 + 7])
def test_random_numbers_are_philox(target, seed):
    out, words = np.zeros((3, 64), np.float32), np.zeros((3, 64), np.int32)
    random_numbers[(1,)](out, words, seed, 64)
    rounds = np.array([philox(i, seed) for i in range(64)], np.uint32)
    assert words[0].view(np.uint32).tolist() == rounds[:, 0].tolist()
    assert words[1].tolist() == words[0].tolist()
    rest = rounds[:, 1] ^ rounds[:, 2] ^ rounds[:, 3]
    assert words[2].view(np.uint32).tolist() == rest.tolist()
    assert (out[0] >= 0).all()
    assert (out[0] < 1).all()
    signed = rounds[:, 0].view(np.int32).astype(np.int64)
    signed = np.where(signed < 0, -signed - 1, signed)
    np.testing.assert_allclose(out[0], signed * 4.6566127342e-10, rtol=1e-6)
    assert abs(out[1].mean()) < 0.5


@tilewright.jit
def hints(x, out, n, B: tl.constexpr):
    tl.assume(n > 0)
    i = tl.max_contiguous(tl.multiple_of(tl.arange(0, B), B), B)
    x = tl.multiple_of(x, 16)
    n = tl.multiple_of(n, 4)
    v = tl.load(x + i, mask=tl.max_constancy(i < n, 4), other=0.0, cache_modifier=".ca",
                eviction_policy="evict_last", volatile=False)  # fmt: skip
    tl.static_print("shape", v.shape)
    tl.device_assert(v == v, "no NaN", mask=i < n)
    tl.store(out + i, v, mask=i < n, cache_modifier=".wb", eviction_policy="evict_first")


def test_hints_change_nothing(target, capsys):
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    hints[(1,)](x, out, 12, 16)
    assert out.tolist() == x[:12].tolist() + [0] * 4


@tilewright.jit
def by_ptx(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    (a, b) = tl.inline_asm_elementwise(
        asm="add.s32 $0, $2, $3; sub.s32 $1, $2, $3;",
        constraints="=r,=r,r,r",
        args=[v, i],
        dtype=(tl.int32, tl.int32),
        is_pure=True,
        pack=1,
    )
    tl.store(out + i, a)
    tl.store(out + B + i, b)
    c = tl.inline_asm_elementwise(
        "shl.b32 $0, $1, 3;", "=r,r", [v], dtype=tl.int32, is_pure=True, pack=1
    )
    tl.store(out + 2 * B + i, c)


@tilewright.jit
def narrow_floats_by_ptx(x, out, back, TO: tl.constexpr, BACK: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    packed = tl.inline_asm_elementwise(
        TO, "=h,r,r", [v, tl.load(x + B + i)], dtype=tl.int16, is_pure=True, pack=1
    )
    tl.store(out + i, packed)
    both = tl.inline_asm_elementwise(BACK, "=r,h", [packed], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(back + i, both)


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_floats_of_8_bits_by_ptx(target, kind):
    dtype = getattr(ml_dtypes, {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}[kind])
    x = np.random.default_rng(0).standard_normal((2, 16)).astype(np.float32)
    out, back = np.zeros(16, np.int16), np.zeros(16, np.int32)
    to = f"cvt.rn.satfinite.{kind}x2.f32 $0, $2, $1;"
    narrow_floats_by_ptx[(1,)](x, out, back, to, f"cvt.rn.f16x2.{kind}x2 $0, $1;", 16)
    expected = x.T.astype(dtype)
    np.testing.assert_array_equal(out.view(dtype).reshape(16, 2), expected)
    np.testing.assert_array_equal(back.view(np.float16).reshape(16, 2), expected.astype(np.float16))


@tilewright.jit
def bytes_by_ptx(x, y, out, zeros, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.inline_asm_elementwise(
        asm="""
        {
            // the four bytes of a register
            .reg .b8 part<4>;
            mov.b32 {part0, part1, part2, part3}, $8;
            cvt.u32.u8 $0, part0;
            cvt.u32.u8 $1, part1;
            cvt.u32.u8 $2, part2;
            cvt.u32.u8 $3, part3;
        }
        clz.b32 $4, $9;
        clz.b32 $5, $10;
        clz.b32 $6, $11;
        clz.b32 $7, $12;
        """,
        constraints="=r,=r,=r,=r,=r,=r,=r,=r,r,r,r,r,r",
        args=[tl.load(x + i), tl.load(y + i)],
        dtype=(tl.int32, tl.int32),
        is_pure=True,
        pack=4,
    )
    tl.store(out + i, a)
    tl.store(zeros + i, b)


def test_ptx_with_a_block_of_its_own(target):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, 64).astype(np.uint8), rng.standard_normal(64).astype(np.float32)
    out, zeros = np.zeros(64, np.int32), np.zeros(64, np.int32)
    bytes_by_ptx[(1,)](x, y, out, zeros, 64)
    assert out.tolist() == x.tolist()
    assert zeros.tolist() == [32 - int(v).bit_length() for v in y.view(np.uint32)]


def test_a_few_lines_of_ptx(target):
    x, out = np.arange(16, dtype=np.int32) * 5, np.zeros((3, 16), np.int32)
    by_ptx[(1,)](x, out, 16)
    i = np.arange(16)
    np.testing.assert_array_equal(out, [x + i, x - i, x << 3])


@tilewright.jit
def swizzled(out, M: tl.constexpr, N: tl.constexpr, G: tl.constexpr):
    i, j = tl.program_id(0), tl.program_id(1)
    a, b = tl.swizzle2d(i, j, M, N, G)
    tl.store(out + i * N + j, a * N + b)


@pytest.mark.parametrize(("m", "n", "g"), [(4, 4, 2), (5, 3, 2), (6, 4, 4)])
def test_swizzled_programs(target, m, n, g):
    out = np.full((m, n), -1, np.int32)
    swizzled[(m, n)](out, m, n, g)
    expected = []
    for ij in range(m * n):
        group, first = ij // (g * n), ij // (g * n) * g
        size = min(m - first, g)
        expected.append((first + ij % (g * n) % size) * n + ij % (g * n) // size)
        assert group >= 0
    assert out.ravel().tolist() == expected
